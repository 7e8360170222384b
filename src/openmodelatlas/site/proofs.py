"""Verification runs in words: at one node, and for a whole model."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from openmodelatlas.records.evidence import State
from openmodelatlas.records.graph import Graph, Node
from openmodelatlas.records.verification import Measurement, Proof, VerificationRecord
from openmodelatlas.site.words import lines_words

STALE = "the definition or the catalogue's entry has changed since this run"
SHOWN = 4
"""Measurements of one run that a node lists; the rest are in the record."""


@dataclass(frozen=True)
class ProofView:
    """A run as a node or a model shows it. `measured` are lines of text; `located` is empty where nothing was."""

    check: str
    title: str
    state: State
    why: str
    tier: str
    measured: tuple[str, ...]
    located: str
    references: tuple[str, ...]
    date: str


def proofs(node: Node) -> tuple[ProofView, ...]:
    """The runs that a node took part in, those that located or measured it first."""
    ordered = sorted(node.proofs, key=lambda p: (not p.located, not p.measured))
    return tuple(_node(proof) for proof in ordered)


def proved(node: Node) -> bool:
    """Whether a run that still speaks of this definition has verified the node."""
    return any(proof.outcome == "passed" and not proof.stale for proof in node.proofs)


def open_nodes(graph: Graph) -> tuple[str, ...]:
    """Nodes that no run has verified."""
    return tuple(node.id for node in graph.nodes if node.id and not proved(node))


def runs(records: Sequence[VerificationRecord], stale: Collection[str]) -> tuple[ProofView, ...]:
    """A model's runs: with its tightest measurement each, the one that came closest to its bound."""
    return tuple(
        ProofView(
            check=record.check,
            title=record.title,
            state=_state(record.outcome, record.check in stale),
            why=STALE if record.check in stale else record.detail,
            tier=record.tier,
            measured=(*(measured_words(m, named=True) for m in _tightest(record.measurements)), *_planted(record)),
            located=f"{len(record.located)} nodes located" if record.located else "",
            references=tuple(f"{r.name} {r.version}" for r in record.references),
            date=record.date,
        )
        for record in records
    )


def _node(proof: Proof) -> ProofView:
    located = ""
    if proof.located:
        found = ", ".join(lines_words(line, line) for line in proof.located)
        located = f"line{'s' if len(proof.located) > 1 else ''} {found} of {proof.references[0]}"
    return ProofView(
        check=proof.check,
        title=proof.title,
        state=_state(proof.outcome, proof.stale),
        why=STALE if proof.stale else "",
        tier=proof.tier,
        measured=tuple(measured_words(m, named=False) for m in proof.measured[:SHOWN]),
        located=located,
        references=proof.references,
        date=proof.date,
    )


def _state(outcome: str, stale: bool) -> State:
    if stale:
        return "not verified"
    return "verified" if outcome == "passed" else "conflict"


def _planted(record: VerificationRecord) -> tuple[str, ...]:
    """What the run noticed of the mistakes that were planted beside it."""
    if "planted" not in record.mutants:
        return ()
    return (f"{record.mutants['noticed']} of {record.mutants['planted']} planted mistakes noticed",)


def _tightest(measurements: Iterable[Measurement]) -> list[Measurement]:
    bounded = [m for m in measurements if m.bound is not None]
    return sorted(bounded, key=lambda m: -(m.value / m.bound) if m.bound else -m.value)[:1]


def measured_words(measurement: Measurement, *, named: bool) -> str:
    """`4.1e-07 of at most 1e-06: distance to transformers, relative`, after the node's id where that is asked for."""
    value = f"{measurement.value:.3g}"
    bound = f" of at most {measurement.bound:.3g}" if measurement.bound is not None else ""
    where = f"{measurement.where}: " if named and measurement.where else ""
    return f"{where}{value}{bound}: {measurement.what}"
