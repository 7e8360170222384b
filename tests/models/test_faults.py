"""Mistakes that people made in ports of these models, as values: the right one holds here, the mistaken one is another.

Each number is stated from outside: worked out by hand from a report's example, or given in it.
"""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor, nn

from openmodelatlas import models
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.attend import WindowMask
from openmodelatlas.parts.cache import BlockCache, Cache
from openmodelatlas.parts.heads import RepeatHeads
from openmodelatlas.parts.norm import RMSNorm, ZeroCenteredRMSNorm
from openmodelatlas.parts.rope import RopeFrequencies, RopeTable
from openmodelatlas.verify import parity
from openmodelatlas.weights.naming import name_table, pieces


def with_node(path: str) -> list[str]:
    """Variants with a module at that path."""
    found = [name for name, variant in models.variants().items() if path in dict(tiny_model(variant).named_modules())]
    assert found, path
    return found


def tiny_model(variant: Variant) -> nn.Module:
    return tiny.variant(variant.name).build("meta")


def families() -> list[str]:
    """The variant of each family whose configuration has most numbers."""
    chosen: dict[str, Variant] = {}
    for variant in models.variants().values():
        if variant.family not in chosen or len(vars(variant.config)) > len(vars(chosen[variant.family].config)):
            chosen[variant.family] = variant
    return [variant.name for variant in chosen.values()]


FAMILIES = families()


def random(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A tiny model with random weights, the norms' included."""
    torch.manual_seed(0)
    model = tiny.variant(name).build("cpu", dtype)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def text(length: int, batch: int = 1) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randint(0, tiny.VOCAB, (batch, length)), torch.arange(length).expand(batch, -1)


# --- norms ------------------------------------------------------------------------------------------------------------


def test_eps_is_not_a_default() -> None:
    """Eight values of a thousandth: eps decides what comes out."""
    x = torch.full((8,), 1e-3)
    for eps, expected in ((1e-5, 0.301511), (1e-6, 0.707107)):
        norm, centred = RMSNorm(8, eps), ZeroCenteredRMSNorm(8, eps)
        norm.weight.data.fill_(1.0)
        centred.weight.data.fill_(0.0)
        assert norm(x).tolist() == pytest.approx([expected] * 8, abs=1e-6)
        assert centred(x).tolist() == pytest.approx([expected] * 8, abs=1e-6)


EPS = {"llama": 1e-5, "mixtral": 1e-5, "qwen3": 1e-6, "gemma3": 1e-6, "olmo2": 1e-6}


@pytest.mark.parametrize("name", models.names())
def test_every_norm_takes_the_published_eps(name: str) -> None:
    """Of the family's published configurations; a code's default is another in both directions."""
    model = tiny_model(models.find(name))
    norms = [module for module in model.modules() if hasattr(module, "eps")]
    assert len(norms) >= 5
    expected = EPS.get(models.find(name).family)
    assert {module.eps for module in norms} == {models.find(name).config.rms_norm_eps if expected is None else expected}


def test_one_plus_the_gain_is_not_rounded() -> None:
    """1 + 15.8125 is 16.8125, and 16.75 in bfloat16."""
    norm = ZeroCenteredRMSNorm(64, 1e-6).bfloat16()
    norm.weight.data.fill_(15.8125)
    x = torch.randn(64, generator=torch.Generator().manual_seed(0)).bfloat16()
    unit = x.double() / (x.double().pow(2).mean() + 1e-6).sqrt()
    assert torch.equal(norm(x), (unit * 16.8125).to(torch.bfloat16))
    assert float(torch.tensor(16.8125).bfloat16()) == 16.75
    assert not torch.equal(norm(x), (unit * 16.75).to(torch.bfloat16))


ROOTS = {1152: 34.0, 2048: 45.25, 2304: 48.0, 2560: 50.5, 3072: 55.5, 3584: 59.75, 3840: 62.0, 4608: 68.0, 5376: 73.5}
"""The root of a width as bfloat16 has it: 33.941, 45.255, 48, 50.596, 55.426, 59.867, 61.968, 67.882, 73.321."""


@pytest.mark.parametrize("name", with_node("embed_scale"))
def test_the_embedding_is_scaled_by_the_rounded_root(name: str) -> None:
    variant = models.find(name)
    scale = variant.build("meta").get_submodule("embed_scale")
    assert scale(torch.ones(1, dtype=torch.bfloat16)).item() == ROOTS[variant.config.hidden_size]
    assert scale(torch.ones(1)).item() == pytest.approx(math.sqrt(variant.config.hidden_size), abs=1e-5)
    for width, root in ROOTS.items():
        assert type(scale)(width)(torch.ones(1, dtype=torch.bfloat16)).item() == root
    # A product with the exact root, rounded once, is another number.
    x = torch.linspace(0.5, 1.0, 200).bfloat16()
    exact = (x.double() * math.sqrt(2560)).to(torch.bfloat16)
    assert not torch.equal(type(scale)(2560)(x), exact)


def query_norms(of_one_head: bool) -> list[str]:
    """Variants that norm queries, by whether the gain is as long as one head, or as all of them."""
    lengths = {
        name: len(parity.variant_with(variant, num_hidden_layers=1).build("meta").get_parameter(QUERY_GAIN))
        for name in with_node("blocks.0.attention.q_norm")
        for variant in [models.find(name)]
    }
    found = [name for name, length in lengths.items() if (length == models.find(name).config.head_dim) == of_one_head]
    assert found
    return found


QUERY_GAIN = "blocks.0.attention.q_norm.weight"
HEADS = torch.stack([torch.full((16,), 1.0), torch.full((16,), 3.0)])[None, None]


@pytest.mark.parametrize("name", query_norms(of_one_head=False))
def test_all_heads_are_normed_at_once(name: str) -> None:
    """Fault F28: heads of 1 and 3 stay one to three, 0.447214 and 1.341641; head by head both would be 1. The gain has
    a number for every feature of every head, and the cut into heads comes afterwards."""
    variant = models.find(name)
    c, shallow = variant.config, parity.variant_with(variant, num_hidden_layers=1).build("meta")
    for norm, heads in (("q_norm", c.num_attention_heads), ("k_norm", c.num_key_value_heads)):
        assert shallow.get_parameter(f"blocks.0.attention.{norm}.weight").shape == (heads * c.head_dim,)
    model = parity.variant_with(tiny.variant(name), num_attention_heads=2).build("cpu", torch.float32)
    norm, order = model.get_submodule("blocks.0.attention.q_norm"), list[str]()
    norm.get_parameter("weight").data.fill_(1.0)
    whole = norm(HEADS.flatten(-2)).unflatten(-1, (2, 16))
    assert whole[0, 0, :, 0].tolist() == pytest.approx([0.447214, 1.341641], abs=1e-5)
    alone = HEADS / HEADS.pow(2).mean(-1, keepdim=True).sqrt()
    assert alone.flatten().tolist() == pytest.approx([1.0] * 32, abs=1e-5)
    random_model = random(name)
    for path in ("q_norm", "q_heads", "k_norm", "k_heads"):
        random_model.get_submodule(f"blocks.0.attention.{path}").register_forward_hook(
            lambda _m, _a, _o, path=path: order.append(path)
        )
    with torch.no_grad():
        random_model(*text(4))
    assert order == ["q_norm", "q_heads", "k_norm", "k_heads"]


def only_behind() -> list[str]:
    """Variants whose blocks norm what attention and feed-forward give, and not what they read."""
    behind = with_node("blocks.0.attention_post_norm")
    return [name for name in behind if name not in with_node("blocks.0.attention_norm")]


@pytest.mark.parametrize("name", only_behind())
def test_norms_stand_behind_and_not_in_front(name: str) -> None:
    """Fault F27, a block from a pre-norm template: a stream a thousand times as large must reach the projections a
    thousand times as large, and what is added to it stays as large as its gain."""
    model = random(name)
    block = model.get_submodule("blocks.0")
    assert {path for path, module in block.named_children() if hasattr(module, "eps")} == {
        "attention_post_norm",
        "ffn_post_norm",
    }
    with torch.no_grad():
        small = parity.values(model, *text(6))
        model.get_parameter("embed.weight").mul_(1000)
        large = parity.values(model, *text(6))
    for node in ("attention.q", "attention.v"):
        assert torch.allclose(large[f"blocks.0.{node}"], 1000 * small[f"blocks.0.{node}"], rtol=1e-9)
    for node in ("attention_post_norm", "ffn_post_norm"):
        assert large[f"blocks.0.{node}"].abs().max() < 100 * small[f"blocks.0.{node}"].abs().max()


def made_of(path: str, kind: str) -> list[str]:
    """Variants with a module of a class of that name there."""
    found = {name: tiny_model(models.find(name)).get_submodule(path) for name in with_node(path)}
    return [name for name, module in found.items() if type(module).__name__ == kind]


@pytest.mark.parametrize("name", made_of("norm", "FloatGainRMSNorm"))
def test_the_gain_is_applied_before_rounding(name: str) -> None:
    """In bfloat16 the last place tells: product in float32 and one rounding, against two."""
    norm = tiny.variant(name).build("cpu", torch.bfloat16).get_submodule("norm")
    draw = torch.Generator().manual_seed(0)
    gain, x = (torch.rand(64, generator=draw).bfloat16() + 0.5 for _ in range(2))
    norm.get_parameter("weight").data.copy_(gain)
    unit = x.float() * torch.rsqrt(x.float().pow(2).mean() + 1e-6)
    once, twice = (gain.float() * unit).bfloat16(), gain * unit.bfloat16()
    assert not torch.equal(once, twice)
    assert torch.equal(norm(x), once)


@pytest.mark.parametrize("name", made_of("blocks.0.attention.q_rotate", "FloatRotateHalves"))
def test_rotation_is_in_float32(name: str) -> None:
    """By a table that is not rounded; the result is rounded once."""
    model = tiny.variant(name).build("cpu", torch.bfloat16)
    rope = model.get_submodule("rope")(torch.arange(50)[None])
    x = torch.randn(1, 50, 2, 16, generator=torch.Generator().manual_seed(0)).bfloat16()
    cos, sin = (table.repeat(1, 1, 2)[:, :, None] for table in rope)
    turned = torch.cat((-x[..., 8:], x[..., :8]), -1)
    once = (x * cos + turned * sin).bfloat16()
    coarse = x * cos.bfloat16() + turned * sin.bfloat16()
    assert not torch.equal(once, coarse)
    assert torch.equal(model.get_submodule("blocks.0.attention.q_rotate")(x, rope), once)


@pytest.mark.parametrize("name", query_norms(of_one_head=True))
def test_heads_are_normed_by_themselves(name: str) -> None:
    """The gain is as long as a head is wide; over the whole width, heads would share one mean square."""
    variant = models.find(name)
    shallow = parity.variant_with(variant, num_hidden_layers=1).build("meta")
    for norm in ("q_norm", "k_norm"):
        assert shallow.get_parameter(f"blocks.0.attention.{norm}.weight").shape == (variant.config.head_dim,)
    norm = tiny.variant(name).build("cpu", torch.float32).get_submodule("blocks.0.attention.q_norm")
    norm.weight.data.fill_(0.0 if isinstance(norm, ZeroCenteredRMSNorm) else 1.0)
    assert norm(HEADS).flatten().tolist() == pytest.approx([1.0] * 32, abs=1e-5)
    whole = HEADS / HEADS.pow(2).mean((-2, -1), keepdim=True).sqrt()
    assert whole[0, 0, :, 0].tolist() == pytest.approx([0.447214, 1.341641], abs=1e-5)


@pytest.mark.parametrize("name", with_node("blocks.0.attention.q_norm"))
def test_heads_are_normed_before_they_are_rotated(name: str) -> None:
    """So a rotated query of unit gain has unit mean square, and its gain stands at the features before rotation."""
    model = random(name, torch.float32)
    order: list[str] = []
    for path in ("q_norm", "q_rotate"):
        model.get_submodule(f"blocks.0.attention.{path}").register_forward_hook(
            lambda _m, _a, _o, path=path: order.append(path)
        )
    with torch.no_grad():
        model(*text(4))
    assert order == ["q_norm", "q_rotate"]


# --- heads and positions ----------------------------------------------------------------------------------------------


def test_key_heads_are_repeated_not_tiled() -> None:
    """Query head 5 of 8 on 2 key/value heads reads head 1; four query heads of two values read 1, 1, 2, 2."""
    two = torch.tensor([1.0, 2.0]).reshape(1, 1, 2, 1)
    assert RepeatHeads(2)(two).flatten().tolist() == [1, 1, 2, 2]
    eight = torch.arange(8.0).reshape(1, 1, 8, 1)
    assert RepeatHeads(4)(eight).flatten()[5].item() == 1.0
    assert two.repeat(1, 1, 2, 1).flatten().tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("name", models.names())
def test_a_head_is_as_wide_as_it_says(name: str) -> None:
    """Not model width over heads, which is another number in some: the projections' rows and columns tell."""
    c = models.find(name).config
    shallow = parity.variant_with(models.find(name), num_hidden_layers=1).build("meta")
    block = shallow.get_submodule("blocks.0.attention")
    assert block.get_parameter("q.weight").shape == (c.num_attention_heads * c.head_dim, c.hidden_size)
    assert block.get_parameter("k.weight").shape == (c.num_key_value_heads * c.head_dim, c.hidden_size)
    assert block.get_parameter("o.weight").shape == (c.hidden_size, c.num_attention_heads * c.head_dim)


def test_some_head_widths_are_their_own() -> None:
    derived = {n: v.config.hidden_size // v.config.num_attention_heads for n, v in models.variants().items()}
    own = {n for n, v in models.variants().items() if v.config.head_dim != derived[n]}
    assert {"qwen3-0.6b", "gemma-3-1b", "gemma-3-27b"} <= own
    assert (derived["qwen3-0.6b"], derived["gemma-3-1b"]) == (64, 288)


def test_positions_are_not_held_in_the_models_dtype() -> None:
    """In bfloat16 257 would be 256; of the positions 0 to 511 only 385 remain distinct."""
    frequencies = RopeFrequencies(64, 10000.0)(torch.device("cpu"))
    table = RopeTable().bfloat16()(frequencies, torch.arange(512)[None])
    assert table.cos.dtype == torch.float32
    assert table.cos[0].unique(dim=0).shape[0] == 512
    assert torch.arange(512).bfloat16().unique().numel() == 385


@pytest.mark.parametrize("name", FAMILIES)
def test_a_coarse_model_has_the_same_table(name: str) -> None:
    tables = []
    for dtype in (torch.float32, torch.bfloat16):
        rope = tiny.variant(name).build("cpu", dtype).to(dtype).get_submodule("rope")
        tables.append(rope(torch.arange(1000)[None]))
    assert torch.equal(tables[0].cos, tables[1].cos)
    assert torch.equal(tables[0].sin, tables[1].sin)


@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_is_kept_that_no_checkpoint_fills(name: str) -> None:
    """A model built without storage and filled later has no frequencies in uninitialised memory: it has no buffers."""
    assert list(tiny_model(models.find(name)).buffers()) == []


# --- windows and masks ------------------------------------------------------------------------------------------------


def test_a_window_counts_the_current_token() -> None:
    """W = 4, T = 8: position 6 sees 3, 4, 5 and 6."""
    seen = WindowMask(4)(torch.arange(8)[None], torch.arange(8)[None])[0, 0] == 0
    assert seen.sum(-1).tolist() == [1, 2, 3, 4, 4, 4, 4, 4]
    assert seen[6].nonzero().flatten().tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize("name", with_node("local_mask"))
def test_a_window_is_seen_at_its_edge(name: str) -> None:
    """A local block's query sees the key W - 1 before it and not the one W before it; a global block's sees both."""
    variant = models.find(name)
    model, kinds = random(name), parity.kinds(tiny.variant(name))
    window = tiny.variant(name).config.sliding_window
    assert variant.build("meta").get_submodule("local_mask").window == variant.config.sliding_window
    with torch.no_grad():
        found = parity.values(model, *text(window + 4))
    for i, kind in enumerate(kinds):
        last = found[f"blocks.{i}.attention.attend.softmax"][0, 0, -1]
        assert (last[-window:] > 0).all(), kind
        assert bool((last[:-window] > 0).any()) == kind.startswith("global"), kind
    assert len(set(kinds)) == 2


@pytest.mark.parametrize("name", with_node("local_mask"))
def test_every_so_many_block_is_global(name: str) -> None:
    """The sixth, the twelfth and so on; the last block of a model may be a local one."""
    kinds = parity.kinds(models.find(name))
    assert [i for i, kind in enumerate(kinds) if kind.startswith("global")] == list(range(5, len(kinds), 6))


@pytest.mark.parametrize("name", with_node("local_rope"))
def test_local_blocks_keep_the_small_base_unscaled(name: str) -> None:
    """The last frequency of 10,000 and of 1,000,000 by the factor: one table for all blocks has the wrong one."""
    variant = models.find(name)
    model, width = variant.build("meta"), variant.config.head_dim
    factor = getattr(variant.config, "rope_factor", 1.0)
    at_one = {
        "local_rope": 10000.0 ** (-(width - 2) / width),
        "rope": 1000000.0 ** (-(width - 2) / width) / factor,
    }
    for path, last in at_one.items():
        table = model.get_submodule(path)(torch.tensor([[1]]))
        assert table.sin[0, 0, -1].item() == pytest.approx(math.sin(last), rel=1e-5)
    assert factor in (1.0, 8.0)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_padded_rows_are_numbers(name: str, dtype: torch.dtype) -> None:
    """Masks are joined as what is seen, not added: two of the most negative numbers would overflow to no number."""
    tokens, _ = text(12, batch=2)
    positions = torch.stack([torch.arange(12), torch.cat([torch.full((9,), -1), torch.arange(3)])])
    with torch.no_grad():
        for value in parity.values(random(name, dtype), tokens, positions).values():
            assert not value.isnan().any()
    lowest = torch.finfo(torch.float16).min
    assert (torch.tensor(lowest, dtype=torch.float16) * 2).isinf()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_row_of_a_padded_batch_is_its_single_run(name: str) -> None:
    """Mask 0 0 1 1 1 is positions -1 -1 0 1 2; one row of positions for the whole batch is another model."""
    model, (tokens, whole) = random(name), text(14, batch=2)
    short = torch.cat([torch.full((1, 9), -1), torch.arange(5)[None]], 1)
    with torch.no_grad():
        batch = model(tokens, torch.cat([whole[:1], short]))
        alone = model(tokens[1:, 9:], torch.arange(5)[None])
        shared = model(tokens, whole)
    assert (batch[1, 9:] - alone[0]).abs().max() < 1e-9
    assert (shared[1, 9:] - alone[0]).abs().max() > 1e-3


@pytest.mark.parametrize("name", FAMILIES)
def test_several_tokens_continue_a_cache(name: str) -> None:
    """0 to 6, then 7 to 15: as all at once. The second part's mask is wider than it is high."""
    model, (tokens, positions) = random(name), text(16)
    with torch.no_grad():
        whole = model(tokens, positions)
        parts = list(continued(model, tokens, positions, (7, 9)))
        square = list(continued(model, tokens, positions, (7, 9), ahead=7))
    assert (torch.cat(parts, 1) - whole).abs().max() < 1e-9
    assert (torch.cat(square, 1) - whole).abs().max() > 1e-3


def continued(
    model: Any, tokens: Tensor, positions: Tensor, calls: tuple[int, ...], ahead: int = 0
) -> Iterator[Tensor]:
    """The text in several calls with a cache; `ahead`: a mask that lets the later calls see so far into the future."""
    c, start = model.config, 0
    shape = (1, tokens.shape[1], c.num_key_value_heads, c.head_dim)
    blocks = [BlockCache(torch.zeros(shape).double(), torch.zeros(shape).double()) for _ in range(c.num_hidden_layers)]
    for length in calls:
        end = start + length
        views = tuple(BlockCache(block.k[:, :end], block.v[:, :end]) for block in blocks)
        seen = positions[:, :end] - (ahead if start else 0)
        cache = Cache(slots=torch.arange(start, end), positions=seen, blocks=views)
        yield model(tokens[:, start:end], positions[:, start:end], cache)
        start = end


# --- caps that are not there ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_scores_are_not_capped(name: str) -> None:
    """50 tanh(x / 50) makes 48.201379 of 100, and 30 tanh(x / 30) 27.154447 of 45. None of these models does."""
    model = tiny_model(models.find(name))
    scores = model.get_submodule("blocks.0.attention.attend.scores")
    q, k = torch.randn(2, 1, 6, 4, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64).unbind(0)
    near, far = scores(q, k), scores(1000 * q, k)
    assert far.abs().max() > 100
    assert torch.allclose(far, 1000 * near, rtol=1e-12)
    assert torch.equal(model.get_submodule("logits")(far), far)
    assert 50 * math.tanh(100 / 50) == pytest.approx(48.201379, abs=1e-6)
    assert 30 * math.tanh(45 / 30) == pytest.approx(27.154447, abs=1e-6)


# --- experts ----------------------------------------------------------------------------------------------------------

EXPERTS = with_node("blocks.0.feed_forward.choose")


@pytest.mark.parametrize("name", EXPERTS)
def test_softmax_before_or_after_the_choice_is_the_same(name: str) -> None:
    """Scores 2, 1, 0, -1 and two experts: 0.731059 and 0.268941 both ways, once the shares sum to one."""
    feed = tiny_model(models.find(name)).get_submodule("blocks.0.feed_forward")
    scores = torch.tensor([2.0, 1.0, 0.0, -1.0])
    chosen = feed.get_submodule("choose")(scores[None, None])
    assert chosen.experts.flatten().tolist() == [0, 1]
    right = pytest.approx([0.731059, 0.268941], abs=1e-6)
    assert feed.get_submodule("weights")(chosen.scores).flatten().tolist() == right
    shares = scores.softmax(-1).topk(2).values
    assert (shares / shares.sum()).tolist() == right
    assert shares.tolist() == pytest.approx([0.643914, 0.236883], abs=1e-6)


@pytest.mark.parametrize("name", EXPERTS)
def test_a_near_tie_falls_by_rounding(name: str) -> None:
    """Scores 1e-4 apart are one number in bfloat16: which expert is chosen is no longer the model's to say."""
    choose = tiny_model(models.find(name)).get_submodule("blocks.0.feed_forward.choose")
    near = torch.tensor([[[2.0, 1.0, 1.0001, -1.0]]])
    assert choose(near).experts.flatten().tolist() == [0, 2]
    coarse = near.bfloat16().float()
    assert coarse[0, 0, 1] == coarse[0, 0, 2]


@pytest.mark.parametrize("name", EXPERTS)
def test_w1_is_the_gate_w3_the_expansion_w2_the_way_back(name: str) -> None:
    """One expert alone, from its stored matrices, in the order in which they are stored."""
    variant = tiny.variant(name)
    weights = parity.stored(variant)
    model = parity.filled(variant, weights)
    stored = {row.parameter: row.stored for row in name_table(variant.family, "huggingface").tensors}
    names = {part: stored[f"blocks.{{i}}.feed_forward.{part}.weight"] for part in ("gate", "up", "down")}
    assert [names[part].rpartition("experts.{e}.")[2] for part in names] == ["w1.weight", "w3.weight", "w2.weight"]
    feed = model.get_submodule("blocks.1.feed_forward")
    x = torch.randn(1, 1, variant.config.hidden_size, generator=torch.Generator().manual_seed(3))
    for expert in range(variant.config.num_local_experts):
        gate, up, down = (weights[pieces(names[part], 1, 9)[expert]] for part in names)
        expected = (nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T
        own = torch.full((1, 1, 1), expert)
        with torch.no_grad():
            rows = x[:, :, None]
            made = feed.down(feed.silu(feed.gate(rows, own)) * feed.up(rows, own), own)
        assert (made[:, :, 0] - expected).abs().max() < 1e-6 * expected.abs().max()
        swapped = (nn.functional.silu(x @ up.T) * (x @ gate.T)) @ down.T
        assert (swapped - expected).abs().max() > 1e-2 * expected.abs().max()
