"""Checkpoints of any size whose headers are real and whose values take no room: sparse files of zeros."""

import json
import math
import struct
from pathlib import Path

from openmodelatlas.models.variant import Variant
from openmodelatlas.weights.naming import block_pattern, name_table, pieces
from openmodelatlas.weights.writing.stated import nested, stated

BYTES = 2  # of a BF16 value


def huggingface_folder(path: Path, of: Variant, shards: int) -> tuple[int, int]:
    """A folder in Hugging Face's layout with so many shards; the bytes that its tensors seem to take, and how many
    tensors there are."""
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(nested(stated(of, "huggingface"))))
    tensors = _tensors(of)
    places, total = {}, 0
    for number in range(shards):
        part = tensors[number * len(tensors) // shards : (number + 1) * len(tensors) // shards]
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        total += _write(path / name, part)
        places |= dict.fromkeys((stored for stored, _ in part), name)
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    return total, len(tensors)


def _tensors(of: Variant) -> list[tuple[str, tuple[int, ...]]]:
    names = {row.parameter: row.stored for row in name_table(of.family, "huggingface").tensors}
    found = []
    for parameter, meant in of.build("meta").named_parameters():
        pattern, index = block_pattern(parameter)
        stored = pieces(names[pattern], index, meant.shape[0])
        shape = tuple(meant.shape) if len(stored) == 1 else tuple(meant.shape[1:])
        found += [(name, shape) for name in stored]
    return found


def _write(path: Path, tensors: list[tuple[str, tuple[int, ...]]]) -> int:
    header, at = {}, 0
    for name, shape in tensors:
        end = at + math.prod(shape) * BYTES
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    return at
