"""The page of two models side by side: figures, what is computed otherwise with both equations, every node in order."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from openmodelatlas.records.compare import diff
from openmodelatlas.records.diff import Change, GraphDiff, NodeDiff
from openmodelatlas.records.folding import BLOCK, alike, folded, kinds, outermost
from openmodelatlas.records.graph import Graph, Node
from openmodelatlas.site.inputs import ModelPage
from openmodelatlas.site.maths import Maths, in_rows
from openmodelatlas.site.preview import preview
from openmodelatlas.site.sizes import COLUMNS
from openmodelatlas.site.words import constant_words, file_of

_LIGHTS = re.compile(r"\\htmlData\{light=[^}]*\}\{")
"""What makes symbols light up on a node's own page, and pages heavy."""

HEAVIEST = 14_000
"""Bytes of a formula as HTML above which a line of text stands for it."""

ABSENT = "–"

VERDICTS = {
    "equal": "equal",
    "same structure, other sizes": "other sizes",
    "changed": "computed otherwise",
    "only here": "only in",
}


@dataclass(frozen=True)
class Side:
    """A node as one of the two models has it; without a file if it has none."""

    title: str
    file: str
    sentence: str
    equation: Markup


@dataclass(frozen=True)
class Group:
    """Nodes that differ in the same way, as both models have the first of them."""

    names: tuple[tuple[str, str], ...]
    changes: tuple[Change, ...]
    left: Side
    right: Side


@dataclass(frozen=True)
class Row:
    """A node in map order, and how it compares."""

    title: str
    file: str
    depth: int
    left: str
    right: str
    kind: str
    verdict: str


def against_file(other: str) -> str:
    """The file, in a model's folder, of its comparison with another."""
    return f"against-{other}.html"


class Comparison:
    """Two models side by side, ready for the template; the page stands in the folder of the right one."""

    def __init__(self, maths: Maths, left: ModelPage, right: ModelPage) -> None:
        self.maths, self.left, self.right = maths, left, right
        self.diff: GraphDiff = diff(left.graph, right.graph)
        self.nodes = folded(self.diff)
        self._shown: set[tuple[str, str] | None] = set()

    def values(self) -> dict[str, Any]:
        """What the template shows."""
        only = [n for n in self.nodes if n.status == "only here"]
        changed = [n for n in self.nodes if n.status == "changed" and n.id]
        return {
            "left": self.left.model,
            "right": self.right.model,
            "previews": [Markup(preview(page.graph)) for page in (self.left, self.right)],
            "figures": figures(self.left, self.right),
            "only_left": [self._group([n], ()) for n in outermost(n for n in only if n.side == self.diff.left)],
            "only_right": [self._group([n], ()) for n in outermost(n for n in only if n.side == self.diff.right)],
            "changed": [self._group(nodes, changes) for changes, nodes in alike(changed)],
            "folded": self._folded(),
            "rows": [self._row(node) for node in self.nodes if node.id],
            "config": self.diff.config,
            "counts": {word: sum(n.status == status for n in self.nodes) for status, word in VERDICTS.items()},
        }

    def _folded(self) -> str:
        names = [region.name for page in (self.left, self.right) for region in page.graph.regions]
        return "" if names.count(BLOCK) == 2 or len(kinds(self.diff)) < 2 else " and ".join(kinds(self.diff))

    def _row(self, node: NodeDiff) -> Row:
        verdict = VERDICTS[node.status]
        if node.side:
            verdict += f" {(self.left if node.side == self.diff.left else self.right).model.title}"
        return Row(
            title=node.title,
            file=self._file(self.right, node) or self._file(self.left, node),
            depth=node.id.count("."),
            left=self._class(self.left, node),
            right=self._class(self.right, node),
            kind=node.status.split(" ")[0].strip(","),
            verdict=verdict,
        )

    def _group(self, nodes: Sequence[NodeDiff], changes: tuple[Change, ...]) -> Group:
        first = nodes[0]
        kinds_of = next(((c.left, c.right) for c in changes if c.what == "class"), None)
        formula = kinds_of is not None and kinds_of not in self._shown
        self._shown.add(kinds_of)
        sides = [self._side(page, first, formula=formula) for page in (self.left, self.right)]
        names = tuple((n.title, self._file(self.right, n) or self._file(self.left, n)) for n in nodes)
        return Group(names, _worded(changes), sides[0], sides[1])

    def _side(self, page: ModelPage, node: NodeDiff, *, formula: bool) -> Side:
        """`formula`: with the equation, which is heavy, and shown once for two classes."""
        found = in_graph(page.graph, node)
        if found is None:
            return Side("", "", "", Markup())
        shown = formula and found.kind == "op" and found.equation
        equation = self._equation(found) if shown else Markup()
        return Side(found.title, self._file(page, node), found.sentence, equation)

    def _equation(self, node: Node) -> Markup:
        plain = _LIGHTS.sub("{", in_rows(node.equation))
        set_ = self.maths.html(plain, display=True)
        return Markup(set_) if len(set_) <= HEAVIEST else Markup("<code>{}</code>").format(node.equation_text)

    @staticmethod
    def _class(page: ModelPage, node: NodeDiff) -> str:
        found = in_graph(page.graph, node)
        return found.class_ if found is not None else ABSENT

    def _file(self, page: ModelPage, node: NodeDiff) -> str:
        """From the folder of the right model, where the page stands."""
        found = in_graph(page.graph, node)
        if found is None:
            return ""
        return file_of(found.id) if page is self.right else f"../{page.model.id}/{file_of(found.id)}"


def in_graph(graph: Graph, node: NodeDiff) -> Node | None:
    """The node of a map that an entry of a comparison is about; a folded entry is about the first kind of block."""
    if node.id in graph.by_id:
        return graph.by_id[node.id]
    if not node.region:
        return None
    rest = node.id.removeprefix(node.region if node.id.startswith(node.region) else BLOCK)
    names = (region.name + rest for region in graph.regions)
    return next((graph.by_id[name] for name in names if name in graph.by_id), None)


def _worded(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Without ports whose axes alone are others, which the classes and the figures show."""
    return tuple(c for c in changes if not c.what.startswith("port "))


def figures(left: ModelPage, right: ModelPage) -> list[tuple[str, str, str]]:
    """The numbers that a reader compares first: columns of the table of sizes, as far as one of the two has them."""
    shown = [(name, text) for name, _, text, called_for in COLUMNS if called_for(left) or called_for(right)]
    rows = [(name, text(left) or ABSENT, text(right) or ABSENT) for name, text in shown]
    return [*rows, ("vocabulary", f"{left.graph.axes['V']:,}", f"{right.graph.axes['V']:,}")]


@dataclass(frozen=True)
class Difference:
    """One way in which a model departs from another: where, what it was there, what it is here."""

    where: str
    node: str | None
    before: str
    after: str
    structural: bool


def differences(before: Graph, after: Graph) -> list[Difference]:
    """Two maps in short: nodes that only one has, classes, sharing; then the numbers of both configurations."""
    found = diff(before, after)
    rows = []
    for node in folded(found):
        ours, theirs = in_graph(after, node), in_graph(before, node)
        here = ours.id if ours is not None else None
        if node.side:
            rows.append(Difference(node.title, here, _gist(theirs), _gist(ours), True))
        elif (kinds_ := _change(node, "class")) is not None:
            rows.append(Difference(node.title, here, kinds_.left, kinds_.right, True))
        elif node.id and (ties := _change(node, "ties")) is not None:
            rows.append(Difference(node.title, here, _owner(ties.left), _owner(ties.right), True))
    both = [change.what for change in found.config if change.left and change.right]
    numbers = ((name, constant_words(before.config[name]), constant_words(after.config[name])) for name in both)
    return [*rows, *(Difference(name, None, a, b, False) for name, a, b in numbers)]


def _change(node: NodeDiff, what: str) -> Change | None:
    return next((change for change in node.changes if change.what == what), None)


def _gist(node: Node | None) -> str:
    """The first sentence of a node's text."""
    if node is None:
        return "not there"
    return f"{node.sentence.split('. ')[0].rstrip('.')}." if node.sentence else node.class_


def _owner(tie: str) -> str:
    return f"shares {tie.partition(' = ')[2]}" if tie else "has a matrix of its own"
