import hashlib
import zipfile
from pathlib import Path

import pytest
from evidence_help import PATH, SOURCE, Network, claim, git, pin, repository, wheel_pin

from openmodelatlas.errors import UsageError
from openmodelatlas.evidence.resolve import resolve
from openmodelatlas.fetch import cache, wheels
from openmodelatlas.records.evidence import PinReport

NEWER = "a new first line\n" + SOURCE
OTHER = SOURCE.replace("line 4", "line four")
NOWHERE = "0" * 40


def one(*args: object, **kwargs: object) -> PinReport:
    """The report of a single claim's own pin."""
    return resolve([claim(*args)], **kwargs)["c"][0]  # type: ignore[arg-type]


@pytest.mark.parametrize("at", ["", ".git", ".."])
def test_a_clone_answers_as_work_tree_git_dir_or_folder_of_clones(tmp_path: Path, network: Network, at: str) -> None:
    first, _ = repository(tmp_path / "clones" / "some", SOURCE, OTHER)
    report = one(pin(first, (3, 5)), mirror=tmp_path / "clones" / "some" / at)
    assert (report.status, report.via, report.found) == ("same", "mirror", ((3, 5),))
    assert report.text == ("line 3\nline 4\nline 5",)
    assert network.asked == []
    assert (tmp_path / "clones" / "some" / PATH).read_text() == OTHER, "nothing is checked out"


def test_a_bare_clone_one_level_deeper_answers(tmp_path: Path) -> None:
    first = repository(tmp_path / "work", SOURCE)[0]
    git(tmp_path, "clone", "-q", "--bare", str(tmp_path / "work"), str(tmp_path / "clones" / "acme+thing" / "repo"))
    assert one(pin(first, (3, 5)), mirror=tmp_path / "clones").status == "same"


def test_a_linked_work_tree_answers(tmp_path: Path) -> None:
    first = repository(tmp_path / "work", SOURCE)[0]
    git(tmp_path / "work", "worktree", "add", "-q", str(tmp_path / "linked"))
    assert one(pin(first, (3, 5)), mirror=tmp_path / "linked").status == "same"


def test_the_second_time_the_cache_answers(tmp_path: Path, network: Network) -> None:
    first = repository(tmp_path / "some", SOURCE)[0]
    assert one(pin(first, (3, 5)), mirror=tmp_path / "some").via == "mirror"
    report = one(pin(first, (3, 5)))
    assert (report.status, report.via) == ("same", "cache")
    assert network.asked == []


def test_a_damaged_cache_entry_is_not_believed(tmp_path: Path) -> None:
    first = repository(tmp_path / "some", SOURCE)[0]
    one(pin(first, (3, 5)), mirror=tmp_path / "some")
    entry = tmp_path / "cache" / "evidence" / cache.blob_id(SOURCE.encode())
    entry.write_text(OTHER)
    assert one(pin(first, (3, 5)), offline=True).status == "not available"
    assert one(pin(first, (3, 5)), mirror=tmp_path / "some").status == "same"


def test_a_clone_without_the_revision_tells_what_moved_and_what_changed(tmp_path: Path) -> None:
    repository(tmp_path / "acme+thing", NEWER)
    moved = one(pin(NOWHERE, (3, 5)), mirror=tmp_path)
    assert (moved.status, moved.found) == ("moved", ((4, 6),))
    assert "newest state" in moved.detail
    git(tmp_path / "acme+thing", "rm", "-q", PATH)
    (tmp_path / "acme+thing" / PATH).parent.mkdir(exist_ok=True)
    (tmp_path / "acme+thing" / PATH).write_text(OTHER)
    git(tmp_path / "acme+thing", "add", "-A")
    git(tmp_path / "acme+thing", "commit", "-q", "-m", "changed")
    assert one(pin("1" * 40, (3, 5), text=SOURCE + "x\n"), mirror=tmp_path).status == "CHANGED"


def test_a_moved_text_is_found_again_without_the_clone(tmp_path: Path) -> None:
    repository(tmp_path / "acme+thing", NEWER)
    one(pin(NOWHERE, (3, 5)), mirror=tmp_path)
    again = one(pin(NOWHERE, (3, 5)), offline=True)
    assert (again.status, again.via, again.found) == ("moved", "cache", ((4, 6),))


def test_another_repositorys_newest_state_is_not_read(tmp_path: Path) -> None:
    repository(tmp_path / "acme+other", OTHER)
    assert one(pin(NOWHERE, (3, 5)), mirror=tmp_path, offline=True).status == "not available"


def test_a_clone_is_known_by_its_remote_too(tmp_path: Path) -> None:
    repository(tmp_path / "anything", OTHER)
    git(tmp_path / "anything", "remote", "add", "origin", "https://example.invalid/acme/thing.git")
    assert one(pin(NOWHERE, (3, 5)), mirror=tmp_path).status == "CHANGED"


def test_a_file_with_another_blob_id_but_the_pinned_lines_is_accepted(network: Network) -> None:
    network.files[PATH] = (SOURCE + "one more\n").encode()
    report = one(pin(NOWHERE, (3, 5)))
    assert (report.status, report.via, report.detail) == ("same", "download", "not the pinned file")


def test_a_file_with_neither_is_not_kept(tmp_path: Path, network: Network) -> None:
    network.files[PATH] = OTHER.encode()
    report = one(pin(NOWHERE, (3, 5)))
    assert (report.status, report.text) == ("CHANGED", ())
    assert not list((tmp_path / "cache").rglob("*"))


def test_a_good_route_after_a_bad_one_counts(tmp_path: Path, network: Network) -> None:
    repository(tmp_path / "acme+thing", OTHER)
    network.files[PATH] = SOURCE.encode()
    report = one(pin(NOWHERE, (3, 5)), mirror=tmp_path)
    assert (report.status, report.via) == ("same", "download")


def test_a_wrong_hash_in_the_catalogue_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    revision = repository(tmp_path / "some", SOURCE)[0]
    wrong = pin(revision, (3, 5))
    wrong = type(wrong)(place=wrong.place, ranges=pin(revision, (3, 5), text=OTHER).ranges, same_text=True)
    report = one(wrong, mirror=tmp_path / "some")
    assert report.status == "CHANGED"
    assert "recorded text" in report.detail


def test_no_network_is_reported_once_and_remembered(network: Network) -> None:
    claims = [claim(pin(NOWHERE, (n, n)), name=f"c{n}") for n in range(1, 6)]
    first = resolve(claims)
    assert {row[0].status for row in first.values()} == {"not available"}
    assert "no network" in first["c1"][0].detail
    assert len(network.asked) == 1
    assert "tried a few minutes ago" in resolve(claims)["c1"][0].detail
    assert len(network.asked) == 1


def test_offline_asks_nothing(network: Network) -> None:
    report = one(pin(NOWHERE, (3, 5)), wheel_pin("1" * 64, (3, 5)), offline=True)
    assert report.status == "not available"
    assert network.asked == []


def test_a_wheel_with_the_same_file_serves_the_repositorys_pin(
    tmp_path: Path, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "thing.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pkg/thing.py", SOURCE)
    monkeypatch.setattr(wheels, "wheel", lambda *_, **__: path)
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    own, twin = resolve([claim(pin(NOWHERE, (3, 5)), wheel_pin(sha, (3, 5), member="pkg/thing.py"))])["c"]
    assert (own.status, own.via, twin.status) == ("same", "wheel", "same")
    assert network.asked == []


def test_a_member_with_other_text_has_its_own_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "thing.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(PATH, NEWER)
    monkeypatch.setattr(wheels, "wheel", lambda *_, **__: path)
    own, twin = resolve([claim(pin(NOWHERE, (3, 5)), wheel_pin("1" * 64, (4, 6), text=NEWER))])["c"]
    assert (own.status, twin.status, twin.found) == ("not available", "same", ((4, 6),))


def test_what_is_no_clone_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        resolve([], mirror=tmp_path / "nowhere")
    with pytest.raises(UsageError, match="no git clone"):
        resolve([], mirror=tmp_path)


def test_a_hostile_clone_runs_nothing(tmp_path: Path) -> None:
    """A partial clone fetches a missing object through its remote; this one's remote is a program."""
    revision = repository(tmp_path / "some", SOURCE)[0]
    clone, trace = tmp_path / "some", tmp_path / "ran"
    blob = git(clone, "rev-parse", f"{revision}:{PATH}")
    (clone / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for key, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::sh -c touch% {trace}",
        "protocol.ext.allow": "always",
        "protocol.allow": "always",
        "core.fsmonitor": f"touch {trace}",
    }.items():
        git(clone, "config", key, value)
    report = one(pin(revision, (3, 5)), mirror=clone, offline=True)
    assert report.status == "not available"
    assert not trace.exists()
