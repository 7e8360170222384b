"""A model's numbers as a checkpoint of a scheme states them: the name tables read backwards."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from openmodelatlas import models
from openmodelatlas.errors import CheckpointError
from openmodelatlas.models.variant import Variant
from openmodelatlas.weights.naming import NameTable, Scheme, name_table
from openmodelatlas.weights.settings import ELSEWHERE
from openmodelatlas.weights.shapes import parameter_shapes

LARGEST_MULTIPLE = 1024


def stated(variant: Variant, scheme: Scheme) -> dict[str, Any]:
    """Every setting, flat: what the model is, its numbers, and what a program may take as said only if it is said.

    Each number stands under the first key that the table reads it from; in GGUF, whose readers derive some keys from
    others, under every key."""
    table = name_table(variant.family, scheme)
    numbers = dict(_numbers(variant, table))
    found = dict(_constants(table, numbers)) | numbers | dict(_schedules(variant, table))
    if table.scheme == "meta":
        found |= feed_forward_width(found["dim"], variant.config.intermediate_size)
    missing = [key for key in table.required if key not in found and table.read.get(key) not in ELSEWHERE]
    if missing:
        raise CheckpointError("no value for a key that must be stated", where=table.family, found=", ".join(missing))
    return found


def _numbers(variant: Variant, table: NameTable) -> Iterator[tuple[str, Any]]:
    done: set[tuple[str, bool]] = set()
    conditions = ((key, rule.field) for key, rule in table.conditional.items())
    for key, field in (*table.read.items(), *conditions):
        number = models.tied(variant) if field == "tied" else getattr(variant.config, field, None)
        condition = table.conditional.get(key)
        if number is None or field in ELSEWHERE or ((field, condition is None) in done and table.scheme != "gguf"):
            continue
        done.add((field, condition is None))
        yield key, number if condition is None else condition.there[0]


def _constants(table: NameTable, numbers: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What the definition fixes: keys that must equal a value, except those of a section that states no number."""
    sections = {key.rpartition(".")[0] for key in numbers}
    architecture = str(table.must_equal.get("general.architecture", ""))
    for key, value in (*table.must_equal.items(), *((key, forms[0]) for key, forms in table.one_of.items())):
        own = key in table.identity or key.startswith(f"{architecture}.")
        if own if table.scheme == "gguf" else key.rpartition(".")[0] in sections:
            yield key, value
    if table.scheme != "gguf":
        yield from (
            (key, None) for key in table.null if "." not in key and not any(s.startswith(key) for s in sections)
        )


def _schedules(variant: Variant, table: NameTable) -> Iterator[tuple[str, list[Any]]]:
    """One value a block, where blocks are of several kinds and the scheme has no number that says it."""
    blocks: Any = variant.build("meta").get_submodule("blocks")
    for key, words in table.schedule.items():
        if len(words) > 1 and key not in table.read:
            yield key, [words[type(block).__name__] for block in blocks]


def feed_forward_width(width: int, inner: int) -> dict[str, Any]:
    """`multiple_of` and `ffn_dim_multiplier`, from which Meta's code computes the inner width: two thirds of four times
    the width, times the multiplier, both rounded down, then up to a multiple."""
    multiple = math.gcd(inner, LARGEST_MULTIPLE)
    plain = 8 * width // 3
    if _rounded_up(plain, multiple) == inner:
        return {"multiple_of": multiple}
    for digits in range(1, 17):
        factor = round((inner - multiple / 2) / plain, digits)
        if _rounded_up(int(factor * plain), multiple) == inner:
            return {"multiple_of": multiple, "ffn_dim_multiplier": factor}
    raise CheckpointError("no multiplier gives this feed-forward width", expected=inner, found=f"width {width}")


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """`rope_scaling.factor` as a section with a key."""
    found: dict[str, Any] = {}
    for key, value in flat.items():
        *sections, last = key.split(".")
        place = found
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return found


def unsaid(variant: Variant, known: set[str], target: Scheme) -> list[str]:
    """Numbers that the target states, and that are neither `known` nor shown by the tensors' shapes."""
    numbers = dataclasses.asdict(variant.config)
    asked = {field for field in name_table(variant.family, target).read.values() if field in numbers}
    return sorted(field for field in asked - known if not _shown_by_shapes(variant, field))


def _shown_by_shapes(variant: Variant, field: str) -> bool:
    """Whether another number there would be another shape of some parameter."""
    value = getattr(variant.config, field)
    if field == "num_hidden_layers":
        return True
    return isinstance(value, int) and parameter_shapes(variant, {}) != parameter_shapes(variant, {field: 2 * value})
