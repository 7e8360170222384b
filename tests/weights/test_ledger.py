"""The ledger: a checkpoint accounted for both ways, and every flaw named."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from gguf_writer import File, f32

from openmodelatlas.errors import CheckpointError
from openmodelatlas.models import find, variants
from openmodelatlas.records.report import Ledger
from openmodelatlas.weights.identify import identify
from openmodelatlas.weights.ledger import account, metadata_findings, tensor_findings
from openmodelatlas.weights.reading.ggml import NUMBERS
from openmodelatlas.weights.reading.gguf import open_gguf

Write = Callable[..., Path]


def ledger(path: Path, of: Any = None) -> Ledger:
    with open_gguf(path) as file:
        return account(file.header, of or tiny.variant())


def test_an_honest_file_has_no_findings(tiny_checkpoint: Path) -> None:
    found = ledger(tiny_checkpoint)
    assert tensor_findings(found) == []
    assert metadata_findings(found) == []
    assert {row.status for row in found.rows} == {"matched"}
    assert found.parameters == sum(a.size for a in tiny.arrays(tiny.variant()).values())
    assert found.stored_bytes == found.parameters * 4


def test_a_tied_table_is_one_tensor_with_two_owners(tiny_checkpoint: Path) -> None:
    [row] = [row for row in ledger(tiny_checkpoint).rows if row.parameter == "embed.weight"]
    assert row.owners == ("embed", "unembed")
    assert row.stored is not None
    assert row.stored.name == "token_embd.weight"


def test_an_untied_one_is_two(write: Write) -> None:
    untied = tiny.variant("llama-3-8b")
    found = ledger(write(tiny.file(untied)), untied)
    assert tensor_findings(found) == []
    owners = {row.parameter: row.owners for row in found.rows if row.parameter in ("embed.weight", "unembed.weight")}
    assert owners == {"embed.weight": ("embed",), "unembed.weight": ("unembed",)}


@pytest.mark.parametrize("kind", ["I32", "F32"])
def test_whole_numbers_are_no_weights(write: Write, kind: str) -> None:
    made = tiny.file()
    made.tensors[-1] = dataclasses.replace(made.tensors[-1], kind=NUMBERS[kind])  # the same bytes by another name
    found = [(flaw.code, flaw.where, flaw.found) for flaw in tensor_findings(ledger(write(made)))]
    assert found == ([("tensors.type", "'output_norm.weight' (norm.weight)", "I32")] if kind == "I32" else [])


def changed(made: File, **metadata: Any) -> File:
    return File({**made.metadata, **{k.replace("__", "."): v for k, v in metadata.items()}}, made.tensors)


@pytest.mark.parametrize(
    ("change", "where", "expected", "found"),
    [
        (lambda t: [*t, f32("blk.0.attn_q.bias", np.zeros(64))], "'blk.0.attn_q.bias'", "definition has", "[64], F32"),
        (lambda t: [*t, f32("blk.2.attn_norm.weight", np.zeros(64))], "'blk.2.attn_norm.weight'", "has", "[64]"),
        (lambda t: [*t, f32("rope_freqs.weight", np.ones(8))], "'rope_freqs.weight'", "definition has", "[8]"),
        (
            lambda t: [*t, f32("output.weight", np.ones((tiny.VOCAB, 64)))],
            "'output.weight'",
            "definition has",
            "[272, 64]",
        ),
        (lambda t: t[:-1], "norm.weight", "shape [64]", "nothing stored"),
        (lambda t: [*t[:-1], f32("output_norm.weight", np.ones(32))], "output_norm.weight", "shape [64]", "shape [32]"),
    ],
)
def test_a_wrong_tensor_is_named(write: Write, change: Any, where: str, expected: str, found: str) -> None:
    made = tiny.file()
    made.tensors = change(list(made.tensors))
    [finding] = tensor_findings(ledger(write(made)))
    assert where in finding.where
    assert expected in finding.expected
    assert found in finding.found


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("llama.some_new_switch", 1, "a key that a table accounts for"),
        ("llama.rope.freq_base", 500000.0, "rope_theta must be 100000.0"),
        ("llama.attention.head_count", 8, "num_attention_heads must be 4"),
        ("llama.attention.head_count_kv", [2, 2], "num_key_value_heads must be 2"),
        ("llama.rope.scaling.type", "linear", "none"),
        ("llama.expert_count", 8, "0"),
        ("split.count", 2, "1"),
        ("general.type", "adapter", "model"),
    ],
)
def test_a_wrong_setting_is_named(write: Write, key: str, value: Any, expected: str) -> None:
    made = tiny.file()
    [finding] = metadata_findings(ledger(write(File({**made.metadata, key: value}, made.tensors))))
    assert finding.where == repr(key)
    assert finding.expected == expected


def test_required_and_assumed_settings(write: Write) -> None:
    made = tiny.file()
    cut = {k: v for k, v in made.metadata.items() if k not in ("llama.block_count", "llama.rope.freq_base")}
    first, second = metadata_findings(ledger(write(File(cut, made.tensors))))
    assert (first.where, first.expected, first.found) == ("'llama.block_count'", "must be stated", "absent")
    assert (second.where, second.found) == ("'llama.rope.freq_base'", "absent, which means 10000.0")


def test_every_model_is_identified_by_its_own_numbers(write: Write) -> None:
    for name, variant in variants().items():
        with open_gguf(write(File(tiny.metadata(variant), tiny.kinds(variant)))) as file:
            identity = identify(file.header)
        assert name in identity.matches, identity
        same = (variant.config, variant.model, variant.parts)
        assert set(identity.matches) == {n for n, v in variants().items() if (v.config, v.model, v.parts) == same}


def test_the_nearest_model_and_how_it_differs(write: Write) -> None:
    made = tiny.metadata(find("smollm2-135m")) | {"llama.rope.freq_base": 10000.0, "general.name": "llama-3-8b"}
    with open_gguf(write(File(made))) as file:
        identity = identify(file.header)
    assert identity.matches == ()
    assert identity.nearest.name == "smollm2-135m"
    [difference] = identity.differences
    assert (difference.field, difference.expected, difference.found) == ("rope_theta", "100000.0", "10000.0")


def test_scaled_and_plain_rotation_are_told_apart(write: Write) -> None:
    plain = tiny.metadata(find("llama-3.1-8b"))
    with open_gguf(write(File(plain, [f32("output.weight", np.ones((1, 32)))]))) as file:
        identity = identify(file.header)
    assert identity.matches == ()
    assert {d.key for d in identity.differences} <= {"rope_freqs.weight", "llama.context_length"}


def test_another_architecture(write: Write) -> None:
    with (
        open_gguf(write(File({"general.architecture": "mamba"}))) as file,
        pytest.raises(CheckpointError, match=r"not an architecture.*llama.*, found general.architecture mamba"),
    ):
        identify(file.header)
