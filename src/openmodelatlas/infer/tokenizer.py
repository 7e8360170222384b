"""The tokenizers of an opened checkpoint."""

from openmodelatlas.models.variant import Variant
from openmodelatlas.text.forms import Forms, forms
from openmodelatlas.weights.opened import Opened


def tokenizer_forms(opened: Opened, variant: Variant | None) -> Forms:
    """Every form that it brings; vocabularies among its settings are read in full."""
    settings = {**opened.header.metadata, **opened.section("tokenizer.")}
    return forms(opened.beside, settings, variant)
