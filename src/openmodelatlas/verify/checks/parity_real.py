"""Real weights end to end beside transformers: the stream after every block, logits, greedy tokens."""

from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, Tier, VerificationRecord
from openmodelatlas.verify import parity, parity_hub, real
from openmodelatlas.verify import parity_run as run_
from openmodelatlas.verify.parity_distances import Distances, measured
from openmodelatlas.verify.references.worker import needs, release, worker

TITLE = "with real weights, the stream after every block and 200 greedy tokens equal transformers'"
TIER: Tier = "real weights"
TOKENS = 200

applies = real.none_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """200 greedy tokens of its, and one forward over all of them here and there."""
    needs("transformers")
    variant, prompt = real.loaded(model).variant, real.text(model)
    keep = ("embed", *(f"blocks.{i}.ffn_add" for i in range(variant.config.num_hidden_layers)), "norm", "logits")
    options = parity_hub.options(model.family)
    progress("running transformers", 0, 0)
    start = real.case_of(prompt, ("logits",))
    written = worker("hub").ask(real.request_of(model, {"prompt": start}, **options, generate=TOKENS))
    tokens = written["cases"]["prompt"][0]["generated"][0]
    case = real.case_of(prompt + tokens.tolist(), keep)
    single = worker("hub").ask(real.request_of(model, {"text": case}, **options))
    double = worker("hub").ask(real.request_of(model, {"text": case}, dtype="float64", **options))
    release("hub")  # a gigabyte
    here = parity.ours(real.loaded(model).model, case)[0]
    # Our likeliest token after every prefix of its text: the same ones are what we would have written.
    unlike = int((here["logits"][0, len(prompt) - 1 : -1].argmax(-1) != tokens).sum())
    made = [Measurement(where="logits", what="greedy tokens that differ", value=float(unlike), bound=0.0)]
    for node in keep:
        theirs, exact = single["cases"]["text"][0][node], double["cases"]["text"][0][node]
        found = Distances(())
        found.add(run_.HUB, [{node: here[node]}], [{node: theirs}])
        found.add(run_.ITSELF, [{node: theirs}], [{node: exact}])
        rows = measured(found, run_.ITSELF, (run_.HUB,))
        made += [Measurement(where=node, what=m.what, value=m.value, bound=m.bound) for m in rows]
    return run_.record(
        model,
        __name__,
        TITLE,
        made,
        references=run_.yardsticks(single),
        positions=len(prompt) + TOKENS,
        tier=TIER,
        detail=f"{real.checkpoint_of(model).title}, sha256 {real.checkpoint_of(model).sha256}. {real.LIMIT}",
        nodes=("embed", "block", "block.ffn_add", "norm", "unembed", "logits"),
    )
