"""The reference file that a release published itself, run beside ours, and compared with the packaged one."""

import ast
import tempfile
from pathlib import Path

from openmodelatlas.catalog import find
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.evidence import Place
from openmodelatlas.records.verification import Measurement, VerificationRecord
from openmodelatlas.verify import parity
from openmodelatlas.verify import parity_run as run_
from openmodelatlas.verify.definition_hash import plain
from openmodelatlas.verify.parity_distances import BETWEEN, Distances, distance
from openmodelatlas.verify.sources import unpacked

TITLE = "every node's values equal those of the release's own file"
TIER = run_.TINY
POSITIONS = 512


def applies(model: Model) -> str | None:
    """Only a release that published its own file, in git."""
    reference = find.reference(model.reference)
    if not run_.by_meta(model):
        return f"{reference.title} is no file of a release; parity_stages runs it in its library"
    if reference.release != model.release:
        return f"{reference.repo} is not its own code; parity_stages runs the packaged one"
    return None


def place(model: Model) -> Place:
    """Where the release's file stands."""
    reference = find.reference(model.reference)
    return next(c.pin.place for c in reference.claims if c.pin.place.source == reference.repo)


def run(model: Model, progress: Progress) -> VerificationRecord:
    """FetchError if the file is not here: then neither the run nor the comparison of syntax trees is available."""
    variant = run_.twin(model)
    return run_.shared(__name__, model, variant, lambda: _run(model, variant, progress))


def _run(model: Model, variant: Variant, progress: Progress) -> VerificationRecord:
    at = place(model)
    with tempfile.TemporaryDirectory(prefix="oma-reference-") as folder:
        text = unpacked(at, Path(folder)).read_text(encoding="utf-8")
    cases = {"text": parity.case(POSITIONS)}
    weights, packaged = parity.stored(variant), run_.packaged_source(progress)
    own = run_.Source(model=text, args="", name=f"Meta's code, {at.source}", version=at.revision)
    progress("running the release's file", 0, 0)
    original = run_.ask_meta(variant, weights, cases, own)
    progress("running transformers", 0, 0)
    hub = run_.ask_hub(variant, weights, cases)
    here, found = parity.ours(parity.filled(variant, weights), cases["text"]), Distances(parity.kinds(variant))
    found.add(run_.META, here, original["cases"]["text"])
    found.add(run_.HUB, here, hub["cases"]["text"])
    found.add(BETWEEN, hub["cases"]["text"], original["cases"]["text"])
    outcome = run_.Outcome(found, BETWEEN, (run_.META, run_.HUB))
    same, other = trees(own.model, packaged.model)
    wheel = run_.ask_meta(variant, weights, cases, packaged)["cases"]["text"][0]["logits"]
    apart = distance(wheel, original["cases"]["text"][0]["logits"])
    extra = Measurement(where="logits", what="this file to the packaged one, relative", value=apart, bound=None)
    return run_.record(
        model,
        __name__,
        TITLE,
        (*run_.summary(outcome), extra),
        references=run_.yardsticks(original, hub),
        positions=POSITIONS,
        detail=f"Syntax trees against {packaged.name} {packaged.version}: equal in {', '.join(same)}; other in "
        f"{', '.join(other)}. Listed are the node nearest to its bound, and the logits; all nodes were compared.",
        nodes=found.sequence,
    )


def trees(first: str, second: str) -> tuple[list[str], list[str]]:
    """Functions and methods of the first file whose syntax tree the second has too, and the others."""
    a, b = _functions(first), _functions(second)
    return [name for name in a if a[name] == b.get(name)], [name for name in a if a[name] != b.get(name)]


def _functions(text: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = plain(node)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{f.name}": plain(f) for f in node.body if isinstance(f, ast.FunctionDef)}
    return found
