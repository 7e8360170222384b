"""The check of a checkpoint's tokenizer."""

from openmodelatlas.errors import AtlasError
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.findings import finding, of_error
from openmodelatlas.text.gguf_vocabulary import from_gguf
from openmodelatlas.verify.outcome import Outcome, outcome
from openmodelatlas.weights.opened import Opened


def check_tokenizer(opened: Opened, variant: Variant) -> Outcome:
    """It can be built, and its tokens fit the model."""
    try:
        tokenizer = from_gguf(opened.section("tokenizer."))
    except AtlasError as error:
        return outcome("tokenizer", "does not build", [of_error(error, "tokenizer.unreadable", "tokenizer.ggml")])
    size, rows = tokenizer.vocab_size, variant.config.vocab_size
    findings = []
    if size > rows:
        findings.append(
            finding("tokenizer.too-large", "tokenizer.ggml.tokens", expected=f"at most {rows} tokens", found=f"{size}")
        )
    return outcome("tokenizer", f"builds, {size:,} tokens for {rows:,} rows", findings)
