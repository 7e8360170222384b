"""What a run that locates nodes says of claims: each pin's lines against the lines that compute its nodes."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from openmodelatlas import models
from openmodelatlas.catalog import find
from openmodelatlas.catalog.annotate import spread
from openmodelatlas.errors import CatalogError
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.evidence import Claim, Pin, Place
from openmodelatlas.records.verification import Measurement, VerificationRecord, Yardstick
from openmodelatlas.trace.locate import Located, LocatedNode, locate
from openmodelatlas.trace.located_match import TOLERANCE
from openmodelatlas.verify import parity_run
from openmodelatlas.verify.sources import unpacked

FACTOR = 8.0
"""The scale factor that is written into the packaged reference."""

TABLES = {"embed", "unembed"}
"""What a claim is about that says whether the two tables are one parameter: the model that was built shows it."""

Lines = Mapping[str, Mapping[str, set[int]]]
"""By the blob id of a file that was watched: each node's lines there."""


@dataclass(frozen=True)
class Judged:
    """What the lines of the files say of a model's claims there. `verified`: every direct node is computed, or got from
    a call, inside the pinned lines; `conflicts` name a node that is not, with its line, or a result that the code is
    said to lack and has; `unexplained` are results that no line has, though nothing says that they are lacking."""

    verified: tuple[str, ...]
    conflicts: tuple[str, ...]
    not_located: tuple[str, ...]
    unexplained: tuple[str, ...]


def judge(located: Located, claims: Sequence[Claim], lines: Lines) -> Judged:
    """Hold every claim that is pinned to a watched file against the located lines."""
    verified, conflicts, absent = [], [], []
    lacking = {name for claim in claims for name in claim.lacks}
    for claim in claims:
        pins = [pin for pin in (claim.pin, *claim.also) if pin.place.blob in lines]
        if pins and set(claim.contextual) == TABLES and not claim.direct:
            verified += [claim.id] if bool(located.shared) == located.tied else []
        if not pins or not claim.direct:
            continue
        there = lines[pins[0].place.blob]
        wrong = [n for n in claim.direct if n in there and not inside(pins[0], there[n])]
        unknown = [n for n in claim.direct if n not in there]
        found = [n for n in claim.lacks if n not in located.missing]
        conflicts += [f"{claim.id}: {n} is at {_some(there[n])}, the pin at {_ranges(pins[0])}" for n in wrong]
        conflicts += [f"{claim.id}: {n} is said to be lacking, and a line has it" for n in found]
        absent += [f"{claim.id}: {n}" for n in unknown]
        if not wrong and not unknown and not found:
            verified.append(claim.id)
    unexplained = tuple(name for name in located.missing if name not in lacking)
    return Judged(tuple(verified), tuple(conflicts), tuple(absent), unexplained)


def inside(pin: Pin, lines: set[int]) -> bool:
    """Whether one of the lines lies in one of the pin's ranges."""
    return any(part.first <= line <= part.last for part in pin.ranges for line in lines)


def _some(lines: set[int]) -> str:
    return ", ".join(map(str, sorted(lines)))


def _ranges(pin: Pin) -> str:
    return ", ".join(f"{part.first}–{part.last}" for part in pin.ranges)


def scaled(model: Model) -> bool:
    """Whether the model scales its rotary frequencies."""
    return hasattr(models.find(model.variant).config, "rope_factor")


def patches(model: Model) -> dict[str, str]:
    """Lines of the packaged reference that must be read otherwise for the model: its scale factor is written there."""
    if not parity_run.by_meta(model):
        return {}
    factor = getattr(models.find(model.variant).config, "rope_factor", FACTOR)
    return {} if factor == FACTOR else {f"scale_factor = {FACTOR:g}": f"scale_factor = {factor:g}"}


def places(model: Model) -> Iterator[Place]:
    """Every file that the model's reference is pinned to, its home first; each once."""
    reference = find.reference(model.reference)
    pins = (pin for claim in reference.claims for pin in (claim.pin, *claim.also))
    yield from dict.fromkeys((reference.home, *(pin.place for pin in pins)))


def packaged(model: Model) -> Place:
    """The file of the model's reference that stands in a package."""
    for place in places(model):
        if place.kind == "wheel":
            return place
    raise CatalogError("the reference is pinned in no package", where=model.reference)


def yardstick(place: Place, sha256: str, shims: tuple[str, ...]) -> Yardstick:
    """The file that was run."""
    short = place.revision[:12] if place.kind == "git" else place.revision
    return Yardstick(name=f"{place.source}, {place.path}", version=short, sha256=sha256, shims=shims)


def watch(model: Model, place: Place, replaced: Mapping[str, str] | None = None) -> tuple[Located, Lines]:
    """Every node of a tiny twin in the pinned file and in those pinned files that it calls."""
    among = [p for p in places(model) if (p.source, p.revision, p.kind) == (place.source, place.revision, place.kind)]
    with tempfile.TemporaryDirectory(prefix="oma-located-") as folder:
        files = {p.blob: unpacked(p, Path(folder)) for p in (place, *among)}
        beside = {blob: path for blob, path in files.items() if blob != place.blob}
        found = locate(models.find(model.variant), files[place.blob], replaced, tuple(beside.values()))
    lines = {place.blob: by_node(found.nodes)}
    return found, lines | {blob: by_node(found.elsewhere[str(path)]) for blob, path in beside.items()}


def run(
    model: Model, check: str, title: str, place: Place, progress: Progress, replaced: Mapping[str, str] | None = None
) -> VerificationRecord:
    """Locate every node of a tiny twin, and hold the model's claims against the lines."""
    progress("running the reference", 0, 0)
    found, lines = watch(model, place, replaced)
    claims = [spread(claim, found.blocks) for claim in find.claims(model)]
    judged = judge(found, claims, lines)
    open_ = {c.id for c in claims if c.conflict}
    made = parity_run.record(
        model,
        check,
        title,
        measurements(found, judged),
        references=(yardstick(place, found.sha256, found.shims),),
        positions=found.positions,
        detail=detail(found, judged, [c.id for c in claims if c.id in open_]),
        nodes=[n.node for n in found.nodes],
        claims=[name for name in judged.verified if name not in open_],
    )
    return replace(made, located={n.node: n.lines for n in found.nodes})


def by_node(nodes: Sequence[LocatedNode]) -> dict[str, set[int]]:
    """The lines that compute a node or get it from a call."""
    return {node.node: {*node.lines, *node.called} for node in nodes}


def measurements(found: Located, judged: Judged) -> list[Measurement]:
    """Counts that must be zero, the distance of the values that were matched, and what was ambiguous."""
    worst = max(found.nodes, key=lambda n: n.distance)
    unsure = sum(bool(n.others) for n in found.nodes)
    counts: list[tuple[str, float, float | None]] = [
        ("nodes located, every block's own", found.found, None),
        ("nodes not located", len(judged.unexplained), 0.0),
        ("pins whose lines do not compute their node", len(judged.conflicts), 0.0),
        ("pins in a file that has no line of their node", len(judged.not_located), 0.0),
        ("nodes with further lines, ruled out by call order", unsure, None),
        ("parameters with a second name", found.shared, float(found.tied)),
    ]
    return [
        *(Measurement(where="", what=what, value=float(count), bound=bound) for what, count, bound in counts),
        Measurement(where=worst.node, what="matched values, relative", value=worst.distance, bound=TOLERANCE),
    ]


def detail(found: Located, judged: Judged, conflicting: Sequence[str]) -> str:
    """One sentence a finding."""
    lacking = [name for name in found.missing if name not in judged.unexplained]
    said = [f"{found.found} of {found.instances} nodes located in {found.recorded} recorded values."]
    said += [f"CONFLICT: {text}." for text in judged.conflicts]
    said += [f"Not located: {text}." for text in (*judged.not_located, *judged.unexplained)]
    said += [f"No value in this code, as its claim says: {name}." for name in lacking]
    said += [f"CONFLICT recorded with {name}: its lines are found, the claim is not verified." for name in conflicting]
    return " ".join(said)
