"""Scores of twins by another implementation, kept in `outside.toml`, so that holding against them needs no package.

`python -m tests.equations.outside`, run from the repository with transformers installed, writes them anew. How names
and rows map is written here a second time, and not taken from the name tables. Which class of it computes a family says
the family's table of that library.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas.models import tables
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.rope import Rotate

from .twins import filled, structures, twin, whole

FILE = Path(__file__).parent / "outside.toml"
START = 1000
"""Far enough out that frequencies show to their last digit."""

PLACES = {
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attention.q": "self_attn.q_proj",
    "attention.k": "self_attn.k_proj",
    "attention.v": "self_attn.v_proj",
    "attention.o": "self_attn.o_proj",
    "attention.q_norm": "self_attn.q_norm",
    "attention.k_norm": "self_attn.k_norm",
    "feed_forward.gate": "mlp.gate_proj",
    "feed_forward.up": "mlp.up_proj",
    "feed_forward.down": "mlp.down_proj",
    "feed_forward.router": "mlp.gate",
}
NORMS_BEHIND = {
    "attention_post_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_post_norm": "post_feedforward_layernorm",
}


def stored() -> dict[str, list[float]]:
    """The last position's scores of each twin."""
    table = tomllib.loads(FILE.read_text())
    scores: dict[str, list[float]] = table["scores"]
    return scores


def main() -> None:
    """Write the file."""
    import transformers

    lines = [
        "# Scores of the twins by another implementation: at the first text's last position, of the whole vocabulary.",
        f'made_by = "transformers {transformers.__version__}, eager attention, float64"',
        "",
        "[scores]",
    ]
    lines += [f'"{name}" = [{", ".join(f"{value:.10e}" for value in last_scores(name))}]' for name in structures()]
    FILE.write_text("\n".join(lines) + "\n")


def last_scores(name: str) -> list[float]:
    """Of the twin of that variant, computed now."""
    variant, given = twin(name), whole(START)
    found = scores(variant, filled(variant, torch.float64), given.tokens[:1], given.positions[:1])
    last: list[float] = found[0, -1].tolist()
    return last


@torch.no_grad()
def scores(variant: Variant, ours: nn.Module, tokens: Tensor, positions: Tensor) -> Tensor:
    """What that implementation gives for our weights."""
    weights = dict(ours.named_parameters())
    model = built(variant.family, variant.config, tied="unembed.weight" not in weights)
    adjacent = any(isinstance(module, Rotate) for module in ours.modules())
    given = dict(named(variant.config, weights, adjacent=adjacent))
    if "unembed.weight" not in weights:
        given["lm_head.weight"] = given["model.embed_tokens.weight"]
    model.load_state_dict(given)
    out: Tensor = model(tokens, position_ids=positions).logits
    return out.double()


def built(family: str, config: Any, *, tied: bool) -> nn.Module:
    """The model, in float64, with numbers of ours."""
    import transformers

    known = (*vars(config),)
    numbers = {name: value for name, value in vars(config).items() if not name.startswith("rope_")}
    numbers |= {"rope_parameters": rotary(config, known), "tie_word_embeddings": tied}
    kind, model = (getattr(transformers, tables.transformers(family)["classes"][part]) for part in ("config", "model"))
    eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
    made: nn.Module = model(kind(**numbers, pad_token_id=None, **eager)).double().eval()
    return made


def rotary(config: Any, known: tuple[str, ...]) -> dict[str, Any]:
    """The angles' numbers as that code reads them."""
    plain = {"rope_type": "default", "rope_theta": config.rope_theta}
    if "rope_local_base_freq" in known:
        far = {**plain, "rope_type": "linear", "factor": config.rope_factor} if "rope_factor" in known else plain
        near = {"rope_type": "default", "rope_theta": config.rope_local_base_freq}
        return {"full_attention": far, "sliding_attention": near}
    if "rope_factor" not in known:
        return plain
    return {
        **plain,
        "rope_type": "llama3",
        "factor": config.rope_factor,
        "low_freq_factor": config.rope_low_freq_factor,
        "high_freq_factor": config.rope_high_freq_factor,
        "original_max_position_embeddings": config.rope_original_max_position_embeddings,
    }


def named(config: Any, weights: Mapping[str, Tensor], *, adjacent: bool) -> Iterator[tuple[str, Tensor]]:
    """Our parameters under its names. It rotates halves, so that rows whose `adjacent` pairs rotate stand in another
    order there; gates and ups of experts are one tensor."""
    tops = {"embed": "model.embed_tokens", "norm": "model.norm", "unembed": "lm_head"}
    behind = any("post_norm" in name for name in weights)
    places = {**PLACES, **NORMS_BEHIND} if behind else PLACES
    for name, weight in weights.items():
        path = name.removesuffix(".weight")
        if path in tops:
            yield f"{tops[path]}.weight", weight
            continue
        _, index, rest = path.split(".", 2)
        layer = f"model.layers.{index}"
        if weight.dim() == 3:
            if rest.endswith("gate"):
                both = torch.cat((weight, weights[name.replace("gate", "up")]), 1)
                yield f"{layer}.mlp.experts.gate_up_proj", both
            elif rest.endswith("down"):
                yield f"{layer}.mlp.experts.down_proj", weight
        else:
            turned = rest in ("attention.q", "attention.k") and adjacent
            yield f"{layer}.{places[rest]}.weight", halves(weight, config.head_dim) if turned else weight


def halves(weight: Tensor, head: int) -> Tensor:
    """Rows whose adjacent pairs rotate, in the order in which halves do."""
    return weight.unflatten(0, (-1, head // 2, 2)).transpose(1, 2).flatten(0, 2)


if __name__ == "__main__":
    main()
