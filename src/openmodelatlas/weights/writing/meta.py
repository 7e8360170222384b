"""Tensors as a file of `torch.save`, whose tensors Meta's checkpoints are, written one piece at a time.

The pickle inside holds a dictionary of names and of calls that rebuild tensors; their numbers stand in entries of the
zip of their own. `torch.save` would want all of them in memory at once."""

import collections
import io
import pickle
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from openmodelatlas.weights.writing.outgoing import Outgoing
from openmodelatlas.weights.writing.written import raw

ALIGNMENT = 64
PROTOCOL = 2
_STORAGES = {
    torch.float64: torch.DoubleStorage,
    torch.float32: torch.FloatStorage,
    torch.bfloat16: torch.BFloat16Storage,
    torch.float16: torch.HalfStorage,
}
_ZIP64_FIELD = 20  # bytes that a local header gets besides, for the two lengths
_LOCAL_HEADER = 30


class _Storage:
    """The numbers of one tensor, which stand in the entry `data/KEY`."""

    def __init__(self, key: str, tensor: Outgoing) -> None:
        self.key, self.tensor = key, tensor


class _Rebuilt:
    """A tensor as the pickle has it: a call with the storage, its place in it, shape and strides."""

    def __init__(self, storage: _Storage) -> None:
        self.storage = storage


class _Pickler(pickle.Pickler):
    def persistent_id(self, thing: Any) -> Any:
        """What stands for a storage."""
        if not isinstance(thing, _Storage):
            return None
        tensor = thing.tensor
        return "storage", _STORAGES[tensor.dtype], thing.key, "cpu", torch.Size(tensor.shape).numel()

    def reducer_override(self, thing: Any) -> Any:
        """How a tensor is rebuilt: the call that `torch.save` writes."""
        if not isinstance(thing, _Rebuilt):
            return NotImplemented
        shape = thing.storage.tensor.shape
        strides = torch.empty(shape, device="meta").stride()
        call: Any = getattr(torch, "_utils")._rebuild_tensor_v2  # noqa: B009 - the name is part of the format
        return call, (thing.storage, 0, shape, strides, False, collections.OrderedDict())


def write(path: Path, tensors: Sequence[Outgoing], wrote: Callable[[int], None]) -> None:
    """One `consolidated.NN.pth`."""
    storages = [_Storage(str(number), tensor) for number, tensor in enumerate(tensors)]
    root = path.stem
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED) as archive:
        for name, content in _leading(storages).items():
            _entry(archive, f"{root}/{name}", [content])
        for storage in storages:
            pieces = (raw(piece) for piece in storage.tensor.pieces())
            _entry(archive, f"{root}/data/{storage.key}", pieces, wrote)
        _entry(archive, f"{root}/version", [b"3\n"])


def _leading(storages: Sequence[_Storage]) -> Mapping[str, bytes]:
    pickled = io.BytesIO()
    _Pickler(pickled, PROTOCOL).dump({storage.tensor.name: _Rebuilt(storage) for storage in storages})
    return {"data.pkl": pickled.getvalue(), "byteorder": b"little"}


def _entry(archive: zipfile.ZipFile, name: str, contents: Any, wrote: Callable[[int], None] = lambda _: None) -> None:
    """An entry whose bytes begin at a multiple of ALIGNMENT, so that they can be mapped."""
    info = zipfile.ZipInfo(name)
    assert archive.fp is not None
    begin = archive.fp.tell() + _LOCAL_HEADER + len(name.encode()) + _ZIP64_FIELD
    padding = -(begin + 4) % ALIGNMENT
    info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding  # as torch pads
    with archive.open(info, "w", force_zip64=True) as entry:
        for content in contents:
            entry.write(content)
            wrote(len(content))
