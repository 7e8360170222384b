"""Tensors from a checkpoint into a definition: by the ledger, parameter by parameter, ties kept."""

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from openmodelatlas.errors import CheckpointError
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding, Ledger, StoredTensor, TensorRow
from openmodelatlas.weights import steps
from openmodelatlas.weights.ledger import metadata_findings, tensor_findings
from openmodelatlas.weights.memory import give_back, preflight
from openmodelatlas.weights.opened import Opened

FREQUENCY_TOLERANCE = 1e-5  # relative; the divisors are float32 in the file and in the definition
ROWS_AT_ONCE = 4096


def load(
    file: Opened,
    variant: Variant,
    ledger: Ledger,
    *,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    progress: Progress | None = None,
) -> nn.Module:
    """The model with the file's weights. CheckpointError names the first thing in the ledger that does not hold."""
    target = torch.device(device)
    refuse(ledger, file.header.path)
    preflight(ledger, dtype, target, file.header.path)
    model = variant.build("meta", dtype)
    done = 0
    for _, group in itertools.groupby(ledger.rows, lambda row: row.parameter):
        rows = [row for row in group if row.parameter is not None and row.stored is not None]
        if not rows:
            continue
        if steps.STACK in rows[0].steps:
            weight = torch.empty((len(rows), *(rows[0].shape or ())), dtype=dtype, device=target)
            for place, row in zip(weight, rows, strict=True):
                place.copy_(_read(file, row, variant))
                give_back()
        else:
            weight = _read(file, rows[0], variant).to(device=target, dtype=dtype)
            give_back()
        _assign(model, rows[0], nn.Parameter(weight, requires_grad=False))
        done += sum(row.stored.bytes for row in rows if row.stored is not None)
        if progress is not None:
            progress("reading tensors", done, ledger.stored_bytes)
    if wrong := constant_findings(file, variant, ledger):
        raise refusal(wrong, file.header.path)
    empty = [
        name for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()) if tensor.is_meta
    ]
    if empty:  # the ledger has a row for every parameter, so this is a mistake of ours
        raise CheckpointError("parameters were left without values", where=file.header.path, found=", ".join(empty[:5]))
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
        f"{first.title} at {first.where}{more}",
        where=where,
        expected=first.expected,
        found=first.found,
        fix="`oma verify` lists everything",
        code=first.code,
    )


def _read(file: Opened, row: TensorRow, variant: Variant) -> Tensor:
    assert row.stored is not None
    return steps.apply(file.values(row.stored.name), row.steps, variant.config)


def _assign(model: nn.Module, row: TensorRow, parameter: nn.Parameter) -> None:
    """One Parameter object for all owners, so that a tie stays a tie."""
    assert row.parameter is not None
    leaf = row.parameter.rpartition(".")[2]
    for owner in row.owners:
        setattr(model.get_submodule(owner), leaf, parameter)


def constant_findings(file: Opened, variant: Variant, ledger: Ledger, *, copies: bool = True) -> list[Finding]:
    """Stored tensors that are no parameters, held against what the definition computes or the parameter they repeat.

    `copies` False: those that repeat a parameter are not read, since they are as large as it is."""
    parameters = {row.parameter: row.stored for row in ledger.rows if row.parameter and row.stored}
    found = []
    for row in ledger.rows:
        if row.stored is None or row.parameter is not None or not row.steps:
            continue
        held = row.steps[0].removeprefix("must equal ")
        if held == "frequency_divisors":
            found += _unlike(row.stored, file.values(row.stored.name), variant)
        elif copies and held in parameters and not _repeats(file, row.stored, parameters[held]):
            what = f"the values of {held}, which it repeats"
            found.append(finding("tensors.copy", row.stored.name, expected=what, found="others"))
    return found


def _unlike(tensor: StoredTensor, stored: Tensor, variant: Variant) -> list[Finding]:
    expected, stored = frequency_divisors(variant), stored.to(torch.float32)
    if stored.shape == expected.shape and torch.allclose(stored, expected, rtol=FREQUENCY_TOLERANCE, atol=0.0):
        return []
    return [finding("tensors.constant", tensor.name, expected=_few(expected), found=_few(stored))]


def _repeats(file: Opened, copy: StoredTensor, of: StoredTensor) -> bool:
    """Whether two stored tensors hold the same values, read a few rows at a time."""
    if copy.shape != of.shape:
        return False
    rows = of.shape[0]
    for start in range(0, rows, ROWS_AT_ONCE):
        end = min(start + ROWS_AT_ONCE, rows)
        if not torch.equal(file.values(copy.name, start, end), file.values(of.name, start, end)):
            return False
    return True


def frequency_divisors(variant: Variant) -> Tensor:
    """By how much `rope.scale` divides each frequency, from the definition's own modules."""
    rope = variant.build("meta").get_submodule("rope")
    frequencies = rope.get_submodule("frequencies")(torch.device("cpu"))
    divisors: Tensor = frequencies / rope.get_submodule("scale")(frequencies)
    return divisors


def _few(values: Tensor) -> str:
    flat: Iterator[float] = iter(values.flatten()[:: max(1, values.numel() // 4)].tolist())
    return f"{values.numel()} values such as " + ", ".join(f"{value:.5g}" for value in flat)
