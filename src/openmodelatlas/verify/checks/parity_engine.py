"""Real weights beside an engine that reads the file itself: log-probabilities of likely next tokens."""

from torch import Tensor

from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, Tier, VerificationRecord
from openmodelatlas.verify import parity, parity_hub, real
from openmodelatlas.verify import parity_run as run_
from openmodelatlas.verify.parity_distances import BETWEEN, short
from openmodelatlas.verify.references.exchange import Values
from openmodelatlas.verify.references.worker import needs, release, worker

TITLE = "with real weights, log-probabilities are as near to llama.cpp's as transformers' are"
TIER: Tier = "real weights"
TOKENS, LIKELIEST = 48, 20
UNIT = "log-probability, largest difference"

applies = real.none_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """The engine writes on, once from the file as it is and once in float32; ours and transformers score its texts."""
    needs("xllamacpp")
    needs("transformers")
    prompt = real.text(model)
    progress("running llama.cpp", 0, 0)
    asked = real.request_of(model, {"text": real.case_of(prompt)}, generate=TOKENS, top=LIKELIEST)
    engine = worker("engine").ask(asked)
    release("engine")  # its threads wait busily
    texts = {name: calls[0] for name, calls in engine["cases"].items()}
    cases = {name: real.case_of(prompt + t["generated"].tolist(), ("logits",)) for name, t in texts.items()}
    progress("running transformers", 0, 0)
    hub = worker("hub").ask(real.request_of(model, cases, **parity_hub.options(model.family)))
    found: list[Measurement] = []
    for name, theirs in texts.items():
        ours = parity.ours(real.loaded(model).model, cases[name])[0]["logits"]
        found += _rows(name.removeprefix("text, "), theirs, ours, hub["cases"][name][0]["logits"])
    return run_.record(
        model,
        __name__,
        TITLE,
        found,
        references=run_.yardsticks(engine, hub),
        positions=len(prompt) + TOKENS,
        tier=TIER,
        detail=f"{real.checkpoint_of(model).title}, sha256 {real.checkpoint_of(model).sha256}; the {LIKELIEST} "
        f"likeliest tokens at {TOKENS} positions. {real.LIMIT}",
        nodes=("logits",),
    )


def _rows(kind: str, theirs: Values, ours: Tensor, hub: Tensor) -> list[Measurement]:
    """Three distances, and how often our likeliest token is another."""
    written = slice(-TOKENS - 1, -1)
    here, there = (logits[0, written].log_softmax(-1) for logits in (ours, hub))
    engine, own, other = theirs["logprobs"], here.gather(1, theirs["top"]), there.gather(1, theirs["top"])
    bound = short(2 * float((other - engine).abs().max()))
    unlike = float((here.argmax(-1) != theirs["generated"]).sum())
    return [
        _row(f"ours to llama.cpp {kind}: {UNIT}", own - engine, bound),
        _row(f"ours to transformers on its text: {UNIT}", own - other, bound),
        _row(f"{BETWEEN}, llama.cpp {kind}: {UNIT}", other - engine, None),
        Measurement(where="logits", what=f"greedy tokens of llama.cpp {kind} not ours", value=unlike, bound=None),
    ]


def _row(what: str, apart: Tensor, bound: float | None) -> Measurement:
    return Measurement(where="logits", what=what, value=short(float(apart.abs().max())), bound=bound)
