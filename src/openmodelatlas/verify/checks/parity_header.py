"""The header of a real checkpoint: every tensor and every setting accounted for."""

from openmodelatlas import models
from openmodelatlas.catalog.checkpoints import path_of
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, Tier, VerificationRecord
from openmodelatlas.verify import parity_run as run_
from openmodelatlas.verify.real import checkpoint_of, none_here
from openmodelatlas.weights.identify import identify
from openmodelatlas.weights.ledger import account, metadata_findings, tensor_findings
from openmodelatlas.weights.reading.gguf import open_gguf

TITLE = "a real checkpoint's header has every tensor and setting of the model, and no other"
TIER: Tier = "header match"

applies = none_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Names, shapes, settings; no value is read."""
    checkpoint = checkpoint_of(model)
    progress("reading the header", 0, 0)
    with open_gguf(path_of(checkpoint)) as file:
        header = file.header
        identity = identify(header)
        ledger = account(header, models.find(model.variant))
        wrong = tensor_findings(ledger) + metadata_findings(ledger)
    settings = len(identity.differences) + (model.variant not in identity.matches)
    matched = sum(row.status == "matched" for row in ledger.rows)
    found = (
        Measurement(where="", what="tensors, settings missing, surplus or other", value=float(len(wrong)), bound=0.0),
        Measurement(where="", what="settings that speak for another model", value=float(settings), bound=0.0),
    )
    return run_.record(
        model,
        __name__,
        TITLE,
        found,
        references=(),
        positions=0,
        tier=TIER,
        dtype="as stored",
        detail=f"{checkpoint.title}, sha256 {checkpoint.sha256}: {matched} tensors matched, {len(ledger.metadata)} "
        f"settings read, required or ignored with a reason; {ledger.parameters:,} parameters.",
        nodes=("",),
    )
