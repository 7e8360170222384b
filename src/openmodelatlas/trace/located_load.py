"""A reference file of somebody else's, imported. Runs in a process of its own."""

import importlib
import importlib.util
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from openmodelatlas.errors import UsageError


def load(path: Path, replace: Mapping[str, str] | None = None) -> tuple[types.ModuleType, tuple[str, ...]]:
    """The file as a module, with the shims that it needed. `replace`: lines (stripped) to be read as others.

    UsageError, on one line, for a file that is not there or cannot be run.
    """
    if not path.is_file():
        raise UsageError("no such file", where=str(path), fix="--reference takes a Python file")
    if path.suffix != ".py":
        raise UsageError("not a Python file", where=str(path), expected="a name that ends in .py")
    install_shims()
    text = path.read_text(encoding="utf-8", errors="replace")
    shims = tuple(what for word, what in SHIMS.items() if word in text)
    shims += tuple(f"`{old}` read as `{new}`" for old, new in (replace or {}).items())
    try:
        return _import(path.resolve(), replace or {}), shims
    except UsageError:
        raise
    except SyntaxError as error:
        raise UsageError("not Python", where=f"{path}:{error.lineno}", found=error.msg) from error
    except BaseException as error:
        found = f"{type(error).__name__}: {error}"
        raise UsageError("the file cannot be run", where=_place(path, error), found=found) from error


def _place(path: Path, error: BaseException) -> str:
    """The file, with the last of its lines that the error passed through."""
    lines, frame = [], error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == str(path.resolve()):
            lines.append(frame.tb_lineno)
        frame = frame.tb_next
    return f"{path}:{lines[-1]}" if lines else str(path)


def _import(path: Path, replace: Mapping[str, str]) -> types.ModuleType:
    """By its own dotted name where it lies in a package, else as a member of a package made of its folder."""
    top = path.parent
    while (top / "__init__.py").is_file():
        top = top.parent
    parts = path.relative_to(top).with_suffix("").parts
    if len(parts) > 1:
        sys.path.insert(0, str(top))
        name = ".".join(parts)
    else:
        package = types.ModuleType("reference")
        package.__path__ = [str(path.parent)]
        sys.modules["reference"] = package
        name = f"reference.{path.stem}"
    if not replace:
        return importlib.import_module(name)
    source = path.read_text(encoding="utf-8").split("\n")
    for old, new in replace.items():
        at = [i for i, line in enumerate(source) if line.strip() == old]
        if len(at) != 1:
            raise UsageError("the line to be replaced must stand there once", where=str(path), found=len(at))
        source[at[0]] = source[at[0]].replace(old, new)
    if len(parts) > 1:
        importlib.import_module(name.rpartition(".")[0])
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile("\n".join(source), str(path), "exec"), vars(module))
    return module


# --- stand-ins --------------------------------------------------------------------------------------------------------


SHIMS = {
    "fairscale": "fairscale's parallel layers are torch's Linear and Embedding, in one process",
    ".cuda(": "Tensor.cuda() returns its tensor",
}
"""Stand-ins by the word in a file that asks for them."""


def install_shims() -> None:
    """Put the stand-ins in place, whether or not the real thing is there, so that a run is the same everywhere."""
    for name, content in _fairscale().items():
        module = types.ModuleType(name)
        vars(module).update(content)
        sys.modules[name] = module
        parent, _, leaf = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], leaf, module)
    torch.Tensor.cuda = lambda self, *_args, **_kwargs: self  # type: ignore[method-assign]


class _Linear(nn.Linear):
    def __init__(self, inputs: int, outputs: int, bias: bool = True, **_kwargs: Any) -> None:
        super().__init__(inputs, outputs, bias=bias)


class _Embedding(nn.Embedding):
    def __init__(self, rows: int, width: int, **_kwargs: Any) -> None:
        super().__init__(rows, width)


def _fairscale() -> dict[str, dict[str, Any]]:
    layers: dict[str, type[nn.Module]] = {"ColumnParallelLinear": _Linear, "RowParallelLinear": _Linear}
    layers |= {"VocabParallelEmbedding": _Embedding, "ParallelEmbedding": _Embedding}
    root, parallel = "fairscale.nn.model_parallel", {"get_model_parallel_world_size": lambda: 1}
    parallel |= {"get_model_parallel_rank": lambda: 0, "model_parallel_is_initialized": lambda: True}
    return {
        "fairscale": {"__path__": []},
        "fairscale.nn": {"__path__": []},
        root: {"__path__": []},
        f"{root}.initialize": parallel,
        f"{root}.layers": layers,
    }
