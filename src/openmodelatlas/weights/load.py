"""Tensors from a checkpoint into a definition: by the ledger, parameter by parameter, ties kept."""

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from openmodelatlas.errors import CheckpointError
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Finding, Ledger, TensorRow
from openmodelatlas.weights import steps
from openmodelatlas.weights.dequantise import dequantise
from openmodelatlas.weights.gguf import GGUFFile
from openmodelatlas.weights.ledger import metadata_findings, tensor_findings
from openmodelatlas.weights.memory import preflight

FREQUENCY_TOLERANCE = 1e-5  # relative; the divisors are float32 in the file and in the definition


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
    for row in ledger.rows:
        if row.parameter is None or row.stored is None:
            continue
        weight = _read(file, row, variant).to(device=target, dtype=dtype)
        _assign(model, row, nn.Parameter(weight, requires_grad=False))
        done += row.stored.bytes
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
    """Stored tensors that are no parameters, held against what the definition computes."""
    found = []
    for row in ledger.rows:
        if row.stored is None or row.parameter is not None or row.steps != ("must equal frequency_divisors",):
            continue
        stored = dequantise(file.tensor_bytes(row.stored.name), row.stored)
        expected = _frequency_divisors(variant)
        if stored.shape != expected.shape or not torch.allclose(stored, expected, rtol=FREQUENCY_TOLERANCE, atol=0.0):
            found.append(Finding(check="tensors", where=row.stored.name, expected=_few(expected), found=_few(stored)))
    return found


def _frequency_divisors(variant: Variant) -> Tensor:
    """By how much `rope.scale` divides each frequency, from the definition's own modules."""
    rope = variant.build("meta").get_submodule("rope")
    frequencies = rope.get_submodule("frequencies")(torch.device("cpu"))
    divisors: Tensor = frequencies / rope.get_submodule("scale")(frequencies)
    return divisors


def _few(values: Tensor) -> str:
    flat: Iterator[float] = iter(values.flatten()[:: max(1, values.numel() // 4)].tolist())
    return f"{values.numel()} values such as " + ", ".join(f"{value:.5g}" for value in flat)
