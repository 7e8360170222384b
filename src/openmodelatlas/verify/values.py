"""The check of a checkpoint's numbers: every tensor is read once, a slice at a time."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from openmodelatlas.errors import CheckpointError
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.findings import finding, of_error
from openmodelatlas.records.report import Finding, Ledger, StoredTensor
from openmodelatlas.verify.outcome import Outcome, outcome
from openmodelatlas.weights.opened import Opened

SLICE = 1 << 20
"""Numbers read at once."""
LARGEST_HALF = 65504.0
SHORT_ROW = 16
"""Rows of fewer numbers may be equal by chance, in types of few bits."""
MOST_NOTES = 5
SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
BITS = {torch.float32: torch.int32, torch.float64: torch.int64}
TABLES = ("embed.weight", "unembed.weight")
"""Parameters with a row for each token: unused tokens often have equal rows."""


@dataclass
class Seen:
    """What is kept of a tensor that has gone by. `rows`: a hash of each, `digest` one of all; `broken` numbers are not
    finite, the first of them at `first`."""

    numbers: int = 0
    broken: int = 0
    first: int = 0
    low: float = math.inf
    high: float = -math.inf
    rows: list[np.ndarray] = field(default_factory=list)

    @property
    def constant(self) -> bool:
        """All numbers alike."""
        return self.numbers > 1 and not self.broken and self.low == self.high


def check_values(opened: Opened, ledger: Ledger, progress: Progress) -> Outcome:
    """Every number is finite; no tensor is empty of information; no two repeat each other."""
    findings: list[Finding] = []
    notes: list[str] = []
    parameters = {row.stored.name: row.parameter for row in ledger.rows if row.stored is not None and row.parameter}
    alike: dict[tuple[tuple[int, ...], bytes], list[str]] = defaultdict(list)
    done, total = 0, sum(tensor.bytes for tensor in opened.header.tensors)
    for tensor in opened.header.tensors:
        try:
            seen = _read(opened, tensor)
        except CheckpointError as error:
            if error.code is not None and not error.code.startswith("values."):
                raise  # the file is no longer what it was
            findings.append(of_error(error, "values.unreadable", tensor.name))
        else:
            parameter = parameters.get(tensor.name)
            findings += _broken(tensor, seen)
            if parameter is not None:
                findings += _empty(tensor, parameter, seen, notes)
                findings += _repeated_rows(tensor, parameter, seen, notes)
                if not seen.constant and seen.numbers >= SHORT_ROW:
                    alike[tensor.shape, _digest(seen)].append(tensor.name)
            if LARGEST_HALF < max(seen.high, -seen.low) < math.inf:
                notes.append(f"{tensor.name} has values beyond {LARGEST_HALF:,.0f}, which float16 does not hold")
        done += tensor.bytes
        progress("checking values", done, total)
    for first, *others in alike.values():
        findings += [finding("values.same-tensor", name, expected="values of its own", found=first) for name in others]
    shown = (*notes[:MOST_NOTES], *([f"and {len(notes) - MOST_NOTES} more"] if len(notes) > MOST_NOTES else []))
    return outcome("values", f"{len(opened.header.tensors):,} tensors read", findings, shown)


def _slices(tensor: StoredTensor) -> Iterator[tuple[int, int]]:
    """Ranges of a tensor's first axis with few enough numbers to read at once."""
    rows = 0 if 0 in tensor.shape else tensor.shape[0] if tensor.shape else 1  # 2^60 rows of nothing are nothing
    each = max(1, SLICE // max(1, math.prod(tensor.shape[1:])))
    yield from ((start, min(start + each, rows)) for start in range(0, rows, each))


def _read(opened: Opened, tensor: StoredTensor) -> Seen:
    seen = Seen()
    width = tensor.shape[-1] if len(tensor.shape) > 1 else 1
    for start, end in _slices(tensor):
        values = opened.values(tensor.name, start, end) if tensor.shape else opened.values(tensor.name)
        _add(seen, _plain(values.reshape(-1)), width)
    return seen


def _plain(flat: Tensor) -> Tensor:
    """The numbers in a type that arithmetic is made for: magnitudes of complex ones, and of those without a sign signed
    ones of the same bits."""
    flat = flat.abs() if flat.is_complex() else flat
    if flat.dtype in SIGNED:
        return flat.view(SIGNED[flat.dtype])
    narrow = flat.is_floating_point() and flat.dtype != torch.float64  # of which float32 would make infinities
    return flat.to(torch.float32) if narrow else flat


def _add(seen: Seen, flat: Tensor, width: int) -> None:
    if not flat.numel():
        return
    if flat.is_floating_point():
        finite = flat.isfinite()
        broken = flat.numel() - int(finite.sum())
        if broken and not seen.broken:
            seen.first = seen.numbers + int((~finite).nonzero()[0])
        seen.broken += broken
        if broken:
            flat = flat.nan_to_num(0.0, 0.0, 0.0)
    low, high = flat.aminmax()
    seen.low, seen.high = min(seen.low, float(low)), max(seen.high, float(high))
    seen.numbers += flat.numel()
    seen.rows.append(_row_hashes(flat, width))


def _row_hashes(flat: Tensor, width: int) -> np.ndarray:
    """A number for each row that equal rows share, and others do not but by a chance of 2^-64."""
    bits = (flat + 0.0).view(BITS[flat.dtype]) if flat.dtype in BITS else flat
    multipliers = np.random.default_rng(width).integers(-(1 << 62), 1 << 62, width, dtype=np.int64) | 1
    with np.errstate(over="ignore"):
        mixed = bits.numpy().astype(np.int64).reshape(-1, width)
        mixed = (mixed ^ (mixed << 17)) * multipliers
        hashes: np.ndarray = mixed.sum(axis=1)
    return hashes


def _digest(seen: Seen) -> bytes:
    return hashlib.blake2b(b"".join(rows.tobytes() for rows in seen.rows), digest_size=16).digest()


def _broken(tensor: StoredTensor, seen: Seen) -> list[Finding]:
    if not seen.broken:
        return []
    found = f"{seen.broken:,} of {seen.numbers:,} are not, the first at {_place(tensor.shape, seen.first)}"
    return [finding("values.not-finite", tensor.name, expected="finite numbers", found=found)]


def _place(shape: tuple[int, ...], flat: int) -> str:
    found: list[int] = []
    for size in reversed(shape):
        flat, index = divmod(flat, size)
        found.insert(0, index)
    return str(found)


def _empty(tensor: StoredTensor, parameter: str, seen: Seen, notes: list[str]) -> list[Finding]:
    """A tensor of one value. A vector of ones is what an untrained gain is, and a bias may well be nothing."""
    if not seen.constant:
        return []
    if seen.low == 0.0 and not parameter.endswith(".bias"):
        return [finding("values.zero", tensor.name, expected="trained values", found=f"{seen.numbers:,} zeros")]
    if len(tensor.shape) > 1 and seen.low != 0.0:
        found = f"{seen.numbers:,} times {seen.low:g}"
        return [finding("values.constant", tensor.name, expected="trained values", found=found)]
    notes.append(f"{tensor.name} is {seen.numbers:,} times {seen.low:g}")
    return []


def _repeated_rows(tensor: StoredTensor, parameter: str, seen: Seen, notes: list[str]) -> list[Finding]:
    """Rows that occur twice; of tokens, and of rows that are all zero, they are counted only."""
    if len(tensor.shape) < 2 or tensor.shape[-1] < SHORT_ROW or seen.constant or seen.broken:
        return []
    rows = np.concatenate(seen.rows)
    zero = _row_hashes(torch.zeros(tensor.shape[-1]), tensor.shape[-1])[0]
    _, counts = np.unique(rows[rows != zero], return_counts=True)
    empty, repeated = int((rows == zero).sum()), int(counts.sum() - len(counts))
    if empty:
        notes.append(f"{tensor.name}: {empty:,} of {len(rows):,} rows are zero")
    if repeated and parameter in TABLES:
        notes.append(f"{tensor.name}: {repeated:,} of {len(rows):,} rows repeat another, as those of unused tokens do")
    elif repeated:
        found = f"{repeated:,} of {len(rows):,} repeat another"
        return [finding("values.duplicate-rows", tensor.name, expected="rows that differ", found=found)]
    return []
