"""The front page: every model with its picture, family by family, the plainest first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from openmodelatlas.records.graph import Graph
from openmodelatlas.site.compare import differences
from openmodelatlas.site.inputs import ModelPage, Shelf
from openmodelatlas.site.preview import KEY, preview
from openmodelatlas.site.traits import tags
from openmodelatlas.site.words import compact

SIZES = ((10**9, "up to 1 B"), (10**10, "1 to 10 B"), (10**11, "10 to 100 B"), (10**18, "over 100 B"))
"""Classes of parameter counts: what they end below, and their name."""


@dataclass(frozen=True)
class Card:
    """One model. `search`: what the search looks in; `keys`: by filter, what the model is filed under."""

    file: str
    title: str
    about: str
    tags: tuple[str, ...]
    picture: Markup
    search: str
    keys: dict[str, str]
    count: int
    date: str


@dataclass(frozen=True)
class Group:
    """One release. `beside`: how it differs from the family's first, in words."""

    id: str
    file: str
    title: str
    byline: str
    beside: str
    search: str
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Filter:
    """A choice that a script offers: its key in `Card.keys`, its name, what there is to choose."""

    key: str
    name: str
    options: tuple[str, ...]


def families(shelf: Shelf) -> tuple[tuple[Group, ...], ...]:
    """Releases by family. Within a family in the order of the catalogue; families by how little sets them apart."""
    by_family: dict[str, list[str]] = {}
    for page in shelf.pages:
        names = by_family.setdefault(page.model.family, [])
        if page.release.id not in names:
            names.append(page.release.id)
    defaults = {name: _default(shelf, name) for names in by_family.values() for name in names}

    def plainness(names: Sequence[str]) -> tuple[int, str]:
        first = defaults[names[0]]
        return len(tags(first.graph)), first.release.date

    order = sorted(by_family.values(), key=plainness)
    return tuple(tuple(_group(shelf, name, defaults[names[0]]) for name in names) for names in order)


def _default(shelf: Shelf, release: str) -> ModelPage:
    page = shelf.default(release)
    assert page is not None, "the release of a model on the shelf"
    return page


def _group(shelf: Shelf, name: str, first: ModelPage) -> Group:
    pages = shelf.by_release()[name]
    release = pages[0].release
    follows = _default(shelf, release.follows).release.title if release.follows in shelf.by_release() else ""
    shares = release.architecture is not None and first.release.id != name
    lineage = [release.kind]
    lineage += [f"follows {follows}"] if follows else []
    lineage += [f"shares the architecture of {first.release.title}"] if shares and not follows else []
    byline = f"{release.maker} · {release.month} · {' · '.join(lineage)}"
    shown = _default(shelf, name)
    other = shelf.match(shown, first.release.id)
    beside = differs(other, shown) if other is not None and first.release.id != name else ""
    return Group(
        id=name,
        file=f"{name}.html",
        title=release.title,
        byline=byline,
        beside=beside,
        search=f"{release.title} {byline}".lower(),
        cards=tuple(map(card, pages)),
    )


def card(page: ModelPage) -> Card:
    """A model's card."""
    graph, own = page.graph, tags(page.graph)
    total = graph.counts.total
    about = f"{_count(graph)} · {page.model.context.config.positions:,} positions"
    return Card(
        file=f"{page.model.id}/index.html",
        title=page.model.title,
        about=about,
        tags=own,
        picture=Markup(preview(graph)),
        search=" ".join((page.model.title, page.release.maker, page.release.month, about, *own)).lower(),
        keys={
            "maker": page.release.maker,
            "kind": page.release.kind,
            "size": next(name for end, name in SIZES if total <= end),
            "trait": "|".join(own),
        },
        count=total,
        date=page.release.date,
    )


def _count(graph: Graph) -> str:
    total, active = graph.counts.total, graph.counts.active
    if active == total:
        return f"{compact(total)} parameters"
    return f"{compact(total)} parameters, {compact(active)} active per token"


def differs(before: ModelPage, after: ModelPage) -> str:
    """`Beside Llama 3: scaled rope.` By what sets each apart, else by nodes that only one has, else by sizes."""
    title = before.release.title
    had, has = tags(before.graph), tags(after.graph)
    found = [*(tag for tag in has if tag not in had), *(f"no {tag}" for tag in had if tag not in has)]
    rows = differences(before.graph, after.graph)
    found = found or [row.where for row in rows if row.structural]
    if found:
        return f"Beside {title}: {', '.join(found)}."
    if rows:
        return f"The map of {title} at other sizes."
    return f"The map of {title}; only what was learned differs."


def filters(groups: Iterable[Group]) -> tuple[Filter, ...]:
    """What can be chosen from, where there is a choice."""
    cards = [card for group in groups for card in group.cards]
    found = []
    for key, name in (("maker", "maker"), ("kind", "kind"), ("size", "size"), ("trait", "with")):
        values = {value for card in cards for value in card.keys[key].split("|") if value}
        order = [name for _, name in SIZES]
        options = sorted(values, key=lambda v: (order.index(v) if v in order else 0, v))
        if len(options) > 1 or (options and key == "trait"):
            found.append(Filter(key, name, tuple(options)))
    return tuple(found)


def legend() -> tuple[tuple[Markup, str], ...]:
    """Pieces of the pictures, each with what it means."""
    return tuple(
        (Markup(f'<svg class="preview" viewBox="0 0 40 24" aria-hidden="true">{piece}</svg>'), words)
        for piece, words in KEY
    )
