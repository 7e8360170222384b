"""How much memory a load will take, and how much there is."""

import contextlib
import ctypes
import os
from pathlib import Path

import torch

from openmodelatlas.errors import CheckpointError
from openmodelatlas.records.report import Ledger

GIB = 1 << 30


def needed(ledger: Ledger, dtype: torch.dtype) -> int:
    """Bytes for all parameters in `dtype`, and for the largest one twice over while it is converted from float32."""
    largest = max((_numel(row.shape) for row in ledger.rows if row.shape), default=0)
    return ledger.parameters * dtype.itemsize + 2 * largest * 4


def _numel(shape: tuple[int, ...] | None) -> int:
    count = 1
    for size in shape or ():
        count *= size
    return count


def available(device: torch.device) -> int | None:
    """Bytes that can be taken on `device` now; None where the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found = [limit for limit in (_meminfo(), _cgroup(), _physical()) if limit is not None]
    return min(found, default=None)


def _meminfo() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cgroup() -> int | None:
    """What a container's limit leaves. Page cache counts as used there, though it would be given back: added again."""
    root = Path("/sys/fs/cgroup")
    try:
        limit, used = (root / "memory.max").read_text().strip(), int((root / "memory.current").read_text())
        lines = (line.split() for line in (root / "memory.stat").read_text().splitlines())
        cached = next((int(line[1]) for line in lines if line[0] == "file"), 0)
        return None if limit == "max" else max(int(limit) - used + cached, 0)
    except (OSError, ValueError):
        return None


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def give_back() -> None:
    """Return freed memory to the system, where the C library would keep it: gaps between tensors that stay, which the
    next one does not fit into, would add up to a multiple of the largest."""
    with contextlib.suppress(AttributeError, OSError):  # another C library, which has no such call
        ctypes.CDLL(None).malloc_trim(0)


def preflight(ledger: Ledger, dtype: torch.dtype, device: torch.device, where: str) -> None:
    """CheckpointError if the parameters cannot fit, before a single tensor is read."""
    need, there = needed(ledger, dtype), available(device)
    if there is not None and need > there:
        raise CheckpointError(
            f"too large for the memory of {device.type} in {str(dtype).removeprefix('torch.')}",
            where=where,
            expected=f"{need / GIB:.1f} GiB",
            found=f"{there / GIB:.1f} GiB available",
            fix="take a smaller dtype or a smaller model",
        )
