"""Write a site: all pages and what they share, into a fresh folder that takes the old one's place when it is whole."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

from openmodelatlas.errors import SiteError, UsageError
from openmodelatlas.records.evidence import PinReport
from openmodelatlas.records.graph import Graph, Node
from openmodelatlas.records.json import dump_json
from openmodelatlas.records.report import CheckpointRecord
from openmodelatlas.site import assets
from openmodelatlas.site.checkpoint import Stored
from openmodelatlas.site.compare import against_file
from openmodelatlas.site.diagram import Pen, draw
from openmodelatlas.site.inputs import Edition, ModelPage, Shelf, checkpoint_edition, edition, shelf
from openmodelatlas.site.maths import Maths
from openmodelatlas.site.pages import Press, claim_states
from openmodelatlas.site.view import Viewer
from openmodelatlas.site.words import file_of

Progress = Callable[[str], None]
MARK = "atlas-site.json"
"""A folder with this file was written here and may be replaced; any other that is not empty may not."""


@dataclass(frozen=True)
class SiteSummary:
    """What was built. `claims` counts distinct claims a model by state; `excerpts` are pins with text, of all pins.
    `written` is False where the same site stood there already."""

    written: bool
    pages: int
    models: int
    nodes: int
    claims: Mapping[str, int]
    excerpts: tuple[int, int]
    largest: tuple[str, int]
    first: Path


def build(
    models: Sequence[ModelPage],
    checkpoints: Sequence[CheckpointRecord],
    out: Path,
    progress: Progress = lambda _: None,
) -> SiteSummary:
    """Build the site of these models into `out`. On any error `out` stays as it was."""
    if not models:
        raise UsageError("a site needs at least one model")
    may_replace(out)
    source = assets.need()
    inputs = fingerprint(models, checkpoints)
    standing = _standing(out, inputs)
    if standing is not None:
        return _summary(models, out, standing["pages"], tuple(standing["largest"]), written=False)
    scratch: Path | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-"))
        new = scratch / "new"
        writer = Writer(new)
        _shared(new, source)
        _write(shelf(models), checkpoints, writer, progress)
        mark = {"inputs": inputs, "pages": writer.pages, "largest": writer.largest}
        writer.text(MARK, json.dumps(mark) + "\n")
        _swap(new, out, scratch / "old")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise SiteError("cannot write the site", where=f"{out}", found=why, fix="choose another --out") from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
    return _summary(models, out, writer.pages, writer.largest, written=True)


def _swap(new: Path, out: Path, old: Path) -> None:
    """`new` in the place of `out`; if that fails half-way, what stood there comes back."""
    try:
        if out.exists():
            out.rename(old)
        new.rename(out)
    except BaseException:
        if old.exists() and not out.exists():
            old.rename(out)
        raise


def fingerprint(models: Sequence[ModelPage], checkpoints: Sequence[CheckpointRecord]) -> str:
    """sha256 over all that a site's bytes depend on: its inputs, and the code, templates and styles of this room."""
    digest = hashlib.sha256(dump_json([*map(_as_shown, models), *checkpoints]).encode())
    digest.update(metadata.version("openmodelatlas").encode())
    for room in ("site", "records"):
        root = Path(str(files(f"openmodelatlas.{room}")))
        for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".html", ".css", ".js", ".svg")):
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _as_shown(page: ModelPage) -> ModelPage:
    """Without what no page shows and the next run may find otherwise: by which route a text came, or why none did."""

    def plain(report: PinReport) -> PinReport:
        return replace(report, via=None, detail="")

    def bare(node: Node) -> Node:
        claims = (replace(c, pin=plain(c.pin), also=tuple(map(plain, c.also))) for c in node.claims)
        return replace(node, claims=tuple(claims))

    return replace(page, graph=replace(page.graph, nodes=tuple(map(bare, page.graph.nodes))))


def _standing(out: Path, inputs: str) -> Any:
    """The mark of a whole site of the same inputs that stands at `out`, if one does."""
    try:
        mark = json.loads((out / MARK).read_text())
        whole = mark["inputs"] == inputs and mark["pages"] == sum(1 for _ in out.rglob("*.html"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return mark if whole else None


def _summary(
    models: Sequence[ModelPage], out: Path, pages: int, largest: tuple[str, int], *, written: bool
) -> SiteSummary:
    graphs = [page.graph for page in models]
    return SiteSummary(
        written=written,
        pages=pages,
        models=len(models),
        nodes=sum(len(graph.nodes) for graph in graphs),
        claims=claim_states(graphs),
        excerpts=excerpts(graphs),
        largest=largest,
        first=out / "index.html",
    )


def may_replace(out: Path) -> None:
    """UsageError unless a site may stand at `out`: nothing is there, an empty folder, or a site of this atlas."""
    above = next((path for path in out.absolute().parents if path.exists()), None)
    if above is not None and not above.is_dir():
        raise UsageError("a file stands where a folder must be", where=f"{above}", fix="choose another --out")
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).is_file())):
        raise UsageError("not a site of this atlas, so it is not replaced", where=f"{out}", fix="choose another --out")


class Writer:
    """Writes files under a folder and keeps count of pages."""

    def __init__(self, root: Path) -> None:
        self.root, self.pages, self.largest = root, 0, ("", 0)

    def text(self, name: str, text: str) -> None:
        """One file; HTML files count as pages."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path.write_bytes(data)
        if name.endswith(".html"):
            self.pages += 1
            self.largest = max(self.largest, (name, len(data)), key=lambda pair: pair[1])


def _shared(root: Path, katex: Path) -> None:
    static = root / "static"
    (static / "katex" / assets.FONTS).mkdir(parents=True)
    for name in ("atlas.css", "atlas.js", "icon.svg"):
        (static / name).write_bytes((files("openmodelatlas.site") / "static" / name).read_bytes())
    for name in (assets.STYLE, assets.LICENSE):
        shutil.copyfile(katex / name, static / "katex" / name)
    for font in sorted((katex / assets.FONTS).glob("*.woff2")):
        shutil.copyfile(font, static / "katex" / assets.FONTS / font.name)


def _write(models: Shelf, records: Sequence[CheckpointRecord], writer: Writer, progress: Progress) -> None:
    progress("setting up formulas")
    by_id = {page.model.id: page for page in models.pages}
    records = [record for record in records if record.model in by_id]
    press = Press(Maths(), models, records)
    writer.text("index.html", press.gallery())
    writer.text("how-to-read.html", press.how_to_read())
    for release in models.by_release():
        default = models.default(release)
        assert default is not None
        writer.text(f"{release}.html", press.model(edition(default), release=True))
    for of in [edition(page) for page in models.pages] + [checkpoint_edition(by_id[r.model], r) for r in records]:
        progress(f"pages of {of.title}")
        write_edition(press, of, writer)
    progress("comparisons")
    for first, second in press.pairs():
        writer.text(f"{second.model.id}/{against_file(first.model.id)}", press.comparison(first, second))


def write_edition(press: Press, of: Edition, writer: Writer) -> None:
    """The edition's own page, a page for every node and tensor, and the data of its panels."""
    graph, folder = of.page.graph, of.folder
    viewer = Viewer(graph, press.maths)
    stored = Stored(of.record, graph) if of.record else None
    panels = {}
    writer.text(f"{folder}/index.html", press.model(of, release=False))
    for node in graph.nodes:
        view = viewer.view(node)
        kept = stored.view(node) if stored else None
        panels[node.id] = press.article(view, 2, kept)
        if node.id:
            writer.text(f"{folder}/{file_of(node.id)}", press.node(of, node, viewer, view, kept))
    if of.record:
        writer.text(f"{folder}/ledger.html", press.ledger(of))
    writer.text(f"{folder}/data.js", data_script(graph, panels))


def data_script(graph: Graph, panels: Mapping[str, str]) -> str:
    """What the pages of a model share: names to search, panels, and every way its diagrams can be open."""
    nodes = {n.id: [n.title, n.class_ or n.kind] for n in graph.nodes if n.id}
    pen = Pen(graph, file_of, foldable=True)
    scopes = ["", *(region.name for region in graph.regions)]
    pictures = {
        scope: {" ".join(sorted(opened)): draw(pen, scope, opened) for opened in foldings(graph, scope)}
        for scope in scopes
    }
    regions = {region.name: region.indices for region in graph.regions}
    data = {"nodes": nodes, "regions": regions, "panels": panels, "pictures": pictures}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    return f"window.atlas={text};\n"


def foldings(graph: Graph, scope: str) -> list[frozenset[str]]:
    """Every set of containers that can be open at once in a scope's picture: each within open ones only."""
    regions = {region.name for region in graph.regions}
    inner: list[str] = []

    def walk(name: str) -> None:
        for child in dict.fromkeys(graph.by_id[name].children):
            if graph.by_id[child].children and child not in regions:
                inner.append(child)
                walk(child)

    walk(scope)
    found = []
    for count in range(len(inner) + 1):
        for chosen in combinations(inner, count):
            opened = frozenset(chosen)
            if all(_parent(graph, name) in opened | {scope} for name in chosen):
                found.append(opened)
    return found


def _parent(graph: Graph, name: str) -> str:
    return next(node.id for node in graph.nodes if name in node.children)


def excerpts(graphs: Sequence[Graph]) -> tuple[int, int]:
    """Distinct pins whose text was found, and all distinct pins."""
    found: dict[object, bool] = {}
    for graph in graphs:
        for node in graph.nodes:
            for claim in node.claims:
                for report in (claim.pin, *claim.also):
                    key = (claim.id, report.pin.place, report.pin.ranges)
                    found[key] = report.status in ("same", "moved")
    return sum(found.values()), len(found)
