"""Settings against the model and against what is stored: a wrong one is named once, and never made up."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_checkpoints as made
import pytest
import safetensors.torch
import tiny
import torch
from torch import Tensor

from openmodelatlas import models
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Report
from openmodelatlas.verify.checkpoint import verify

OF = tiny.variant("llama-3-8b")
TIED = tiny.variant("llama-3.2-1b")
Config = dict[str, Any]


def folder(path: Path, config: Config, weights: dict[str, Tensor] | None = None, of: Variant = OF) -> Path:
    made.huggingface_folder(path, of)
    made.write_json(path / "config.json", config)
    if weights is not None:
        safetensors.torch.save_file(weights, path / "model.safetensors")
    return path


def found(report: Report) -> dict[str, list[tuple[str, str, str]]]:
    """By kind; that the tiny model is none of the atlas is expected."""
    kinds: dict[str, list[tuple[str, str, str]]] = {}
    for flaw in report.findings:
        if flaw.code != "model.differs" and not flaw.code.startswith(("tokenizer", "template")):
            kinds.setdefault(flaw.code, []).append((flaw.where, flaw.expected, flaw.found))
    return kinds


def of_config(path: Path, change: Callable[[Config], Any], of: Variant = OF) -> dict[str, list[tuple[str, str, str]]]:
    config = made.settings(of, "huggingface")
    change(config)
    return found(verify(folder(path, config, of=of)).report)


@pytest.mark.parametrize("name", tiny.representatives())
def test_an_honest_folder_has_no_findings(tmp_path: Path, name: str) -> None:
    of = tiny.variant(name)
    report = verify(made.huggingface_folder(tmp_path, of), values=True).report
    assert found(report) == {}
    counts = report.counts
    assert counts["total"] == counts["stored"] == sum(weight.numel() for weight in made.definition(of).values())
    assert counts["stored bytes"] == 4 * counts["total"]
    assert counts["total"] - counts["without embeddings"] == 272 * 64


def test_active_parameters_are_those_of_the_chosen_experts(tmp_path: Path) -> None:
    """Four experts of three matrices of 64 by 96 in two blocks, two of them chosen."""
    of = tiny.variant("mixtral-8x7b")
    counts = verify(made.huggingface_folder(tmp_path, of)).report.counts
    assert counts["total"] - counts["active per token"] == 2 * 2 * 3 * 64 * 96


# --- numbers that are not stated ---


@pytest.mark.parametrize("key", ["rope_theta", "rms_norm_eps"])
def test_a_missing_number_is_never_made_up(tmp_path: Path, key: str) -> None:
    """Faults of a base or an epsilon out of a program's code."""
    kinds = of_config(tmp_path, lambda config: config.pop(key))
    [(code, [(where, _, value)])] = kinds.items()
    assert code in ("configuration.missing", "configuration.guessed")
    assert where == repr(key)
    assert "absent" in value


def test_a_number_that_its_model_confirms_is_a_note(tmp_path: Path) -> None:
    """A model of the atlas whose published file leaves a key out: `head_dim` here, which others then follow."""
    config = made.settings(models.find("llama-3-8b"), "huggingface")
    del config["head_dim"]
    made.write_json(tmp_path / "config.json", config)
    made.write_safetensors(tmp_path, {"model.norm.weight": torch.ones(4096), "lm_head.weight": torch.ones(1, 1)})
    [check] = [check for check in verify(tmp_path).report.checks if check.name == "configuration"]
    assert check.ok
    assert "head_dim (128)" in " ".join(check.notes)


# --- keys that say the same thing twice ---


def layouts() -> dict[str, Callable[[Config], Any]]:
    theta = OF.config.rope_theta

    def newest(config: Config) -> None:
        config["rope_parameters"] = {"rope_theta": config.pop("rope_theta"), "rope_type": "default"}

    def by_kind(config: Config) -> None:
        config["rope_parameters"] = {"full_attention": {"rope_theta": config.pop("rope_theta"), "rope_type": "default"}}

    def old_key(config: Config) -> None:
        config["rope_scaling"] = {"type": "default"}

    def both(config: Config) -> None:
        config["rope_parameters"] = {"rope_theta": theta, "rope_type": "default"}

    return {"older": lambda _: None, "newest": newest, "by kind": by_kind, "old key": old_key, "both": both}


@pytest.mark.parametrize("layout", layouts())
def test_every_layout_of_rotary_settings_says_the_same(tmp_path: Path, layout: str) -> None:
    assert of_config(tmp_path, layouts()[layout]) == {}


def test_rotary_settings_that_contradict_each_other(tmp_path: Path) -> None:
    def change(config: Config) -> None:
        config["rope_parameters"] = {"rope_theta": 10000.0, "rope_type": "default"}

    [(_, expected, value)] = of_config(tmp_path, change)["configuration.disagrees"]
    assert {expected.split(",")[0], value} == {"500000.0", "10000.0"}


@pytest.mark.parametrize("key", ["type", "rope_type"])
def test_a_kind_of_scaling_that_was_added(tmp_path: Path, key: str) -> None:
    """Fault of `type: yarn`, put in to quieten a validator."""
    found_here = of_config(tmp_path, lambda config: config.update(rope_scaling={key: "yarn"}))
    assert found_here == {"configuration.contradicts": [(f"'rope_scaling.{key}'", "default", "yarn")]}


# --- settings and shapes ---


@pytest.mark.parametrize(
    ("field", "stated", "right"),
    [
        ("hidden_size", 128, 64),
        ("intermediate_size", 64, 96),
        ("vocab_size", 256, 272),
        ("num_key_value_heads", 4, 2),
        ("head_dim", 32, 16),
    ],
)
def test_one_wrong_number_is_one_finding(tmp_path: Path, field: str, stated: int, right: int) -> None:
    kinds = of_config(tmp_path, lambda config: config.update({field: stated}))
    assert kinds == {"configuration.shapes": [(repr(field), f"{field} must be {right}", str(stated))]}


def test_a_head_width_that_is_not_stated_and_does_not_follow(tmp_path: Path) -> None:
    """Fault of a width of heads computed from the model's: 48 / 4 is 12, and the rows say 16."""
    of = tiny.variant("llama-3-8b", hidden_size=48, head_dim=16)
    assert of_config(tmp_path / "stated", lambda _: None, of) == {}
    kinds = of_config(tmp_path / "absent", lambda config: config.pop("head_dim"), of)
    assert kinds == {"configuration.shapes": [("'head_dim'", "head_dim must be 16", "absent, which means 12")]}


@pytest.mark.parametrize(
    ("tied", "stored", "holds"), [(True, False, True), (True, True, True), (False, True, True), (False, False, False)]
)
def test_tied_or_not_against_what_is_stored(tmp_path: Path, tied: bool, stored: bool, holds: bool) -> None:
    of = TIED if tied else tiny.variant("llama-3.1-8b")
    weights = made.tensors(of, "huggingface")
    weights.pop("lm_head.weight", None)
    if stored:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    path = folder(tmp_path, made.settings(of, "huggingface"), weights, of)
    kinds = found(verify(path).report)
    assert (kinds == {}) == holds
    if not holds:
        assert any("unembed" in where or "tie_word" in where for rows in kinds.values() for where, _, _ in rows)


def test_a_copy_of_the_shared_table_is_compared_with_values(tmp_path: Path) -> None:
    weights = made.tensors(TIED, "huggingface")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"] + 1
    path = folder(tmp_path, made.settings(TIED, "huggingface"), weights, TIED)
    assert found(verify(path).report) == {}
    assert "tensors.copy" in found(verify(path, values=True).report)


def test_a_list_of_layers_of_another_length(tmp_path: Path) -> None:
    kinds = of_config(tmp_path, lambda config: config.update(layer_types=["full_attention"] * 3))
    assert [where for where, _, _ in kinds["configuration.contradicts"]] == ["'layer_types'"]


def test_the_stated_type_of_numbers_is_a_note(tmp_path: Path) -> None:
    path = folder(tmp_path, made.settings(OF, "huggingface") | {"torch_dtype": "bfloat16"})
    [check] = [check for check in verify(path).report.checks if check.name == "configuration"]
    assert "the settings say bfloat16, and most numbers are stored as F32" in check.notes


# --- Meta's settings ---


def meta(path: Path, change: Callable[[Config], Any]) -> dict[str, list[tuple[str, str, str]]]:
    made.meta_folder(path, OF)
    params = made.settings(OF, "meta") | {"multiple_of": 32, "ffn_dim_multiplier": 0.5}
    change(params)
    made.write_json(path / "params.json", params)
    return found(verify(path).report)


def test_the_inner_width_follows_from_three_numbers(tmp_path: Path) -> None:
    """2/3 of 4 x 64 is 170, half of it 85, up to a multiple of 32: 96; without the factor 192."""
    assert meta(tmp_path / "right", lambda _: None) == {}
    kinds = meta(tmp_path / "wrong", lambda params: params.pop("ffn_dim_multiplier"))
    assert kinds == {"configuration.shapes": [("'multiple_of'", "intermediate_size must be 96", "32, which makes 192")]}


@pytest.mark.parametrize(
    ("dim", "factor", "multiple", "width"),
    [
        (4096, 1.3, 1024, 14336),
        (8192, 1.3, 4096, 28672),
        (16384, 1.2, 4096, 53248),
        (2048, 1.5, 256, 8192),
        (3072, 1.0, 256, 8192),
        (4096, None, 256, 11008),
        (5120, None, 256, 13824),
    ],
)
def test_inner_widths_of_published_models(dim: int, factor: float | None, multiple: int, width: int) -> None:
    from openmodelatlas.weights.naming import name_table
    from openmodelatlas.weights.settings import inner_width

    settings = {"dim": dim, "multiple_of": multiple} | ({} if factor is None else {"ffn_dim_multiplier": factor})
    assert inner_width(settings, name_table("llama", "meta")) == width


def test_keys_of_meta_s_settings_that_no_table_knows(tmp_path: Path) -> None:
    """Fault of classes that take or drop unknown keys. Scaled rotation is another structure, and is taken as that."""
    kinds = meta(tmp_path, lambda params: params.update(use_scaled_rope=True, invented=1))
    assert {code: [where for where, _, _ in rows] for code, rows in kinds.items()} == {
        "configuration.unaccounted": ["'invented'"]
    }


def test_scaled_rotation_is_not_taken_for_plain(tmp_path: Path) -> None:
    """The published numbers of Llama 3, with and without the switch, are two models."""
    for scaled, name in ((True, "llama-3.1-8b"), (False, "llama-3-8b")):
        params = made.settings(models.find("llama-3-8b"), "meta") | {"use_scaled_rope": scaled}
        made.meta_folder(tmp_path / name, OF)
        made.write_json(tmp_path / name / "params.json", params)
        assert verify(tmp_path / name).report.model == name


def test_shapes_outrank_a_vendor_s_table(tmp_path: Path) -> None:
    """Fault of a list of models that gives one with a key head for every head four of eight: the file decides."""
    kinds = meta(tmp_path, lambda params: params.update(n_kv_heads=4, ffn_dim_multiplier=1.3))
    assert set(kinds) == {"configuration.shapes"}
    assert {where for where, _, _ in kinds["configuration.shapes"]} >= {"'n_kv_heads'"}


@pytest.mark.parametrize("key", ["rope_theta", "norm_eps"])
def test_a_missing_number_of_meta_s_is_never_made_up(tmp_path: Path, key: str) -> None:
    kinds = meta(tmp_path, lambda params: params.pop(key))
    assert [where for rows in kinds.values() for where, _, _ in rows] == [repr(key)]


# --- key heads in copies ---


def test_key_heads_that_are_stored_twice(tmp_path: Path) -> None:
    """Fault of a release for sixteen devices: four key heads are stored, two are different."""
    weights = made.tensors(OF, "huggingface")
    for name in [name for name in weights if ".k_proj" in name or ".v_proj" in name]:
        weights[name] = weights[name].reshape(2, 16, 64).repeat_interleave(2, 0).reshape(64, 64).clone()
    config = made.settings(OF, "huggingface") | {"num_key_value_heads": 4}
    kinds = found(verify(folder(tmp_path, config, weights), values=True).report)
    [(_, expected, value)] = kinds["model.duplicated-heads"]
    assert (expected, value) == ("2 heads that differ", "4, 2 neighbours equal in every block")


def test_the_release_with_sixteen_key_heads_is_told_by_its_numbers(tmp_path: Path) -> None:
    config = made.settings(models.find("llama-3.1-405b"), "huggingface") | {"num_key_value_heads": 16}
    made.write_json(tmp_path / "config.json", config)
    made.write_safetensors(tmp_path, {"model.norm.weight": torch.ones(16384), "lm_head.weight": torch.ones(1, 1)})
    report = verify(tmp_path).report
    [flaw] = [flaw for flaw in report.findings if flaw.code == "model.duplicated-heads"]
    assert flaw.expected == "8 as in llama-3.1-405b"
    assert "model.differs" not in {flaw.code for flaw in report.findings}


# --- settings of generation ---


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ({"bos_token_id": 1, "eos_token_id": 0, "temperature": 0.6}, None),
        ({"eos_token_id": [0]}, None),
        ({"eos_token_id": [0, 5]}, None),
        ({"eos_token_id": [4, 5]}, "configuration.generation"),
        ({"eos_token_id": 5}, "configuration.generation"),
        ({"pad_token_id": 3}, None),
        ({"a_new_switch": 1}, "configuration.generation-unaccounted"),
        ([1], "configuration.generation-unreadable"),
    ],
)
def test_settings_of_generation(tmp_path: Path, content: Any, code: str | None) -> None:
    path = folder(tmp_path, made.settings(OF, "huggingface"))
    (path / "generation_config.json").write_text(json.dumps(content))
    assert list(found(verify(path).report)) == ([] if code is None else [code])
