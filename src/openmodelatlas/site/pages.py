"""The pages of models and their nodes, and the gallery, as HTML."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import jinja2
from markupsafe import Markup

from openmodelatlas.records.graph import Graph, Node, Region
from openmodelatlas.records.report import CheckpointRecord
from openmodelatlas.site.checkpoint import ledger_rows, summary, verdict
from openmodelatlas.site.compare import Comparison, against_file, differences
from openmodelatlas.site.context import conflict, said
from openmodelatlas.site.diagram import Pen, draw, region_heading
from openmodelatlas.site.facts import facts
from openmodelatlas.site.gallery import families, filters, legend
from openmodelatlas.site.inputs import Edition, ModelPage, Shelf
from openmodelatlas.site.kin import counterpart
from openmodelatlas.site.maths import Maths
from openmodelatlas.site.panel import panel
from openmodelatlas.site.proofs import open_nodes, proved, runs
from openmodelatlas.site.provenance import provenance_line
from openmodelatlas.site.schedule import ranges, short_title
from openmodelatlas.site.sizes import SizeTable, size_table
from openmodelatlas.site.strip import Strip, strip
from openmodelatlas.site.view import Link, View, Viewer
from openmodelatlas.site.words import AXIS_MEANINGS, compact, file_of, region_words

STATES = (
    ("verified", "by a run: the check, what it was held against and the measured value are recorded"),
    ("derived", "follows from the definition that ran, or from arithmetic on it"),
    ("read", "not run: a source is pinned to its lines, and the text found there has the recorded hash"),
    ("stated", "somebody says so, and nothing here has checked it"),
    ("conflict", "two sources disagree, or a pinned text has changed; both are shown"),
    ("not verified", "no check has been made, or the pinned text was not at hand"),
)
FOOTER = "Derived from definitions that run."


@dataclass(frozen=True)
class TwinItem:
    """One entry of a diagram's text form."""

    link: Link
    reads: str
    gives: str
    count: str
    inside: tuple["TwinItem", ...]


class Press:
    """Templates with what all pages share."""

    def __init__(self, maths: Maths, shelf: Shelf, records: Sequence[CheckpointRecord] = ()) -> None:
        self.maths, self.shelf, self.records = maths, shelf, tuple(records)
        self.env = jinja2.Environment(
            loader=jinja2.PackageLoader("openmodelatlas.site"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
        )
        self.env.filters["file_of"] = file_of
        self.env.globals["state_words"] = dict(STATES)
        self.footer = f"{FOOTER} Open Model Atlas {version('openmodelatlas')}"

    def page(self, template: str, **values: Any) -> str:
        """A whole page, without needless white space."""
        base = {"footer": self.footer, "description": "", "search_hint": "Search this map", "model_dir": None}
        return squeeze(self.env.get_template(template).render(**base | values))

    def article(self, view: View, level: int = 2, stored: object = None) -> str:
        """A node's text alone, for the panel."""
        parts: Any = self.env.get_template("parts.html").module
        return squeeze(str(parts.article(view, level, stored)))

    # --- one model ----------------------------------------------------------------------------------------------------

    def model(self, of: Edition, *, release: bool) -> str:
        """The page of a model or checkpoint, or the page of a release with this size shown."""
        page, record = of.page, of.record
        graph, prefix = page.graph, f"{of.folder}/" if release else ""
        viewer = Viewer(graph, self.maths)
        pen = Pen(graph, lambda name: prefix + file_of(name), foldable=True)
        compared = self._compared(page)
        held = [record] if record else [r for r in self.records if r.model == page.model.id]
        own = () if record else page.own
        rests = panel(page, held, own)
        return self.page(
            "model.html",
            kind="model",
            root="" if release else "../",
            title=page.release.title if release else of.title,
            heading=page.release.title if release else of.title,
            description=f"{of.title}: {compact(graph.counts.total)} parameters, {region_heading(graph)}",
            model_dir=prefix,
            prefix=prefix,
            path=self._path(page, release=release),
            crumb=page.release.title if release else of.crumb,
            kind_words=_capital(page.release.kind),
            release=page.release,
            model=page.model,
            follows=self._release_link(page.release.follows),
            architecture=self._architecture(page),
            sizes=self._sizes(page, release=release),
            facts=facts(graph, page.model),
            current="" if record else page.model.id,
            provenance=Markup(provenance_line(page, verdict(record.report) if record else "", rests)),
            rests=rests,
            own=own,
            record=record,
            verdict=verdict(record.report) if record else "",
            stored_facts=summary(record) if record else [],
            checkpoints=[] if record else self.checkpoints(page.model.id),
            runs=runs(page.runs, page.stale),
            proved=sum(proved(n) for n in graph.nodes),
            nodes=len(graph.nodes),
            unproved=open_nodes(graph),
            layers=strip(graph, lambda region: (region, prefix + file_of(region))),
            model_map=Markup(draw(pen, "")),
            regions=[_region(pen, region) for region in graph.regions],
            twin=twin(viewer, graph.by_id[""], prefix, deep=True),
            twin_open=False,
            table=self._table(page, release=release),
            context=said(page),
            context_conflict=conflict(page),
            compared=compared.model if compared else None,
            others=self._beside(page, prefix),
            changes=differences(compared.graph, graph) if compared else [],
            deviations=[_deviation(graph, d) for d in page.model.deviations],
            claims=_claims(graph),
        )

    def node(self, of: Edition, node: Node, viewer: Viewer, view: View, stored: object = None) -> str:
        """The page of a node or tensor: its diagram with the place marked, and its text."""
        graph = of.page.graph
        scope = viewer.scope(node)
        zoom = [Link("", of.crumb, "index.html"), *(link for link in viewer.path(node) if link.id)]
        return self.page(
            "node.html",
            kind="node",
            root="../",
            title=f"{of.title} · {node.title}",
            description=f"{node.title} of {of.title}: {node.sentence}",
            model_dir="",
            path=[*self._path(of.page, release=False), *zoom],
            view=view,
            stored=stored,
            layers=self._layers(graph, node),
            diagram=Markup(draw(Pen(graph, file_of, here=node.id), scope)),
            twin=twin(viewer, graph.by_id[scope], "", deep=False),
        )

    @staticmethod
    def _layers(graph: Graph, node: Node) -> Strip | None:
        """The blocks in order, on the page of what stands in one; each kind leads to the same place in it."""
        if node.region is None:
            return None

        def same(region: str) -> tuple[str, str]:
            name = counterpart(graph, node, region)
            return name, file_of(name)

        return strip(graph, same, here=node.region.name)

    def comparison(self, other: ModelPage, page: ModelPage) -> str:
        """The page of a model beside another one."""
        return self.page(
            "compare.html",
            kind="compare",
            root="../",
            title=f"{page.model.title} against {other.model.title}",
            heading=f"{page.model.title} against {other.model.title}",
            path=[*self._path(page, release=False), Link("", page.model.size, "index.html")],
            crumb=f"against {other.model.title}",
            **Comparison(self.maths, other, page).values(),
        )

    def others(self, page: ModelPage) -> list[ModelPage]:
        """The models to set a model beside: of every other release the one nearest in size."""
        names = (name for name in self.shelf.by_release() if name != page.release.id)
        return [match for name in names if (match := self.shelf.match(page, name)) is not None]

    def pairs(self) -> list[tuple[ModelPage, ModelPage]]:
        """All pairs that have a page of their own, each once, in the order of the shelf."""
        order = {page.model.id: i for i, page in enumerate(self.shelf.pages)}
        found = {}
        for page in self.shelf.pages:
            for other in self.others(page):
                first, second = sorted((page, other), key=lambda p: order[p.model.id])
                found[first.model.id, second.model.id] = (first, second)
        return list(found.values())

    def _beside(self, page: ModelPage, prefix: str) -> list[Link]:
        """Links to the comparisons of a model, which stand in the folder of the later one of the two."""
        links = []
        root = "" if prefix else "../"
        for first, second in self.pairs():
            if page.model.id in (first.model.id, second.model.id):
                other = second if page is first else first
                file = f"{root}{second.model.id}/{against_file(first.model.id)}"
                links.append(Link(other.model.id, other.model.title, file))
        return links

    def ledger(self, of: Edition) -> str:
        """The page that accounts for every tensor and metadata pair of a checkpoint."""
        assert of.record is not None
        return self.page(
            "ledger.html",
            kind="ledger",
            root="../",
            title=f"{of.title} · Ledger",
            model_dir="",
            path=[*self._path(of.page, release=False), Link("", of.crumb, "index.html")],
            record=of.record,
            rows=ledger_rows(of.record),
        )

    def checkpoints(self, model: str | None = None) -> list[dict[str, str]]:
        """Links to the checkpoints on the shelf, of one model or of all."""
        return [
            {"file": f"{r.name}/index.html", "title": r.title, "verdict": verdict(r.report)}
            for r in self.records
            if model in (None, r.model)
        ]

    def _path(self, page: ModelPage, *, release: bool) -> list[Link]:
        root = "" if release else "../"
        links = [Link("", "All models", f"{root}index.html")]
        return links if release else [*links, Link("", page.release.title, f"{root}{page.release.id}.html")]

    def _release_link(self, name: str | None) -> Link | None:
        default = self.shelf.default(name) if name else None
        return Link("", default.release.title, f"{default.release.id}.html") if default else None

    def _architecture(self, page: ModelPage) -> Link | None:
        """The oldest release of the same family that has reference code of its own."""
        if page.release.architecture is None:
            return None
        own = [p for p in self.shelf.pages if p.provenance.own and p.model.family == page.model.family]
        return self._release_link(own[0].release.id) if own else None

    def _compared(self, page: ModelPage) -> ModelPage | None:
        name = page.release.follows
        if name is None and page.release.architecture is not None:
            own = [p for p in self.shelf.pages if p.provenance.own and p.model.family == page.model.family]
            name = own[0].release.id if own else None
        return self.shelf.match(page, name) if name else None

    def _sizes(self, page: ModelPage, *, release: bool) -> list[Link]:
        root = "" if release else "../"
        sizes = self.shelf.by_release()[page.release.id]
        return [Link(p.model.id, p.model.size, f"{root}{p.model.id}/index.html") for p in sizes]

    def _table(self, page: ModelPage, *, release: bool) -> SizeTable:
        root = "" if release else "../"
        return size_table(self.shelf.by_release()[page.release.id], root, page.model.id)

    # --- gallery and help ---------------------------------------------------------------------------------------------

    def gallery(self) -> str:
        """The front page."""
        groups = families(self.shelf)
        nodes = sum(len(page.graph.nodes) for page in self.shelf.pages)
        count = f"{len(self.shelf.pages)} models, {nodes:,} nodes and tensors."
        return self.page(
            "index.html",
            kind="gallery",
            root="",
            title="Open Model Atlas",
            search_hint="Search models",
            families=groups,
            filters=filters(group for family in groups for group in family),
            count=count,
            key=legend(),
            checkpoints=self.checkpoints(),
        )

    def how_to_read(self) -> str:
        """The page that defines axes, states, grades and numbers."""
        return self.page(
            "how-to-read.html",
            kind="how",
            root="",
            title="How to read",
            search_hint="Search models",
            axes=AXIS_MEANINGS,
            states=STATES,
        )


def squeeze(html: str) -> str:
    """Drop indentation and empty lines outside `<pre>`."""
    parts = re.split(r"(<pre\b.*?</pre>)", html, flags=re.S)
    return "".join(
        part if part.startswith("<pre") else re.sub(r"\n\s*", "\n", re.sub(r"[ \t]+\n", "\n", part)) for part in parts
    )


def twin(viewer: Viewer, node: Node, prefix: str, *, deep: bool) -> tuple[TwinItem, ...]:
    """A scope as a list in call order; `deep` goes into every container."""
    items = []
    for name in dict.fromkeys(node.children):
        child = viewer.graph.by_id[name]
        link = viewer.link(name)
        region = child.region if link.note else None
        items.append(
            TwinItem(
                Link(name, link.title, prefix + link.file, note=ranges(region.indices) if region else ""),
                ", ".join(p.symbol_text for p in child.inputs),
                ", ".join(p.symbol_text for p in child.outputs),
                f"{child.parameters.count:,}" if child.parameters.count else "",
                twin(viewer, child, prefix, deep=True) if deep and child.children else (),
            )
        )
    return tuple(items)


def _region(pen: Pen, region: Region) -> dict[str, Any]:
    return {
        "id": region.name,
        "words": region_words(region, pen.graph.by_id[region.name].title),
        "short": f"{region.count} {short_title(pen.graph, region)}",
        "map": Markup(draw(pen, region.name)),
    }


def _deviation(graph: Graph, deviation: Any) -> dict[str, Any]:
    return {
        "node": deviation.node,
        "title": graph.by_id[deviation.node].title,
        "source": deviation.source,
        "note": deviation.note,
    }


def _claims(graph: Graph) -> str:
    states = claim_states([graph])
    return f"{sum(states.values())}: " + ", ".join(f"{count} {state}" for state, count in states.items())


def claim_states(graphs: Iterable[Graph]) -> dict[str, int]:
    """How many distinct claims of each state the maps make, in the order of `STATES`."""
    found: Counter[str] = Counter()
    for graph in graphs:
        states = {claim.id: claim.state for node in graph.nodes for claim in node.claims}
        found.update(states.values())
    return {state: found[state] for state, _ in STATES if found[state]}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
