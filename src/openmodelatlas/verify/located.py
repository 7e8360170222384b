"""What a run that locates nodes says of claims: each pin's lines against the lines that compute its nodes."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from openmodelatlas import models
from openmodelatlas.catalog import find
from openmodelatlas.errors import CatalogError
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.evidence import Claim, Pin, Place
from openmodelatlas.records.verification import Measurement, VerificationRecord, Yardstick
from openmodelatlas.trace.locate import Located, locate
from openmodelatlas.trace.located_match import TOLERANCE
from openmodelatlas.verify import parity_run
from openmodelatlas.verify.sources import unpacked

FACTOR = 8.0
"""The scale factor that is written into the packaged reference."""

SEPARATE = "separate-embeddings"
"""The claim that the two tables are two parameters: shown by what the reference's constructor makes."""


@dataclass(frozen=True)
class Judged:
    """What the lines of one file say of a model's claims there. `verified`: every direct node is computed, or got from
    a call, inside the pinned lines; `conflicts` name a node that is not, with its line."""

    verified: tuple[str, ...]
    conflicts: tuple[str, ...]
    not_located: tuple[str, ...]


def judge(located: Located, claims: Sequence[Claim], blob: str) -> Judged:
    """Hold every claim that is pinned to the file against the located lines."""
    lines = {node.node: {*node.lines, *node.called} for node in located.nodes}
    verified, conflicts, absent = [], [], []
    for claim in claims:
        pins = [pin for pin in (claim.pin, *claim.also) if pin.place.blob == blob]
        if not pins or not claim.direct:
            continue
        wrong = [n for n in claim.direct if n in lines and not inside(pins[0], lines[n])]
        unknown = [n for n in claim.direct if n not in lines]
        conflicts += [f"{claim.id}: {n} is at {_some(lines[n])}, the pin at {_ranges(pins[0])}" for n in wrong]
        absent += [f"{claim.id}: {n}" for n in unknown]
        if not wrong and not unknown:
            verified.append(claim.id)
    return Judged(tuple(verified), tuple(conflicts), tuple(absent))


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
    factor = getattr(models.find(model.variant).config, "rope_factor", FACTOR)
    return {} if factor == FACTOR else {f"scale_factor = {FACTOR:g}": f"scale_factor = {factor:g}"}


def place_of(model: Model, kind: str) -> Place:
    """The file of the model's reference that is pinned in a repository (`git`) or a package (`wheel`)."""
    for claim in find.reference(model.reference).claims:
        for pin in (claim.pin, *claim.also):
            if pin.place.kind == kind:
                return pin.place
    raise CatalogError("the reference is not pinned there", where=model.reference, expected=kind)


def yardstick(place: Place, sha256: str, shims: tuple[str, ...]) -> Yardstick:
    """The file that was run."""
    short = place.revision[:12] if place.kind == "git" else place.revision
    return Yardstick(name=f"{place.source}, {place.path}", version=short, sha256=sha256, shims=shims)


def run(
    model: Model, check: str, title: str, kind: str, progress: Progress, replaced: Mapping[str, str] | None = None
) -> VerificationRecord:
    """Locate every node of a tiny twin in the pinned file, and hold the model's claims against the lines."""
    place = place_of(model, kind)
    progress("running the reference", 0, 0)
    with tempfile.TemporaryDirectory(prefix="oma-located-") as folder:
        found = locate(models.find(model.variant), unpacked(place, Path(folder)), replaced)
    claims = find.claims(model)
    judged = judge(found, claims, place.blob)
    verified = list(judged.verified)
    if not found.shared and any(c.id == SEPARATE for c in claims):
        verified.append(SEPARATE)
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
        claims=[name for name in verified if name not in open_],
    )
    return replace(made, located={n.node: n.lines for n in found.nodes})


def measurements(found: Located, judged: Judged) -> list[Measurement]:
    """Counts that must be zero, the distance of the values that were matched, and what was ambiguous."""
    worst = max(found.nodes, key=lambda n: n.distance)
    unsure = sum(bool(n.others) for n in found.nodes)
    return [
        Measurement(where="", what="nodes located, every block's own", value=float(found.found), bound=None),
        Measurement(where="", what="nodes not located", value=float(len(found.missing)), bound=0.0),
        Measurement(
            where="", what="pins whose lines do not compute their node", value=float(len(judged.conflicts)), bound=0.0
        ),
        Measurement(where=worst.node, what="matched values, relative", value=worst.distance, bound=TOLERANCE),
        Measurement(
            where="", what="nodes with further lines, ruled out by call order", value=float(unsure), bound=None
        ),
        Measurement(where="", what="parameters with a second name", value=float(found.shared), bound=0.0),
    ]


def detail(found: Located, judged: Judged, conflicting: Sequence[str]) -> str:
    """One sentence a finding."""
    said = [f"{found.found} of {found.instances} nodes located in {found.recorded} recorded values."]
    said += [f"CONFLICT: {text}." for text in judged.conflicts]
    said += [f"Not located: {text}." for text in judged.not_located]
    said += [f"CONFLICT recorded with {name}: its lines are found, the claim is not verified." for name in conflicting]
    return " ".join(said)
