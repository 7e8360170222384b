"""A node's code and sources as its page shows them: line ranges, excerpts where the text was found, and gaps."""

from collections.abc import Iterable
from dataclasses import dataclass

from openmodelatlas.catalog.annotate import url_of
from openmodelatlas.records.evidence import CodePin, NodeClaim, PinReport, Place, State
from openmodelatlas.records.graph import Node
from openmodelatlas.site.words import lines_words

SHORT = 12


@dataclass(frozen=True)
class Segment:
    """Lines of an excerpt. Without text they are lines left out or, if `pinned`, lines that are not at hand."""

    lines: str
    text: str | None
    pinned: bool = False


@dataclass(frozen=True)
class Code:
    """One file's lines for a node: `label` is `model.py 236–302`."""

    label: str
    place: str
    url: str
    state: State
    segments: tuple[Segment, ...]
    found: bool


@dataclass(frozen=True)
class Elsewhere:
    """Another place that says the same: in the same text, or in other words."""

    words: str
    url: str
    status: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Source:
    """One claim at a node."""

    grade: str
    statement: str
    id: str
    state: State
    place: str
    pinned: str
    url: str
    lines: str
    status: str
    segments: tuple[Segment, ...]
    borrowed: str
    also: tuple[Elsewhere, ...]
    conflict: str | None


def sources(node: Node) -> tuple[Source, ...]:
    """The claims of a node, the direct ones first."""
    return tuple(_source(claim) for claim in node.claims)


def code(node: Node) -> tuple[Code, ...]:
    """The node's code, file by file."""
    return tuple(_code(pin, node.claims) for pin in node.code)


def _source(claim: NodeClaim) -> Source:
    place = claim.pin.pin.place
    shown, borrowed = _text_of(claim)
    ends = [(part.first, part.last) for part in claim.pin.pin.ranges]
    return Source(
        grade="Direct evidence" if claim.grade == "direct" else "Contextual evidence",
        statement=claim.statement,
        id=claim.id,
        state=claim.state,
        place=_place(place),
        pinned=_pinned(place),
        url=_url(claim.pin, claim.also),
        lines=f"line{'s' if ends[0][0] < ends[-1][1] else ''} {lines_words(ends[0][0], ends[-1][1])}",
        status=_status(claim.pin),
        segments=_segments(ends, shown),
        borrowed=borrowed,
        also=tuple(_elsewhere(report) for report in claim.also),
        conflict=claim.conflict,
    )


def _place(place: Place) -> str:
    name = f"{place.source}=={place.revision}" if place.kind == "wheel" else place.source
    return f"{name} / {place.path}"


def _pinned(place: Place) -> str:
    if place.kind == "wheel":
        return f"pinned package {place.source} {place.revision}"
    return f"pinned revision {place.revision[:SHORT]}"


def _url(report: PinReport, also: Iterable[PinReport]) -> str:
    """The public page of the lines; a package has none, but the same file in a repository may."""
    pins = [report.pin, *(other.pin for other in also if other.pin.place.blob == report.pin.place.blob)]
    for pin in pins:
        if pin.place.kind == "git":
            return url_of(pin.place, (pin.ranges[0].first, pin.ranges[-1].last))
    return ""


def _status(report: PinReport) -> str:
    if report.status == "moved":
        return "moved to lines " + ", ".join(lines_words(a, b) for a, b in report.found)
    if report.status == "CHANGED":
        return "the text there has changed"
    return "text as pinned" if report.status == "same" else "text not at hand"


def _text_of(claim: NodeClaim) -> tuple[tuple[str, ...], str]:
    """A claim's text, from its own place or from another with the same text (which is then named)."""
    if claim.pin.text:
        return claim.pin.text, ""
    for report in claim.also:
        if report.pin.same_text and report.text and len(report.text) == len(claim.pin.pin.ranges):
            return report.text, _place(report.pin.place)
    return (), ""


def _segments(ends: Iterable[tuple[int, int]], texts: tuple[str | None, ...]) -> tuple[Segment, ...]:
    if not any(text is not None for text in texts):
        return ()
    out: list[Segment] = []
    previous: int | None = None
    for (first, last), text in zip(ends, texts, strict=True):
        if previous is not None and first > previous + 1:
            out.append(Segment(lines_words(previous + 1, first - 1), None))
        out.append(Segment(lines_words(first, last), text, pinned=True))
        previous = last
    return tuple(out)


def _elsewhere(report: PinReport) -> Elsewhere:
    place = report.pin.place
    ends = [(part.first, part.last) for part in report.pin.ranges]
    packed = place.kind == "wheel"
    name = f"{place.source}=={place.revision}" if packed else f"{place.source} @ {place.revision[:SHORT]}"
    at = f"{place.path.rpartition('/')[2]} {', '.join(lines_words(a, b) for a, b in ends)} in {name}"
    how = "same text at" if report.pin.same_text else "same statement, other text, at"
    url = url_of(place, (ends[0][0], ends[-1][1])) if place.kind == "git" else ""
    texts = report.text if not report.pin.same_text else ()
    return Elsewhere(f"{how} {at}", url, _status(report), _segments(ends, texts))


def _code(pin: CodePin, claims: Iterable[NodeClaim]) -> Code:
    known = _known_lines(pin, claims)
    texts = tuple(
        "\n".join(known[n] for n in range(first, last + 1)) if all(n in known for n in range(first, last + 1)) else None
        for first, last in pin.lines
    )
    git = len(pin.revision) == 40
    place = f"{pin.repo} @ {pin.revision[:SHORT]}" if git else f"{pin.repo}=={pin.revision}"
    return Code(
        label=f"{pin.path.rpartition('/')[2]} {lines_words(*pin.envelope)}",
        place=place,
        url=pin.url,
        state=pin.state,
        segments=_segments(pin.lines, texts),
        found=None not in texts,
    )


def _known_lines(pin: CodePin, claims: Iterable[NodeClaim]) -> dict[int, str]:
    """Every line of the file that a claim of the node brings along, by its number at the pinned place."""
    known: dict[int, str] = {}
    for claim in claims:
        place = claim.pin.pin.place
        if (place.source, place.revision, place.path) != (pin.repo, pin.revision, pin.path):
            continue
        # Not strict: there is no text at all where neither the file nor its twin was at hand.
        for part, text in zip(claim.pin.pin.ranges, _text_of(claim)[0], strict=False):
            known |= dict(enumerate(text.split("\n"), part.first))
    return known
