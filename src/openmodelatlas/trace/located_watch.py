"""Watch a run: every value that a reference's lines compute, and every value that our modules hand out."""

import contextlib
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from openmodelatlas.trace.run import Hook, leaves

COPIES = {"clone", "contiguous", "float", "double", "bfloat16", "half", "to", "type", "type_as", "reshape", "flatten"}
COPIES |= {"repeat_interleave", "repeat", "cat", "__getitem__", "index_select"}
COPIES |= {"__setitem__", "copy_", "index_copy_", "index_copy"}
"""Functions that hand on values they were given, though in other memory; those that share memory are seen by that."""

WRITES = {"__setitem__", "copy_", "index_copy_", "masked_fill_", "fill_", "zero_", "index_add_", "scatter_add_"}
WRITES |= {"add_", "sub_", "mul_", "div_", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__idiv__"}
"""Functions whose result is what they did to their first argument."""


@dataclass(frozen=True)
class Entry:
    """One value that came to be at `line` of a file. `part`: which of a function's results it is. `moves`: a view, a
    cast or a copy made it. `call`: a function of the file returned it to that line."""

    index: int
    path: str
    line: int
    function: str
    part: int
    value: Tensor
    moves: bool
    call: bool


@dataclass
class Watcher(TorchFunctionMode):
    """Notes every torch function that is called, however deep, below a line of the file. Where the line of another file
    of `beside` lies between, the value is noted for that line, too."""

    path: str
    beside: Sequence[str] = ()
    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        made = args[0] if name in WRITES and args else out
        places = self._places(sys._getframe(1))
        if self.path in places:
            given = {_memory(t) for t in _tensors((args, kwargs))}
            for part, value in enumerate(_tensors(made)):
                moves = name in COPIES or (name not in WRITES and _memory(value) in given)
                self._note(places, name, part, value, moves=moves, call=False)
        return out

    def _places(self, frame: types.FrameType | None) -> dict[str, int]:
        """The innermost line of each watched file above a frame."""
        found: dict[str, int] = {}
        while frame is not None:
            path = frame.f_code.co_filename
            if path not in found and (path == self.path or path in self.beside):
                found[path] = frame.f_lineno
            frame = frame.f_back
        return found

    def _note(
        self, places: dict[str, int], function: str, part: int, value: Tensor, *, moves: bool, call: bool
    ) -> None:
        with torch._C.DisableTorchFunction():
            kept = value.detach().clone()
        for path, line in places.items():
            self.entries.append(Entry(len(self.entries), path, line, function, part, kept, moves, call))

    def _profile(self, frame: types.FrameType, event: str, result: Any) -> None:
        """A function of the file returns: the value belongs to the line that called, too."""
        if event != "return" or frame.f_code.co_filename != self.path:
            return
        places = self._places(frame.f_back)
        if self.path not in places:
            return
        for part, value in enumerate(_tensors(result)):
            self._note({self.path: places[self.path]}, frame.f_code.co_name, part, value, moves=True, call=True)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what runs inside."""
        before = sys.getprofile()
        with self:
            sys.setprofile(self._profile)
            try:
                yield
            finally:
                sys.setprofile(before)


def _memory(value: Tensor) -> int:
    with torch._C.DisableTorchFunction():
        return value.untyped_storage().data_ptr()


def _tensors(tree: Any) -> Iterator[Tensor]:
    """Tensors in nested tuples, lists and dicts that hold numbers worth a look."""
    if isinstance(tree, Tensor):
        if tree.dtype != torch.bool and not tree.is_meta:
            yield tree
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from _tensors(item)
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _tensors(item)


@dataclass(frozen=True)
class Handed:
    """What one of our modules gave out at a port. `moves`: it computed nothing, as far as torch was asked. `needs`: the
    paths of the ops whose results it took."""

    path: str
    port: str
    value: Tensor
    moves: bool
    needs: tuple[str, ...]


class _Calls(TorchFunctionMode):
    """Which of our modules compute, by the rule that holds for a reference's lines."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.computing: set[str] = set()

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        given = {_memory(t) for t in _tensors((args, kwargs or {}))}
        if name not in COPIES and any(_memory(t) not in given for t in _tensors(out)):
            self.computing.update(self.stack)
        return out


def handed(model: nn.Module, *args: Any) -> list[Handed]:
    """Every module's results in one call, in the order in which they come out."""
    found: list[Handed] = []
    made: dict[int, tuple[str, Tensor]] = {}
    calls = _Calls()

    def enter(path: str) -> Hook:
        return lambda _module, _given: calls.stack.append(path)

    def leave(path: str) -> Hook:
        def hook(module: nn.Module, given: Any, result: Any) -> None:
            calls.stack.pop()
            inputs = [t for _, t in leaves("", list(given))]
            needs = tuple(dict.fromkeys(made[id(t)][0] for t in inputs if id(t) in made))
            for port, value in leaves("out" if isinstance(result, Tensor) else "", result):
                with torch._C.DisableTorchFunction():
                    kept = value.detach().clone()
                found.append(Handed(path, port, kept, path not in calls.computing, needs))
                if next(module.children(), None) is None:
                    made[id(value)] = (path, value)

        return hook

    with contextlib.ExitStack() as stack:
        for path, module in model.named_modules():
            stack.callback(module.register_forward_pre_hook(enter(path)).remove)
            stack.callback(module.register_forward_hook(leave(path)).remove)
        stack.enter_context(torch.no_grad())
        stack.enter_context(calls)
        model(*args)
    return found
