"""The definition itself: shapes as annotated, padding, the cache, the fused form; each able to fail."""

import ast
import dataclasses
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from beartype import beartype
from jaxtyping import jaxtyped
from torch import nn

from openmodelatlas import models
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.attend import Attend, FusedAttend
from openmodelatlas.parts.cache import BlockCache, Cache
from openmodelatlas.verify.definition_hash import plain

PACKAGE = Path(str(files("openmodelatlas")))

TINY = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "intermediate_size": 56,
    "vocab_size": 97,
}
MIXED = {"num_hidden_layers": 5, "sliding_window_pattern": 3, "sliding_window": 4}
"""Where there are several kinds of blocks: two of each, and a window that is shorter than the texts here."""


STRUCTURES = [variant.name for variant in models.structures()]


def tiny(name: str) -> Variant:
    """The variant with every size small, heads unlike kv heads, and a head width that is not width / heads."""
    variant = models.find(name)
    fields = type(variant.config).__dataclass_fields__
    sizes = TINY | {key: value for key, value in MIXED.items() if "sliding_window_pattern" in fields}
    return dataclasses.replace(variant, config=dataclasses.replace(variant.config, **sizes))


def filled(variant: Variant, dtype: torch.dtype = torch.float64) -> nn.Module:
    """Random weights, the norms' included."""
    torch.manual_seed(0)
    model = variant.build("cpu", dtype)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def inputs(batch: int = 2, length: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    tokens = torch.randint(0, TINY["vocab_size"], (batch, length))
    return tokens, torch.arange(length).expand(batch, -1)


@pytest.fixture
def shape_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check every forward's jaxtyping annotations while a test runs."""
    built = [models.find(name).build() for name in STRUCTURES]
    modules = (m for model in built for m in model.modules())
    for kind in {type(m) for m in modules if type(m).__module__.startswith("openmodelatlas")}:
        monkeypatch.setattr(kind, "forward", jaxtyped(typechecker=beartype)(kind.forward))


@pytest.mark.usefixtures("shape_checks")
@pytest.mark.parametrize("name", STRUCTURES)
def test_shapes_are_as_annotated(name: str) -> None:
    with torch.no_grad():
        logits = filled(tiny(name), torch.bfloat16)(*inputs())
    assert logits.shape == (2, 9, TINY["vocab_size"])
    assert logits.dtype == torch.float32


@pytest.mark.usefixtures("shape_checks")
def test_shape_checks_can_fail() -> None:
    model = filled(tiny("llama-3-8b"))
    with pytest.raises(Exception, match="tokens"):
        model(torch.zeros(3, dtype=torch.long), torch.zeros(3, dtype=torch.long))


def stepwise(model: nn.Module, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """One position at a time through a cache with slots to spare."""
    batch, length = tokens.shape
    dtype = model.get_parameter("embed.weight").dtype
    shape = (batch, length + 5, TINY["num_key_value_heads"], TINY["head_dim"])
    empty = torch.zeros(shape, dtype=dtype)
    blocks = tuple(BlockCache(empty.clone(), empty.clone()) for _ in model.get_submodule("blocks"))
    stored = torch.full((batch, length + 5), -1)
    out = []
    for i in range(length):
        stored[:, i] = positions[:, i]
        cache = Cache(torch.tensor([i]), stored, blocks)
        out.append(model(tokens[:, i : i + 1], positions[:, i : i + 1], cache))
    return torch.cat(out, 1)


@torch.no_grad()
@pytest.mark.parametrize("name", STRUCTURES)
def test_cached_steps_equal_one_forward(name: str) -> None:
    model = filled(tiny(name))
    tokens, positions = inputs()
    whole = model(tokens, positions)
    assert (stepwise(model, tokens, positions) - whole).abs().max() < 1e-11
    # Able to fail: one position off is seen at once.
    assert (stepwise(model, tokens, positions + (positions > 4)) - whole).abs().max() > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("name", STRUCTURES)
def test_left_padding_changes_nothing(name: str) -> None:
    model = filled(tiny(name))
    tokens, positions = inputs(batch=1)
    pad = torch.zeros(1, 4, dtype=torch.long)
    padded = model(torch.cat([pad, tokens], 1), torch.cat([pad - 1, positions], 1))
    assert padded.isfinite().all()
    assert (padded[:, 4:] - model(tokens, positions)).abs().max() < 1e-11
    seen = model(torch.cat([pad, tokens], 1), torch.arange(13)[None])
    assert (seen[:, 4:] - model(tokens, positions)).abs().max() > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("name", STRUCTURES)
def test_later_tokens_do_not_reach_back(name: str) -> None:
    model = filled(tiny(name))
    tokens, positions = inputs()
    other = tokens.clone()
    other[:, 6] = (other[:, 6] + 1) % TINY["vocab_size"]
    difference = (model(tokens, positions) - model(other, positions)).abs().amax((0, 2))
    assert difference[:6].max() == 0
    assert difference[6:].min() > 0


@torch.no_grad()
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 5e-6)])
@pytest.mark.parametrize("name", STRUCTURES)
def test_fused_attention_is_the_same_function(name: str, dtype: torch.dtype, bound: float) -> None:
    model = filled(tiny(name), dtype)
    tokens, positions = inputs(length=40)
    explicit = model(tokens, positions)
    for block in model.get_submodule("blocks"):
        assert isinstance(block.attention.attend, Attend)
        block.attention.attend = block.attention.attend.fused()
        assert isinstance(block.attention.attend, FusedAttend)
    assert (model(tokens, positions) - explicit).abs().max() / explicit.abs().max() < bound


@torch.no_grad()
def test_the_float64_path_of_experts_is_the_same_function() -> None:
    """The grouped kernel has no float64, so rows fetch their own matrices there; held against it in float32."""
    model = filled(tiny("mixtral-8x7b"), torch.float64)
    experts = model.get_submodule("blocks.0.feed_forward.gate")
    rows = torch.randn(2, 5, 2, TINY["hidden_size"], dtype=torch.float64)
    chosen = torch.randint(0, experts.weight.shape[0], (2, 5, 2))
    exact = experts(rows, chosen)
    by_hand = torch.stack([r @ experts.weight[e].T for r, e in zip(rows.flatten(0, 2), chosen.flatten(), strict=True)])
    assert (exact.flatten(0, 2) - by_hand).abs().max() < 1e-13
    grouped = experts.float()(rows.float(), chosen)
    assert (grouped - exact).abs().max() / exact.abs().max() < 1e-6


NAMED_BY_OTHERS = {
    "verify/references/meta.py": "the name of the repository whose code it runs",
    "verify/references/engine.py": "the name of a program",
    "verify/checks/parity_engine.py": "the name of a program",
    "text/byte_level.py": "GGUF's names for ways of cutting text",
    "text/gguf_vocabulary.py": "GGUF's name for a kind of vocabulary",
    "cli/scaffold.py": "a name that is shown as an example",
    "cli/scaffold_family.py": "the tables that explain the others",
    "cli/commands/evidence.py": "a name that is shown as an example",
    "cli/commands/pull.py": "a name that is shown as an example",
}
"""Files outside `models` in whose code the name of a family or release stands, each with what it is there."""


def test_shared_code_names_no_model() -> None:
    """No name of a family or release in what a shared room computes with: in its names, strings and numbers. Docstrings
    and comments may say where something comes from."""
    words = {re.match(r"[a-z]+", name)[0] for name in models.names()}  # type: ignore[index]
    words |= {variant.family for variant in models.variants().values()}
    assert {"llama", "gemma", "qwen3"} <= words
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        code = json.dumps(plain(ast.parse(path.read_text(encoding="utf-8")))).lower()
        if not name.startswith("models/") and any(word in code for word in words):
            found.add(name)
    assert found == set(NAMED_BY_OTHERS)
