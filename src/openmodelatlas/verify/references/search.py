"""Where the library `transformers` has given values: every module's and every torch function's result is looked at.

`options`: those of the adapter `hub`, and `wanted`, by node the values looked for (`blocks.0.ffn_norm`, ...). The
answer has, by node with `{i}` for its block, the rows of a table of points that lead to its value, the likeliest first.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas.verify.parity_distances import distance
from openmodelatlas.verify.references import hub
from openmodelatlas.verify.references.exchange import Request
from openmodelatlas.verify.references.watch import LAYOUTS, Shape, Watcher

EQUAL = 1e-4
"""Relative; another value of a twin with random weights is no nearer than that by chance."""


@dataclass(frozen=True)
class Seen:
    """One value of a run: the row that would lead to it, with `{i}` for the block, and which block it was."""

    row: Mapping[str, Any]
    block: int | None
    value: Tensor


class Recorder(Watcher):
    """Notes every tensor that a module or a torch function inside one takes or returns."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model, 0, ())
        self.seen: list[Seen] = []

    def _note(self, key: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:  # noqa: ARG002 - as the base
        self._busy = True
        try:
            self.seen += _results(key, result)
            self.seen += [_seen(key, value, argument=i) for i, value in enumerate(args) if isinstance(value, Tensor)]
        finally:
            self._busy = False


def _results(key: Any, result: Any) -> Iterator[Seen]:
    if isinstance(result, Tensor):
        yield _seen(key, result)
    for item, value in enumerate(result if isinstance(result, tuple) else ()):
        if isinstance(value, Tensor):
            yield _seen(key, value, item=item)


def _seen(key: Any, value: Tensor, **more: int) -> Seen:
    found = re.search(r"(?<=\.)\d+(?=\.|$)", key.path)
    row: dict[str, Any] = {"at": re.sub(r"(?<=\.)\d+(?=\.|$)", "{i}", key.path, count=1)}
    if key.function is not None:
        row |= {"call": key.function, "nth": key.nth}
    return Seen({**row, **more}, int(found[0]) if found else None, value.detach().clone())


def answer(request: Request, _scratch: Path) -> dict[str, Any]:
    """Run the one case, and look for the values."""
    hub.transformers.logging.set_verbosity_error()
    hub.transformers.logging.disable_progress_bar()
    model = hub.build(request)
    recorder, (case,) = Recorder(model), request["cases"].values()
    with torch.no_grad(), recorder.watching(case["tokens"]):
        model(case["tokens"], position_ids=case["positions"], use_cache=False)
    shape = (case["tokens"].shape[0], case["tokens"].shape[1])
    wanted: Mapping[str, Tensor] = request["options"]["wanted"]
    nodes: dict[str, dict[int | None, Tensor]] = {}
    for name, value in wanted.items():
        found = re.match(r"blocks\.(\d+)", name)
        nodes.setdefault(re.sub(r"^blocks\.\d+", "blocks.{i}", name), {})[int(found[1]) if found else None] = value
    return {"points": {node: rows(recorder.seen, values, shape) for node, values in nodes.items()}}


def rows(seen: list[Seen], wanted: Mapping[int | None, Tensor], shape: Shape) -> list[dict[str, Any]]:
    """Rows that lead to the wanted value in every block that has one: results of modules first, then calls."""
    fitting: dict[str, list[int | None]] = {}
    made: dict[str, dict[str, Any]] = {}
    for one in seen:
        value = wanted.get(one.block)
        layout = None if value is None else _layout(one.value, value, shape)
        if layout is not None:
            row = {**one.row, **({} if layout == "as_is" else {"layout": layout})}
            fitting.setdefault(str(row), []).append(one.block)
            made[str(row)] = row
    whole = [made[key] for key, blocks in fitting.items() if set(blocks) >= set(wanted)]
    return sorted(whole, key=lambda row: ("argument" in row and "call" in row, "argument" in row, "call" in row))


def _layout(value: Tensor, wanted: Tensor, shape: Shape) -> str | None:
    """The layout under which two values are one."""
    for name, layout in LAYOUTS.items():
        with suppress(RuntimeError, IndexError):
            if distance(layout(value, shape), wanted) < EQUAL:
                return name
    return None
