"""What the documents say: links, names, tables and numbers that can be held against the code."""

import re
import tomllib
from typing import get_args, get_type_hints
from urllib.parse import urlsplit

import pytest
from docs_help import NAMES, ROOT, inline, prose, read, rows

from openmodelatlas import errors, maps
from openmodelatlas.catalog.load import releases
from openmodelatlas.records.evidence import Grade, PinStatus, State
from openmodelatlas.records.report import MetadataRow, TensorRow
from openmodelatlas.records.shapes import axis_word
from openmodelatlas.records.verification import Tier

HOSTS = {"keepachangelog.com", "semver.org", "github.com"}
PATH = re.compile(r"(?<![\w.])/(?:tmp|home|root|work|usr|opt|var|mnt)\b")


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", read(name)):
        if target.startswith("http"):
            assert urlsplit(target).hostname in HOSTS, f"{name}: {target}"
            continue
        path, _, anchor = target.partition("#")
        file = ((ROOT / name).parent / path).resolve() if path else ROOT / name
        assert file.exists(), f"{name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.M)
            assert anchor in map(slug, headings), f"{name}: {target}"


@pytest.mark.parametrize("name", NAMES)
def test_no_place_on_a_machine_is_named(name: str) -> None:
    assert PATH.findall(read(name)) == []
    for host in re.findall(r"https?://([\w.-]+)", read(name)):
        assert host in HOSTS, f"{name}: {host}"


def test_readme_begins_with_a_picture_and_the_two_commands() -> None:
    first = read("README.md").splitlines()[:20]
    assert any(line.startswith("![") and "(docs/picture.png)" in line for line in first)
    assert any(line.startswith("make atlas") for line in first)
    assert any(line.startswith("make test") for line in first)


# Numbers that are part of a name, or that a test holds against the code (python, exit codes, steps in order).
RELEASES = "|".join(re.escape(release.title) for release in releases().values())
NAMED = re.compile(
    rf"""Llama\ 3(\.\d)?(,\ 3\.\d)*(\ and\ 3\.\d)? | Llama\ 3's | {RELEASES} | Pocket\ 60M
    | sha256 | b?float(16|32|64) | Python\ 3\.\d+
    | Node\ \d+ | License\ 2\.0 | ^\#\#\ \[\d+\.\d+\.\d+\] | ^(\*\*)?\d+\.\ """,
    re.X | re.M,
)


@pytest.mark.parametrize("name", NAMES)
def test_prose_has_no_number_that_could_go_stale(name: str) -> None:
    text = NAMED.sub("", "\n".join(line for line in prose(read(name)).splitlines() if not line.startswith("|")))
    assert re.findall(r"[^\s]*\d[^\s]*", text) == []


def test_what_is_said_of_verified_claims_holds() -> None:
    """The sentence must go when the first claim is verified."""
    sentences = {"README.md": "No claim is `verified` yet", "docs/how-to-read.md": "No claim is `verified` yet"}
    claims = [c for name in ("llama-3-8b", "smollm2-135m") for n in maps.annotated(name).nodes for c in n.claims]
    assert claims
    none = all(claim.state != "verified" for claim in claims)
    for name, sentence in sentences.items():
        assert (sentence in read(name)) == none, name


def test_required_python_is_the_one_that_is_packaged() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = re.search(r"Python (\d+\.\d+) or later", read("README.md"))
    assert said is not None
    assert project["requires-python"] == f">={said[1]}"


def test_changelog_has_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"## [{project['version']}]" in read("CHANGELOG.md")


# words that the code fixes


def test_errors_are_all_described_with_their_exit_codes() -> None:
    said = {r[0].strip("`"): int(r[2]) for r in rows(read("docs/design.md"), "error", "when", "exit code")}
    real = {
        name: kind.exit_code
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.AtlasError)
    }
    assert said == real
    codes = {int(c) for c in re.findall(r"`(\d)`", read("README.md").partition("The exit code is")[2].split("\n\n")[0])}
    assert codes == {0, *real.values()}


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("docs/design.md", ("state", "what it means")),
        ("docs/glossary.md", ("state", "what it means")),
        ("docs/how-to-read.md", ("state", "read it as")),
    ],
)
def test_states_are_all_described(name: str, header: tuple[str, str]) -> None:
    assert [r[0].strip("`") for r in rows(read(name), *header)] == list(get_args(State))


def test_what_becomes_of_a_pin_is_described() -> None:
    said = [r[0].strip("`") for r in rows(read("docs/design.md"), "pin", "what was found")]
    assert said == list(get_args(PinStatus))
    for name in ("docs/glossary.md", "docs/how-to-read.md"):
        assert set(get_args(PinStatus)) <= set(inline(read(name))), name


@pytest.mark.parametrize("name", ["docs/design.md", "docs/glossary.md", "docs/how-to-read.md"])
def test_grades_are_described(name: str) -> None:
    for grade in get_args(Grade):
        assert re.search(rf"\*+{grade}\b", read(name), re.I), grade


def test_columns_of_a_ledger_are_described() -> None:
    code = set(inline(read("docs/glossary.md")))
    assert set(get_args(get_type_hints(TensorRow)["status"])) <= code
    assert set(get_args(get_type_hints(MetadataRow)["column"])) <= code


def test_tiers_of_a_run_are_those_of_records() -> None:
    assert re.findall(r"^\d\. \*\*(.+?)\*\*", read("docs/glossary.md"), re.M) == list(get_args(Tier))


# the glossary against a map


def test_axes_of_the_glossary_are_those_of_maps() -> None:
    said = {
        r[0].strip("`"): r[2].strip("`") for r in rows(read("docs/glossary.md"), "axis", "what it counts", "printed as")
    }
    assert list(said) == list("BTSDHKEFVLNA")
    graph = maps.graph("llama-3.1-8b")
    for axis in [*"BTS", *graph.axes]:
        word = axis_word(axis)
        assert said[axis] == (f"{axis} {word}" if axis in "BTS" else word)
    ports = [p for n in graph.nodes for p in n.inputs + n.outputs]
    used = {letter for p in ports for axis in p.axes for letter in re.findall("[A-Z]", axis)}
    assert used <= set(said)
    assert used | {"L", "N", "A"} == set(said)


def test_nodes_of_the_glossary_are_those_of_a_map() -> None:
    said: set[str] = set()
    for first, second in rows(read("docs/glossary.md"), "id", "what it is"):
        ids = re.findall(r"`([^`]+)`", first)
        said.update(ids)
        parts = [p for code in re.findall(r"`([^`]+)`", second) for p in code.split() if p.startswith(".")]
        said.update(ids[0] + part for part in parts)
    real = {n.id for n in maps.graph("llama-3.1-8b").nodes if n.kind != "tensor"}
    assert said == real - {"", "block"}


def test_ids_in_documents_are_ids_of_a_map() -> None:
    """Anything in inline code that looks like the id of a node inside a block exists."""
    graph = maps.graph("llama-3.1-8b")
    known = {*graph.by_id, *graph.aliases, "block"}
    for name in NAMES:
        for code in inline(read(name)):
            if re.fullmatch(r"blocks?(\.\d+)?[.:][a-z_.:]+", code) and not code.endswith((".html", ".weight")):
                assert re.sub(r"^blocks\.\d+", "block", code) in known, f"{name}: {code}"
