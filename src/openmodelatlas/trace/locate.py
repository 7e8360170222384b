"""Find the line of a reference that computes each node, by running both on the same weights and matching values.

A reference is any Python file with a torch model of the family in it. It runs in a process of its own, at a tiny size,
on random weights. A node's line is that of the first operation whose result is the node's value, views, casts and
copies aside; a node that itself is only a view gets the line of the view.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from openmodelatlas.errors import UsageError
from openmodelatlas.models.variant import Variant
from openmodelatlas.trace.located_match import TOLERANCE
from openmodelatlas.trace.regions import BLOCKS

SECONDS = 180.0
WORKER = "openmodelatlas.trace.located_worker"


@dataclass(frozen=True, kw_only=True)
class LocatedNode:
    """One node in a reference. `lines` compute its results (a node of two results may have two), `called` are lines
    that got one of them from a call; `others` hold the same value and were ruled out by the order of calls. `moves`:
    the node is a view, cast or copy. `distance` is the largest difference over the largest magnitude."""

    node: str
    lines: tuple[int, ...]
    called: tuple[int, ...]
    others: tuple[int, ...]
    moves: bool
    distance: float


@dataclass(frozen=True, kw_only=True)
class Located:
    """What a run of a reference showed. `instances` counts module calls, every block's own; `missing` are nodes that
    no line computes, and single results (`node:port`) of nodes that have others; `logits` is how far the two models'
    scores are apart, relative to their magnitude; `shared` counts the reference's parameters that have a second name,
    and `tied` says whether ours do. `elsewhere`: lines of the files that were watched besides."""

    model: str
    reference: str
    sha256: str
    scheme: str
    shims: tuple[str, ...]
    nodes: tuple[LocatedNode, ...]
    missing: tuple[str, ...]
    instances: int
    found: int
    positions: int
    recorded: int
    logits: float
    shared: int
    tied: bool
    blocks: tuple[str, ...]
    elsewhere: Mapping[str, tuple[LocatedNode, ...]]


def locate(
    variant: Variant, reference: Path, replace: Mapping[str, str] | None = None, beside: Sequence[Path] = ()
) -> Located:
    """Every node's lines in the file, and those in the files `beside` that it calls; `replace` has lines of it
    (stripped) to be read as others.

    UsageError for a file that is no such reference, or that computes other scores than the variant.
    """
    request = {"model": variant.name, "reference": str(reference), "replace": dict(replace or {})}
    answer = ask({**request, "beside": [str(path) for path in beside]})
    blocks = answer["blocks"]
    absent = _absent(answer, blocks)
    if not answer["logits"] < TOLERANCE * 10:
        apart = f"{answer['logits']:.1e} apart, relative to the largest"
        raise UsageError(
            f"the file does not compute {variant.name}",
            where=str(reference),
            expected="equal scores on equal weights",
            found=f"{apart}; {next((n for n in absent if ':' not in n), 'logits')} is the first node that differs",
        )
    paths = {m["path"] for m in answer["matches"]}
    missing = {path for path, _ in answer["missing"]} - paths
    return Located(
        model=variant.name,
        reference=str(reference),
        sha256=answer["sha256"],
        scheme=answer["scheme"],
        shims=tuple(answer["shims"]),
        nodes=_folded(answer["matches"], blocks),
        missing=absent,
        instances=len(paths | missing),
        found=len(paths),
        positions=answer["positions"],
        recorded=answer["recorded"],
        logits=answer["logits"],
        shared=answer["shared"],
        tied=answer["tied"],
        blocks=tuple(dict.fromkeys(blocks)),
        elsewhere={path: _folded(matches, blocks) for path, matches in answer["elsewhere"].items()},
    )


def _absent(answer: Mapping[str, Any], blocks: Sequence[str]) -> tuple[str, ...]:
    """What no line has: nodes, or single results of nodes that have others."""
    paths = {m["path"] for m in answer["matches"]}
    names = (f"{path}:{port}" if path in paths else path for path, port in answer["missing"])
    return tuple(dict.fromkeys(node_id(name, blocks) for name in names))


@dataclass(frozen=True)
class Called:
    """Results of functions of a reference, the hash of the file, and what stood in for something."""

    results: tuple[Any, ...]
    sha256: str
    shims: tuple[str, ...]


def call(
    reference: Path,
    calls: Sequence[tuple[str, Sequence[Any] | Mapping[str, Any]]],
    replace: Mapping[str, str] | None = None,
    *,
    device: str = "cpu",
) -> Called:
    """Call functions of a reference by name, in a process of its own. A class is a function, too: a module that it
    builds is answered as its parameters' shapes. An argument `{"result": n}` is call n's result,
    `{"float32": [...]}` a tensor; `replace` has lines of the file (stripped) to be read as others."""
    wanted = [
        {"function": name, "args": dict(args) if isinstance(args, Mapping) else list(args)} for name, args in calls
    ]
    request = {"reference": str(reference), "replace": dict(replace or {}), "calls": wanted, "device": device}
    answer = ask(request)
    return Called(tuple(answer["results"]), answer["sha256"], tuple(answer["shims"]))


@dataclass(frozen=True)
class Angles:
    """What a library's rotary class makes for one kind of block: frequencies before any scaling and as used, and the
    cosine and sine of every position's angles."""

    kind: str
    plain: torch.Tensor
    used: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor


def angles(reference: Path, variant: Variant) -> tuple[tuple[Angles, ...], str, str]:
    """The angles of the variant's full size by the library's own class, that class's name, and the file's hash."""
    answer = ask({"reference": str(reference), "angles": variant.name})
    return tuple(Angles(**row) for row in answer["angles"]), answer["class"], answer["sha256"]


@dataclass(frozen=True)
class Sizes:
    """What a library says of full-size tensors under their published names: how many they are, what is wrong with them,
    and how many numbers the model has that it makes of them."""

    tensors: int
    wrong: tuple[str, ...]
    total: int
    made_by: str
    sha256: str


def sizes(reference: Path, variant: Variant) -> Sizes:
    """The library's own loader on the variant's tensors, all without storage."""
    answer = ask({"reference": str(reference), "sizes": variant.name})
    wrong = tuple(answer["wrong"])
    return Sizes(answer["tensors"], wrong, answer["total"], answer["class"], answer["sha256"])


def ask(request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of the reference's process; its errors are raised here."""
    with tempfile.TemporaryDirectory(prefix="oma-locate-") as folder:
        asked, result = Path(folder, "request.json"), Path(folder, "result.pt")
        asked.write_text(json.dumps(request), encoding="utf-8")
        command = [sys.executable, "-m", WORKER, str(asked), str(result)]
        where = str(request["reference"])
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise UsageError("the file runs too long", where=where, expected=f"{SECONDS:.0f} s at most") from None
        if not result.is_file():
            last = (done.stderr.strip() or "nothing was said").splitlines()[-1]
            raise UsageError("the file's process died", where=where, found=f"exit code {done.returncode}: {last}")
        answer: dict[str, Any] = torch.load(result, weights_only=True)
    if "error" in answer:
        parts = answer["error"]
        raise UsageError(parts.pop("what"), **parts)
    return answer


def node_id(path: str, blocks: Sequence[str]) -> str:
    """`blocks.1.attention` as `block.attention`."""
    parts = path.split(".")
    return ".".join([blocks[int(parts[1])], *parts[2:]]) if parts[0] == BLOCKS and len(parts) > 1 else path


def _folded(matches: Sequence[Mapping[str, Any]], blocks: Sequence[str]) -> tuple[LocatedNode, ...]:
    """One entry a node: every block's lines together."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for found in matches:
        rows.setdefault(node_id(found["path"], blocks), []).append(found)

    def joined(of: list[Mapping[str, Any]], key: str) -> tuple[int, ...]:
        return tuple(sorted({line for row in of for line in row[key]}))

    return tuple(
        LocatedNode(
            node=node,
            lines=joined(of, "lines"),
            called=joined(of, "called"),
            others=joined(of, "others"),
            moves=of[0]["moves"],
            distance=max(row["distance"] for row in of),
        )
        for node, of in rows.items()
    )
