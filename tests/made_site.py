"""A small site for tests: real maps, claims with made-up text in place of the pinned one, a made-up checkpoint."""

import dataclasses
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path

from openmodelatlas import maps
from openmodelatlas.catalog import find
from openmodelatlas.catalog.annotate import annotate
from openmodelatlas.records.evidence import Pin, PinReport
from openmodelatlas.records.graph import Graph
from openmodelatlas.records.report import (
    Check,
    CheckpointRecord,
    Header,
    Ledger,
    MetadataRow,
    Report,
    StoredTensor,
    TensorRow,
    ValueSummary,
)
from openmodelatlas.records.verification import Measurement, VerificationRecord, Yardstick
from openmodelatlas.site.build import SiteSummary, build
from openmodelatlas.site.inputs import ModelPage

LLAMAS = ("llama-3-8b", "llama-3.1-8b", "llama-3.1-70b", "llama-3.2-1b", "smollm2-135m")
"""Models that single tests are about."""

ALL = tuple(model.id for model in find.models())

_FIRST = {find.model(name).family: name for name in reversed(ALL)}
MODELS = (*LLAMAS, *(name for family, name in _FIRST.items() if family != find.model(LLAMAS[0]).family))
"""The models of the site: those, and one of every other family."""

CHECKPOINT = "made-up-135m"


def line(number: int) -> str:
    """The made-up text of a line of any pinned file."""
    return f"        statement_{number}(x)"


def text(pin: Pin) -> tuple[str, ...]:
    """What stands at a pin in a file of made-up lines."""
    return tuple("\n".join(line(n) for n in range(part.first, part.last + 1)) for part in pin.ranges)


def found(claim: str, pin: Pin) -> PinReport:
    """A pin whose text is where it should be."""
    ends = tuple((part.first, part.last) for part in pin.ranges)
    return PinReport(claim=claim, pin=pin, status="same", via="mirror", found=ends, text=text(pin), detail="")


def missing(claim: str, pin: Pin) -> PinReport:
    """A pin whose file nobody had."""
    return PinReport(claim=claim, pin=pin, status="not available", via=None, found=(), text=(), detail="offline")


def page(name: str, report: Callable[[str, Pin], PinReport] = found) -> ModelPage:
    """A model with its real map and claims, every pin answered by `report`."""
    model = find.model(name)
    claims = find.shown(model)
    reports = {c.id: tuple(report(c.id, pin) for pin in (c.pin, *c.also)) for c in claims}
    graph = annotate(maps.graph(name), reports, claims)
    return ModelPage(release=find.release(model.release), model=model, provenance=find.provenance(model), graph=graph)


def record(graph: Graph) -> CheckpointRecord:
    """A checkpoint that stores every parameter of every block, with a value for every tensor of a block."""
    region = graph.regions[0]
    rows = []
    for node in graph.nodes:
        for tensor in node.parameters.tensors if node.kind == "op" and not node.children else ():
            if tensor.tied_to:
                continue
            for index in region.indices if node.region else (None,):
                name = tensor.name if index is None else tensor.name.replace("block.", f"blocks.{index}.", 1)
                kind = "Q8_0" if index == 0 else "Q4_1"
                stored = StoredTensor(
                    name=f"file.{name}", shape=tensor.shape, type=kind, bytes=tensor.count, offset=0, shard="made.gguf"
                )
                rows.append(
                    TensorRow(
                        parameter=name,
                        owners=(name.rpartition(".")[0],),
                        stored=stored,
                        shape=tensor.shape,
                        steps=("rows reordered",) if ".attention.q." in name else (),
                        status="matched",
                    )
                )
    values = [
        ValueSummary(
            tensor=tensor, index=index, shape=(1, 5, 576), dtype="float32",
            mean=0.01 * index, spread=1.0 + index, norm=10.0 + index, minimum=-3.0, maximum=4.0,
        )
        for tensor in ("block:in", "block.attention.o:out", "block:out")
        for index in region.indices
    ]  # fmt: skip
    checks = tuple(Check(name=name, state="ok", detail="holds") for name in ("format", "hash", "tensors", "tokenizer"))
    row = MetadataRow(key="general.name", value="<made & up>", column="ignored", reason="a label", ok=True)
    return CheckpointRecord(
        name=CHECKPOINT,
        title="Made-up 135M",
        source="made up",
        sha256="0" * 64,
        model=graph.model,
        header=Header(format="GGUF v3", path="made.gguf", file_bytes=1, metadata={}, tensors=()),
        ledger=Ledger(model=graph.model, rows=tuple(rows), metadata=(row,), parameters=graph.counts.total,
                      stored_bytes=90_000_000),
        report=Report(
            target=CHECKPOINT, ok=True, model=graph.model, nearest=graph.model, format="GGUF v3", counts={},
            checks=checks, findings=(), waived=(),
        ),
        prompt="One and one is",
        completion=" two.",
        dtype="float32",
        values=tuple(values),
    )  # fmt: skip


def build_site(out: Path, names: Iterable[str] = MODELS) -> SiteSummary:
    """The site of those models, and of the made-up checkpoint if its model is among them."""
    pages = [page(name) for name in names]
    records = [record(p.graph) for p in pages if p.model.id == "smollm2-135m"]
    return build(pages, records, out)


@dataclass
class Html(HTMLParser):
    """A page's links, ids, classes and texts."""

    source: str
    links: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    lights: list[str] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    excerpts: list[str] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _pre: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what tests ask for."""
        known = {key: value or "" for key, value in attrs}
        self.links += [known[key] for key in ("href", "src") if key in known]
        self.ids |= {known["id"]} if "id" in known else set()
        self.lights += known.get("data-light", "").split()
        self.nodes |= {known["data-id"]} if "data-id" in known else set()
        self.nodes |= set(known.get("data-also", "").split())
        if tag == "pre":
            self._pre += 1
            self.excerpts.append("")

    def handle_endtag(self, tag: str) -> None:
        """Leave an excerpt."""
        self._pre -= tag == "pre"

    def handle_data(self, data: str) -> None:
        """Text, and that of excerpts apart."""
        self._texts.append(data)
        if self._pre:
            self.excerpts[-1] += data

    @cached_property
    def text(self) -> str:
        """All text, white space as a reader sees it."""
        return re.sub(r"\s+", " ", " ".join(self._texts))

    def section(self, name: str) -> "Html":
        """The `<section>` of that class."""
        match = re.search(rf'<section class="{name}">.*?</section>', self.source, re.S)
        assert match, f"no section {name}"
        return Html(match[0])


def read(path: Path) -> Html:
    """A page of a built site."""
    return Html(path.read_text(encoding="utf-8"))


RUN = VerificationRecord(
    model="llama-3-8b",
    check="made_up",
    title="every node's values equal the reference's",
    tier="tiny random weights",
    outcome="passed",
    definition="",
    entry="",
    references=(Yardstick(name="a reference", version="1.2", sha256="", shims=()),),
    dtype="float32",
    positions=512,
    nodes=("block.attention_add", "norm"),
    claims=("block-residuals",),
    located={"block.attention_add": (246,)},
    measurements=(Measurement(where="block.attention_add", what="distance, relative", value=4.1e-7, bound=1e-6),),
    mutants={"planted": 9, "noticed": 8},
    detail="how it was run",
    date="2026-11-30",
    environment={},
)


def ran(run: VerificationRecord, *, stale: bool = False) -> ModelPage:
    """Llama 3 8B with one made-up run."""
    plain = page("llama-3-8b")
    old = (run.check,) if stale else ()
    claims = find.claims(plain.model)
    reports = {c.id: tuple(found(c.id, pin) for pin in (c.pin, *c.also)) for c in claims}
    return dataclasses.replace(plain, graph=annotate(plain.graph, reports, claims, [run], old), runs=(run,), stale=old)
