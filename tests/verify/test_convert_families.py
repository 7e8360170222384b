"""Checkpoints of every family in every format and back: equal to the bit, and read by the libraries of the formats."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import made_checkpoints as made
import numpy as np
import pytest
import safetensors.torch
import tiny
import torch
import transformers
from gguf_writer import f32
from torch import Tensor

from openmodelatlas.errors import CheckpointError, UsageError
from openmodelatlas.models import variants
from openmodelatlas.models.variant import Variant
from openmodelatlas.verify.convert import SCHEMES, Converted, Wanted, convert
from openmodelatlas.weights.identify import identify
from openmodelatlas.weights.ledger import account
from openmodelatlas.weights.load import frequency_divisors, load
from openmodelatlas.weights.naming import Scheme, has_names, name_table
from openmodelatlas.weights.open import open_checkpoint

LIKE = tiny.representatives()
BOTH = [(like, scheme) for like in LIKE for scheme in SCHEMES if has_names(variants()[like].family, scheme)]
TOKENS = [1, 40, 41, 42, 7, 99, 200, 3, 3, 17, 60, 5]


def source(path: Path, of: Variant, scheme: Scheme, dtype: torch.dtype = torch.float32) -> Path:
    """A tiny checkpoint, written by the library that owns the format where there is one."""
    if scheme == "huggingface":
        return made.huggingface_folder(path / "huggingface", of, dtype=dtype)
    if scheme == "meta":
        return made.meta_folder(path / "meta", of, dtype=dtype)
    file = tiny.file(of)
    modules = {name for name, _ in of.build("meta").named_modules()}
    for constant in name_table(of.family, "gguf").constants:
        if constant.equals and constant.owner in modules:
            file.tensors = [*file.tensors, f32(constant.stored, frequency_divisors(of).numpy())]
    target = path / "tiny.gguf"
    target.write_bytes(file.bytes())
    return target


def target(path: Path, scheme: Scheme, name: str = "converted") -> Path:
    return path / (f"{name}.gguf" if scheme == "gguf" else name)


def done(path: Path, to: Path, scheme: Scheme, of: Variant, **options: Any) -> Converted:
    """A conversion that is told what no format but its own states."""
    numbers = {name: str(value) for name, value in vars(of.config).items() if name not in tiny.SIZES}
    numbers["max_position_embeddings"] = str(of.config.max_position_embeddings)
    return convert(path, to, Wanted(scheme=scheme, tokenizer=False, numbers=numbers, **options))


def stored(path: Path) -> dict[str, Tensor]:
    """Every tensor of a checkpoint in its own type, as the library that owns the format reads it."""
    if path.suffix == ".gguf":
        return {tensor.name: _of_gguf(tensor) for tensor in gguf.GGUFReader(path).tensors}
    if (path / "params.json").exists():
        loaded: dict[str, Tensor] = torch.load(path / "consolidated.00.pth", weights_only=True, mmap=True)
        return loaded
    files = sorted(path.glob("*.safetensors"))
    return {name: tensor for file in files for name, tensor in safetensors.torch.load_file(file).items()}


def _of_gguf(tensor: Any) -> Tensor:
    data = torch.from_numpy(np.array(tensor.data))
    shape = tuple(int(size) for size in reversed(tensor.shape))
    return (data.view(torch.bfloat16) if tensor.tensor_type.name == "BF16" else data).reshape(shape)


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(a[n].dtype == b[n].dtype and torch.equal(a[n], b[n]) for n in a)


@pytest.mark.parametrize(
    ("like", "scheme", "via"), [(*one, via) for one in BOTH for like, via in BOTH if like == one[0]]
)
def test_there_and_back_is_equal_to_the_bit(tmp_path: Path, like: str, scheme: Scheme, via: Scheme) -> None:
    of = tiny.variant(like)
    dtype = torch.float32 if scheme == "gguf" else torch.bfloat16
    first = source(tmp_path, of, scheme, dtype)
    there, back = target(tmp_path, via), target(tmp_path, scheme, "back")
    done(first, there, via, of)
    done(there, back, scheme, of)
    assert equal(stored(first), stored(back))


def loaded(path: Path, of: Variant) -> torch.nn.Module:
    with open_checkpoint(path) as opened:
        return load(opened, of, account(opened.header, of, opened.scheme))


def logits(model: torch.nn.Module) -> Tensor:
    tokens = torch.tensor([TOKENS])
    found: Tensor = model(tokens, torch.arange(len(TOKENS))[None])
    return found


@pytest.mark.parametrize(("like", "scheme"), BOTH)
def test_transformers_computes_the_same_from_the_converted_folder(tmp_path: Path, like: str, scheme: Scheme) -> None:
    of = tiny.variant(like)
    first = source(tmp_path, of, scheme)
    folder = target(tmp_path, "huggingface")
    done(first, folder, "huggingface", of)
    with torch.no_grad():
        ours = logits(loaded(folder, of))
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager"
        )
        theirs = model(torch.tensor([TOKENS])).logits
    assert float((ours - theirs).abs().max()) < 2e-5 * float(ours.abs().max())
    config = transformers.AutoConfig.from_pretrained(folder)
    assert config.max_position_embeddings == of.config.max_position_embeddings
    assert config.tie_word_embeddings is ("unembed.weight" not in dict(of.build("meta").named_parameters()))


@pytest.mark.parametrize(("like", "scheme"), BOTH)
def test_the_gguf_package_reads_what_was_written(tmp_path: Path, like: str, scheme: Scheme) -> None:
    of = tiny.variant(like)
    file = target(tmp_path, "gguf")
    done(source(tmp_path, of, scheme), file, "gguf", of)
    reader = gguf.GGUFReader(file)
    architecture = reader.fields["general.architecture"].contents()
    assert reader.fields[f"{architecture}.block_count"].contents() == of.config.num_hidden_layers
    assert reader.fields[f"{architecture}.attention.key_length"].contents() == of.config.head_dim
    assert reader.fields[f"{architecture}.embedding_length"].types == [gguf.GGUFValueType.UINT32]
    assert all(tensor.data_offset % 32 == 0 for tensor in reader.tensors)
    vectors = [tensor for tensor in reader.tensors if len(tensor.shape) == 1]
    assert vectors
    assert all(tensor.tensor_type == gguf.GGMLQuantizationType.F32 for tensor in vectors)


def experts() -> Iterator[str]:
    for like in LIKE:
        if any(tensor.dim() == 3 for tensor in variants()[like].build("meta").parameters()):
            yield like


@pytest.mark.parametrize("like", list(experts()))
def test_experts_are_stacked_in_gguf_and_apart_in_safetensors(tmp_path: Path, like: str) -> None:
    of = tiny.variant(like)
    first = source(tmp_path, of, "huggingface")
    done(first, target(tmp_path, "gguf"), "gguf", of)
    stacked = [tensor for tensor in stored(target(tmp_path, "gguf")).values() if tensor.dim() == 3]
    apart = [tensor for name, tensor in stored(first).items() if ".experts." in name]
    assert len(apart) == len(stacked) * of.config.num_local_experts
    assert sum(map(torch.numel, stacked)) == sum(map(torch.numel, apart))


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q5_1"])
def test_quantised_matrices_and_their_way_back(tmp_path: Path, kind: str) -> None:
    of = tiny.variant()
    first, packed, plain = (
        source(tmp_path, of, "huggingface"),
        target(tmp_path, "gguf"),
        target(tmp_path, "huggingface"),
    )
    done(first, packed, "gguf", of, quantised=kind)
    types = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(packed).tensors}
    assert types["token_embd.weight"] == kind
    assert types["output_norm.weight"] == "F32"
    notes = done(packed, plain, "huggingface", of).notes
    assert any(kind in note and "dequantised to float32" in note for note in notes)
    blocks = {t.name: t for t in gguf.GGUFReader(packed).tensors}["blk.0.ffn_up.weight"]
    values = gguf.dequantize(blocks.data, blocks.tensor_type)
    assert np.array_equal(stored(plain)["model.layers.0.mlp.up_proj.weight"].numpy(), values)


def test_rows_that_are_no_whole_blocks_stay_plain(tmp_path: Path) -> None:
    of = tiny.variant(intermediate_size=80)
    done(source(tmp_path, of, "huggingface"), target(tmp_path, "gguf"), "gguf", of, quantised="Q8_0")
    types = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(target(tmp_path, "gguf")).tensors}
    assert types["blk.0.ffn_down.weight"] == "F32"
    assert types["blk.0.ffn_up.weight"] == "Q8_0"


def test_shards_and_their_index(tmp_path: Path) -> None:
    of = tiny.variant()
    first = source(tmp_path, of, "huggingface")
    done(first, target(tmp_path, "huggingface"), "huggingface", of, shard_size=40_000)
    folder = target(tmp_path, "huggingface")
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    files = sorted(path.name for path in folder.glob("*.safetensors"))
    assert len(files) > 2
    assert sorted(set(index["weight_map"].values())) == files
    for file in files:
        held = safetensors.torch.load_file(folder / file)
        assert {name for name, place in index["weight_map"].items() if place == file} == set(held)
        assert sum(tensor.nbytes for tensor in held.values()) <= 40_000 or len(held) == 1
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in stored(first).values())
    assert equal(stored(first), stored(folder))


def test_a_type_that_is_asked_for_rounds_once(tmp_path: Path) -> None:
    of = tiny.variant()
    first = source(tmp_path, of, "huggingface")
    notes = done(first, target(tmp_path, "huggingface"), "huggingface", of, dtype=torch.bfloat16).notes
    before, after = stored(first), stored(target(tmp_path, "huggingface"))
    assert all(torch.equal(tensor.to(torch.bfloat16), after[name]) for name, tensor in before.items())
    assert f"{len(before)} rounded to bfloat16" in notes


def test_a_number_too_large_for_the_type_is_refused(tmp_path: Path) -> None:
    of = tiny.variant()
    folder = source(tmp_path, of, "huggingface")
    weights = stored(folder)
    weights["model.norm.weight"][3] = 1e6
    safetensors.torch.save_file(weights, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"too large for float16: model\.norm\.weight; found 1e\+06"):
        done(folder, target(tmp_path, "huggingface"), "huggingface", of, dtype=torch.float16)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["huggingface"]


def test_a_source_that_does_not_hold_is_refused(tmp_path: Path) -> None:
    of = tiny.variant()
    folder = source(tmp_path, of, "huggingface")
    weights = stored(folder)
    del weights["model.layers.1.mlp.up_proj.weight"]
    safetensors.torch.save_file(weights, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"blocks\.1\.feed_forward\.up\.weight"):
        done(folder, target(tmp_path, "gguf"), "gguf", of)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["huggingface"]


def test_a_result_that_is_not_the_source_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from openmodelatlas.weights import steps

    of = tiny.variant()
    first = source(tmp_path, of, "gguf")
    monkeypatch.setitem(steps.INVERSES, "interleave_rotary_rows", lambda weight, _: weight)
    with pytest.raises(CheckpointError, match="what was written is not the original"):
        done(first, target(tmp_path, "huggingface"), "huggingface", of)
    assert list(tmp_path.iterdir()) == [first]


def test_a_number_that_nothing_states_is_not_made_up(tmp_path: Path) -> None:
    of = tiny.variant()
    first = source(tmp_path, of, "meta", torch.bfloat16)
    with pytest.raises(
        CheckpointError, match=r"expected max_position_embeddings; --set max_position_embeddings=\.\.\."
    ):
        convert(first, target(tmp_path, "huggingface"), Wanted(scheme="huggingface", tokenizer=False))
    wanted = Wanted(scheme="huggingface", tokenizer=False, numbers={"max_position_embeddings": "512"})
    convert(first, target(tmp_path, "huggingface"), wanted)
    assert json.loads((target(tmp_path, "huggingface") / "config.json").read_text())["max_position_embeddings"] == 512


@pytest.mark.parametrize("like", [like for like in LIKE if not has_names(variants()[like].family, "meta")][:1])
def test_a_family_without_names_in_a_format_is_one_error(tmp_path: Path, like: str) -> None:
    of = tiny.variant(like)
    with pytest.raises(UsageError, match=r"has no form in this format; expected huggingface, gguf, found meta"):
        done(source(tmp_path, of, "gguf"), target(tmp_path, "meta"), "meta", of)


def test_meta_settings_give_the_feed_forward_width(tmp_path: Path) -> None:
    """By the arithmetic of Meta's code: two thirds of four times the width, scaled, up to a multiple."""
    of = tiny.variant()
    done(source(tmp_path, of, "gguf"), target(tmp_path, "meta"), "meta", of)
    params = json.loads((target(tmp_path, "meta") / "params.json").read_text())
    inner = int(2 * (4 * params["dim"]) / 3)
    inner = int(params.get("ffn_dim_multiplier", 1) * inner)
    assert params["multiple_of"] * -(-inner // params["multiple_of"]) == of.config.intermediate_size


@pytest.mark.parametrize("like", [like for like, scheme in BOTH if scheme == "meta"])
def test_meta_settings_say_whether_frequencies_are_scaled(tmp_path: Path, like: str) -> None:
    of = tiny.variant(like)
    done(source(tmp_path, of, "huggingface"), target(tmp_path, "meta"), "meta", of)
    params = json.loads((target(tmp_path, "meta") / "params.json").read_text())
    assert params.get("use_scaled_rope", False) is hasattr(of.config, "rope_factor")


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("like", [like for like, scheme in BOTH if scheme == "meta"])
def test_shares_are_those_of_the_other_writer_and_come_back_whole(tmp_path: Path, like: str, ranks: int) -> None:
    of = tiny.variant(like)
    theirs = made.meta_folder(tmp_path / "theirs", of, ranks=ranks)
    first = made.huggingface_folder(tmp_path / "in", of, dtype=torch.bfloat16)
    done(first, tmp_path / "ours", "meta", of, ranks=ranks)
    for rank in range(ranks):
        name = f"consolidated.{rank:02}.pth"
        a, b = (torch.load(path / name, weights_only=True) for path in (theirs, tmp_path / "ours"))
        assert equal(a, b)
    done(tmp_path / "ours", tmp_path / "back", "huggingface", of)
    assert equal(stored(first), stored(tmp_path / "back"))


def test_shares_that_cannot_be_are_one_error(tmp_path: Path) -> None:
    of = tiny.variant()
    first = source(tmp_path, of, "huggingface")
    with pytest.raises(UsageError, match="key/value heads cannot be shared out so; expected a divisor of 2, found 3"):
        done(first, target(tmp_path, "meta"), "meta", of, ranks=3)
    assert list(tmp_path.iterdir()) == [first]


def test_the_written_files_are_the_model_that_the_source_is(tmp_path: Path) -> None:
    of = tiny.variant()
    for scheme in SCHEMES:
        done(source(tmp_path, of, "gguf"), target(tmp_path, scheme, scheme + "-out"), scheme, of)
        with open_checkpoint(target(tmp_path, scheme, scheme + "-out")) as opened:
            assert opened.scheme == scheme
            assert identify(opened.header, scheme).nearest.family == of.family
