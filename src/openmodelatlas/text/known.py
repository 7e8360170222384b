"""What is known of a family's tokenizers, from `models/FAMILY.tokens.toml`: each fact with where it was read."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openmodelatlas.errors import CatalogError
from openmodelatlas.models.tables import families_with_tokens
from openmodelatlas.models.tables import tokens as table

if TYPE_CHECKING:  # tokenizers are read without torch
    from openmodelatlas.models.variant import Variant


@dataclass(frozen=True, kw_only=True)
class RankRules:
    """What a file of ranks leaves out: how many ranks it has, the names of the special tokens after them in order, and
    which of these begin and end a text. `cut`: a key of `byte_level.CUTS`. `recognised_by`: the tokens at these ids are
    enough to know a vocabulary that does not say how it is cut."""

    title: str
    ranks: int
    special: tuple[str, ...]
    begin: str
    ends: tuple[str, ...]
    cut: str
    recognised_by: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class Rendering:
    """A conversation and the text that a right template makes of it. `variables`: what the template is given besides.
    `any_of`: more than one text is right."""

    name: str
    messages: tuple[Mapping[str, str], ...]
    any_of: tuple[str, ...]
    generation: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Known:
    """The tokenizer of some models of a family, as far as it is known. `tokens`: how many there are before padding,
    0 if that is not known. `special`: names of control tokens by id. `cut`: texts and how they are cut. `stop`: what
    ends a turn of the models that chat. `begins`: whether a text must begin with the beginning; None if not known."""

    title: str
    models: tuple[str, ...]
    sources: tuple[str, ...]
    tokens: int = 0
    special: Mapping[int, str] = field(default_factory=dict)
    cut: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stop: frozenset[int] = frozenset()
    begins: bool | None = None
    renderings: tuple[Rendering, ...] = ()
    ranks: RankRules | None = None


def known(variant: "Variant") -> Known | None:
    """What is known of a model's tokenizer; None if nothing is."""
    return next((entry for entry in of_family(variant.family) if variant.name in entry.models), None)


def rank_rules(ranks: int, variant: "Variant | None") -> RankRules | None:
    """The rules for a file of so many ranks: the model's own, else the first that fit."""
    entry = None if variant is None else known(variant)
    if entry is not None and entry.ranks is not None:
        return entry.ranks
    entries = (entry for family in families_with_tokens() for entry in of_family(family))
    return next((e.ranks for e in entries if e.ranks is not None and e.ranks.ranks == ranks), None)


def recognised(tokens: Sequence[str]) -> RankRules | None:
    """The rules of a vocabulary that says nothing of how it is cut, if it is certainly one of these."""
    for rules in (entry.ranks for family in families_with_tokens() for entry in of_family(family)):
        ids = {} if rules is None else rules.recognised_by
        if ids and all(number < len(tokens) and tokens[number] == name for number, name in ids.items()):
            return rules
    return None


@functools.cache
def of_family(family: str) -> tuple[Known, ...]:
    """Every entry of a family's table. CatalogError for a key that is not one of these fields."""
    where = f"models/{family}.tokens.toml"
    try:
        return tuple(_known(row) for row in table(family).get("tokenizer", ()))
    except (TypeError, KeyError, ValueError) as error:
        raise CatalogError("not a table of tokenizers", where=where, found=error) from None


def _known(row: Mapping[str, Any]) -> Known:
    row = dict(row)
    conversations = row.pop("rendering", [])
    return Known(
        title=row["title"],
        models=tuple(row.pop("models")),
        sources=tuple(row.pop("sources")),
        special={int(number): name for number, name in row.pop("special", {}).items()},
        cut={text: tuple(parts) for text, parts in row.pop("cut", {}).items()},
        stop=frozenset(row.pop("stop", ())),
        renderings=tuple(
            Rendering(**{**r, "messages": tuple(r["messages"]), "any_of": tuple(r["any_of"])}) for r in conversations
        ),
        ranks=_rules(row["title"], row.pop("ranks")) if "ranks" in row else None,
        **{key: value for key, value in row.items() if key != "title"},
    )


def _rules(title: str, row: Mapping[str, Any]) -> RankRules:
    """Special tokens are named one by one, then numbered: `numbered` is the name, `from` its first number, `count` how
    many special tokens there are in all."""
    named: list[str] = list(row["named"])
    numbered = [row["numbered"].format(row["from"] + n) for n in range(row["count"] - len(named))]
    return RankRules(
        title=title,
        ranks=row["ranks"],
        special=tuple(named + numbered),
        begin=row["begin"],
        ends=tuple(row["ends"]),
        cut=row["cut"],
        recognised_by={int(number): name for number, name in row["recognised_by"].items()},
    )
