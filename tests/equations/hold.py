"""Hold every module of a model against its statement, on the values that really went in and came out."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from openmodelatlas.trace import docs

from .statements import STATEMENTS, Statement

Array = np.ndarray


@dataclass(frozen=True)
class Captured:
    """One call of one module: every tensor by port, before and after, its parameters and its constants."""

    path: str
    op: str
    equation: str
    weights: dict[str, Tensor]
    constants: dict[str, Any]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]


@functools.cache
def equation(kind: type[nn.Module]) -> str:
    """What the class's docstring prints."""
    return docs.page(kind).equation


def ports(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """Tensors of an argument or result, the fields of a tuple by name."""
    if isinstance(value, Tensor):
        yield name, value
    elif hasattr(value, "_fields"):
        for field in value._fields:
            yield from ports(f"{name}.{field}" if name else field, getattr(value, field))


def capture(model: nn.Module, *args: Any) -> list[Captured]:
    """Every call of what has an equation, in one forward. Arguments are copied before the call may write into them."""
    found: list[Captured] = []
    before: dict[str, dict[str, Tensor]] = {}

    def enter(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, given: Any, named: Any) -> None:
            bound = inspect.signature(module.forward).bind(*given, **named).arguments
            before[path] = {p: t.clone() for name, value in bound.items() for p, t in ports(name, value)}

        return hook

    def leave(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, _given: Any, result: Any) -> None:
            name = "out" if isinstance(result, Tensor) else ""
            outputs = {p: t.clone() for p, t in ports(name, result)}
            weights = {n: p.detach().clone() for n, p in module.named_parameters()}
            kind = type(module)
            constants = numbers(module)
            found.append(Captured(path, kind.__name__, equation(kind), weights, constants, before.pop(path), outputs))

        return hook

    with contextlib.ExitStack() as stack:
        for path, module in model.named_modules():
            if equation(type(module)):
                stack.callback(module.register_forward_pre_hook(enter(path), with_kwargs=True).remove)
                stack.callback(module.register_forward_hook(leave(path)).remove)
        stack.enter_context(torch.no_grad())
        model(*args)
    return found


def numbers(module: nn.Module) -> dict[str, Any]:
    """The constants that a module was made with."""
    names = inspect.signature(type(module).__init__).parameters
    return {n: vars(module)[n] for n in names if n in vars(module)}


def numpy(value: Tensor) -> Array:
    """In float64, integers as they are."""
    return value.double().numpy() if value.is_floating_point() else value.numpy()


def rounded(values: Array, dtype: torch.dtype) -> Array:
    """Rounded to a dtype once, in float64."""
    return torch.from_numpy(np.asarray(values)).to(dtype).double().numpy()


@dataclass(frozen=True)
class Held:
    """How far a module is from its statement: in units of its results' epsilon, relative to their largest magnitude;
    and which part of the elements differs from the statement rounded once by more than float32 computes it."""

    path: str
    op: str
    dtype: torch.dtype
    composite: bool
    epsilons: float
    differing: float
    wrong: str

    def within(self, epsilons: float, differing: float) -> bool:
        return not self.wrong and self.epsilons <= epsilons and self.differing <= differing


EPSILONS = 8.0
"""Measured: 5.4 at most, over every node, variant and dtype, in float64 and float32."""

NOISE = 4.0
"""Epsilons of float32 at the largest result: what a difference of two nearly equal numbers may be off."""


def holds(held: Held) -> bool:
    """Within noise; in bfloat16 an op's result is its statement rounded as stated, but for a few ties. What rounds
    inside, too, is held by its parts there."""
    if held.dtype != torch.bfloat16:
        return held.within(EPSILONS, 1.0)
    return held.within(4.0, 1.0) if held.composite else held.within(0.51, 0.02)


def hold(call: Captured) -> Held:
    """Hold one call against its statement."""
    statement = STATEMENTS[call.op, call.equation]
    given = {name: numpy(t) for name, t in call.inputs.items()}
    weights = {name: numpy(t) for name, t in call.weights.items()}
    dtype = expected_dtype(statement, call)
    inner = next((t.dtype for t in call.inputs.values() if t.is_floating_point()), dtype)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        made = statement.compute(given, weights, call.constants, lambda v: rounded(v, inner))
    if not isinstance(made, dict):
        made = {"out": made}
    judged = functools.partial(Held, call.path, call.op, dtype, statement.composite)
    if set(made) != set(call.outputs):
        return judged(0.0, 0.0, f"results {sorted(call.outputs)}")
    worst, differing = 0.0, 0.0
    for port, values in made.items():
        out, wanted = call.outputs[port], torch.int64 if values.dtype.kind == "i" else dtype
        if out.dtype != wanted or tuple(out.shape) != values.shape:
            return judged(0.0, 0.0, f"{port} is {out.dtype} {tuple(out.shape)}, not {wanted} {values.shape}")
        far, part = compare(numpy(out), values, wanted)
        worst, differing = max(worst, far), max(differing, part)
    return judged(worst, differing, "")


def expected_dtype(statement: Statement, call: Captured) -> torch.dtype:
    """The dtype that the docstring states; where that is float32, float64 for a model that runs in float64."""
    if statement.dtype.startswith("="):
        name = statement.dtype[1:]
        given = call.inputs.get(name)
        return call.weights[name].dtype if given is None else given.dtype
    wide = any(given.dtype == torch.float64 for given in call.inputs.values())
    return torch.float64 if wide else torch.float32


def compare(ours: Array, wanted: Array, dtype: torch.dtype) -> tuple[float, float]:
    """Distance in epsilons of the dtype, and the part of the elements that is not the statement rounded once, but for
    what float32 cannot tell beside the largest. Whole numbers are equal or not."""
    if not dtype.is_floating_point:
        return (0.0, 0.0) if np.array_equal(ours, wanted) else (float("inf"), 1.0)
    finite = np.isfinite(wanted)
    if not np.array_equal(finite, np.isfinite(ours)) or not np.array_equal(ours[~finite], wanted[~finite]):
        return float("inf"), 1.0
    ours, wanted = ours[finite], wanted[finite]
    if not len(ours):
        return 0.0, 0.0
    scale = np.abs(wanted).max() or 1.0
    noise = NOISE * torch.finfo(torch.float32).eps * scale
    differing = np.abs(ours - rounded(wanted, dtype)) > noise
    return float(np.abs(ours - wanted).max() / scale / torch.finfo(dtype).eps), float(differing.mean())
