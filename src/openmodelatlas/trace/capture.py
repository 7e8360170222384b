"""Run a model on real values and keep a summary of every value under the id that it has on the map."""

import contextlib
import inspect
import re
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas.records.report import ValueSummary
from openmodelatlas.trace.regions import BLOCKS, kinds
from openmodelatlas.trace.run import Hook, leaves

_BLOCK = re.compile(rf"{BLOCKS}\.(\d+)(?=\.|$)")


def summaries(model: nn.Module, tokens: Tensor, positions: Tensor) -> tuple[ValueSummary, ...]:
    """Every floating-point value of one uncached forward, in call order; `tokens`, `positions` `[B, T]`.

    A value stands once, under its canonical id: that of the op that made it, or of the block that takes or gives it.
    Figures are over finite elements, since a mask holds minus infinity, and are computed in float64.
    """
    recorder = _Recorder(model)
    with contextlib.ExitStack() as stack:
        for path, module in model.named_modules():
            for handle in recorder.watch(path, module):
                stack.callback(handle.remove)
        stack.enter_context(torch.no_grad())
        model(tokens, positions)
    return tuple(recorder.found)


def op_values(model: nn.Module, tokens: Tensor, positions: Tensor) -> dict[str, Tensor]:
    """Every floating-point result of an op in one uncached forward, in call order, by `MODULE PATH:PORT`."""
    found: dict[str, Tensor] = {}

    def watch(path: str) -> Hook:
        def hook(_module: nn.Module, _args: Any, result: Any) -> None:
            for port, value in leaves("out" if isinstance(result, Tensor) else "", result):
                if value.is_floating_point():
                    found[f"{path}:{port}"] = value.detach()

        return hook

    with contextlib.ExitStack() as stack:
        for path, module in model.named_modules():
            if next(module.children(), None) is None:
                stack.callback(module.register_forward_hook(watch(path)).remove)
        stack.enter_context(torch.no_grad())
        model(tokens, positions)
    return found


class _Recorder:
    """What the hooks share. A block's output is also its last op's: that op's entry is renamed when the block ends."""

    def __init__(self, model: nn.Module) -> None:
        self.found: list[ValueSummary] = []
        self._regions = {f"{BLOCKS}.{i}": kind for i, kind in enumerate(kinds(model))}
        self._made: dict[int, tuple[Tensor, int]] = {}  # holds the tensor, so that its id stays its own

    def watch(self, path: str, module: nn.Module) -> list[Any]:
        """Hooks for one module: its results if it is an op, what enters and leaves if it is a block."""
        if path in self._regions:
            return [
                module.register_forward_pre_hook(self._enter(path), with_kwargs=True),
                module.register_forward_hook(self._leave(path)),
            ]
        if next(module.children(), None) is None:
            return [module.register_forward_hook(self._op(path))]
        return []

    def _id(self, path: str) -> tuple[str, int | None]:
        match = _BLOCK.match(path)
        return (path, None) if match is None else (self._regions[match[0]] + path[match.end() :], int(match[1]))

    def _op(self, path: str) -> Hook:
        node, index = self._id(path)

        def hook(_module: nn.Module, _args: Any, result: Any) -> None:
            name = "out" if isinstance(result, Tensor) else ""
            for port, value in leaves(name, result):
                if value.is_floating_point():
                    self._made[id(value)] = (value, len(self.found))
                    self.found.append(summary(f"{node}:{port}", index, value))

        return hook

    def _enter(self, path: str) -> Hook:
        node, index = self._id(path)

        def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
            first = next(iter(inspect.signature(module.forward).bind(*args, **kwargs).arguments.values()))
            self._made.clear()
            self.found.append(summary(f"{node}:in", index, first))

        return hook

    def _leave(self, path: str) -> Hook:
        node, index = self._id(path)

        def hook(_module: nn.Module, _args: Any, result: Tensor) -> None:
            taken = summary(f"{node}:out", index, result)
            if id(result) in self._made:
                self.found[self._made[id(result)][1]] = taken
            else:
                self.found.append(taken)

        return hook


def summary(tensor: str, index: int | None, value: Tensor) -> ValueSummary:
    """The figures of one value, over its finite elements; all zero where there are none."""
    finite = value.detach().double()
    finite = finite[finite.isfinite()]
    empty = finite.numel() == 0
    return ValueSummary(
        tensor=tensor,
        index=index,
        shape=tuple(value.shape),
        dtype=str(value.dtype).removeprefix("torch."),
        mean=0.0 if empty else float(finite.mean()),
        spread=0.0 if empty else float(finite.std(correction=0)),
        norm=float(finite.norm()),
        minimum=0.0 if empty else float(finite.min()),
        maximum=0.0 if empty else float(finite.max()),
    )
