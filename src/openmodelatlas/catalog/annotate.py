"""Join a derived map with the claims made of it: expressions, code, and claims with their states, node by node."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import pairwise

from openmodelatlas.catalog import find
from openmodelatlas.errors import CatalogError
from openmodelatlas.records.evidence import Claim, CodePin, Grade, NodeClaim, Pin, PinReport, Place, State
from openmodelatlas.records.graph import Graph, Node
from openmodelatlas.records.verification import Proof, VerificationRecord

Reports = Mapping[str, tuple[PinReport, ...]]
"""By claim id: the reports of the claim's own pin and of its other places, in order."""

BLOCK = "block"
"""What ids of claims start with that are about blocks of every kind."""

_WORST: tuple[State, ...] = ("conflict", "not verified", "stated", "read", "derived", "verified")


def annotate(
    graph: Graph,
    reports: Reports,
    claims: Sequence[Claim] | None = None,
    records: Sequence[VerificationRecord] = (),
    stale: Collection[str] = (),
) -> Graph:
    """The same map with `expression`, `code`, `claims` and `proofs` filled in.

    `records` are verification runs of the model, `stale` the names of those whose subject has changed since.

    `claims` are all that are shown of the graph's model unless given. An op's or container's claims come down to the
    tensors that it makes as contextual. A claim about a node that the map doesn't have is a CatalogError.
    """
    shown = find.shown(find.model(graph.model)) if claims is None else claims
    made = tuple(spread(claim, [region.name for region in graph.regions]) for claim in shown)
    _check(graph, made)
    proved = {name for r in records if r.outcome == "passed" and r.check not in stale for name in r.claims}
    nodes = [_node(node, made, reports, proved) for node in graph.nodes]
    return replace(graph, nodes=tuple(replace(n, proofs=tuple(_proofs(n, records, stale))) for n in nodes))


def spread(claim: Claim, regions: Sequence[str]) -> Claim:
    """The claim with its ids that start with `block` set out for blocks of every kind, where none is called just so."""
    if not regions or BLOCK in regions:
        return claim

    def each(name: str) -> list[str]:
        stands = name == BLOCK or name.startswith((f"{BLOCK}.", f"{BLOCK}:"))
        return [region + name.removeprefix(BLOCK) for region in regions] if stands else [name]

    return replace(
        claim,
        direct=tuple(other for name in claim.direct for other in each(name)),
        contextual=tuple(other for name in claim.contextual for other in each(name)),
        lacks=tuple(other for name in claim.lacks for other in each(name)),
        expressions={other: text for name, text in claim.expressions.items() for other in each(name)},
    )


def _proofs(node: Node, records: Iterable[VerificationRecord], stale: Collection[str]) -> Iterator[Proof]:
    """The runs that a node took part in; a tensor's are those of the op that made it."""
    names = {node.id}
    if node.kind == "tensor":
        sources = [node.id, *(p.from_ or "" for p in node.outputs + node.inputs)]
        names |= {source.rpartition(":")[0] for source in sources}
        names.discard("")
    for record in records:
        if names & set(record.nodes):
            yield Proof(
                check=record.check,
                title=record.title,
                tier=record.tier,
                outcome=record.outcome,
                stale=record.check in stale,
                references=tuple(f"{r.name} {r.version}" for r in record.references),
                measured=tuple(m for m in record.measurements if m.where in names),
                located=next((record.located[n] for n in sorted(names) if n in record.located), ()),
                date=record.date,
            )


def _check(graph: Graph, claims: Iterable[Claim]) -> None:
    for claim in claims:
        missing = [name for name in claim.direct + claim.contextual if name not in graph.by_id]
        if missing:
            raise CatalogError(f"claim {claim.id} names nodes that {graph.model} lacks", where=", ".join(missing))


def _node(node: Node, claims: Iterable[Claim], reports: Reports, proved: Set[str]) -> Node:
    graded = [(claim, grade) for claim in claims if (grade := grade_at(claim, node)) is not None]
    graded.sort(key=lambda pair: pair[1] != "direct")
    shown = tuple(_shown(claim, grade, reports, proved) for claim, grade in graded)
    expressions = [claim.expressions[node.id] for claim, _ in graded if node.id in claim.expressions]
    return replace(
        node,
        expression=expressions[0] if expressions else node.expression,
        code=_code(_standing(node, graded), {claim.id: claim.state for claim in shown}),
        claims=shown,
    )


def grade_at(claim: Claim, node: Node) -> Grade | None:
    """How a claim bears on a node, if it does."""
    if node.kind == "tensor":
        names = {node.id, node.id.rpartition(":")[0]}
        return "contextual" if names & set(claim.direct + claim.contextual) else None
    if node.id in claim.direct:
        return "direct"
    return "contextual" if node.id in claim.contextual else None


def _shown(claim: Claim, grade: Grade, reports: Reports, proved: Set[str]) -> NodeClaim:
    pin, *also = reports.get(claim.id) or _unsought(claim)
    state = state_of(claim, (pin, *also))
    return NodeClaim(
        id=claim.id,
        statement=claim.statement,
        grade=grade,
        state="verified" if claim.id in proved and state != "conflict" else state,
        pin=pin,
        also=tuple(also),
        conflict=claim.conflict,
    )


def _unsought(claim: Claim) -> tuple[PinReport, ...]:
    return tuple(
        PinReport(claim=claim.id, pin=pin, status="not available", via=None, found=(), text=(), detail="not looked for")
        for pin in (claim.pin, *claim.also)
    )


def state_of(claim: Claim, reports: Sequence[PinReport]) -> State:
    """What is known of a claim: `read` when the pinned text was found at its place, in another version, or line for
    line at another pinned place; `conflict` when the text has changed or another source disagrees."""
    own, *others = reports
    if claim.conflict is not None or own.status == "CHANGED":
        return "conflict"
    if own.status in ("same", "moved"):
        return "read"
    twin = any(other.pin.same_text and other.status == "same" for other in others)
    return "read" if twin else "not verified"


def _standing(node: Node, graded: Sequence[tuple[Claim, Grade]]) -> list[Claim]:
    """The claims whose lines are a node's code: those that compute it, else all that show where it stands."""
    makers = {node.id, node.id.rpartition(":")[0]} if node.kind == "tensor" else {node.id}
    direct = [claim for claim, _ in graded if makers & set(claim.direct)]
    return direct or [claim for claim, _ in graded if not claim.caveat]


def _code(claims: Sequence[Claim], states: Mapping[str, State]) -> tuple[CodePin, ...]:
    """One entry a file: all lines that the claims pin in it."""
    by_place: dict[Place, list[Claim]] = {}
    for claim in claims:
        by_place.setdefault(claim.pin.place, []).append(claim)
    return tuple(
        code_of(place, [c.pin for c in of], min((states[c.id] for c in of), key=_WORST.index), of[0])
        for place, of in by_place.items()
    )


def code_of(place: Place, pins: Iterable[Pin], state: State, claim: Claim) -> CodePin:
    """The lines of pins in one file, overlapping ones joined, with the gaps between them."""
    lines = join((part.first, part.last) for pin in pins for part in pin.ranges)
    envelope = (lines[0][0], lines[-1][1])
    return CodePin(
        repo=place.source,
        revision=place.revision,
        path=place.path,
        lines=lines,
        envelope=envelope,
        omitted=tuple((a[1] + 1, b[0] - 1) for a, b in pairwise(lines)),
        state=state,
        url=_url(place, envelope, claim),
    )


def join(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges in order; overlapping or touching ones become one."""
    done: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if done and first <= done[-1][1] + 1:
            done[-1] = (done[-1][0], max(done[-1][1], last))
        else:
            done.append((first, last))
    return tuple(done)


def _url(place: Place, envelope: tuple[int, int], claim: Claim) -> str:
    """The public page of the lines; for a wheel, that of the same file in a repository, or nothing."""
    if place.kind == "wheel":
        twins = [pin.place for pin in claim.also if pin.place.kind == "git" and pin.place.blob == place.blob]
        if not twins:
            return ""
        place = twins[0]
    return url_of(place, envelope)


def url_of(place: Place, envelope: tuple[int, int]) -> str:
    """The public page of lines of a repository's file."""
    first, last = envelope
    lines = f"#L{first}" if first == last else f"#L{first}-L{last}"
    return f"https://github.com/{place.source}/blob/{place.revision}/{place.path}{lines}"
