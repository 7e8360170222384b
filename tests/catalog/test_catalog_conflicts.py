"""Conflicts that the catalogue states, with their numbers held against what this package computes."""

import re
import tomllib
from pathlib import Path

import pytest

from openmodelatlas import models
from openmodelatlas.catalog import find

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
