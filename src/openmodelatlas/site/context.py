"""How many positions a model takes: each figure beside who says it, and what the definition does where they differ."""

from dataclasses import dataclass

from openmodelatlas.records.catalog import Figure
from openmodelatlas.records.evidence import State
from openmodelatlas.site.inputs import ModelPage

ORIGINAL = "rope_original_max_position_embeddings"
"""The configuration's field that only models with scaled rotary frequencies have."""


@dataclass(frozen=True)
class Said:
    """One figure. `aside`: it is no statement of the model's own length, and is not held against the others."""

    who: str
    positions: str
    source: str
    note: str
    aside: bool
    state: State = "stated"


def said(page: ModelPage) -> tuple[Said, ...]:
    """Configuration, training, card; then what is often taken for a limit and is none."""
    context, original, setting = page.model.context, page.graph.config.get(ORIGINAL), page.provenance.reference.setting
    rows = [_said("configuration", context.config)]
    rows += [_said("training sequences", figure) for figure in context.trained]
    rows += [_said("maker's card", context.advertised)] if context.advertised else []
    if original is not None:
        note = "the length that the scaling of the rotary frequencies starts from; no limit"
        rows.append(Said("before the scaling", f"{original:,}", "configuration, its rotary scaling", note, True))
    if setting is not None:
        note = "a setting of that code, to be chosen by whoever runs it; no limit of a model"
        rows.append(_said("reference code's default", setting, note))
    return tuple(rows)


def conflict(page: ModelPage) -> str:
    """What the definition does where the figures differ; nothing where they agree."""
    if not page.model.context.differ:
        return ""
    return (
        f"These figures differ: the definition follows the configuration's {page.model.context.config.positions:,} and "
        "computes every position that it is given, so that it cuts nothing off at the others."
    )


def _said(who: str, figure: Figure, aside: str = "") -> Said:
    note = "; ".join(part for part in (figure.note, aside) if part)
    return Said(who, f"{figure.positions:,}", figure.source, note, bool(aside))
