"""A reference's model, built at a variant's sizes with a variant's weights. Runs in a process of its own."""

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from openmodelatlas.errors import UsageError
from openmodelatlas.models import tables, tied
from openmodelatlas.models.variant import Variant
from openmodelatlas.trace import located_stored
from openmodelatlas.trace.located_load import load

SETTINGS = {"max_batch_size": "batch", "max_seq_len": "slots", "multiple_of": "multiple"}
"""Arguments of a reference that are no numbers of a model, and what is given for them."""

MULTIPLE = 16

EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}
"""What a library is asked for that has several ways to run one model: the one that is written out in the file."""

READER, LOADER = "from_dict", "from_pretrained"
"""Methods by which a library's own classes read a published configuration, and make a model of a checkpoint; they know
what its keys and names mean by now."""

Make = Callable[[], nn.Module]


@dataclass(frozen=True)
class Built:
    """A reference's model and ours with the same weights; what variant they have come to be; and every stand-in."""

    theirs: nn.Module
    ours: nn.Module
    variant: Variant
    scheme: str
    shims: tuple[str, ...]


@dataclass(frozen=True)
class _Candidate:
    """A class of the file that may be the model, with a configuration that may be its argument."""

    scheme: str
    kind: type[nn.Module]
    config: type
    given: Mapping[str, Any]

    def make(self) -> nn.Module:
        return self.kind(configured(self.config, self.given))


def build(
    path: Path,
    variant: Variant,
    settings: Mapping[str, int],
    fill: Callable[[Variant], nn.Module],
    around: Callable[[Make], nn.Module],
    replace: Mapping[str, str] | None = None,
) -> Built:
    """The file's model at the variant's sizes, with the weights that `fill` gives ours. `around` runs the constructor
    that is settled on under the eyes of a watcher. UsageError where no class of the file is such a model."""
    module, shims = load(path, replace)
    tried: list[tuple[int, str]] = []
    for candidate in _candidates(module, variant, settings):
        try:
            return _built(candidate, variant, fill, around, shims)
        except Exception as error:  # whatever a constructor that is not the right one may raise
            what = str(error) if isinstance(error, _Misfit) else f"{type(error).__name__}: {error}"
            wrong = error.wrong if isinstance(error, _Misfit) else NEVER
            tried.append((wrong, f"{candidate.kind.__name__}({candidate.config.__name__}): {_line(what)}"))
    raise UsageError(
        "no class of the file is a model of this family",
        where=str(path),
        expected="a module that one configuration argument builds, with the tensors of a known naming scheme",
        found=_nearest(tried, module),
    )


def _line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), text)


def _built(
    candidate: _Candidate,
    variant: Variant,
    fill: Callable[[Variant], nn.Module],
    around: Callable[[Make], nn.Module],
    shims: tuple[str, ...],
) -> Built:
    if hasattr(candidate.kind, LOADER):
        ours = fill(variant)
        config = configured(candidate.config, candidate.given)
        theirs, wrong = loaded(candidate.kind, config, ours, variant, torch.device("cpu"))
        if wrong:
            raise _Misfit(wrong[0], len(wrong))
        around(candidate.make)
        return Built(theirs.eval(), ours, variant, candidate.scheme, shims)
    _fit(candidate.make(), variant, candidate.scheme)
    theirs = around(candidate.make)
    variant = _as_wide(theirs, variant, candidate.scheme)
    ours = fill(variant)
    _copy(ours, theirs, variant, candidate.scheme)
    return Built(theirs, ours, variant, candidate.scheme, shims)


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


# --- classes of the file ----------------------------------------------------------------------------------------------


def _candidates(module: types.ModuleType, variant: Variant, settings: Mapping[str, int]) -> Iterator[_Candidate]:
    """Every naming scheme with every model class and configuration class that might go together."""
    for scheme in located_stored.schemes(variant.family):
        named = located_stored.settings(variant, scheme).get("architectures", ())
        for config in configs(module, scheme, variant):
            given = arguments(config, scheme, variant, settings)
            for kind in sorted(_models(module), key=lambda kind: kind.__name__ not in named):
                yield _Candidate(scheme, kind, config, given)


def configs(module: types.ModuleType, scheme: str, variant: Variant) -> Iterator[type]:
    """Classes that take the scheme's required numbers by name."""
    columns = tables.names(variant.family)["metadata"][scheme]
    needed = {key for key in columns["required"] if key in columns["read"]}
    for kind in vars(module).values():
        plain = isinstance(kind, type) and not issubclass(kind, nn.Module)
        if plain and len(needed & _accepted(kind)) >= len(needed) - 2:
            yield kind


def _models(module: types.ModuleType) -> Iterator[type[nn.Module]]:
    """Modules of the file that one argument builds, those that stand last first: a model stands below its parts."""
    own = [k for k in vars(module).values() if isinstance(k, type) and issubclass(k, nn.Module)]
    for kind in reversed([k for k in own if k.__module__ == module.__name__]):
        rows = list(inspect.signature(kind.__init__).parameters.values())[1:]
        if [r for r in rows if r.default is r.empty and r.kind is r.POSITIONAL_OR_KEYWORD][1:] == [] and rows:
            yield kind


def _accepted(kind: type) -> set[str]:
    """Names that a configuration class takes."""
    names = set(getattr(kind, "__dataclass_fields__", ()))
    for base in kind.__mro__:
        names |= set(vars(base).get("__annotations__", ()))
    with suppress(ValueError, TypeError):
        names |= set(inspect.signature(kind).parameters)
    return names


def configured(config: Any, given: Mapping[str, Any]) -> Any:
    """A configuration of the file's class, which may read published files."""
    return getattr(config, READER)(dict(given)) if hasattr(config, READER) else config(**given)


def arguments(config: type, scheme: str, variant: Variant, settings: Mapping[str, int]) -> dict[str, Any]:
    """The variant's numbers under the reference's names, as far as the class takes them."""
    found, accepted = located_stored.settings(variant, scheme), _accepted(config)
    if hasattr(config, READER):
        found = {**found, **EAGER}
    else:
        found = {key: value for key, value in found.items() if key in accepted}
    found |= {key: settings[setting] for key, setting in SETTINGS.items() if key in accepted}
    if "use_scaled_rope" in accepted:
        found["use_scaled_rope"] = hasattr(variant.config, "rope_factor")
    return found


# --- weights ----------------------------------------------------------------------------------------------------------


def loaded(
    kind: Any, config: Any, ours: nn.Module, variant: Variant, device: torch.device
) -> tuple[nn.Module, list[str]]:
    """The model that the library makes of our weights as a published checkpoint has them, and what it says is wrong
    with them: a tensor that it misses, does not know, or has in another shape."""
    stored = located_stored.tensors(ours, variant, "huggingface")
    if tied(variant):
        owners = located_stored.places(variant, "huggingface")
        stored = {name: value for name, value in stored.items() if owners[name][0] != "unembed.weight"}
    how = {"device_map": "meta"} if device.type == "meta" else {}
    dtype = next(ours.parameters()).dtype
    made, said = getattr(kind, LOADER)(
        None, config=config, state_dict=stored, output_loading_info=True, dtype=dtype, **how
    )
    wrong = [f"no tensor {name}" for name in sorted(said["missing_keys"])]
    wrong += [f"{name} has no place in the model" for name in sorted(said["unexpected_keys"])]
    wrong += [f"{name} has another shape" for name, *_ in sorted(said["mismatched_keys"])]
    return made, wrong


def _fit(made: nn.Module, variant: Variant, scheme: str) -> None:
    """_Misfit names the first tensor that is missing or surplus."""
    wanted, theirs = located_stored.places(variant, scheme), dict(made.named_parameters(remove_duplicate=False))
    missing, surplus = [name for name in wanted if name not in theirs], theirs.keys() - wanted.keys()
    if missing or surplus:
        what = f"no tensor {missing[0]}" if missing else f"{min(surplus)} has no place in the model"
        raise _Misfit(what, len(missing) + len(surplus))


def _as_wide(theirs: nn.Module, variant: Variant, scheme: str) -> Variant:
    """The variant with the feed-forward width that the reference worked out by a rule of its own."""
    gate = "blocks.0.feed_forward.gate.weight"
    stored = next(name for name, place in located_stored.places(variant, scheme).items() if place[0] == gate)
    width = theirs.get_parameter(stored).shape[0]
    return dataclasses.replace(variant, config=dataclasses.replace(variant.config, intermediate_size=width))


def _copy(ours: nn.Module, theirs: nn.Module, variant: Variant, scheme: str) -> None:
    """Give the reference our weights, under its names and in its layout."""
    target = dict(theirs.named_parameters(remove_duplicate=False))
    for name, value in located_stored.tensors(ours, variant, scheme).items():
        there = target[name]
        if there.shape != value.shape:
            raise _Misfit(f"{name} has the shape {list(there.shape)}, not {list(value.shape)}", 1)
        with torch.no_grad():
            there.copy_(value)
