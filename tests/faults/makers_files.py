"""Files that are not whole, not consistent, hostile, or something else altogether."""

import hashlib
import json
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import made_checkpoints
import safetensors.torch
import tiny
import torch
from gguf_writer import ARRAY, STRING, U32, File, Tensor, string
from makers_settings import gguf, huggingface, meta, one_file, write

from openmodelatlas.models.variant import Variant

SHARD = "model-0000{}-of-00002.safetensors"
LAST = "model.norm.weight"


def shard_absent(path: Path, of: Variant) -> Path:
    folder = huggingface(path, of)
    (folder / SHARD.format(2)).unlink()
    return folder


def shard_renamed(path: Path, of: Variant) -> Path:
    folder = huggingface(path, of)
    (folder / SHARD.format(2)).rename(folder / "model-00003-of-00002.safetensors")
    return folder


def shard_surplus(path: Path, of: Variant) -> Path:
    folder = huggingface(path, of)
    (folder / "model-00001-of-00001.safetensors").write_bytes((folder / SHARD.format(1)).read_bytes())
    return folder


def _index(folder: Path, change: Any) -> None:
    file = folder / "model.safetensors.index.json"
    content = json.loads(file.read_text())
    change(content["weight_map"])
    file.write_text(json.dumps(content))


def unknown_to_index(path: Path, of: Variant) -> Path:
    folder = huggingface(path, of)
    _index(folder, lambda places: places.pop(LAST))
    return folder


def not_in_its_shard(path: Path, of: Variant) -> Path:
    folder = huggingface(path, of)
    shard = folder / SHARD.format(2)
    weights = safetensors.torch.load_file(shard)
    del weights[LAST]
    safetensors.torch.save_file(weights, shard)
    return folder


def in_another_shard(path: Path, of: Variant) -> Path:
    folder = huggingface(path, of)
    _index(folder, lambda places: places.update({LAST: SHARD.format(1)}))
    return folder


def index_out_of_the_folder(path: Path, of: Variant) -> Path:
    folder = huggingface(path, of)
    _index(folder, lambda places: places.update({LAST: "../other.safetensors"}))
    return folder


def _weights(path: Path, of: Variant, content: bytes) -> Path:
    """A folder whose one file of weights has that content."""
    folder = one_file(path, of)
    (folder / "model.safetensors").write_bytes(content)
    return folder


def lfs_pointer(path: Path, of: Variant) -> Path:
    lines = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'ab' * 32}\nsize 4976698672\n"
    return _weights(path, of, lines.encode())


def html_page(path: Path, of: Variant) -> Path:
    return _weights(path, of, b"<!doctype html>\n<html><title>Sign in</title></html>" + b" " * 16000)


def html_page_meta(path: Path, of: Variant) -> Path:
    folder = meta(path, of)
    (folder / "consolidated.00.pth").write_bytes(b"<!DOCTYPE html><html>" + b" " * 16113)
    return folder


def lfs_pointer_in_a_shard(path: Path, of: Variant) -> Path:
    folder = huggingface(path, of)
    (folder / SHARD.format(2)).write_bytes((lfs_pointer(path / "pointer", of) / "model.safetensors").read_bytes())
    return folder


def settings_are_a_page(path: Path, of: Variant) -> Path:
    folder = one_file(path, of)
    (folder / "config.json").write_text("<!doctype html><title>Gated</title>")
    return folder


def empty(path: Path, of: Variant) -> Path:
    return _weights(path, of, b"")


def header_over_the_limit(path: Path, of: Variant) -> Path:
    folder = _weights(path, of, struct.pack("<Q", 132_095_296) + b'{"a":')
    os.truncate(folder / "model.safetensors", 200_000_000)
    return folder


def header_of_an_exbibyte(path: Path, of: Variant) -> Path:
    return _weights(path, of, struct.pack("<Q", 1 << 60) + b"{}" * 8)


def gguf_by_another_name(path: Path, of: Variant) -> Path:
    return _weights(path, of, tiny.file(of).bytes())


def zeros(path: Path, of: Variant) -> Path:
    return _weights(path, of, bytes(4096))


def truncated(path: Path, of: Variant) -> Path:
    folder = one_file(path, of)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    return folder


def truncated_gguf(path: Path, of: Variant) -> Path:
    return write(path, tiny.file(of).bytes()[:-1000])


# safetensors by hand: what the format's library refuses


def by_hand(path: Path, of: Variant, header: Any, data: bytes) -> Path:
    return by_hand_into(one_file(path, of), header, data)


def by_hand_into(folder: Path, header: Any, data: bytes) -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw + data)
    return folder


def entry(kind: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


def name_twice(path: Path, of: Variant) -> Path:
    one = json.dumps(entry("U8", [4], 0, 4))
    return by_hand(path, of, f'{{"a": {one}, "a": {one}}}'.encode(), bytes(4))


def overlap(path: Path, of: Variant) -> Path:
    return by_hand(path, of, {"k": entry("U8", [4], 0, 4), "v": entry("U8", [4], 0, 4)}, bytes(4))


def hole(path: Path, of: Variant) -> Path:
    return by_hand(path, of, {"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 8, 12)}, bytes(12))


def trailing(path: Path, of: Variant) -> Path:
    return by_hand(path, of, {"a": entry("U8", [4], 0, 4)}, bytes(5))


def too_short(path: Path, of: Variant) -> Path:
    return by_hand(path, of, {"a": entry("U8", [4], 0, 4)}, bytes(3))


def shape_and_bytes(path: Path, of: Variant) -> Path:
    return by_hand(path, of, {"a": entry("F32", [1000, 1000], 0, 82)}, bytes(82))


def size_overflows(path: Path, of: Variant) -> Path:
    return by_hand(path, of, {"a": entry("U8", [1 << 33, 1 << 33], 0, 4)}, bytes(4))


def negative_size(path: Path, of: Variant) -> Path:
    return by_hand(path, of, {"a": entry("U8", [-4], 0, 4)}, bytes(4))


def labels_no_texts(path: Path, of: Variant) -> Path:
    return by_hand(path, of, {"__metadata__": {"format": 1}, "a": entry("U8", [4], 0, 4)}, bytes(4))


def not_utf8(path: Path, of: Variant) -> Path:
    return by_hand(path, of, b'{"\xff": 1}', b"")


def unknown_type(path: Path, of: Variant) -> Path:
    return by_hand(path, of, {"a": entry("F12", [4], 0, 6)}, bytes(6))


def other_order(path: Path, of: Variant) -> Path:
    """The entries of the header in another order than the bytes."""
    folder = one_file(path, of)
    file = folder / "model.safetensors"
    content = file.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    return by_hand_into(folder, dict(reversed(header.items())), content[end:])


def no_tensors(path: Path, of: Variant) -> Path:
    return by_hand(path, of, {}, b"")


def offsets_overflow(path: Path, of: Variant) -> Path:
    return by_hand(path, of, {"a": entry("U8", [4], (1 << 64) - 2, 1 << 64)}, bytes(4))


# files of torch.save


class Payload:
    """Its unpickling by the usual means makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def payload(path: Path, of: Variant) -> Path:
    folder = meta(path, of)
    torch.save({"a": torch.ones(2), "b": Payload(path / "marker")}, folder / "consolidated.00.pth")
    return folder


def payload_of_the_old_form(path: Path, of: Variant) -> Path:
    folder = meta(path, of)
    file = folder / "consolidated.00.pth"
    torch.save({"b": Payload(path / "marker")}, file, _use_new_zipfile_serialization=False)
    return folder


def payload_beside_settings(path: Path, of: Variant) -> Path:
    """The file of weights that Hugging Face's folders had before safetensors."""
    folder = one_file(path, of)
    (folder / "model.safetensors").unlink()
    torch.save({"b": Payload(path / "marker")}, folder / "pytorch_model.bin")
    return folder


def record_too_short(path: Path, of: Variant) -> Path:
    """A tensor whose record in the archive has fewer bytes than the pickle says."""
    folder = meta(path, of)
    file = folder / "consolidated.00.pth"
    with zipfile.ZipFile(file) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in content if "/data/" in name)
    content[name] = content[name][:-2]
    with zipfile.ZipFile(file, "w") as archive:
        for record, data in content.items():
            archive.writestr(record, data)
    return folder


def share_absent(path: Path, of: Variant) -> Path:
    folder = made_checkpoints.meta_folder(path / "model", of, ranks=4)
    (folder / "consolidated.01.pth").unlink()
    return folder


def checklist(path: Path, of: Variant) -> Path:
    folder = meta(path, of)
    names = ("consolidated.00.pth", "params.json")
    lines = [f"{hashlib.md5((folder / n).read_bytes()).hexdigest()}  {n}" for n in names]
    (folder / "checklist.chk").write_text("\n".join(lines) + "\n")
    return folder


def checklist_differs(path: Path, of: Variant) -> Path:
    folder = checklist(path, of)
    file = folder / "checklist.chk"
    file.write_text("0" * 32 + file.read_text()[32:])
    return folder


def checklist_of_no_kind(path: Path, of: Variant) -> Path:
    folder = meta(path, of)
    (folder / "checklist.chk").write_text("0" * 48 + "  consolidated.00.pth\n")
    return folder


# GGUF by hand


def long_key(path: Path, _: Variant) -> Path:
    return write(path, b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 0xFFFFFFFFFFFF))


def _with(path: Path, *tensors: Tensor, **metadata: Any) -> Path:
    return write(path, File({"general.architecture": "llama", **metadata}, tensors))


def size_wraps(path: Path, _: Variant) -> Path:
    return _with(path, Tensor("a", (1, 1, 2, (1 << 64) - 1), bytes(32)))


def offset_past_the_end(path: Path, _: Variant) -> Path:
    return _with(path, Tensor("a", (4,), bytes(32), offset=1 << 40))


def alignment_of_zero(path: Path, _: Variant) -> Path:
    return _with(path, **{"general.alignment": 0})


def alignment_of_33(path: Path, _: Variant) -> Path:
    return _with(path, **{"general.alignment": 33})


def nine_dimensions(path: Path, _: Variant) -> Path:
    return _with(path, Tensor("a", (1,) * 9, bytes(32)))


def tensor_twice(path: Path, _: Variant) -> Path:
    return _with(path, Tensor("a", (4,), bytes(16)), Tensor("a", (4,), bytes(16)))


def key_twice(path: Path, _: Variant) -> Path:
    pair = string("a") + struct.pack("<II", U32, 1)
    return write(path, File(pairs=[pair, pair]))


def part_of_a_block(path: Path, _: Variant) -> Path:
    return _with(path, Tensor("a", (1, 33), bytes(36), kind=2))


def big_endian(path: Path, _: Variant) -> Path:
    return write(path, b"GGUF" + struct.pack(">IQQ", 3, 0, 0))


def version_of_the_future(path: Path, _: Variant) -> Path:
    return write(path, b"GGUF" + struct.pack("<IQQ", 9, 0, 0))


def array_of_arrays(path: Path, _: Variant) -> Path:
    """A list whose length is more than there are bytes."""
    pair = string("a") + struct.pack("<IIQ", ARRAY, STRING, 1 << 60)
    return write(path, File(pairs=[pair]))


def name_not_utf8(path: Path, _: Variant) -> Path:
    return _with(path, Tensor(b"\xff\xfe", (4,), bytes(16)))


# folders


def nothing(path: Path, _: Variant) -> Path:
    (path / "notes.txt").write_text("no weights here")
    return path


def adapter(path: Path, of: Variant) -> Path:
    folder = one_file(path, of)
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text("{}")
    return folder


def several(path: Path, of: Variant) -> Path:
    folder = one_file(path, of)
    gguf(folder, of)
    return folder


def link_out(path: Path, of: Variant) -> Path:
    folder = one_file(path, of)
    (folder / "model.safetensors").rename(path / "elsewhere.safetensors")
    (folder / "model.safetensors").symlink_to(path / "elsewhere.safetensors")
    return folder


def snapshot(path: Path, of: Variant) -> Path:
    """The Hub's cache: names in a snapshot are links to blobs beside it."""
    made = one_file(path, of)
    blobs, links = path / "models--a--b" / "blobs", path / "models--a--b" / "snapshots" / "0123"
    blobs.mkdir(parents=True)
    links.mkdir(parents=True)
    for number, file in enumerate(sorted(made.iterdir())):
        file.rename(blobs / f"{number:040}")
        (links / file.name).symlink_to(Path("..", "..", "blobs", f"{number:040}"))
    return links
