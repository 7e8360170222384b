"""The fast checks that must notice a mutant. Each compares with something that was not made from the definition.

Everything that stays the same over all mutants is computed once, in `Fixed`; the rest runs in the mutant's process, on
the twins that have what is changed, one twin after the other.
"""

import contextlib
import dataclasses
import importlib
import inspect
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from .code import Mutant

PACKAGE = "openmodelatlas."
DATA = Path(__file__).parent.parent / "data"
BOUND = 4e-6
"""Relative to the largest score; measured noise is under 1.3e-6 against NumPy and a stranger's float64."""

DTYPES = (torch.float32, torch.bfloat16)
"""In which every module is held against its statement; the whole model runs in float64."""

ACTIVATIONS = ("SiLU", "GELU")

Check = TypeVar("Check", bound=Callable[..., Any])


@dataclass(frozen=True)
class Golden:
    """What a twin must give: scores by NumPy, and the last ones by another implementation."""

    name: str
    family: str
    classes: frozenset[str]
    weights: dict[str, torch.Tensor]
    inputs: tuple[Any, ...]
    scores: tuple[np.ndarray, ...]
    outside: np.ndarray


@dataclass(frozen=True)
class Fixed:
    """All that is known before a mutant runs. `printed`: which classes of a module print an equation. `calls`: by the
    name of a statement's function, what it is held against."""

    golden: tuple[Golden, ...]
    configs: dict[str, Any]
    counts: dict[str, Any]
    printed: dict[str, set[str]]
    calls: dict[str, list[Any]]


def prepare(modules: list[str]) -> Fixed:
    """Compute all of it, for the definition's modules of those names."""
    from equations.outside import stored
    from equations.statements import STATEMENTS
    from equations.twins import structures, twin

    from openmodelatlas.trace.derive import derive

    derive(twin(structures()[0]))  # what the first map loads, no mutant has to load again
    golden = tuple(golden_of(name, stored()[name]) for name in structures())
    configs = tomllib.loads((DATA / "configs.toml").read_text())
    counts = tomllib.loads((DATA / "parameter_counts.toml").read_text())
    printed = {name: {op for op, _ in equations_in(name)} for name in modules}
    calls: dict[str, list[Any]] = {}
    for call in [*unusual_calls(), *(c for g in golden for c in calls_of(Twin.build(g), uncached=True))]:
        function = STATEMENTS[call.op, call.equation].compute.__name__
        calls.setdefault(function, []).append(call)
    return Fixed(golden, configs, counts, printed, calls)


def golden_of(name: str, outside: list[float]) -> Golden:
    """A twin of the right definition, and its scores by others."""
    from equations.twins import filled, twin, whole
    from equations.whole import logits

    variant = twin(name)
    model = filled(variant, torch.float64)
    weights = {n: p.detach().clone() for n, p in model.named_parameters()}
    plain = {n: w.numpy() for n, w in weights.items()}
    inputs = (whole(), whole(start=1000))
    scores = [logits(variant.family, variant.config, plain, i.tokens.numpy(), i.positions.numpy()) for i in inputs]
    classes = frozenset(type(m).__name__ for m in model.modules())
    return Golden(name, variant.family, classes, weights, inputs, tuple(scores), np.array(outside))


class Noticed(Exception):
    """A check says no."""


def notice(holds: object, what: str) -> None:
    if not holds:
        raise Noticed(what)


@dataclass
class Twin:
    """A tiny model of the mutant."""

    golden: Golden
    variant: Any
    model: nn.Module

    @classmethod
    def build(cls, golden: Golden) -> "Twin":
        """In float64, with the golden weights; Noticed if they do not fit."""
        from equations.twins import twin

        variant = twin(golden.name)
        model = variant.build("cpu", torch.float64)
        own = {n: tuple(p.shape) for n, p in model.named_parameters()}
        notice(own == {n: tuple(w.shape) for n, w in golden.weights.items()}, "parameters of other names or shapes")
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(golden.weights[name])
        return cls(golden, variant, model)


@dataclass
class Subject:
    """The mutant, imported: what the checks share."""

    mutant: Mutant
    fixed: Fixed
    now: str = ""

    def begin(self, check: Check) -> Check:
        """Note which check runs."""
        self.now = check.__name__
        return check

    @cached_property
    def golden(self) -> list[Golden]:
        """The twins in question: of its family, or those that have the changed class; of shared code that is no class,
        all. Those come first whose structure has the changed class."""
        room, _, name = self.mutant.target.partition(".")
        having = [g for g in self.fixed.golden if self.mutant.scope in g.classes]
        if room == "models":
            own = [g for g in self.fixed.golden if g.family == name]
            return sorted(own, key=lambda g: g not in having)
        return having or list(self.fixed.golden)


# --- checks of the definition as such, cheapest first -----------------------------------------------------------------


def equations(subject: Subject) -> None:
    """Every equation that the changed module prints is one that a statement was written from."""
    from equations.statements import STATEMENTS

    found = equations_in(subject.mutant.target)
    notice({op for op, _ in found} == subject.fixed.printed[subject.mutant.target], "other equations")
    for row in found:
        notice(row in STATEMENTS, f"{row[0]}: another equation")


def equations_in(target: str) -> set[tuple[str, str]]:
    """Class and equation of every class that the module defines with one."""
    from equations.hold import equation

    module = importlib.import_module(PACKAGE + target)
    own = [k for _, k in inspect.getmembers(module, inspect.isclass) if k.__module__ == module.__name__]
    return {(k.__name__, equation(k)) for k in own if issubclass(k, nn.Module) and equation(k)}


def rows(subject: Subject) -> None:
    """The table of variants against published configurations."""
    from openmodelatlas import models

    if not subject.mutant.target.startswith("models."):
        return
    notice(set(models.names()) == set(subject.fixed.configs), "other variants")
    for name, variant in own_variants(subject).items():
        published = {k: v for k, v in subject.fixed.configs[name].items() if k != "source"}
        tied = published.pop("tie_word_embeddings", None)
        for field, value in published.items():
            notice(getattr(variant.config, field, None) == value, f"{name}: {field}")
        if tied is not None:
            notice(is_tied(sized(variant, 0)) == tied, f"{name}: tied")


def own_variants(subject: Subject) -> dict[str, Any]:
    """Variants of the changed family."""
    from openmodelatlas import models

    return {n: v for n, v in models.variants().items() if f"models.{v.family}" == subject.mutant.target}


def sized(variant: Any, blocks: int) -> nn.Module:
    """The variant at full size without storage, with so many blocks."""
    config = dataclasses.replace(variant.config, num_hidden_layers=blocks)
    made: nn.Module = dataclasses.replace(variant, config=config).build("meta")
    return made


def is_tied(model: nn.Module) -> bool:
    return model.get_parameter("embed.weight") is model.get_parameter("unembed.weight")


def unusual(subject: Subject) -> None:
    """Shared ops at odd constants and sizes."""
    if subject.mutant.target.startswith("parts."):
        check_calls([c for c in unusual_calls() if c.op == subject.mutant.scope])


def unusual_calls() -> list[Any]:
    from equations.unusual import unusual

    return [call for dtype in DTYPES for call in unusual(dtype)]


def check_calls(calls: list[Any]) -> None:
    """Hold each call against its statement."""
    from equations.hold import hold, holds

    for call in calls:
        held = hold(call)
        notice(holds(held), f"{held.path} in {held.dtype}: {held.wrong or 'not its equation'}")


# --- checks of one twin, cheapest first -------------------------------------------------------------------------------


def independence(twin: Twin) -> None:
    """No parameter belongs to two blocks; a tied table is one parameter, any other is its own."""
    owners = [id(p) for block in twin.model.get_submodule("blocks") for p in block.parameters()]  # type: ignore[union-attr]
    notice(len(owners) == len(set(owners)), f"{twin.golden.name}: blocks share a parameter")
    notice(is_tied(twin.model) == ("unembed.weight" not in twin.golden.weights), f"{twin.golden.name}: tie")


def scores(twin: Twin) -> None:
    """The whole model against NumPy: at once, padded, far out, and step by step through a cache."""
    from equations.twins import steps

    golden, model = twin.golden, twin.model
    for given, wanted in zip(golden.inputs, golden.scores, strict=True):
        real = given.positions.numpy() >= 0
        with torch.no_grad():
            out = model(given.tokens, given.positions)
        notice(out.dtype == torch.float64, "scores of another dtype")
        close(out.numpy()[real], wanted[real], f"{golden.name}: scores")
        notice(torch.isfinite(out).all(), f"{golden.name}: padding is not finite")
        stepwise = steps(model, twin.variant, given).numpy()
        close(stepwise[real], wanted[real], f"{golden.name}: scores step by step")


def close(ours: np.ndarray, wanted: np.ndarray, what: str) -> None:
    notice(ours.shape == wanted.shape and bool(np.isfinite(ours).all()), what)
    notice(np.abs(ours - wanted).max() <= BOUND * np.abs(wanted).max(), what)


def stranger(twin: Twin) -> None:
    """The last scores of another implementation."""
    given = twin.golden.inputs[1]
    with torch.no_grad():
        out = twin.model(given.tokens[:1], given.positions[:1])[0, -1].numpy()
    close(out, twin.golden.outside, f"{twin.golden.name}: scores of a stranger")


def nodes(twin: Twin) -> None:
    """Every module against its statement, in float32 and bfloat16, far out and through a cache; scores in float32."""
    check_calls(calls_of(twin))
    near = twin.golden.inputs[0]
    with torch.no_grad():
        out = twin.model.to(torch.bfloat16)(near.tokens, near.positions)
    notice(out.dtype == torch.float32, f"{twin.golden.name}: scores in {out.dtype}")
    twin.model.to(torch.float64)


def calls_of(twin: Twin, *, uncached: bool = False) -> list[Any]:
    """The calls of one twin that are held against statements."""
    from equations.hold import capture
    from equations.twins import LENGTH, cache, whole

    far, found = whole(start=131000), []
    for dtype in DTYPES:
        model, cached = twin.model.to(dtype), cache(twin.variant, 2, LENGTH + 5, dtype)
        cached.positions[:, 3:-2] = far.positions
        found += capture(model, far.tokens, far.positions, cached._replace(slots=torch.arange(3, 3 + LENGTH)))
        if uncached:
            found += capture(model, far.tokens, far.positions)
    twin.model.to(torch.float64)
    return found


def fused(twin: Twin) -> None:
    """The same scores with each attention in its fused form."""
    blocks: Any = twin.model.get_submodule("blocks")
    given, explicit = twin.golden.inputs[0], [block.attention.attend for block in blocks]
    for block, attend in zip(blocks, explicit, strict=True):
        block.attention.attend = attend.fused()
    with torch.no_grad():
        out = twin.model(given.tokens, given.positions).numpy()
    for block, attend in zip(blocks, explicit, strict=True):
        block.attention.attend = attend
    real = given.positions.numpy() >= 0
    close(out[real], twin.golden.scores[0][real], f"{twin.golden.name}: scores with fused attention")


def order(twin: Twin) -> None:
    """Which port carries what shows in no number where an op commutes: the stream is added to, the gate comes first."""
    near, streams, gates = twin.golden.inputs[0], [], []

    def enter(module: nn.Module, given: Any) -> None:
        kind = type(module).__name__
        if kind.endswith("Block"):
            streams.append(given[0])
        if kind == "ResidualAdd":
            notice(given[0] is streams[-1], "the stream is not what is added to")
        if kind == "Multiply":
            notice(given[0] is gates[-1], "the gate is not the gate")

    def leave(module: nn.Module, _given: Any, out: Any) -> None:
        kind = type(module).__name__
        if kind == "ResidualAdd":
            streams.append(out)
        if kind in ACTIVATIONS:
            gates.append(out)

    with contextlib.ExitStack() as stack, torch.no_grad():
        for module in twin.model.modules():
            stack.callback(module.register_forward_pre_hook(enter).remove)
            stack.callback(module.register_forward_hook(leave).remove)
        twin.model(near.tokens, near.positions)


# --- what takes longer ------------------------------------------------------------------------------------------------


def counts(subject: Subject) -> None:
    """Parameters of each variant against the published count; all blocks have equally many."""
    for name, variant in own_variants(subject).items():
        none, one = (sum(p.numel() for p in sized(variant, blocks).parameters()) for blocks in (0, 1))
        made = none + variant.config.num_hidden_layers * (one - none)
        notice(made == subject.fixed.counts[name]["count"], f"{name}: count")


def lint(subject: Subject) -> None:
    """The map can be derived: containers only wire, every macro resolves, axes fit."""
    from equations.twins import twin

    from openmodelatlas.trace.derive import derive

    derive(twin(subject.golden[0].name))


FIRST: tuple[Callable[[Subject], None], ...] = (equations, rows, unusual)
TWINS: tuple[Callable[[Twin], None], ...] = (independence, scores, stranger, fused, order, nodes)
LAST: tuple[Callable[[Subject], None], ...] = (counts, lint)


def definition(subject: Subject) -> None:
    """Every check of a mutant of the definition; `subject.now` is the one that ended it."""
    for check in FIRST:
        subject.begin(check)(subject)
    for golden in subject.golden:
        twin = subject.begin(Twin.build)(golden)
        for check_twin in TWINS:
            subject.begin(check_twin)(twin)
    for check in LAST:
        subject.begin(check)(subject)


def statement(subject: Subject) -> None:
    """A mutant of a statement: the modules' calls, captured before, against what it says now."""
    calls, scope = subject.fixed.calls, subject.mutant.scope
    subject.begin(check_calls)(calls[scope] if scope in calls else [c for some in calls.values() for c in some])
