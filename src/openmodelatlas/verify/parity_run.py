"""One parity run: the same cases here and in the references, and the record that is left of it."""

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from openmodelatlas.catalog import find
from openmodelatlas.catalog.load import references
from openmodelatlas.errors import CatalogError
from openmodelatlas.fetch import wheels
from openmodelatlas.fetch.progress import Progress, silent
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.evidence import Place
from openmodelatlas.records.verification import Measurement, Tier, VerificationRecord, Yardstick
from openmodelatlas.verify import definition_hash, parity, parity_hub
from openmodelatlas.verify.parity_distances import BETWEEN, Distances, holds, measured, worst
from openmodelatlas.verify.references.exchange import Answer, Case, Values
from openmodelatlas.verify.references.worker import needs, worker

META, HUB, ITSELF = "ours to Meta's code", "ours to transformers", "transformers in float32 to itself in float64"
TINY: Tier = "tiny random weights"
LISTED = "Listed are the node nearest to its bound, and the logits; all nodes were compared."
OWN_WIDTH = 296
"""A twin's width where its references can express a head width of its own: then no width can stand in for another."""


def runs_here(model: Model) -> str | None:
    """Why no reference here runs the model, or None."""
    return None if parity_hub.known(model.family) else f"no table says where transformers computes {model.family}"


def by_meta(model: Model) -> bool:
    """Whether the model's reference is Meta's code, which then is a second yardstick."""
    return find.reference(model.reference).runner == "meta"


def twin(model: Model, **changes: Any) -> Variant:
    """The model's twin for a run beside all its references. Meta's code has no head width of its own."""
    own: dict[str, Any] = {} if by_meta(model) else {"hidden_size": OWN_WIDTH}
    return parity.twin(model.variant, **own, **changes)


_done: dict[Any, VerificationRecord] = {}


def shared(check: str, model: Model, variant: Variant, work: Callable[[], VerificationRecord]) -> VerificationRecord:
    """The record that `work` makes of a twin in a check; made once for all models whose twins are the same."""
    key = (check, *computes(model, variant))
    if key not in _done:
        _done[key] = work()
    return replace(_done[key], model=model.id, entry=definition_hash.entry(model))


def computes(model: Model, variant: Variant) -> tuple[Any, ...]:
    """What a run of the twin depends on: two models for which this is equal differ in name only."""
    return model.reference, variant.model, variant.config, tuple(sorted(variant.parts.items(), key=str))


@dataclass(frozen=True)
class Outcome:
    """Distances of one case by pair of sides, what it was measured against, and the values of those sides."""

    found: Distances
    between: str
    to: tuple[str, ...]
    sides: Mapping[str, list[Values]] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """The text of a reference, and what it is called."""

    model: str
    args: str
    name: str
    version: str

    def options(self) -> dict[str, Any]:
        """What the adapter takes."""
        return dict(vars(self))


def packaged_source(progress: Progress = silent) -> Source:
    """Meta's model file in the wheel that the catalogue pins, by hash."""
    place = _wheel_place()
    assert place.wheel_sha256 is not None
    path = wheels.wheel(place.source, place.revision, place.wheel_sha256, progress=progress)
    model = wheels.member(path, place.path).decode()
    args = wheels.member(path, f"{place.path.rpartition('/')[0]}/args.py").decode()
    return Source(model=model, args=args, name=f"Meta's code, {place.source}", version=place.revision)


def _wheel_place() -> Place:
    claims = [claim for reference in references().values() if reference.runner == "meta" for claim in reference.claims]
    for place in (claim.pin.place for claim in claims):
        if place.kind == "wheel" and place.path.endswith("/model.py"):
            return place
    raise CatalogError("no pin on the packaged reference", where="catalog/references", expected="a model.py of a wheel")


def ask_meta(
    variant: Variant, weights: Values, cases: Mapping[str, Case], source: Source, *, dtype: str = "float32", **more: Any
) -> Answer:
    """Meta's code on those cases."""
    named = parity.renamed(variant, weights, "meta")
    return worker("meta").ask(parity.request(variant, named, cases, dtype=dtype, **source.options(), **more))


def ask_hub(variant: Variant, weights: Values, cases: Mapping[str, Case], *, dtype: str = "float32") -> Answer:
    """transformers on those cases, its values in our order of features."""
    needs("transformers")
    options = {**parity_hub.options(variant.family), "config": parity_hub.published(variant)}
    answer = worker("hub").ask(parity.request(variant, weights, cases, dtype=dtype, **options))
    answer["cases"] = {
        name: [parity_hub.interleaved(values, variant) for values in calls] for name, calls in answer["cases"].items()
    }
    return answer


def against(
    model: Model, variant: Variant, cases: Mapping[str, Case], progress: Progress = silent
) -> tuple[dict[str, Outcome], tuple[Yardstick, ...]]:
    """Each case here and in every reference that runs the model."""
    return (against_both if by_meta(model) else against_hub)(variant, cases, progress)


def against_both(
    variant: Variant, cases: Mapping[str, Case], progress: Progress = silent
) -> tuple[dict[str, Outcome], tuple[Yardstick, ...]]:
    """Each case in float32 here, in Meta's code and in transformers."""
    weights, source = parity.stored(variant), packaged_source(progress)
    progress("running Meta's code", 0, 0)
    meta = ask_meta(variant, weights, cases, source)
    progress("running transformers", 0, 0)
    hub = ask_hub(variant, weights, cases)
    ours, kinds = parity.filled(variant, weights), parity.kinds(variant)
    outcomes = {}
    for name, case in cases.items():
        here, found = parity.ours(ours, case), Distances(kinds)
        found.add(META, here, meta["cases"][name])
        found.add(HUB, here, hub["cases"][name])
        found.add(BETWEEN, hub["cases"][name], meta["cases"][name])
        sides = {META: meta["cases"][name], HUB: hub["cases"][name]}
        outcomes[name] = Outcome(found, BETWEEN, (META, HUB), sides)
    return outcomes, yardsticks(meta, hub)


def against_hub(
    variant: Variant, cases: Mapping[str, Case], progress: Progress = silent
) -> tuple[dict[str, Outcome], tuple[Yardstick, ...]]:
    """Each case here and in transformers alone, whose own rounding (float32 against float64) takes the place of a
    second reference. Padding does not count, and the rounding is that of the same rows without it: in float64 the
    library's padding rows are no numbers, and spread."""
    weights = parity.stored(variant)
    progress("running transformers", 0, 0)
    whole = {name: f"{name}, no padding" if real_rows(case) else name for name, case in cases.items()}
    plain = {whole[name]: unpadded(case) for name, case in cases.items()}
    hub = ask_hub(variant, weights, {**plain, **cases})
    double = ask_hub(variant, weights, plain, dtype="float64")
    ours, kinds = parity.filled(variant, weights), parity.kinds(variant)
    outcomes = {}
    for name, case in cases.items():
        here, found = parity.ours(ours, case), Distances(kinds)
        found.add(HUB, here, hub["cases"][name], real_rows(case))
        found.add(ITSELF, hub["cases"][whole[name]], double["cases"][whole[name]])
        outcomes[name] = Outcome(found, ITSELF, (HUB,), {HUB: hub["cases"][name]})
    return outcomes, yardsticks(hub)


def unpadded(case: Case) -> Case:
    """The same tokens, all of them real."""
    if not real_rows(case):
        return case
    positions = torch.arange(case["tokens"].shape[1]).expand_as(case["tokens"]).contiguous()
    return Case(**{**case, "positions": positions})


def real_rows(case: Case) -> Sequence[Tensor]:
    """Which positions of each call are no padding; nothing if none is."""
    real = case["positions"] >= 0
    return torch.split(real, case["calls"], 1) if not bool(real.all()) else ()


def yardsticks(*answers: Answer) -> tuple[Yardstick, ...]:
    """What the answers say of the references that gave them."""
    found = [answer["yardstick"] for answer in answers]
    return tuple(Yardstick(**{**y, "shims": tuple(y["shims"])}) for y in found)


def record(
    model: Model,
    check: str,
    title: str,
    measurements: Iterable[Measurement],
    *,
    references: tuple[Yardstick, ...],
    positions: int,
    detail: str,
    tier: Tier = TINY,
    dtype: str = "float32",
    nodes: Iterable[str] = (),
    claims: Iterable[str] = (),
    mutants: Mapping[str, int] | None = None,
) -> VerificationRecord:
    """The record of one check; it passed if every measurement is within its bound."""
    measurements = tuple(measurements)
    return VerificationRecord(
        model=model.id,
        check=check.rpartition(".")[2],
        title=title,
        tier=tier,
        outcome="passed" if holds(measurements) else "failed",
        definition=definition_hash.definition(model.family),
        entry=definition_hash.entry(model),
        references=references,
        dtype=dtype,
        positions=positions,
        nodes=tuple(dict.fromkeys(node.partition(":")[0] for node in nodes)),
        claims=tuple(claims),
        located={},
        measurements=measurements,
        mutants=mutants or {},
        detail=detail,
        date=date.today().isoformat(),
        environment=environment(),
    )


def environment() -> dict[str, str]:
    """What the numbers depend on besides the code; no name of a machine or a folder."""
    return {
        "openmodelatlas": version("openmodelatlas"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": f"{platform.system()} {platform.machine()}, one thread",
    }


def summary(outcome: Outcome, label: str = "") -> tuple[Measurement, ...]:
    """The three numbers at the logits and at the node nearest to its bound."""
    found = every(outcome)
    nodes = {worst(found).where, "logits"}
    return labelled([m for m in found if m.where in nodes], label)


def every(outcome: Outcome, label: str = "") -> tuple[Measurement, ...]:
    """The three numbers at every node."""
    return labelled(measured(outcome.found, outcome.between, outcome.to), label)


def labelled(measurements: Iterable[Measurement], label: str) -> tuple[Measurement, ...]:
    """The measurements of one of several cases, which `label` names."""
    return tuple(
        Measurement(where=m.where, what=f"{m.what}; {label}" if label else m.what, value=m.value, bound=m.bound)
        for m in measurements
    )


def yardstick_note(model: Model) -> str:
    """What stands in for a second reference, where there is none."""
    return "" if by_meta(model) else " The second yardstick is transformers' own rounding."
