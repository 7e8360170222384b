"""Values inside a reference's own functions, without touching its code: module hooks, and a mode that sees every call
of a torch function. A table says which of them is the value of which node."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

INDEX = "{i}"
Shape = tuple[int, int]
"""Rows and positions of a call."""


def as_is(value: Tensor, _shape: Shape) -> Tensor:
    """A value that stands in the definition's axes already."""
    return value


def heads_first(value: Tensor, _shape: Shape) -> Tensor:
    """`[B, H, T, E]` to `[B, T, H, E]`."""
    return value.transpose(1, 2)


def keys_transposed(value: Tensor, _shape: Shape) -> Tensor:
    """`[B, H, E, S]` to `[B, S, H, E]`."""
    return value.permute(0, 3, 1, 2)


def first_half(value: Tensor, _shape: Shape) -> Tensor:
    """`[..., E]` to `[..., E/2]`, where the second half repeats the first."""
    return value[..., : value.shape[-1] // 2]


def flat_positions(value: Tensor, shape: Shape) -> Tensor:
    """`[B*T, ...]` to `[B, T, ...]`."""
    return value.reshape(*shape, *value.shape[1:])


def flat_choices(value: Tensor, shape: Shape) -> Tensor:
    """`[B*T*A, ...]` to `[B, T, A, ...]`."""
    return value.reshape(*shape, -1, *value.shape[1:])


Layout = Callable[[Tensor, Shape], Tensor]
LAYOUTS: Mapping[str, Layout] = {
    layout.__name__: layout
    for layout in (as_is, heads_first, keys_transposed, first_half, flat_positions, flat_choices)
}


@dataclass(frozen=True)
class Point:
    """One value: at module `path` (`{i}` for the block), the result of the module itself, or of the `nth` call of torch
    function `function` inside it (outside its submodules); with `argument`, what goes in there instead; with `item`,
    that one of several. `kind`: only of blocks that the reference gives this kind."""

    node: str
    path: str
    function: str | None = None
    nth: int = 0
    argument: int | str | None = None
    layout: Layout = as_is
    item: int | None = None
    kind: str | None = None

    def value(self, args: Any, kwargs: Mapping[str, Any], result: Any, shape: Shape) -> Tensor:
        """The value that a call leaves here."""
        if self.argument is not None:
            result = kwargs[self.argument] if isinstance(self.argument, str) else args[self.argument]
        if self.item is not None:
            result = result[self.item]
        return self.layout(result, shape)


@dataclass(frozen=True)
class _Key:
    path: str
    function: str | None
    nth: int


class _Mode(TorchFunctionMode):
    def __init__(self, watcher: "Watcher") -> None:
        super().__init__()
        self.watcher = watcher

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.watcher.called(getattr(func, "__name__", str(func)).strip("_"), args, kwargs or {}, result)
        return result


class Watcher:
    """Collects the values of a table's points while a reference runs: of those nodes that `keep` names, or of all.
    `kinds`: what the reference calls each block's kind, if it has several."""

    def __init__(
        self,
        model: nn.Module,
        blocks: int,
        points: Sequence[Point],
        keep: Sequence[str] = (),
        kinds: Sequence[str] = (),
    ) -> None:
        self.model = model
        self.points: dict[_Key, list[Point]] = {}
        for point in points:
            for i in range(blocks) if INDEX in point.path else (0,):
                if point.kind is not None and kinds[i] != point.kind:
                    continue
                filled = replace(point, node=point.node.replace(INDEX, str(i)))
                if not wanted(filled.node, keep):
                    continue
                key = _Key(point.path.replace(INDEX, str(i)), point.function, point.nth)
                self.points.setdefault(key, []).append(filled)
        self.found: dict[str, Tensor] = {}
        self._shape: Shape = (0, 0)
        self._open: list[str] = []
        self._counts: dict[tuple[str, str], int] = {}
        self._busy = False

    @contextmanager
    def watching(self, tokens: Tensor) -> Iterator[dict[str, Tensor]]:
        """Watch one call of the model on those tokens; the values are complete when the block ends."""
        self.found, self._counts, self._open = {}, {}, []
        self._shape = (tokens.shape[0], tokens.shape[1])
        with ExitStack() as stack:
            for path, module in self.model.named_modules():
                stack.callback(module.register_forward_pre_hook(self._enter(path)).remove)
                stack.callback(module.register_forward_hook(self._leave(path), with_kwargs=True).remove)
            stack.enter_context(_Mode(self))
            yield self.found

    def called(self, name: str, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        """A torch function has returned."""
        if self._busy or not self._open:
            return
        path = self._open[-1]
        nth = self._counts.get((path, name), 0)
        self._counts[path, name] = nth + 1
        self._note(_Key(path, name, nth), args, kwargs, result)

    def _note(self, key: _Key, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        for point in self.points.get(key, ()):
            self._busy = True  # a layout is made of torch functions, too
            try:
                self.found[point.node] = (
                    point.value(args, kwargs, result, self._shape).detach().clone(memory_format=torch.contiguous_format)
                )
            finally:
                self._busy = False

    def _enter(self, path: str) -> Callable[..., None]:
        def hook(_module: nn.Module, _args: Any) -> None:
            self._open.append(path)

        return hook

    def _leave(self, path: str) -> Callable[..., None]:
        def hook(_module: nn.Module, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
            self._open.pop()
            self._note(_Key(path, None, 0), args, kwargs, result)

        return hook


def wanted(node: str, keep: Sequence[str]) -> bool:
    """Whether a case asks for a node: by name, or all nodes by naming none."""
    return not keep or node.partition(":")[0] in keep


def dtype_of(name: str) -> torch.dtype:
    """The torch dtype of that name."""
    found: torch.dtype = getattr(torch, name)
    return found
