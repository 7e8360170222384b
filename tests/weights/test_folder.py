"""Which files make up a checkpoint: every layout opens, and whatever is wrong with the files is named by its cause."""

import dataclasses
import hashlib
import json
import os
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import made_checkpoints as made
import pytest
import safetensors.torch
import tiny
import torch
from gguf_writer import File

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.weights.naming import has_names
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.reading.digests import check_digests
from openmodelatlas.weights.reading.folder import open_file_in_folder, open_folder

KINDS = tiny.representatives()
OF = tiny.variant()
SHARD = "model-{:05}-of-00003.safetensors"
INDEX = "model.safetensors.index.json"


def open_files(path: Path) -> Opened:
    """As the files are, before shares and packed words are put together."""
    return open_folder(path) if path.is_dir() else open_file_in_folder(path)


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    return made.huggingface_folder(tmp_path / "hf", OF, shards=3)


def codes(path: Path) -> list[str]:
    with open_files(path) as opened:
        return [found.code for found in opened.findings]


def refused(path: Path) -> tuple[str | None, str]:
    with pytest.raises(NotACheckpoint) as error:
        open_files(path)
    assert str(error.value).isprintable()
    return error.value.code, str(error.value)


def holds(opened: Opened, right: dict[str, torch.Tensor]) -> bool:
    assert {t.name: t.shape for t in opened.header.tensors} == {n: tuple(t.shape) for n, t in right.items()}
    return all(torch.equal(opened.values(name), weight) for name, weight in right.items())


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", KINDS)
def test_a_huggingface_folder_of_every_kind(tmp_path: Path, name: str, shards: int) -> None:
    of = tiny.variant(name)
    path = made.huggingface_folder(tmp_path, of, shards=shards, dtype=torch.bfloat16)
    with open_files(path) as opened:
        assert (opened.scheme, opened.findings, opened.notes) == ("huggingface", (), ())
        assert opened.header.metadata["hidden_size"] == 64
        assert holds(opened, made.tensors(of, "huggingface", dtype=torch.bfloat16))
        files = [file for file in path.iterdir() if file.suffix == ".safetensors"]
        assert opened.header.file_bytes == sum(file.stat().st_size for file in files)
        assert set(opened.beside) == {
            "config.json",
            "generation_config.json",
            "tokenizer.json",
            "tokenizer_config.json",
        }
        assert json.loads(opened.beside["generation_config.json"]) == {"bos_token_id": 1, "eos_token_id": 0}


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", [name for name in KINDS if has_names(tiny.variant(name).family, "meta")])
def test_a_folder_of_meta_of_every_kind(tmp_path: Path, name: str, ranks: int) -> None:
    of = tiny.variant(name)
    path = made.meta_folder(tmp_path, of, ranks=ranks)
    right = made.tensors(of, "meta", dtype=torch.bfloat16)
    with open_files(path) as opened:
        assert (opened.scheme, opened.findings) == ("meta", ())
        assert opened.header.metadata["dim"] == 64
        if ranks == 1:
            assert holds(opened, right)
            return
        assert len(opened.header.tensors) == ranks * len(right)
        for stored, weight in right.items():
            halves = [opened.values(f"consolidated.{rank:02}.pth:{stored}") for rank in range(ranks)]
            axis = next((a for a in range(weight.dim()) if halves[0].shape[a] != weight.shape[a]), None)
            assert torch.equal(halves[0] if axis is None else torch.cat(halves, axis), weight)


@pytest.mark.parametrize("name", KINDS)
def test_a_gguf_checkpoint_in_parts_of_every_kind(tmp_path: Path, name: str) -> None:
    of = tiny.variant(name)
    paths = made.gguf_split(tmp_path, of, parts=3)
    right = {name: torch.from_numpy(array) for name, array in tiny.arrays(of).items()}
    for target in (tmp_path, paths[0], paths[2]):
        with open_files(target) as opened:
            assert (opened.scheme, opened.findings) == ("gguf", ())
            assert holds(opened, right)
            assert opened.section("tokenizer.ggml.tokens") == {
                "tokenizer.ggml.tokens": tiny.tokenizer()["tokenizer.ggml.tokens"]
            }
            assert not [key for key in opened.header.metadata if key.startswith("split.")]


def test_a_file_brings_the_settings_beside_it(sharded: Path, tmp_path: Path) -> None:
    single = made.huggingface_folder(tmp_path / "single", OF)
    with open_files(single / "model.safetensors") as opened:
        assert opened.header.metadata["model_type"] == "llama"
    for name in (SHARD.format(2), INDEX):  # a shard stands for all
        with open_files(sharded / name) as opened:
            assert holds(opened, made.tensors(OF, "huggingface"))
    meta = made.meta_folder(tmp_path / "meta", OF)
    with open_files(meta / "consolidated.00.pth") as opened:
        assert opened.header.metadata["dim"] == 64


def test_a_gguf_file_needs_no_ending(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(tiny.file().bytes())
    with open_files(tmp_path / "blob") as opened:
        assert opened.scheme == "gguf"


def test_pickled_weights_of_a_huggingface_folder_are_read_as_data(tmp_path: Path) -> None:
    path = made.huggingface_folder(tmp_path, OF)
    torch.save(safetensors.torch.load_file(path / "model.safetensors"), path / "pytorch_model.bin")
    with open_files(path) as opened:
        assert opened.header.format == "safetensors"
        assert "pytorch_model.bin" in opened.notes[0]
    (path / "model.safetensors").unlink()
    with open_files(path) as opened:
        assert opened.header.format == "PyTorch .bin"
        assert holds(opened, made.tensors(OF, "huggingface"))


def test_pickled_shards_with_an_index(tmp_path: Path) -> None:
    path, weights = made.huggingface_folder(tmp_path, OF), made.tensors(OF, "huggingface")
    (path / "model.safetensors").unlink()
    names, places = list(weights), {}
    for number, part in enumerate((names[:9], names[9:]), 1):
        torch.save({name: weights[name] for name in part}, path / f"pytorch_model-0000{number}-of-00002.bin")
        places |= dict.fromkeys(part, f"pytorch_model-0000{number}-of-00002.bin")
    made.write_json(path / "pytorch_model.bin.index.json", {"weight_map": places})
    with open_files(path) as opened:
        assert (opened.findings, opened.notes) == ((), ())
        assert holds(opened, weights)


def test_a_transposed_tensor_is_read_and_noted(tmp_path: Path) -> None:
    path, weights = made.meta_folder(tmp_path, OF), made.tensors(OF, "meta")
    weights["output.weight"] = torch.arange(64.0 * 272).reshape(64, 272).t()
    torch.save(weights, path / "consolidated.00.pth")
    with open_files(path) as opened:
        assert opened.notes == ("1 tensors are not stored row after row, such as 'output.weight'",)
        assert torch.equal(opened.values("output.weight"), weights["output.weight"])


def test_one_file_with_an_index_is_one_checkpoint(tmp_path: Path) -> None:
    path = made.huggingface_folder(tmp_path, OF)
    places = dict.fromkeys(made.tensors(OF, "huggingface"), "model.safetensors")
    made.write_json(path / INDEX, {"weight_map": places})
    with open_files(path) as opened:
        assert opened.findings == ()
        assert len(opened.header.tensors) == len(places)


def test_one_file_beside_shards_is_another_checkpoint(sharded: Path) -> None:
    """Programs differ in which they load."""
    made.write_safetensors(sharded, made.tensors(OF, "huggingface", seed=1))
    code, message = refused(sharded)
    assert code == "files.several-checkpoints"
    assert f"found '{INDEX}', 'model.safetensors'" in message


@pytest.mark.parametrize("beside", ["consolidated.safetensors", "consolidated-00001-of-00001.safetensors"])
def test_a_publishers_second_form_is_noted_and_can_be_named(sharded: Path, beside: str) -> None:
    (sharded / "x").mkdir()
    made.write_safetensors(sharded / "x", made.tensors(OF, "huggingface", seed=1))
    (sharded / "x" / "model.safetensors").rename(sharded / beside)
    (sharded / "x").rmdir()
    with open_files(sharded) as opened:
        assert opened.notes == (f"'{beside}' stands beside and is not looked at; name it to look at it",)
        assert {tensor.shard for tensor in opened.header.tensors} == {SHARD.format(n) for n in (1, 2, 3)}
    with open_files(sharded / beside) as opened:
        assert {tensor.shard for tensor in opened.header.tensors} == {beside}
        assert opened.notes == ()
    (sharded / "config.json").unlink()
    assert refused(sharded)[0] == "files.several-checkpoints"


def test_a_file_of_settings_is_no_servers_message(sharded: Path) -> None:
    code, message = refused(sharded / "tokenizer.json")
    assert code == "files.other-format"
    assert "expected safetensors, GGUF or .pth, found a JSON text" in message


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_settings_with_a_byte_order_mark(sharded: Path, encoding: str) -> None:
    path = sharded / "config.json"
    path.write_text(path.read_text(), encoding=encoding)
    code, message = refused(sharded)
    assert code == "files.json-encoding"
    assert "expected UTF-8, found a byte order mark; save it as UTF-8" in message


def test_settings_stand_for_their_folder(tmp_path: Path) -> None:
    hf, meta = made.huggingface_folder(tmp_path / "hf", OF), made.meta_folder(tmp_path / "meta", OF)
    assert open_files(hf / "config.json").scheme == "huggingface"
    assert open_files(meta / "params.json").scheme == "meta"


def test_a_link_that_is_named_is_followed(tmp_path: Path) -> None:
    path = made.huggingface_folder(tmp_path / "hf", OF)
    (tmp_path / "links").mkdir()
    (tmp_path / "links/mine.safetensors").symlink_to("../hf/model.safetensors")
    with open_files(tmp_path / "links/mine.safetensors") as opened:
        assert opened.findings == ()
        assert opened.header.path == str(path)
    (tmp_path / "link").symlink_to("hf")
    assert open_files(tmp_path / "link").findings == ()


def test_the_hubs_cache_is_followed_and_no_other_link(tmp_path: Path) -> None:
    folder = made.huggingface_folder(tmp_path / "made", OF)
    snapshot, blobs = tmp_path / "models--a--b/snapshots/0123", tmp_path / "models--a--b/blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for file in folder.iterdir():
        shutil.copy(file, blobs / f"hash-of-{file.name}")
        (snapshot / file.name).symlink_to(f"../../blobs/hash-of-{file.name}")
    with open_files(snapshot) as opened:
        assert holds(opened, made.tensors(OF, "huggingface"))
        assert len(opened.beside["tokenizer.json"]) == (folder / "tokenizer.json").stat().st_size
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to("../../../made/model.safetensors")
    assert refused(snapshot)[0] == "files.link-outside"
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to("../../blobs/gone")
    assert refused(snapshot)[0] == "files.dangling-link"


def test_a_link_to_settings_elsewhere_is_refused(tmp_path: Path) -> None:
    path = made.huggingface_folder(tmp_path / "hf", OF)
    shutil.move(path / "config.json", tmp_path / "secret.json")
    (path / "config.json").symlink_to("../secret.json")
    code, message = refused(path)
    assert code == "files.link-outside"
    assert "../secret.json" in message


Damage = Callable[[Path], object]


def edit_index(path: Path, change: Callable[[dict[str, str]], object]) -> None:
    content = json.loads((path / INDEX).read_text())
    change(content["weight_map"])
    made.write_json(path / INDEX, content)


def rewrite(path: Path, shard: int, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = safetensors.torch.load_file(path / SHARD.format(shard))
    change(weights)
    safetensors.torch.save_file(weights, path / SHARD.format(shard))


NORM = "model.norm.weight"
DAMAGES: dict[str, tuple[Damage, list[str], str]] = {
    "a shard absent": (lambda p: (p / SHARD.format(2)).unlink(), ["files.shard-missing"], SHARD.format(2)),
    "a shard renamed": (
        lambda p: (p / SHARD.format(2)).rename(p / SHARD.format(4)),
        ["files.shard-missing", "files.surplus-shard"],
        SHARD.format(2),
    ),
    "a tensor dropped": (lambda p: rewrite(p, 3, lambda w: w.pop(NORM)), ["files.tensor-not-in-shard"], NORM),
    "a tensor more": (
        lambda p: rewrite(p, 1, lambda w: w.update(extra=torch.ones(1))),
        ["files.tensor-not-in-index"],
        "extra",
    ),
    "a tensor in two": (
        lambda p: rewrite(p, 1, lambda w: w.update({NORM: torch.ones(64)})),
        ["files.duplicate-over-shards"],
        NORM,
    ),
    "a tensor elsewhere": (
        lambda p: edit_index(p, lambda m: m.update({NORM: SHARD.format(1)})),
        ["files.tensor-in-other-shard"],
        NORM,
    ),
    "a tensor that the index lost": (
        lambda p: edit_index(p, lambda m: m.pop(NORM)),
        ["files.tensor-not-in-index"],
        NORM,
    ),
    "a shard that is a pointer": (
        lambda p: (p / SHARD.format(1)).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
        ["files.lfs-pointer"],
        SHARD.format(1),
    ),
    "a shard cut off": (
        lambda p: os.truncate(p / SHARD.format(1), (p / SHARD.format(1)).stat().st_size - 1),
        ["files.truncated"],
        SHARD.format(1),
    ),
    "a shard more": (
        lambda p: shutil.copy(p / SHARD.format(1), p / SHARD.format(7)),
        ["files.surplus-shard"],
        SHARD.format(7),
    ),
    "no index": (lambda p: (p / INDEX).unlink(), ["files.no-index"], "hf"),
    "no index and a gap": (
        lambda p: ((p / INDEX).unlink(), (p / SHARD.format(2)).unlink()),
        ["files.no-index", "files.shard-missing"],
        SHARD.format(2),
    ),
    "no settings": (lambda p: (p / "config.json").unlink(), ["files.no-settings"], "hf"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_every_damage_of_shards_and_index_is_its_own_finding(sharded: Path, case: str) -> None:
    damage, expected, where = DAMAGES[case]
    damage(sharded)
    with open_files(sharded) as opened:
        assert sorted(found.code for found in opened.findings) == sorted(expected)
        assert where in " ".join(found.where for found in opened.findings)


def test_a_total_size_that_is_wrong_is_a_note(sharded: Path) -> None:
    content = json.loads((sharded / INDEX).read_text())
    right = content["metadata"]["total_size"]
    content["metadata"]["total_size"] = right + 1
    made.write_json(sharded / INDEX, content)
    with open_files(sharded) as opened:
        assert opened.findings == ()
        assert opened.notes == (
            f"the index states total_size {right + 1:,}; the tensors of all shards are {right:,} bytes",
        )


def socket_at(path: Path) -> None:
    path.unlink()
    here = os.getcwd()
    os.chdir(path.parent)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as made_socket:
        made_socket.bind(path.name)
    os.chdir(here)


REFUSALS: dict[str, tuple[Damage, str, str]] = {
    "an index that climbs": (
        lambda p: edit_index(p, lambda m: m.update({NORM: "../x.safetensors"})),
        "files.index-path",
        "'../x.safetensors'",
    ),
    "an index that names a root": (
        lambda p: edit_index(p, lambda m: m.update({NORM: "/etc/passwd"})),
        "files.index-path",
        "'/etc/passwd'",
    ),
    "an index of numbers": (
        lambda p: edit_index(p, lambda m: m.update({NORM: 3})),  # type: ignore[dict-item]
        "files.index-entry",
        NORM,
    ),
    "an index that is none": (lambda p: made.write_json(p / INDEX, {}), "files.index-entry", "weight_map"),
    "an index of nothing": (
        lambda p: made.write_json(p / INDEX, {"weight_map": {}}),
        "files.index-entry",
        "expected tensors in files",
    ),
    "an index that is a page": (lambda p: (p / INDEX).write_text("<!doctype html>"), "files.html-page", INDEX),
    "an index with a name twice": (
        lambda p: (p / INDEX).write_text('{"weight_map": {"a": "x", "a": "y"}}'),
        "files.json-duplicate",
        "'a'",
    ),
    "no shard at all": (
        lambda p: [(p / SHARD.format(n)).unlink() for n in (1, 2, 3)],
        "files.shard-missing",
        "none of 3 shards",
    ),
    "settings that are a list": (lambda p: (p / "config.json").write_text("[]"), "files.not-settings", "config.json"),
    "settings cut off": (lambda p: (p / "config.json").write_text('{"a": '), "files.json", "line 1, column 7"),
    "settings that are empty": (lambda p: (p / "config.json").write_text(""), "files.empty", "config.json"),
    "settings with NaN": (lambda p: (p / "config.json").write_text('{"a": NaN}'), "files.json-number", "NaN"),
    "two checkpoints": (
        lambda p: (p / "tiny.gguf").write_bytes(tiny.file().bytes()),
        "files.several-checkpoints",
        f"found '{INDEX}', 'tiny.gguf'; name one of these files",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_opened_is_refused_by_its_cause(sharded: Path, case: str) -> None:
    damage, code, words = REFUSALS[case]
    damage(sharded)
    found, message = refused(sharded)
    assert found == code, message
    assert words in message


FOLDERS: dict[str, tuple[list[str], str, str]] = {
    "nothing": ([], "files.no-checkpoint", "found nothing"),
    "an adapter": (["adapter_config.json", "adapter_model.safetensors"], "files.adapter", "adapter_config.json"),
    "settings alone": (["config.json", "tokenizer.json"], "files.no-weights", "without weights"),
    "a download": (["config.json", "model.safetensors.incomplete"], "files.unfinished", "model.safetensors.incomplete"),
    "another library's": (["config.json", "tf_model.h5"], "files.unknown-format", "tf_model.h5"),
    "below": (["README.md", "original/consolidated.00.pth"], "files.in-folder", "'original/'"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_folders_without_a_checkpoint_say_what_they_are(tmp_path: Path, case: str) -> None:
    names, code, words = FOLDERS[case]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found, message = refused(tmp_path)
    assert found == code
    assert words in message
    if code == "files.adapter":
        assert refused(tmp_path / "adapter_model.safetensors")[0] == code


def test_things_that_are_no_files(tmp_path: Path) -> None:
    path = made.huggingface_folder(tmp_path, OF)
    weights = path / "model.safetensors"
    weights.unlink()
    weights.mkdir()
    assert refused(path)[0] == "files.directory"
    weights.rmdir()
    os.mkfifo(weights)
    assert refused(path)[0] == "files.not-regular"
    socket_at(weights)
    assert refused(path)[0] == "files.not-regular"
    weights.unlink()
    weights.touch()
    assert refused(path)[0] == "files.empty"
    assert refused(path / "none")[0] == "files.missing"


def test_shards_that_are_numbered_as_two_sets(sharded: Path) -> None:
    (sharded / INDEX).unlink()
    shutil.copy(sharded / SHARD.format(1), sharded / "model-00002-of-00004.safetensors")
    assert "files.shard-numbers" in codes(sharded)


def test_a_folder_of_something_else_is_not_searched(sharded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openmodelatlas.weights.reading.place.MOST_ENTRIES", 4)
    assert refused(sharded)[0] == "files.crowded"
    assert len(open_files(sharded / SHARD.format(1)).header.tensors) > 0  # a file stands for itself


def test_names_of_files_are_printed_safely(tmp_path: Path) -> None:
    """A folder from elsewhere can have file names that move the cursor."""
    path = made.huggingface_folder(tmp_path / "\x1b[2J", OF)
    for end in ("safetensors", "gguf", "pth"):
        bad = path / f"a\x1b[31m\n.{end}"
        bad.write_bytes(b"?" * 100)
        refused(bad)
        if end != "pth":  # a second checkpoint
            assert "\\x1b[31m" in refused(path)[1]
        bad.unlink()
    for name in ("model-00001-of-00002.safetensors", "m\x1b-00001-of-00002.safetensors"):
        (path / "model.safetensors").rename(path / name)
        with open_files(path) as opened:
            assert all(f"{f.where}{f.expected}{f.found}".isprintable() for f in opened.findings)
        (path / name).rename(path / "model.safetensors")


def test_a_name_that_no_system_takes() -> None:
    assert refused(Path("a\0b"))[0] == "files.unreadable"


def test_a_share_of_meta_that_is_missing_is_named(tmp_path: Path) -> None:
    path = made.meta_folder(tmp_path, OF, ranks=2)
    (path / "consolidated.00.pth").unlink()
    assert codes(path) == ["files.share-missing"]


def test_parts_of_gguf_that_disagree_are_named(tmp_path: Path) -> None:
    paths = made.gguf_split(tmp_path, OF, parts=3)
    shutil.copy(paths[2], paths[1])
    assert codes(tmp_path) == ["files.part-number", "files.duplicate-over-shards"] + ["files.duplicate-over-shards"] * (
        len(open_files(paths[2]).findings) - 3
    ) + ["files.part-tensors"]
    paths[1].unlink()
    assert codes(tmp_path) == ["files.shard-missing", "files.part-tensors"]
    paths[0].unlink()
    assert refused(tmp_path)[0] == "files.shard-missing"


def test_a_gguf_part_without_its_number_is_named(tmp_path: Path) -> None:
    (tmp_path / "a-00001-of-00001.gguf").write_bytes(
        dataclasses.replace(tiny.file(), metadata=tiny.metadata(OF)).bytes()
    )
    assert codes(tmp_path) == ["files.part-number", "files.part-number", "files.part-tensors"]
    (tmp_path / "a-00001-of-00001.gguf").write_bytes(File().bytes()[:8])
    assert refused(tmp_path)[0] == "files.truncated"


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256"])
def test_digests_are_of_the_kind_that_their_length_says(tmp_path: Path, algorithm: str) -> None:
    path = made.meta_folder(tmp_path, OF)
    names = ("consolidated.00.pth", "params.json")
    lines = [f"{hashlib.new(algorithm, (path / name).read_bytes()).hexdigest()}  {name}" for name in names]
    (path / "checklist.chk").write_text("\n".join(lines) + "\n")
    with open_files(path) as opened:
        assert check_digests(opened) == []
        (path / "params.json").write_text("{}")
        [found] = check_digests(opened)
        assert (found.code, found.where) == ("files.digest-differs", "'params.json'")
        assert found.expected == f"{algorithm} {lines[1].split()[0]}"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("0123456789  params.json", "files.digest-kind"),
        (f"{'0' * 32}  gone.pth", "files.missing"),
        (f"{'0' * 32}  ../params.json", "files.digest-line"),
        ("hello", "files.digest-line"),
        (f"{'0' * 32}", "files.digest-line"),
    ],
)
def test_lines_of_a_list_of_digests_that_cannot_hold(tmp_path: Path, line: str, code: str) -> None:
    path = made.meta_folder(tmp_path, OF)
    (path / "checklist.chk").write_text(line + "\n")
    with open_files(path) as opened:
        assert [found.code for found in check_digests(opened)] == [code]


def test_no_list_of_digests_is_no_finding(tmp_path: Path) -> None:
    with open_files(made.meta_folder(tmp_path, OF)) as opened:
        assert check_digests(opened) == []


def test_a_small_file_that_is_large_is_refused(tmp_path: Path) -> None:
    path = made.huggingface_folder(tmp_path, OF)
    os.truncate(path / "tokenizer.json", (64 << 20) + 1)
    with open_files(path) as opened, pytest.raises(NotACheckpoint) as error:
        _ = opened.beside["tokenizer.json"]
    assert error.value.code == "files.absurd-size"


def test_headers_of_a_huge_checkpoint_open_at_once(tmp_path: Path) -> None:
    """191 sparse shards of 810 GB: the shape of the largest dense model. Only headers are read."""
    places = {}
    for number in range(191):
        name = f"model-{number + 1:05}-of-00191.safetensors"
        each = 810_000_000_000 // 191 // 6 // 2 * 2
        entries = {
            f"model.layers.{number}.w{part}.weight": {
                "dtype": "BF16",
                "shape": [each // 2],
                "data_offsets": [part * each, (part + 1) * each],
            }
            for part in range(6)
        }
        raw = json.dumps(entries).encode()
        with open(tmp_path / name, "wb") as out:
            out.write(struct.pack("<Q", len(raw)) + raw)
            out.truncate(8 + len(raw) + 6 * each)
        places |= dict.fromkeys(entries, name)
    made.write_json(tmp_path / INDEX, {"weight_map": places})
    made.write_json(tmp_path / "config.json", {"model_type": "llama"})
    import time

    start = time.perf_counter()
    with open_files(tmp_path) as opened:
        assert time.perf_counter() - start < 1
        assert opened.findings == ()
        assert sum(t.bytes for t in opened.header.tensors) > 809e9
        last = opened.header.tensors[-1]
        assert opened.values(last.name, last.shape[0] - 2).tolist() == [0, 0]
