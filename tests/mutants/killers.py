"""The fast checks that must notice a mutant. Each compares with something that was not made from the definition.

Everything that stays the same over all mutants is computed once, in `Fixed`; the rest runs in the mutant's process.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

DATA = Path(__file__).parent.parent / "data"
TWINS = ("llama-3-8b", "llama-3.1-8b", "llama-3.2-1b")
"""Plain, scaled, scaled and tied: every class of the family."""

BOUND = 2e-6
"""Relative to the largest score; measured noise against NumPy is under 7e-7."""


@dataclass(frozen=True)
class Golden:
    """What a twin must give: scores by NumPy, and by another implementation where one is at hand."""

    name: str
    weights: dict[str, torch.Tensor]
    inputs: tuple[Any, ...]
    scores: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Fixed:
    """All that is known before a mutant runs."""

    golden: tuple[Golden, ...]
    configs: dict[str, Any]
    counts: dict[str, Any]
    other: dict[str, np.ndarray]
    calls: dict[torch.dtype, list[Any]]


def prepare(*, others: bool) -> Fixed:
    """Scores of the statements, and of transformers if `others`; published numbers."""
    from equations.twins import filled, twin, whole
    from equations.whole import logits

    golden, other = [], {}
    for name in TWINS:
        variant = twin(name)
        weights = {n: p.detach().clone() for n, p in filled(variant, torch.float64).named_parameters()}
        plain = {n: w.numpy() for n, w in weights.items()}
        inputs = (whole(), whole(start=1000))
        scores = tuple(logits(variant.config, plain, i.tokens.numpy(), i.positions.numpy()) for i in inputs)
        golden.append(Golden(name, weights, inputs, scores))
        if others and (found := transformers_scores(variant.config, weights, inputs[1])) is not None:
            other[name] = found
    configs = tomllib.loads((DATA / "configs.toml").read_text())
    counts = tomllib.loads((DATA / "parameter_counts.toml").read_text())
    fixed = Fixed(tuple(golden), configs, counts, other, {})
    subject = Subject.build(fixed)
    for dtype in (torch.float32, torch.bfloat16):
        fixed.calls[dtype] = [c for row in subject.models for c in calls_of(*row, dtype)]
    return fixed


def transformers_scores(config: Any, weights: dict[str, torch.Tensor], given: Any) -> np.ndarray | None:
    """Scores of the Hugging Face implementation of an unpadded row; None where it is not installed."""
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        return None
    from openmodelatlas.weights import naming

    scaling: dict[str, Any] = {"rope_type": "default"}
    if hasattr(config, "rope_factor"):
        scaling = {
            "rope_type": "llama3",
            "factor": config.rope_factor,
            "low_freq_factor": config.rope_low_freq_factor,
            "high_freq_factor": config.rope_high_freq_factor,
            "original_max_position_embeddings": config.rope_original_max_position_embeddings,
        }
    fields = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim")
    fields += ("intermediate_size", "vocab_size", "max_position_embeddings", "rms_norm_eps")
    made = LlamaForCausalLM(
        LlamaConfig(
            **{f: getattr(config, f) for f in fields},
            rope_parameters={**scaling, "rope_theta": config.rope_theta},
            tie_word_embeddings="unembed.weight" not in weights,
            attn_implementation="eager",
        )
    ).double()
    table = {row.parameter: row for row in naming.name_table("llama", "huggingface").tensors}
    state = {}
    for name, weight in weights.items():
        pattern, index = naming.block_pattern(name)
        row = table[pattern]
        if row.steps:
            half = weight.unflatten(0, (-1, config.head_dim // 2, 2)).transpose(1, 2).flatten(0, 2)
        state[naming.fill(row.stored, index)] = half if row.steps else weight
    made.load_state_dict(state, strict=False)
    with torch.no_grad():
        out: np.ndarray = made.eval()(given.tokens[:1], position_ids=given.positions[:1]).logits.double().numpy()
    return out


# --- the checks, cheapest first ---------------------------------------------------------------------------------------


class Noticed(Exception):
    """A check says no."""


def notice(holds: object, what: str) -> None:
    if not holds:
        raise Noticed(what)


@dataclass
class Subject:
    """The mutant, imported: what the checks share."""

    fixed: Fixed
    models: list[tuple[Golden, Any, nn.Module]]

    @classmethod
    def build(cls, fixed: Fixed) -> "Subject":
        from equations.twins import twin

        made = []
        for golden in fixed.golden:
            variant = twin(golden.name)
            model = variant.build("cpu", torch.float64)
            own = {n: tuple(p.shape) for n, p in model.named_parameters()}
            notice(own == {n: tuple(w.shape) for n, w in golden.weights.items()}, "parameters of other names or shapes")
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.copy_(golden.weights[name])
            made.append((golden, variant, model))
        return cls(fixed, made)


def rows(subject: Subject) -> None:
    """The table of variants against published configurations and counts."""
    from openmodelatlas import models

    notice(set(models.names()) == set(subject.fixed.configs), "other variants")
    for name, published in subject.fixed.configs.items():
        variant = models.find(name)
        tied = "Tied" in variant.parts["unembed"].__name__
        for field, value in published.items():
            if field == "tie_word_embeddings":
                notice(tied == value, f"{name}: tied")
            elif field != "source":
                notice(getattr(variant.config, field, None) == value, f"{name}: {field}")
        notice(count(variant.config, tied=tied) == subject.fixed.counts[name]["count"], f"{name}: count")


def count(c: Any, *, tied: bool) -> int:
    """Parameters by arithmetic."""
    attention = c.hidden_size * c.head_dim * (2 * c.num_attention_heads + 2 * c.num_key_value_heads)
    block = attention + 3 * c.hidden_size * c.intermediate_size + 2 * c.hidden_size
    tables = c.vocab_size * c.hidden_size * (1 if tied else 2)
    return int(tables + c.num_hidden_layers * block + c.hidden_size)


def equations(subject: Subject) -> None:
    """Every class's printed equation is the one that its statement was written from."""
    from equations.statements import STATEMENTS

    from openmodelatlas.parts.attend import FusedAttend
    from openmodelatlas.trace import docs

    kinds = {type(m).__name__: type(m) for _, _, model in subject.models for m in model.modules()}
    kinds["FusedAttend"] = FusedAttend
    for op, statement in STATEMENTS.items():
        notice(op in kinds, f"no {op}")
        notice(docs.page(kinds[op]).equation == statement.equation, f"{op}: another equation")


def scores(subject: Subject) -> None:
    """The whole model against NumPy: at once, padded, far out, and step by step through a cache."""
    from equations.twins import steps

    for golden, variant, model in subject.models:
        for given, wanted in zip(golden.inputs, golden.scores, strict=True):
            real = given.positions.numpy() >= 0
            with torch.no_grad():
                out = model(given.tokens, given.positions)
            notice(out.dtype == torch.float64, "scores of another dtype")
            close(out.numpy()[real], wanted[real], f"{golden.name}: scores")
            notice(torch.isfinite(out).all(), f"{golden.name}: padding is not finite")
            stepwise = steps(model, variant, given, (5, 1, 1, 5)).numpy()
            close(stepwise[real], wanted[real], f"{golden.name}: scores step by step")


def close(ours: np.ndarray, wanted: np.ndarray, what: str, bound: float = BOUND) -> None:
    notice(ours.shape == wanted.shape and bool(np.isfinite(ours).all()), what)
    notice(np.abs(ours - wanted).max() <= bound * np.abs(wanted).max(), what)


def nodes(subject: Subject) -> None:
    """Every module against its statement, in float32 and bfloat16, with a cache and without, and at odd constants."""
    for dtype in (torch.float32, torch.bfloat16):
        calls = [c for golden, variant, model in subject.models for c in calls_of(golden, variant, model, dtype)]
        check_calls(calls, dtype)


def dtypes(subject: Subject) -> None:
    """Scores come out in float32 where the model computes in less."""
    for golden, _, model in subject.models:
        near = golden.inputs[0]
        with torch.no_grad():
            out = model.to(torch.bfloat16)(near.tokens, near.positions)
        for name, parameter in model.to(torch.float64).named_parameters():
            parameter.data.copy_(golden.weights[name])
        notice(out.dtype == torch.float32, f"{golden.name}: scores in {out.dtype}")


def calls_of(golden: Golden, variant: Any, model: nn.Module, dtype: torch.dtype) -> list[Any]:
    """The calls of one twin that are held against statements."""
    from equations.hold import capture
    from equations.twins import cache, whole
    from equations.unusual import unusual

    near, cached = golden.inputs[0], cache(variant, 2, 16, dtype)
    cached.positions[:, 3:15] = near.positions
    model = model.to(dtype)
    found = capture(model, near.tokens, near.positions, cached._replace(slots=torch.arange(3, 15)))
    if golden.name == TWINS[0]:
        found += unusual(dtype)
        far = whole(start=131000)
        found += [c for c in capture(model, far.tokens, far.positions) if c.op == "RopeTable"]
        found += [c for c in capture(model, near.tokens, near.positions) if c.op == "UpdateCache"]
    model.to(torch.float64)
    return found


def check_calls(calls: list[Any], dtype: torch.dtype) -> None:
    """Hold each call."""
    from equations.hold import hold
    from equations.test_equations import holds

    for call in calls:
        held = hold(call)
        notice(holds(held, dtype), f"{held.path} in {dtype}: {held.wrong or 'not its equation'}")


def independence(subject: Subject) -> None:
    """No parameter belongs to two blocks; a tied table is one parameter, any other is its own."""
    for golden, _, model in subject.models:
        owners = [id(p) for block in model.get_submodule("blocks") for p in block.parameters()]  # type: ignore[union-attr]
        notice(len(owners) == len(set(owners)), f"{golden.name}: blocks share a parameter")
        tied = model.get_parameter("embed.weight") is model.get_parameter("unembed.weight")
        notice(tied == ("unembed.weight" not in golden.weights), f"{golden.name}: tie")


def others(subject: Subject) -> None:
    """Scores of another implementation."""
    for golden, _, model in subject.models:
        if golden.name in subject.fixed.other:
            given, wanted = golden.inputs[1], subject.fixed.other[golden.name]
            with torch.no_grad():
                out = model(given.tokens[:1], given.positions[:1]).numpy()
            close(out, wanted, f"{golden.name}: scores of transformers", 2e-5)


COMMUTE = {
    "block.attention_add": "x′_n = x_n + Δ_attn",
    "block.ffn_add": "x_{n+1} = x′_n + Δ_ffn",
    "block.feed_forward.multiply": "h = a ⊙ u",
}
"""Which port carries what shows in no number where an op commutes."""


def lint(subject: Subject) -> None:
    """The map can be derived: containers only wire, every macro resolves, axes fit; what commutes is in order."""
    from openmodelatlas.trace.derive import derive

    for _, variant, _ in subject.models:
        graph = derive(variant)
        for node, text in COMMUTE.items():
            notice(graph.by_id[node].equation_text == text, f"{node}: {graph.by_id[node].equation_text}")


CHECKS: tuple[Callable[[Subject], None], ...] = (equations, rows, independence, scores, nodes, dtypes, others, lint)


def statements(fixed: Fixed) -> None:
    """For a mutant of a statement: the modules' calls, captured before, against what it says now."""
    for dtype, calls in fixed.calls.items():
        check_calls(calls, dtype)
