"""Run a definition once and note every module call: ports, edges, FLOPs, glue.

Forward hooks see the calls; tensor identity, scoped to one call, gives the edges. Every port gets a fresh `aten.alias`,
so that one tensor on two ports stays two values; every ported tensor is held, so that ids stay unique.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from openmodelatlas.errors import DefinitionError

Hook = Callable[..., Any]


def grouped_product_flops(rows: Any, matrices: Any, *_args: Any, **_more: Any) -> Any:
    """Every row goes through one matrix of the stack, whichever it is."""
    return 2 * rows.shape[0] * matrices.shape[-2] * matrices.shape[-1]


FORMULAS = {**flop_registry, torch.ops.aten._grouped_mm: grouped_product_flops}
"""FLOPs by operator: those that torch knows, and the one it lacks."""


@dataclass
class PortValue:
    """One port of one call with the tensor's sizes (integers or SymInts) and dtype."""

    name: str
    shape: tuple[Any, ...]
    dtype: torch.dtype
    written: bool = False


@dataclass
class Call:
    """One call of one module. `sources` maps port ids visible in this scope (by tensor identity) while it runs;
    `feeds` maps each child input and each own output to the port that feeds it."""

    path: str
    module: nn.Module | None
    inputs: list[PortValue] = field(default_factory=list)
    outputs: list[PortValue] = field(default_factory=list)
    feeds: dict[tuple[str, str], tuple[str, str] | None] = field(default_factory=dict)
    glue: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    flops: Any = 0
    sources: dict[int, tuple[str, str]] = field(default_factory=dict)
    entered: list[tuple[Tensor, int]] = field(default_factory=list)

    @property
    def is_op(self) -> bool:
        """Whether nothing is nested inside."""
        return self.module is not None and next(self.module.children(), None) is None


@functools.cache
def _signature(forward: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(forward)


def leaves(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors of one argument or result with their port names: fields of a NamedTuple by name, items by number."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for key in value._fields:
            yield from leaves(f"{name}.{key}" if name else key, getattr(value, key))
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from leaves(f"{name}.{i}" if name else str(i), item)


def renewed(value: Any) -> Any:
    """The same arguments or results with a fresh alias in place of each tensor."""
    if isinstance(value, Tensor):
        return torch.ops.aten.alias.default(value)
    if isinstance(value, tuple):
        items = [renewed(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {key: renewed(item) for key, item in value.items()}
    return [renewed(item) for item in value] if isinstance(value, list) else value


class Tracer(TorchDispatchMode):
    """Calls a model under hooks; `calls` then holds every module call by path, in order of entry."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.calls: dict[str, Call] = {}
        self._stack = [Call("", None)]
        self._held: list[Tensor] = []
        self._quiet = False

    def __call__(self, *args: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for path, module in self.model.named_modules():
                before = module.register_forward_pre_hook(self._enter(path), with_kwargs=True)
                after = module.register_forward_hook(self._leave(path), with_kwargs=True)
                stack.callback(before.remove)
                stack.callback(after.remove)
            stack.enter_context(torch.no_grad())
            stack.enter_context(self)
            return self.model(*args)

    def _fresh(self, tree: Any) -> Any:
        self._quiet = True
        try:
            return renewed(tree)
        finally:
            self._quiet = False

    def _port(self, scope: Call, owner: str, name: str, tensor: Tensor) -> PortValue:
        self._held.append(tensor)
        scope.sources[id(tensor)] = (owner, name)
        return PortValue(name, tuple(tensor.shape), tensor.dtype)

    def _enter(self, path: str) -> Hook:
        def hook(module: nn.Module, args: Any, kwargs: Any) -> Any:
            outer, call = self._stack[-1], Call(path, module)
            if path in self.calls:
                raise DefinitionError("a module is called twice in one forward", where=path)
            self.calls[path] = call
            self._stack.append(call)
            if outer.module is not None:
                outer.children.append(path)
            fresh_args, fresh_kwargs = self._fresh((args, kwargs))
            bind = _signature(type(module).forward).bind
            given = bind(module, *args, **kwargs).arguments
            fresh = bind(module, *fresh_args, **fresh_kwargs).arguments
            for name, value in given.items():
                for (port, old), (_, new) in zip(leaves(name, value), leaves(name, fresh[name]), strict=True):
                    outer.feeds[path, port] = outer.sources.get(id(old))
                    call.inputs.append(self._port(call, path, port, new))
                    call.entered.append((old, old._version))
            return fresh_args, fresh_kwargs

        return hook

    def _leave(self, path: str) -> Hook:
        def hook(_module: nn.Module, _args: Any, _kwargs: Any, result: Any) -> Any:
            call, outer = self._stack.pop(), self._stack[-1]
            fresh = self._fresh(result)
            name = "out" if isinstance(result, Tensor) else ""
            for (port, old), (_, new) in zip(leaves(name, result), leaves(name, fresh), strict=True):
                # An op's result is its own value even where the memory is an argument's (a buffer written in place).
                call.feeds[path, port] = None if call.is_op else call.sources.get(id(old))
                call.outputs.append(self._port(outer, path, port, new))
            for port_value, (tensor, version) in zip(call.inputs, call.entered, strict=True):
                port_value.written = tensor._version != version
            outer.flops = outer.flops + call.flops
            return fresh

        return hook

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out, call = func(*args, **(kwargs or {})), self._stack[-1]
        if self._quiet:
            return out
        if func._overloadpacket in FORMULAS:
            call.flops = call.flops + FORMULAS[func._overloadpacket](*args, **(kwargs or {}), out_val=out)
        if call.module is not None and not call.is_op and any(isinstance(t, Tensor) for t in tree_leaves(out)):
            call.glue.append(str(func))
        return out
