"""What each file of a checkpoint says begins and ends a text, and what follows from all of them together."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from openmodelatlas.records.shown import shown
from openmodelatlas.text.huggingface import CONFIG, json_object
from openmodelatlas.text.tokenizer import SpecialTokens, Vocabulary

GENERATION = "generation_config.json"
MAP = "special_tokens_map.json"
Role = Literal["bos", "eos", "eot", "eom"]
ENDS: tuple[Role, ...] = ("eos", "eot", "eom")


@dataclass(frozen=True, kw_only=True)
class Stated:
    """One file's word on one role. `ids` hold nothing for a null, and None for what names no token."""

    where: str
    role: Role
    ids: frozenset[int] | None
    text: str


def stated(beside: Mapping[str, bytes], metadata: Mapping[str, Any], vocabulary: Vocabulary) -> list[Stated]:
    """What all files say, the tokenizer's own last. CheckpointError for one that is not JSON."""
    found = []
    for role in (*ENDS, "bos"):
        key = f"tokenizer.ggml.{role}_token_id"
        if key in metadata:
            found.append(_of_ids(key, role, metadata[key], vocabulary))
        for key in (f"{role}_token_id", f"text_config.{role}_token_id"):
            if key in metadata and "tokenizer.ggml.model" not in metadata:
                found.append(_of_ids(f"config.json {key}", role, metadata[key], vocabulary))
        generation = json_object(beside, GENERATION)
        if f"{role}_token_id" in generation:
            found.append(_of_ids(GENERATION, role, generation[f"{role}_token_id"], vocabulary))
        for name in (CONFIG, MAP):
            content = json_object(beside, name)
            if f"{role}_token" in content:
                found.append(_of_name(name, role, content[f"{role}_token"], vocabulary))
    return found


def _of_ids(where: str, role: Role, value: Any, vocabulary: Vocabulary) -> Stated:
    ids = value if isinstance(value, list) else [] if value is None else [value]
    known = all(type(number) is int and 0 <= number < len(vocabulary.tokens) for number in ids)
    text = "null" if value is None else ", ".join(_token(number, vocabulary) for number in ids[:8])
    return Stated(where=where, role=role, ids=frozenset(ids) if known else None, text=text or "none")


def _of_name(where: str, role: Role, value: Any, vocabulary: Vocabulary) -> Stated:
    name = value.get("content") if isinstance(value, dict) else value
    if name is None:
        return Stated(where=where, role=role, ids=frozenset(), text="null")
    number = vocabulary.ids.get(name) if isinstance(name, str) else None
    text = repr(name)[:60] if number is None else _token(number, vocabulary)
    return Stated(where=where, role=role, ids=None if number is None else frozenset({number}), text=text)


def _token(number: Any, vocabulary: Vocabulary) -> str:
    if type(number) is int and 0 <= number < len(vocabulary.tokens):
        return f"{number} {shown(vocabulary.tokens[number])}"
    return repr(number)[:30]


def ends(rows: list[Stated]) -> frozenset[int]:
    """All ids that any file ends a text by."""
    return frozenset(number for row in rows if row.role in ENDS for number in row.ids or ())


def stops(rows: list[Stated]) -> frozenset[int]:
    """The ids that a program which reads these files stops at: those for generation where there are any, else the
    model's, else the tokenizer's."""
    for wanted in (("tokenizer.ggml",), (GENERATION,), ("config.json",), (CONFIG, MAP)):
        found = ends([row for row in rows if row.where.startswith(wanted)])
        if found:
            return found
    return frozenset()


def special(beside: Mapping[str, bytes], rows: list[Stated], adds: tuple[list[int], list[int]]) -> SpecialTokens:
    """Roles for a tokenizer of Hugging Face's layout; `adds`: the ids that it puts around a text by itself."""
    bos = next(_beginnings(rows), None)
    content = json_object(beside, CONFIG)
    before, after = adds
    if bos is None and len(before) == 1:
        bos = before[0]

    def flag(name: str, otherwise: bool) -> bool:
        value = content.get(name)
        return value if isinstance(value, bool) else otherwise

    return SpecialTokens(
        bos=bos,
        eos=ends(rows),
        add_bos=bos is not None and flag("add_bos_token", bos in before),
        add_eos=flag("add_eos_token", bool(set(after) & ends(rows))),
    )


def _beginnings(rows: list[Stated]) -> Iterator[int | None]:
    """The tokenizer's own word first."""
    for file in (CONFIG, MAP, GENERATION, "config.json"):
        for row in rows:
            if row.role == "bos" and row.where.startswith(file) and row.ids is not None:
                yield next(iter(row.ids), None)
