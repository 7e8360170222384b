"""A Hugging Face `config.json` accounted for against a variant: every key of it, nested ones joined by a dot."""

from collections.abc import Iterator, Mapping
from typing import Any

from openmodelatlas.models import variants
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Header, MetadataRow
from openmodelatlas.weights.identify import Identity, identify
from openmodelatlas.weights.naming import name_table
from openmodelatlas.weights.settings import setting_rows


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every key with its path, such as `rope_scaling.factor`; lists and empty sections stay values."""
    return dict(_flat(config, ""))


def _flat(config: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def account_configuration(config: Mapping[str, Any], variant: Variant) -> tuple[MetadataRow, ...]:
    """A row for every key of a parsed `config.json`, and for each that means something by not being there.

    `settings.setting_findings` lists those that contradict the variant or that nothing accounts for."""
    return setting_rows(flat(config), variant, name_table(variant.family, "huggingface"))


def identify_configuration(
    config: Mapping[str, Any], path: str, candidates: Mapping[str, Variant] | None = None
) -> Identity:
    """Which model of the atlas a parsed `config.json` describes, by its numbers. CheckpointError if no family does."""
    known = variants() if candidates is None else candidates
    header = Header(format="config.json", path=path, file_bytes=0, metadata=flat(config), tensors=())
    return identify(header, "huggingface", known)
