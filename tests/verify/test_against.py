"""One checkpoint against another: lossless copies hold, every usual mistake is named by its cause."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import tiny
import torch
from gguf_writer import File, Tensor, f32

from openmodelatlas.errors import CheckpointError
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Check, Finding
from openmodelatlas.verify.against import compare
from openmodelatlas.weights.naming import block_pattern, name_table
from openmodelatlas.weights.open import open_checkpoint
from openmodelatlas.weights.reading.ggml import NUMBERS
from openmodelatlas.weights.reading.gguf import GGUFFile

Write = Callable[..., Path]
Arrays = dict[str, np.ndarray]
Q, K, NORM = "blk.1.attn_q.weight", "blk.1.attn_k.weight", "blk.0.ffn_norm.weight"
GATE, UP, V = "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.attn_v.weight"


def against(write: Write, original: File, conversion: File) -> tuple[Check, list[Finding]]:
    a, b = write(original, "a.gguf"), write(conversion, "b.gguf")
    with open_checkpoint(a) as left, open_checkpoint(b) as right:
        return compare(left, right)


def with_arrays(change: Callable[[Arrays], None], like: str = "smollm2-135m") -> File:
    of = tiny.variant(like)
    arrays = tiny.arrays(of)
    change(arrays)
    return File(tiny.metadata(of), [f32(name, array) for name, array in arrays.items()])


def stored_as(kind: str, of: Variant, seed: int = 0) -> File:
    """The tiny model with every matrix that has whole blocks in that storage type."""
    made = tiny.file(of, seed)
    made.tensors = [as_type(tensor, kind) for tensor in made.tensors]
    return made


def as_type(tensor: Tensor, kind: str) -> Tensor:
    if len(tensor.shape) < 2:
        return tensor
    values = np.frombuffer(tensor.data, dtype="<f4").reshape(tensor.shape)
    data = gguf.quantize(values, gguf.GGMLQuantizationType(NUMBERS[kind])).tobytes()
    return dataclasses.replace(tensor, data=data, kind=NUMBERS[kind])


@pytest.mark.parametrize("like", tiny.representatives())
def test_a_copy_is_equal_to_the_bit(write: Write, like: str) -> None:
    check, findings = against(write, tiny.file(tiny.variant(like)), tiny.file(tiny.variant(like)))
    assert findings == []
    assert check.state == "ok"
    count = len({name for name, _ in tiny.variant(like).build("meta").named_parameters()})
    assert check.detail == f"{count:,} parameters: {count:,} equal to the bit"


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_rounding_to_fewer_digits_is_named_and_holds(write: Write, kind: str) -> None:
    of = tiny.variant()
    check, findings = against(write, tiny.file(of), stored_as(kind, of))
    assert findings == []
    assert f"rounded to {kind}" in check.detail


def test_more_digits_are_equal(write: Write) -> None:
    of = tiny.variant()
    rounded = stored_as("BF16", of)
    wide = File(rounded.metadata, [widened(tensor) for tensor in rounded.tensors])
    check, findings = against(write, rounded, wide)
    assert findings == []
    assert "equal" in check.detail
    assert "rounded" not in check.detail


def widened(tensor: Tensor) -> Tensor:
    if tensor.kind == 0:
        return tensor
    values = torch.frombuffer(bytearray(tensor.data), dtype=torch.bfloat16).float().numpy().reshape(tensor.shape)
    return f32(str(tensor.name), values)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_quantised_within_its_own_loss(write: Write, kind: str) -> None:
    of = tiny.variant()
    check, findings = against(write, tiny.file(of), stored_as(kind, of))
    assert findings == []
    assert f"within what {kind} loses" in check.detail
    assert "% of what it may lose in the block at" in check.notes[0]


def test_a_block_that_lost_too_much_is_placed(write: Write) -> None:
    of = tiny.variant()
    made = stored_as("Q8_0", of)
    number = next(n for n, tensor in enumerate(made.tensors) if tensor.name == UP)
    data = bytearray(made.tensors[number].data)
    row = len(data) // of.config.intermediate_size
    data[5 * row + 34 + 2 : 5 * row + 34 + 8] = b"\x7f" * 6  # six values in the second block of row 5
    made.tensors[number] = dataclasses.replace(made.tensors[number], data=bytes(data))
    _, [finding] = against(write, tiny.file(of), made)
    assert finding.code == "against.beyond-bound"
    assert finding.where == f"blocks.0.feed_forward.up.weight ({UP})"
    assert "in the block at [5, 32]" in finding.found


def test_a_scale_that_is_no_number_is_no_loss(write: Write) -> None:
    made = stored_as("Q8_0", tiny.variant())
    number = next(n for n, tensor in enumerate(made.tensors) if tensor.name == UP)
    data = bytearray(made.tensors[number].data)
    data[0:2] = b"\x00\x7e"  # the first block's scale, NaN in float16
    made.tensors[number] = dataclasses.replace(made.tensors[number], data=bytes(data))
    _, [finding] = against(write, tiny.file(), made)
    assert finding.code == "against.beyond-bound"
    assert "in the block at [0, 0]" in finding.found


def lowest_bit(values: np.ndarray) -> np.ndarray:
    changed = values.copy()
    changed.reshape(-1).view(np.int32)[5] ^= 1
    return changed


@pytest.mark.parametrize("like", tiny.representatives())
def test_one_flipped_bit_is_found_in_any_tensor(write: Write, like: str) -> None:
    """The lowest bit of one float32 in each, and nothing else."""

    def change(arrays: Arrays) -> None:
        arrays.update({name: lowest_bit(values) for name, values in arrays.items()})

    _, findings = against(write, tiny.file(tiny.variant(like)), with_arrays(change, like))
    names = {name for name, _ in tiny.variant(like).build("meta").named_parameters()}
    assert {finding.where.split(" (")[0] for finding in findings} == names
    for finding in findings:
        assert finding.code == "against.differs", finding
        assert "; 1 of " in finding.found


def test_quantised_numbers_are_dequantised_exactly(write: Write) -> None:
    """What the original's type lost once is no room for another loss."""
    of = tiny.variant()
    rough = stored_as("Q4_0", of)
    wide = File(rough.metadata, [dequantised(tensor) for tensor in rough.tensors])
    check, findings = against(write, rough, wide)
    assert findings == []
    assert "within" not in check.detail
    number = next(n for n, tensor in enumerate(wide.tensors) if tensor.name == UP)
    values = np.frombuffer(wide.tensors[number].data, "<f4").reshape(wide.tensors[number].shape)
    wide.tensors[number] = f32(UP, lowest_bit(values))
    _, [finding] = against(write, rough, wide)
    assert (finding.code, finding.found.split("; ")[1]) == ("against.differs", "1 of 6,144 differ")


def dequantised(tensor: Tensor) -> Tensor:
    if tensor.kind == 0:
        return tensor
    blocks = np.frombuffer(tensor.data, np.uint8)
    values = gguf.dequantize(blocks, gguf.GGMLQuantizationType(tensor.kind)).reshape(tensor.shape)
    return f32(str(tensor.name), values)


def test_a_copy_of_quantised_numbers_is_equal_to_the_bit(write: Write) -> None:
    """The last digit of a scale is less than the type loses, and no copy all the same."""
    made = stored_as("Q8_0", tiny.variant())
    number = next(n for n, tensor in enumerate(made.tensors) if tensor.name == UP)
    data = bytearray(made.tensors[number].data)
    data[0] ^= 1
    made.tensors[number] = dataclasses.replace(made.tensors[number], data=bytes(data))
    _, [finding] = against(write, stored_as("Q8_0", tiny.variant()), made)
    assert finding.code == "against.requantised"
    scaled = np.count_nonzero(np.frombuffer(data[2:34], np.int8))
    assert finding.found == f"{scaled} of 6,144 differ, the first at [0, 0]"


def half_split(rows: np.ndarray, width: int = 16) -> np.ndarray:
    """Adjacent pairs of each head to halves, counted by hand."""
    order = [head + at for head in range(0, len(rows), width) for at in (*range(0, width, 2), *range(1, width, 2))]
    return np.ascontiguousarray(rows[order])


def exchange(one: str, two: str) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[one], arrays[two] = arrays[two], arrays[one]

    return change


def put(name: str, make: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name] = np.ascontiguousarray(make(arrays[name]))

    return change


def one_wrong(values: np.ndarray) -> np.ndarray:
    changed = values.copy()
    changed[3, 7] += 1e-3
    return changed


@pytest.mark.parametrize(
    ("change", "codes", "words"),
    [
        (put(Q, half_split), ["against.row-order"], "rows of each head in two halves"),
        (put(K, half_split), ["against.row-order"], "rows of each head in two halves"),
        (exchange(GATE, UP), ["against.swapped", "against.swapped"], "those of blocks.0.feed_forward.up.weight"),
        (
            exchange(Q, "blk.0.attn_q.weight"),
            ["against.swapped", "against.swapped"],
            "those of blocks.1.attention.q.weight",
        ),
        (put("blk.0.attn_output.weight", np.transpose), ["against.transposed"], "exchanged"),
        (put(NORM, lambda w: w + 1), ["against.offset"], "plus one"),
        (put(NORM, lambda w: w - 1), ["against.offset"], "minus one"),
        (put(V, lambda w: -w), ["against.scaled"], "times -1"),
        (put(V, lambda w: w * np.float32(0.125)), ["against.scaled"], "times 0.125"),
        (put(V, lambda w: np.roll(w, 16, 0)), ["against.rows-permuted"], "32 rows moved, first row 0, which is row 16"),
        (put("token_embd.weight", lambda w: np.roll(w, 1, 0)), ["against.rows-permuted"], "272 rows moved"),
        (put(V, one_wrong), ["against.differs"], "1 of 2,048 differ"),
        (put(V, lambda w: w.astype(np.float16).astype(np.float32)), ["against.rounding"], "out of F16"),
        (put(V, np.zeros_like), ["against.differs"], "2,048 of 2,048 differ"),
    ],
)
def test_the_cause_is_named(write: Write, change: Callable[[Arrays], None], codes: list[str], words: str) -> None:
    check, findings = against(write, tiny.file(), with_arrays(change))
    assert check.state == "failed"
    assert [finding.code for finding in findings] == codes
    assert words in findings[0].found


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0"])
def test_causes_are_recognised_through_quantisation(write: Write, kind: str) -> None:
    made = with_arrays(put(Q, half_split))
    exchange(GATE, UP)(arrays := {str(t.name): np.frombuffer(t.data, "<f4").reshape(t.shape) for t in made.tensors})
    made.tensors = [as_type(f32(name, array), kind) for name, array in arrays.items()]
    _, findings = against(write, tiny.file(), made)
    assert sorted(finding.code for finding in findings) == [
        "against.row-order",
        "against.swapped",
        "against.swapped",
    ]


def test_double_rounding_is_no_rounding_from_the_original(write: Write) -> None:
    of = tiny.variant()
    made = tiny.file(of)
    number = next(n for n, tensor in enumerate(made.tensors) if tensor.name == V)
    values = np.frombuffer(made.tensors[number].data, "<f4").reshape(made.tensors[number].shape)
    twice = torch.from_numpy(values.copy()).bfloat16().half()
    made.tensors[number] = dataclasses.replace(made.tensors[number], data=twice.numpy().tobytes(), kind=NUMBERS["F16"])
    _, [finding] = against(write, tiny.file(of), made)
    assert finding.code == "against.rounding"
    assert finding.found == "the original's values as they come out of BF16"


def test_a_missing_tensor_and_a_foreign_setting_are_named(write: Write) -> None:
    made = tiny.file()
    made.tensors = [tensor for tensor in made.tensors if tensor.name != V]
    made.metadata = {**made.metadata, "llama.rope.freq_base": 12345.0}
    _, findings = against(write, tiny.file(), made)
    assert [finding.code for finding in findings] == ["against.setting", "against.missing"]
    assert findings[0].where == "llama.rope.freq_base (rope_theta)"
    assert findings[0].found == "12345.0"
    assert findings[1].where == "blocks.0.attention.v.weight"


def test_a_tensor_that_the_original_lacks_is_named(write: Write) -> None:
    made = tiny.file()
    made.tensors = [tensor for tensor in made.tensors if tensor.name != V]
    _, [finding] = against(write, made, tiny.file())
    assert (finding.code, finding.where, finding.found) == ("against.surplus", "blocks.0.attention.v.weight", V)


def test_tokenizers_are_compared(write: Write) -> None:
    made = tiny.file()
    tokens = list(made.metadata["tokenizer.ggml.tokens"])
    tokens[5], tokens[6] = tokens[6], tokens[5]
    made.metadata = {**made.metadata, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.bos_token_id": 0}
    check, findings = against(write, tiny.file(), made)
    assert {finding.code for finding in findings} == {"against.tokenizer"}
    assert findings[0].where == "tokenizer.ggml and tokenizer.ggml, id 5"
    assert [(f.expected, f.found) for f in findings if f.where == "beginning of text"] == [("1", "0")]
    assert "the same chat template" in check.notes[-1]


def test_another_family_is_not_comparable(write: Write) -> None:
    check, [finding] = against(write, tiny.file(), tiny.file(tiny.variant("qwen3-8b")))
    assert check.detail == "not comparable"
    assert (finding.code, finding.expected, finding.found) == ("against.family", "llama", "qwen3")


def stacks() -> list[str]:
    """Variants whose GGUF files may store experts in one tensor or apart."""
    return [
        like
        for like in tiny.representatives()
        if any(len(row.forms) > 1 for row in name_table(tiny.variant(like).family, "gguf").tensors)
    ]


@pytest.mark.parametrize("like", stacks())
def test_experts_stacked_and_apart_are_one(write: Write, like: str) -> None:
    of = tiny.variant(like)
    check, findings = against(write, tiny.file(of), tiny.file(of, form=1))
    assert findings == []
    assert "equal to the bit" in check.detail
    apart = tiny.file(of, form=1)
    names = [str(tensor.name) for tensor in apart.tensors if "ffn_up.2" in str(tensor.name)]
    index = {str(tensor.name): n for n, tensor in enumerate(apart.tensors)}
    two, three = index[names[0]], index[names[0].replace("ffn_up.2", "ffn_up.3")]
    apart.tensors[two], apart.tensors[three] = (
        dataclasses.replace(apart.tensors[three], name=apart.tensors[two].name),
        dataclasses.replace(apart.tensors[two], name=apart.tensors[three].name),
    )
    _, findings = against(write, tiny.file(of), apart)
    assert [finding.code for finding in findings] == ["against.swapped"] * 2
    assert "up.weight[3]" in findings[0].found


def test_every_parameter_stands_once() -> None:
    """The tensor names that the cases above change are those of the parameters they mean."""
    table = {row.parameter: row.stored for row in name_table("llama", "gguf").tensors}
    pattern, index = block_pattern("blocks.0.feed_forward.up.weight")
    assert table[pattern].replace("{i}", str(index)) == UP


def test_values_that_cannot_be_read_are_a_finding_of_their_tensor(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = GGUFFile.values

    def refusing(file: GGUFFile, name: str, start: int = 0, end: int | None = None) -> torch.Tensor:
        if name == V:
            raise CheckpointError("no way to read the storage type Q9", where=name)
        return read(file, name, start, end)

    monkeypatch.setattr(GGUFFile, "values", refusing)
    _, [finding] = against(write, tiny.file(), tiny.file())
    assert (finding.code, finding.where) == ("against.unreadable", V)
