"""Loading: values at the right place, ties kept, nothing loaded that the ledger does not hold."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
import transformers
from gguf_writer import File, f32

from openmodelatlas.errors import CheckpointError
from openmodelatlas.models import tied
from openmodelatlas.models.variant import Variant
from openmodelatlas.weights import memory, steps
from openmodelatlas.weights.ledger import account
from openmodelatlas.weights.load import load
from openmodelatlas.weights.naming import EXPERT, block_pattern, fill, name_table, pieces
from openmodelatlas.weights.reading.gguf import GGUFFile, open_gguf

Write = Callable[..., Path]


def loaded(path: Path, of: Variant | None = None, **options: Any) -> torch.nn.Module:
    of = of or tiny.variant()
    with open_gguf(path) as file:
        return load(file, of, account(file.header, of), **options)


def test_every_parameter_has_the_stored_values(tiny_checkpoint: Path) -> None:
    model = loaded(tiny_checkpoint)
    arrays = tiny.arrays(tiny.variant())
    table = {row.parameter: row.stored for row in name_table("llama", "gguf").tensors}
    parameters = dict(model.named_parameters())
    assert len(parameters) == len(arrays)
    for name, parameter in parameters.items():
        pattern, index = block_pattern(name)
        assert np.array_equal(parameter.numpy(), arrays[fill(table[pattern], index)])
        assert not parameter.requires_grad


def test_a_tie_stays_a_tie(tiny_checkpoint: Path) -> None:
    model: Any = loaded(tiny_checkpoint)
    assert model.embed.weight is model.unembed.weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dtype(tiny_checkpoint: Path, dtype: torch.dtype) -> None:
    model = loaded(tiny_checkpoint, dtype=dtype)
    assert {p.dtype for p in model.parameters()} == {dtype}
    tokens = torch.arange(5)[None]
    logits = model(tokens, tokens)
    assert logits.dtype == torch.promote_types(dtype, torch.float32)
    assert logits.isfinite().all()


def test_the_loaded_model_outlives_its_file(tiny_checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.gguf"
    path.write_bytes(tiny_checkpoint.read_bytes())
    model = loaded(path)
    before = [p.clone() for p in model.parameters()]
    with path.open("r+b") as file:  # in place: a mapping would see it
        file.write(b"\xff" * path.stat().st_size)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_finding_refuses_the_load(write: Write) -> None:
    made = tiny.file()
    made.tensors = [*made.tensors[1:], f32("surplus", np.ones(32))]
    with pytest.raises(CheckpointError, match=r"a parameter has no stored tensor at embed.weight \(and 1 more\)"):
        loaded(write(made))


def test_too_little_memory_is_said_before_anything_is_read(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda _device: 1000)
    monkeypatch.setattr(GGUFFile, "values", lambda *_: pytest.fail("a tensor was read"))
    with pytest.raises(CheckpointError, match="too large for the memory of cpu in float32"):
        loaded(tiny_checkpoint)


def scaled(factors: np.ndarray) -> tuple[File, Variant]:
    of = tiny.variant("llama-3.2-1b", rope_original_max_position_embeddings=64)
    made = tiny.file(of)
    made.tensors = [*made.tensors, f32("rope_freqs.weight", factors)]
    return made, of


def test_stored_frequency_divisors_must_be_those_of_the_definition(write: Write) -> None:
    made, of = scaled(np.ones(8))
    rope: Any = of.build("meta").get_submodule("rope")
    plain = rope.frequencies(torch.device("cpu"))
    right = (plain / rope.scale(plain)).numpy()
    assert right.min() == 1.0
    assert right.max() == pytest.approx(32.0)
    with pytest.raises(CheckpointError, match=r"rope_freqs\.weight.*expected 8 values"):
        loaded(write(made), of)
    loaded(write(scaled(right)[0]), of)
    right[-1] *= 1.001
    with pytest.raises(CheckpointError, match=r"rope_freqs\.weight"):
        loaded(write(scaled(right)[0]), of)


def configuration(of: Variant) -> dict[str, Any]:
    """A `config.json` of the variant under the keys that its family's table reads, those of the older layout."""
    table = name_table(of.family, "huggingface")
    stated = {key: getattr(of.config, field) for key, field in table.read.items() if hasattr(of.config, field)}
    for key, rule in table.conditional.items():
        if hasattr(of.config, rule.field):
            stated[key] = rule.there[0]
    config: dict[str, Any] = {"tie_word_embeddings": tied(of)}
    for key, value in stated.items():
        section, _, rest = key.partition(".")
        if key.startswith(("rope_parameters", "_")):
            continue
        if rest:
            config.setdefault(section, {})[rest] = value
        else:
            config[key] = value
    return config


def huggingface(of: Variant) -> Any:
    """The library's own model of the configuration, with random weights."""
    table = name_table(of.family, "huggingface")
    [name] = table.must_equal.get("architectures") or table.one_of["architectures"][0]
    library = getattr(transformers, name)
    config = library.config_class.from_dict(configuration(of))
    config._attn_implementation = "eager"
    torch.manual_seed(3)
    model = library(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def published(model: Any, of: Variant) -> dict[str, torch.Tensor]:
    """Its weights as a checkpoint has them: no second name for a shared table, experts each for itself."""
    state = {}
    for name, weight in model.state_dict().items():
        block, experts, which = name.partition(".mlp.experts.")
        if name == "lm_head.weight" and tied(of):
            continue
        if not experts:
            state[name.replace(".mlp.gate.", ".block_sparse_moe.gate.")] = weight
            continue
        for e, expert in enumerate(weight):
            parts = expert.chunk(2) if which == "gate_up_proj" else (expert,)
            for part, short in zip(parts, ("w1", "w3") if len(parts) > 1 else ("w2",), strict=True):
                state[f"{block}.block_sparse_moe.experts.{e}.{short}.weight"] = part
    return state


def from_huggingface(of: Variant, state: dict[str, torch.Tensor], skip: str = "") -> torch.nn.Module:
    """Our model with a Hugging Face state dict, by nothing but the name table and its steps."""
    table = {row.parameter: row for row in name_table(of.family, "huggingface").tensors}
    model = of.build("cpu", torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            pattern, index = block_pattern(name)
            row = table[pattern]
            left = tuple(step for step in row.steps if step != skip)
            stored = pieces(row.stored, index, parameter.shape[0])
            weights = [steps.apply(state.pop(piece), left, of.config) for piece in stored]
            parameter.copy_(steps.stack_experts(weights, len(weights)) if EXPERT in row.stored else weights[0])
    assert not state
    return model


@pytest.mark.parametrize("name", tiny.representatives())
def test_hugging_face_names_and_steps_give_the_same_logits(name: str) -> None:
    of = tiny.variant(name)
    theirs = huggingface(of)
    tokens = torch.randint(0, tiny.VOCAB, (2, 40), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(40).expand(2, 40)
    rows = name_table(of.family, "huggingface").tensors
    with torch.no_grad():
        expected = theirs(tokens).logits
        scale = expected.abs().max()
        ours = from_huggingface(of, published(theirs, of))(tokens, positions)
        assert (ours - expected).abs().max() < 1e-5 * scale
        for step in {step for row in rows for step in row.steps}:  # each matters
            without = from_huggingface(of, published(theirs, of), skip=step)(tokens, positions)
            assert (without - expected).abs().max() > 1e-2 * scale
