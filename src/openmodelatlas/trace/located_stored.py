"""A variant of ours as a checkpoint of a naming scheme: its settings, and its weights under the names and in the layout
that files have. What reading such a checkpoint does is undone here, so that a reference can be given one."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from openmodelatlas.errors import UsageError
from openmodelatlas.models import tables, tied
from openmodelatlas.models.variant import Variant

INDEX, EXPERT = "{i}", "{e}"
BLOCKS = "blocks"
TIED = "tie_word_embeddings"
"""The key that says whether the unembedding is the embedding table; it is no number of a configuration."""


def schemes(family: str) -> tuple[str, ...]:
    """The schemes in which a reference may keep its parameters: those that name weights and numbers as Python does."""
    return tuple(scheme for scheme in ("meta", "huggingface") if scheme in tables.names(family)["metadata"])


def settings(variant: Variant, scheme: str) -> dict[str, Any]:
    """The variant's numbers under the scheme's keys, nested as the file nests them; a number that has several keys
    stands under the first. What a key must equal stands there, too, unless its section is not needed."""
    columns = tables.names(variant.family)["metadata"][scheme]
    found: dict[str, Any] = {TIED: tied(variant)} if scheme == "huggingface" else {}
    given: set[str] = set()
    for key, field in columns["read"].items():
        value = getattr(variant.config, field, None)
        if value is not None and field not in given:
            given.add(field)
            _put(found, key, value)
    for key, value in _fixed(columns, variant):
        section, _, inner = key.partition(".")
        if value is not None and (section in found or not inner):
            _put(found, key, value)
    return found


def _put(found: dict[str, Any], key: str, value: Any) -> None:
    *sections, last = key.split(".")
    for section in sections:
        found = found.setdefault(section, {})
    found.setdefault(last, value)


def _fixed(columns: Mapping[str, Any], variant: Variant) -> Iterator[tuple[str, Any]]:
    """Keys whose value the table states: always the same, the first of several, by a field, or one a block."""
    yield from columns.get("must_equal", {}).items()
    for key, values in columns.get("one_of", {}).items():
        yield key, values[0]
    for key, row in columns.get("conditional", {}).items():
        values = row["there" if hasattr(variant.config, row["field"]) else "otherwise"]
        yield key, values[0] if values else None
    for key, words in columns.get("schedule", {}).items():
        blocks = getattr(variant.build("meta"), BLOCKS)
        yield key, [words[type(block).__name__] for block in blocks]


def places(variant: Variant, scheme: str) -> dict[str, tuple[str, int | None, tuple[str, ...]]]:
    """By stored name: the parameter of ours that it holds, its index there if it is one of a stack, and the layout
    steps that reading takes. A shared table stands under both of its names, if it has two."""
    rows = {row["parameter"]: row for row in tables.names(variant.family)["tensor"]}
    found: dict[str, tuple[str, int | None, tuple[str, ...]]] = {}
    for name, parameter in variant.build("meta").named_parameters(remove_duplicate=False):
        parts = name.split(".")
        index = parts[1] if parts[0] == BLOCKS else ""
        row = rows.get(name.replace(f"{BLOCKS}.{index}.", f"{BLOCKS}.{INDEX}.") if index else name)
        if row is None:  # a family that always shares the table has no name for its second use
            continue
        form = row[scheme] if isinstance(row[scheme], str) else row[scheme][0]
        form, steps = form.replace(INDEX, index), tuple(row.get(f"{scheme}_steps", ()))
        if EXPERT not in form:
            found[form] = (name, None, steps)
        else:
            found |= {form.replace(EXPERT, str(e)): (name, e, steps) for e in range(len(parameter))}
    return found


def tensors(model: nn.Module, variant: Variant, scheme: str) -> dict[str, Tensor]:
    """The model's weights by stored name, in the scheme's layout."""
    ours = dict(model.named_parameters(remove_duplicate=False))
    found = {}
    for stored, (name, index, steps) in places(variant, scheme).items():
        value = ours[name].detach() if index is None else ours[name].detach()[index]
        for step in steps:
            if step != "interleave_rotary_rows":
                raise UsageError("a layout step that cannot be undone here", found=step)
            value = split_rotary_rows(value, variant.config.head_dim)
        found[stored] = value
    return found


def split_rotary_rows(weight: Tensor, head_width: int) -> Tensor:
    """Adjacent pairs to half-split rows: the inverse of the step `interleave_rotary_rows`."""
    heads = weight.reshape(-1, head_width // 2, 2, weight.shape[1])
    return heads.transpose(1, 2).reshape(weight.shape)
