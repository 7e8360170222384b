"""Tensors from a checkpoint into a definition: by the ledger, parameter by parameter, ties kept."""

import dataclasses
import itertools
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from openmodelatlas.errors import CheckpointError
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Finding, Ledger, StoredTensor, TensorRow
from openmodelatlas.weights import steps
from openmodelatlas.weights.dequantise import dequantise
from openmodelatlas.weights.gguf import GGUFFile
from openmodelatlas.weights.ledger import metadata_findings, tensor_findings
from openmodelatlas.weights.memory import preflight

FREQUENCY_TOLERANCE = 1e-5  # relative; the divisors are float32 in the file and in the definition
ROWS_AT_ONCE = 4096


def load(
    file: GGUFFile,
    variant: Variant,
    ledger: Ledger,
    *,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    progress: Progress | None = None,
) -> nn.Module:
    """The model with the file's weights. CheckpointError names the first thing in the ledger that does not hold."""
    target = torch.device(device)
    refuse(ledger, str(file.path))
    preflight(ledger, dtype, target, str(file.path))
    model = variant.build("meta", dtype)
    done = 0
    for _, group in itertools.groupby(ledger.rows, lambda row: row.parameter):
        rows = [row for row in group if row.parameter is not None and row.stored is not None]
        if not rows:
            continue
        pieces = (_read(file, row, variant).to(device=target, dtype=dtype) for row in rows)
        weight = steps.stack_experts(pieces, len(rows)) if steps.STACK in rows[0].steps else next(pieces)
        _assign(model, rows[0], nn.Parameter(weight, requires_grad=False))
        done += sum(row.stored.bytes for row in rows if row.stored is not None)
        if progress is not None:
            progress("reading tensors", done, ledger.stored_bytes)
    if wrong := constant_findings(file, variant, ledger):
        raise refusal(wrong, str(file.path))
    empty = [
        name for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()) if tensor.is_meta
    ]
    if empty:  # the ledger has a row for every parameter, so this is a mistake of ours
        raise CheckpointError("parameters were left without values", where=str(file.path), found=", ".join(empty[:5]))
    return model


def refuse(ledger: Ledger, where: str) -> None:
    """CheckpointError if the ledger has a finding."""
    if found := tensor_findings(ledger) + metadata_findings(ledger):
        raise refusal(found, where)


def refusal(found: list[Finding], where: str) -> CheckpointError:
    """The first finding as an error that says how many there are."""
    first = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return CheckpointError(
        f"not as the definition has it: {first.where}{more}",
        where=where,
        expected=first.expected,
        found=first.found,
        fix="`oma verify` lists everything",
    )


def _read(file: GGUFFile, row: TensorRow, variant: Variant) -> Tensor:
    assert row.stored is not None
    values = dequantise(file.tensor_bytes(row.stored.name), row.stored)
    return steps.apply(values, row.steps, variant.config)


def _assign(model: nn.Module, row: TensorRow, parameter: nn.Parameter) -> None:
    """One Parameter object for all owners, so that a tie stays a tie."""
    assert row.parameter is not None
    leaf = row.parameter.rpartition(".")[2]
    for owner in row.owners:
        setattr(model.get_submodule(owner), leaf, parameter)


def constant_findings(file: GGUFFile, variant: Variant, ledger: Ledger) -> list[Finding]:
    """Stored tensors that are no parameters, held against what the definition computes or the parameter they repeat."""
    parameters = {row.parameter: row.stored for row in ledger.rows if row.parameter and row.stored}
    found = []
    for row in ledger.rows:
        if row.stored is None or row.parameter is not None or not row.steps:
            continue
        held = row.steps[0].removeprefix("must equal ")
        if held == "frequency_divisors":
            found += _unlike(row.stored, dequantise(file.tensor_bytes(row.stored.name), row.stored), variant)
        elif held in parameters and not _repeats(file, row.stored, parameters[held]):
            what = f"the values of {held}, which it repeats"
            found.append(Finding(check="tensors", where=row.stored.name, expected=what, found="others"))
    return found


def _unlike(tensor: StoredTensor, stored: Tensor, variant: Variant) -> list[Finding]:
    expected = _frequency_divisors(variant)
    if stored.shape == expected.shape and torch.allclose(stored, expected, rtol=FREQUENCY_TOLERANCE, atol=0.0):
        return []
    return [Finding(check="tensors", where=tensor.name, expected=_few(expected), found=_few(stored))]


def _repeats(file: GGUFFile, copy: StoredTensor, of: StoredTensor) -> bool:
    """Whether two stored tensors hold the same values, read a few rows at a time."""
    if copy.shape != of.shape:
        return False
    rows = of.shape[0]
    for start in range(0, rows, ROWS_AT_ONCE):
        end = min(start + ROWS_AT_ONCE, rows)
        if not torch.equal(_rows(file, copy, start, end), _rows(file, of, start, end)):
            return False
    return True


def _rows(file: GGUFFile, tensor: StoredTensor, start: int, end: int) -> Tensor:
    each = tensor.bytes // tensor.shape[0]  # blocks of a storage type never run over the end of a row
    data = file.tensor_bytes(tensor.name)[start * each : end * each]
    return dequantise(data, dataclasses.replace(tensor, shape=(end - start, *tensor.shape[1:]), bytes=len(data)))


def _frequency_divisors(variant: Variant) -> Tensor:
    """By how much `rope.scale` divides each frequency, from the definition's own modules."""
    rope = variant.build("meta").get_submodule("rope")
    frequencies = rope.get_submodule("frequencies")(torch.device("cpu"))
    divisors: Tensor = frequencies / rope.get_submodule("scale")(frequencies)
    return divisors


def _few(values: Tensor) -> str:
    flat: Iterator[float] = iter(values.flatten()[:: max(1, values.numel() // 4)].tolist())
    return f"{values.numel()} values such as " + ", ".join(f"{value:.5g}" for value in flat)
