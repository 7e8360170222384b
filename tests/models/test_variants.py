"""Numbers of the catalogue's models against what others publish."""

import tomllib
from pathlib import Path

import pytest
import torch

from openmodelatlas import models
from openmodelatlas.errors import DefinitionError
from openmodelatlas.models import llama
from openmodelatlas.models.variant import from_row
from openmodelatlas.parts.rope import RopeScale

DATA = Path(__file__).parent.parent / "data"
COUNTS = tomllib.loads((DATA / "parameter_counts.toml").read_text())
CONFIGS = tomllib.loads((DATA / "configs.toml").read_text())


def test_every_variant_has_a_published_count_and_configuration() -> None:
    assert set(models.names()) == set(COUNTS) == set(CONFIGS)


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_parameter_count_is_the_published_one(name: str) -> None:
    model = models.find(name).build()
    assert sum(p.numel() for p in model.parameters()) == COUNTS[name]["count"]


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_configuration_is_the_published_one(name: str) -> None:
    variant, published = models.find(name), dict(CONFIGS[name])
    published.pop("source")
    tied = published.pop("tie_word_embeddings", None)
    ours = {key: getattr(variant.config, key) for key in published}
    assert ours == published
    if tied is not None:
        model = variant.build()
        assert (model.get_parameter("embed.weight") is model.get_parameter("unembed.weight")) == tied


def test_tied_embedding_is_one_parameter_with_two_owners() -> None:
    model = models.find("llama-3.2-1b").build()
    owners = [n for n, p in model.named_parameters(remove_duplicate=False) if p is model.get_parameter("embed.weight")]
    assert owners == ["embed.weight", "unembed.weight"]
    assert "unembed.weight" not in dict(model.named_parameters())


def frequencies(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Inverse frequencies before and after scaling."""
    rope = models.find(name).build("cpu").get_submodule("rope")
    before = rope.get_submodule("frequencies")(torch.device("cpu"))
    return before, rope.get_submodule("scale")(before)


def bands(name: str) -> tuple[list[int], list[int], list[int]]:
    before, after = frequencies(name)
    factor = models.find(name).config.rope_factor
    same = [i for i in range(len(before)) if after[i] == before[i]]
    divided = [i for i in range(len(before)) if after[i] == before[i] / factor]
    return same, [i for i in range(len(before)) if i not in same and i not in divided], divided


def test_scaled_rope_of_llama_3_1() -> None:
    """Fault F03: scaling parsed but not applied. Bands and end values by arithmetic outside this package."""
    assert bands("llama-3.1-8b") == (list(range(29)), list(range(29, 35)), list(range(35, 64)))
    before, after = frequencies("llama-3.1-8b")
    assert before[-1].item() == pytest.approx(2.455141e-06, rel=1e-6)
    assert after[-1].item() == pytest.approx(3.068926e-07, rel=1e-6)
    divisors = [1.207484, 1.553415, 2.026313, 2.694530, 3.684253, 5.257327]
    assert (before / after)[29:35].tolist() == pytest.approx(divisors, rel=2e-6)


def test_scaled_rope_of_llama_3_2() -> None:
    assert bands("llama-3.2-1b") == (list(range(15)), list(range(15, 18)), list(range(18, 32)))
    assert frequencies("llama-3.2-1b")[1][-1].item() == pytest.approx(9.418307e-08, rel=1e-6)


def test_scaled_rope_sees_every_one_of_its_numbers() -> None:
    """A number that is declared and never used is this field's classic fault."""
    numbers = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_context": 8192}
    before, _ = frequencies("llama-3.1-8b")
    right = RopeScale(**numbers)(before)  # type: ignore[arg-type]
    for name, value in numbers.items():
        changed = RopeScale(**(numbers | {name: value * 2}))(before)  # type: ignore[arg-type]
        assert not torch.equal(changed, right), name


def test_positions_are_not_rounded_by_the_model_dtype() -> None:
    """Fault F10: positions in bfloat16 turn 257 into 256."""
    model = models.find("smollm2-135m").build("cpu", torch.bfloat16)
    table = model.get_submodule("rope")(torch.arange(512)[None])
    assert table.cos.dtype == torch.float32
    assert len(torch.unique(table.sin[0, :, -1])) == 512


def test_a_row_of_the_wrong_length_is_named() -> None:
    with pytest.raises(DefinitionError, match=r"Config has the wrong length: 1, 2; expected 10 numbers .* found 2"):
        from_row(llama.Config, (1, 2))
