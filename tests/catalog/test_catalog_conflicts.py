"""Conflicts that the catalogue states, with their numbers held against what this package computes."""

import re
import tomllib
from pathlib import Path

import pytest

from openmodelatlas import models
from openmodelatlas.catalog import find
from openmodelatlas.records.catalog import Model

COUNTS = tomllib.loads((Path(__file__).parent.parent / "data" / "parameter_counts.toml").read_text())
SIZES = ("llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b")


def widths(text: str) -> tuple[list[int], list[int]]:
    """The paper's three widths and the definition's."""
    numbers = [int(n.replace(",", "")) for n in re.findall(r"\d+,\d{3}", text)]
    return numbers[:3], numbers[3:]


@pytest.mark.parametrize("index", range(3))
def test_the_papers_feed_forward_widths_do_not_give_the_published_counts(index: int) -> None:
    """Fault F48: ports that take the width from the paper get tensors that do not load."""
    paper, ours = widths(find.model(SIZES[index]).conflicts["feed-forward-width"])
    config = models.find(SIZES[index]).config
    assert ours[index] == config.intermediate_size
    matrices = 3 * config.num_hidden_layers * config.hidden_size
    right = COUNTS[SIZES[index]]["count"]
    assert sum(p.numel() for p in models.find(SIZES[index]).build().parameters()) == right
    wrong = right - matrices * (ours[index] - paper[index])
    assert wrong == (4_809_035_776, 38_341_451_776, 202_916_184_064)[index]


def test_the_scale_factor_of_llama_3_2_is_the_configurations() -> None:
    for name in ("llama-3.2-1b", "llama-3.2-3b"):
        said = [int(n) for n in re.findall(r"\b(8|32)\b", find.model(name).conflicts["scaled-rope"])]
        assert said == [8, 32, 32]
        assert models.find(name).config.rope_factor == 32.0


def test_what_the_makers_list_says_of_llama_2_7b_does_not_give_its_count() -> None:
    """Fault F54: a table of the maker contradicts the checkpoints."""
    claim = find.claim("listed-llama-2-7b")
    found = re.search(r"7B (\d+) key/value heads, .* factor of ([\d.]+) and .* base of ([\d,]+)\.", claim.statement)
    assert found is not None
    heads, factor = int(found[1]), float(found[2])
    assert (heads, factor, found[3]) == (8, 1.3, "500,000")
    width = 256 * -(-int(factor * int(2 * 4 * 4096 / 3)) // 256)
    assert width == 14_336

    def count(kv_heads: int, wide: int) -> str:
        attention = 2 * 4096 * 4096 + 2 * 4096 * (4096 // 32) * kv_heads
        return f"{2 * 32_000 * 4096 + 4096 + 32 * (attention + 3 * 4096 * wide + 2 * 4096):,}"

    assert claim.conflict is not None
    said = re.findall(r"\d,\d{3},\d{3},\d{3}", claim.conflict)
    assert said == [count(32, 11_008), count(heads, width)]
    assert count(8, 11_008) not in said


@pytest.mark.parametrize("model", find.models(), ids=lambda model: model.id)
def test_the_caveat_stands_where_the_list_is_cited_and_nowhere_else(model: Model) -> None:
    cited = model.configuration.claim is not None and "sku_list" in find.claim(model.configuration.claim).pin.place.path
    assert [c.id for c in find.caveats(model)] == (["listed-llama-2-7b"] if cited else [])
    assert find.provenance(model).caveats == find.caveats(model)
    assert find.shown(model) == find.claims(model) + find.caveats(model)
    assert not any(c.caveat for c in find.claims(model))
