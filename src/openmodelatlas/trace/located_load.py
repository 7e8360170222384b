"""A reference file of somebody else's, imported and built at a tiny size. Runs in a process of its own."""

import functools
import importlib
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas.errors import UsageError
from openmodelatlas.models import tables
from openmodelatlas.models.variant import Variant

SCHEMES = ("meta", "huggingface")
"""Naming schemes of `FAMILY.names.toml` in which a reference may keep its parameters."""

SETTINGS = {"max_batch_size": "batch", "max_seq_len": "slots", "multiple_of": "multiple"}
"""Arguments of a reference that are no numbers of a model, and what is given for them."""

MULTIPLE = 16


@dataclass(frozen=True)
class Reference:
    """A reference that was built: its model, how its parameters are called, and every stand-in that it needed."""

    model: nn.Module
    scheme: str
    parameters: Mapping[str, str]
    shims: tuple[str, ...]
    path: str


# --- importing --------------------------------------------------------------------------------------------------------


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


# --- building ---------------------------------------------------------------------------------------------------------


def build(
    path: Path,
    variant: Variant,
    settings: Mapping[str, int],
    around: Callable[[Callable[[], nn.Module]], nn.Module],
    replace: Mapping[str, str] | None = None,
) -> Reference:
    """The reference's model at the variant's sizes. `around` runs the constructor that is settled on a second time,
    under the eyes of a watcher. UsageError where no class of the file is such a model."""
    module, shims = load(path, replace)
    tried: list[tuple[int, str]] = []
    for scheme, kind, config, make in _constructors(module, variant, settings):
        try:
            names = parameters(variant, scheme, make())
        except Exception as error:  # whatever a constructor that is not the right one may raise
            what = str(error) if isinstance(error, _Misfit) else f"{type(error).__name__}: {error}"
            wrong = error.wrong if isinstance(error, _Misfit) else NEVER
            tried.append((wrong, f"{kind.__name__}({config.__name__}): {what}"))
            continue
        return Reference(around(make), scheme, names, shims, str(path.resolve()))
    raise UsageError(
        "no class of the file is a model of this family",
        where=str(path),
        expected="a module that one configuration argument builds, with the tensors of a known naming scheme",
        found=_nearest(tried, module),
    )


def _constructors(
    module: types.ModuleType, variant: Variant, settings: Mapping[str, int]
) -> Iterator[tuple[str, type[nn.Module], type, Callable[[], nn.Module]]]:
    """Every naming scheme with every model class and configuration class that might go together."""
    for scheme in SCHEMES:
        for config in _configs(module, scheme, variant):
            given = arguments(config, scheme, variant, settings)
            for kind in _models(module):
                yield scheme, kind, config, functools.partial(_make, kind, config, given)


def _make(kind: type[nn.Module], config: Callable[..., Any], given: Mapping[str, Any]) -> nn.Module:
    return kind(config(**given))


NEVER = 10**6


def _nearest(tried: list[tuple[int, str]], module: types.ModuleType) -> str:
    """What was wrong with the attempt that came closest."""
    if tried:
        return min(tried)[1]
    return "no configuration class" if list(_models(module)) else "no torch module with one argument"


class _Misfit(Exception):
    """The model has not the tensors that it must have; `wrong` counts them."""

    def __init__(self, what: str, wrong: int) -> None:
        super().__init__(what)
        self.wrong = wrong


def _accepted(kind: type) -> set[str]:
    """Names that a configuration class takes."""
    names = set(getattr(kind, "__dataclass_fields__", ())) | set(getattr(kind, "__annotations__", ()))
    with suppress(ValueError, TypeError):
        names |= set(inspect.signature(kind).parameters)
    return names


def _configs(module: types.ModuleType, scheme: str, variant: Variant) -> Iterator[type]:
    """Classes that take the scheme's required numbers by name."""
    needed = {k for k in tables.names(variant.family)["metadata"][scheme]["required"] if k != "architectures"}
    for kind in vars(module).values():
        plain = isinstance(kind, type) and not issubclass(kind, nn.Module)
        if plain and len(needed & _accepted(kind)) >= len(needed) - 2:
            yield kind


def arguments(config: type, scheme: str, variant: Variant, settings: Mapping[str, int]) -> dict[str, Any]:
    """The variant's numbers under the reference's names, as far as the class takes them."""
    columns, accepted = tables.names(variant.family)["metadata"][scheme], _accepted(config)
    together = "rope_parameters" in accepted  # newer configuration classes keep theta and the scaling together
    accepted |= {"rope_scaling"} if together else set()
    found: dict[str, Any] = {}
    for key, field in columns["read"].items():
        value = getattr(variant.config, field, None)
        outer, _, inner = key.partition(".")
        if value is None or outer not in accepted:
            continue
        if inner:
            found.setdefault(outer, {})[inner] = value
        else:
            found[key] = value
    for key, value in columns["must_equal"].items():
        outer, _, inner = key.partition(".")
        if outer in found and inner:
            found[outer][inner] = value
    for key, setting in SETTINGS.items():
        if key in accepted:
            found[key] = settings[setting]
    if "use_scaled_rope" in accepted:
        found["use_scaled_rope"] = hasattr(variant.config, "rope_factor")
    if together:
        scaling = found.pop("rope_scaling", {"rope_type": "default"})
        found["rope_parameters"] = {**scaling, "rope_theta": variant.config.rope_theta}
        found["attn_implementation"] = "eager"
    return found


def _models(module: types.ModuleType) -> Iterator[type[nn.Module]]:
    """Modules of the file that one argument builds, those that stand last first: a model stands below its parts."""
    own = [k for k in vars(module).values() if isinstance(k, type) and issubclass(k, nn.Module)]
    for kind in reversed([k for k in own if k.__module__ == module.__name__]):
        rows = list(inspect.signature(kind.__init__).parameters.values())[1:]
        if [r for r in rows if r.default is r.empty and r.kind is r.POSITIONAL_OR_KEYWORD][1:] == [] and rows:
            yield kind


def parameters(variant: Variant, scheme: str, made: nn.Module) -> dict[str, str]:
    """Our parameter names to the reference's; _Misfit names the first that is missing or surplus."""
    ours = variant.build("meta")
    rows = {row["parameter"]: row[scheme] for row in tables.names(variant.family)["tensor"]}
    found: dict[str, str] = {}
    for name, _ in ours.named_parameters(remove_duplicate=False):
        parts = name.split(".")
        index = parts[1] if parts[0] == "blocks" else ""
        pattern = name.replace(f"blocks.{index}.", "blocks.{i}.") if index else name
        found[name] = rows[pattern].replace("{i}", index)
    theirs = {name for name, _ in made.named_parameters(remove_duplicate=False)}
    missing, surplus = [n for n in found.values() if n not in theirs], theirs - set(found.values())
    if missing or surplus:
        what = f"no tensor {missing[0]}" if missing else f"{min(surplus)} has no place in the model"
        raise _Misfit(what, len(missing) + len(surplus))
    return found


# --- weights ----------------------------------------------------------------------------------------------------------


def split_rotary_rows(weight: Tensor, head_width: int) -> Tensor:
    """Adjacent pairs to half-split rows: the inverse of the step `interleave_rotary_rows`."""
    heads = weight.reshape(-1, head_width // 2, 2, weight.shape[1])
    return heads.transpose(1, 2).reshape(weight.shape)


def copy_weights(ours: nn.Module, theirs: Reference, variant: Variant) -> None:
    """Give the reference our weights, under its names and in its layout."""
    steps = {row["parameter"]: row.get(f"{theirs.scheme}_steps", []) for row in tables.names(variant.family)["tensor"]}
    target = dict(theirs.model.named_parameters(remove_duplicate=False))
    for name, parameter in ours.named_parameters(remove_duplicate=False):
        parts = name.split(".")
        pattern = name.replace(f"blocks.{parts[1]}.", "blocks.{i}.") if parts[0] == "blocks" else name
        value = parameter.detach()
        for step in steps[pattern]:
            if step != "interleave_rotary_rows":
                raise UsageError("a layout step that cannot be undone here", found=step)
            value = split_rotary_rows(value, variant.config.head_dim)
        there = target[theirs.parameters[name]]
        if there.shape != value.shape:
            raise UsageError(
                "a tensor has another shape",
                where=theirs.parameters[name],
                expected=list(value.shape),
                found=list(there.shape),
            )
        with torch.no_grad():
            there.copy_(value)
