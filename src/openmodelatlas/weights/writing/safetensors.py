"""Tensors as safetensors files: header first, then every tensor in turn, so that one piece is in memory at a time."""

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from openmodelatlas.weights.writing.outgoing import KEPT, Outgoing
from openmodelatlas.weights.writing.written import raw

INDEX = "model.safetensors.index.json"
ALIGNMENT = 8
Wrote = Callable[[int], None]
"""Called with the number of bytes after every piece."""


def parts(tensors: Sequence[Outgoing], shard_size: int) -> list[list[Outgoing]]:
    """The tensors in order, in as many files as that no file is longer than `shard_size`, one larger tensor apart."""
    found: list[list[Outgoing]] = [[]]
    size = 0
    for tensor in tensors:
        if found[-1] and size + tensor.bytes > shard_size:
            found.append([])
            size = 0
        found[-1].append(tensor)
        size += tensor.bytes
    return found


def write_folder(folder: Path, tensors: Sequence[Outgoing], shard_size: int, wrote: Wrote) -> None:
    """`model.safetensors`, or shards with their index."""
    shards = parts(tensors, shard_size)
    if len(shards) == 1:
        write(folder / "model.safetensors", tensors, wrote)
        return
    places: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write(folder / name, shard, wrote)
        places |= {tensor.name: name for tensor in shard}
    index = {"metadata": {"total_size": sum(tensor.bytes for tensor in tensors)}, "weight_map": places}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def write(path: Path, tensors: Sequence[Outgoing], wrote: Wrote) -> None:
    """One file. Larger elements first, so that every tensor starts at a multiple of its element."""
    ordered = sorted(tensors, key=lambda tensor: -tensor.dtype.itemsize)
    with path.open("xb") as file:
        file.write(_header(ordered))
        for tensor in ordered:
            for piece in tensor.pieces():
                file.write(raw(piece))
                wrote(piece.nbytes)


def _header(tensors: Sequence[Outgoing]) -> bytes:
    text = json.dumps(dict(_entries(tensors)), ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def _entries(tensors: Sequence[Outgoing]) -> Iterator[tuple[str, object]]:
    yield "__metadata__", {"format": "pt"}
    at = 0
    for tensor in tensors:
        offsets = [at, at + tensor.bytes]
        yield tensor.name, {"dtype": KEPT[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        at += tensor.bytes
