"""Tiny files of every kind of model: identified, accounted for, loaded; every flaw named."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from gguf_writer import File, Tensor, f32

from openmodelatlas.errors import CheckpointError
from openmodelatlas.models import variants
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.norm import ZeroCenteredRMSNorm
from openmodelatlas.records.report import Finding
from openmodelatlas.weights.identify import Identity, identify
from openmodelatlas.weights.ledger import account, metadata_findings, tensor_findings
from openmodelatlas.weights.load import load
from openmodelatlas.weights.naming import block_pattern, fill, name_table, pieces
from openmodelatlas.weights.reading.gguf import open_gguf

Write = Callable[..., Path]


KINDS = tiny.representatives()


def having(part: str) -> list[str]:
    """Variants of kinds whose blocks have a parameter of that name."""
    names = [name for name in KINDS if part in dict(tiny.variant(name).build("meta").named_parameters())]
    assert names
    return names


WITH_EXPERTS = having("blocks.0.feed_forward.router.weight")
QUERY_NORM = "blocks.0.attention.q_norm.weight"
WITH_HEAD_NORMS = [
    name
    for name in having(QUERY_NORM)
    if len(tiny.variant(name).build("meta").get_parameter(QUERY_NORM)) == tiny.SIZES["head_dim"]
]


def identified(path: Path, *own: Variant) -> Identity:
    """What the file is among everything in the atlas and the tiny models given."""
    with open_gguf(path) as file:
        pool = {f"tiny-{n}": variant for n, variant in enumerate(own)}
        return identify(file.header, candidates={**variants(), **pool})


def findings(path: Path, of: Variant) -> list[Finding]:
    with open_gguf(path) as file:
        ledger = account(file.header, of)
        return tensor_findings(ledger) + metadata_findings(ledger)


def loaded(path: Path, of: Variant, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    with open_gguf(path) as file:
        return load(file, of, account(file.header, of), dtype=dtype)


def meant(of: Variant, form: int = 0, seed: int = 0) -> dict[str, np.ndarray]:
    """The parameters that a tiny file stands for, by the definition's names. What a norm does with its weight, and not
    the name table, says what is to be taken off."""
    arrays, model = tiny.arrays(of, seed, form), of.build("meta")
    names = {row.parameter: row for row in name_table(of.family, "gguf").tensors}
    found = {}
    for parameter, tensor in model.named_parameters():
        pattern, index = block_pattern(parameter)
        forms = names[pattern].forms
        stored = pieces(forms[min(form, len(forms) - 1)], index, tensor.shape[0])
        array = np.stack([arrays[name] for name in stored]) if len(stored) > 1 else arrays[stored[0]]
        owner = model.get_submodule(parameter.rpartition(".")[0])
        found[parameter] = array - 1 if isinstance(owner, ZeroCenteredRMSNorm) else array
    return found


@pytest.mark.parametrize("name", KINDS)
def test_a_tiny_file_is_identified_accounted_for_and_loaded(write: Write, name: str) -> None:
    of = tiny.variant(name)
    made = tiny.file(of)
    made.tensors = [*made.tensors, *divisors(of)]
    path = write(made)
    assert identified(path, of).matches == ("tiny-0",)
    assert findings(path, of) == []
    model, expected = loaded(path, of), meant(of)
    assert {n: p.shape for n, p in model.named_parameters()} == {n: a.shape for n, a in expected.items()}
    wrong = [n for n, p in model.named_parameters() if not np.array_equal(p.numpy(), expected[n])]
    assert wrong == []
    tokens = torch.arange(7)[None]
    assert model(tokens, tokens).isfinite().all()


def divisors(of: Variant) -> list[Tensor]:
    """What a file stores besides parameters: by how much scaled rotation divides each frequency."""
    modules = dict(of.build("meta").named_modules())
    rows = [row for row in name_table(of.family, "gguf").constants if row.equals and row.owner in modules]
    if not rows:
        return []
    plain = modules["rope.frequencies"](torch.device("cpu"))
    return [f32(row.stored, (plain / modules["rope.scale"](plain)).numpy()) for row in rows]


@pytest.mark.parametrize("name", KINDS)
def test_every_tensor_that_is_missing_is_named(write: Write, name: str) -> None:
    of = tiny.variant(name)
    made = tiny.file(of)
    parameters = {fill_stored(of, n): n for n, _ in of.build("meta").named_parameters()}
    for tensor in made.tensors:
        rest = [t for t in made.tensors if t is not tensor]
        [finding] = [f for f in findings(write(File(made.metadata, rest)), of) if f.check == "tensors"]
        assert (finding.where, finding.found) == (parameters[str(tensor.name)], "nothing stored")


def fill_stored(of: Variant, parameter: str) -> str:
    pattern, index = block_pattern(parameter)
    [row] = [row for row in name_table(of.family, "gguf").tensors if row.parameter == pattern]
    return fill(row.stored, index)


@pytest.mark.parametrize("name", KINDS)
def test_surplus_tensors_are_named(write: Write, name: str) -> None:
    of = tiny.variant(name)
    made = tiny.file(of)
    last = of.config.num_hidden_layers
    for surplus in (
        "blk.0.attn_q.bias",
        f"blk.{last}.attn_norm.weight",
        "blk.0.attn_q_norm.bias",
        "v.patch_embd.weight",
    ):
        path = write(File(made.metadata, [*made.tensors, f32(surplus, np.ones(64))]))
        [finding] = findings(path, of)
        assert finding.where == repr(surplus)
        with pytest.raises(CheckpointError, match=surplus):
            loaded(path, of)


@pytest.mark.parametrize("name", KINDS)
def test_every_wrong_number_is_named(write: Write, name: str) -> None:
    of = tiny.variant(name)
    made = tiny.file(of)
    for key, field in name_table(of.family, "gguf").read.items():
        if not hasattr(of.config, field):
            continue
        wrong = made.metadata[key] * 2
        path = write(File({**made.metadata, key: wrong}, made.tensors))
        [finding] = findings(path, of)
        assert (finding.where, float(finding.found)) == (repr(key), pytest.approx(wrong))
        [difference] = [d for d in identified(path, of).differences if d.key == key][:1]
        assert difference.field == field


@pytest.mark.parametrize("name", KINDS)
def test_every_key_that_is_held_to_a_value_is(write: Write, name: str) -> None:
    of = tiny.variant(name)
    made, table = tiny.file(of), name_table(of.family, "gguf")
    right = dict(table.must_equal)
    for key, rule in table.conditional.items():
        right[key] = (rule.there if hasattr(of.config, rule.field) else rule.otherwise)[0]
    assert findings(write(File({**made.metadata, **right}, made.tensors)), of) == []
    for key, value in right.items():
        wrong = not value if isinstance(value, bool) else "another" if isinstance(value, str) else value + 1
        [finding] = findings(write(File({**made.metadata, key: wrong}, made.tensors)), of)
        assert (finding.where, finding.expected) == (repr(key), str(value))


# What programs that read the format take where a file says nothing, by the end of the key; and scaling by its factor.
MEANT = {"rope.freq_base": 10000.0, "rope.freq_base_swa": 10000.0, "rope.scaling.factor": 1.0}
MEANT |= {"attention.sliding_window_pattern": 6}


@pytest.mark.parametrize("name", KINDS)
def test_what_a_key_means_that_is_not_there(write: Write, name: str) -> None:
    of = tiny.variant(name)
    made, table = tiny.file(of), name_table(of.family, "gguf")
    architecture = table.must_equal["general.architecture"]
    assert dict(table.absent).items() <= {f"{architecture}.{end}": value for end, value in MEANT.items()}.items()
    for key in (key for key in table.absent if key in made.metadata):
        value, unsaid = made.metadata[key], {k: v for k, v in made.metadata.items() if k != key}
        found = findings(write(File(unsaid, made.tensors)), of)
        meant = MEANT[key.removeprefix(f"{architecture}.")]
        assert [(f.where, f.found) for f in found] == (
            [] if value == meant else [(repr(key), f"absent, which means {meant}")]
        )


@pytest.mark.parametrize("name", KINDS)
def test_every_key_that_older_files_leave_out_is_known_to_mean_something(name: str) -> None:
    of = tiny.variant(name)
    table = name_table(of.family, "gguf")
    settled = [key for key in (*table.absent, *table.derived, *table.required) if key in table.read]
    fields = {table.read[key] for key in settled} | set(table.unstated)
    stored = {"vocab_size"}  # the tensors' shapes say it
    assert {field.name for field in dataclasses.fields(of.config)} <= fields | stored


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_of_scaling_goes_with_the_factor(name: str) -> None:
    metadata = tiny.metadata(tiny.variant(name))
    said = [value for key, value in metadata.items() if key.endswith("rope.scaling.type")]
    factors = [value for key, value in metadata.items() if key.endswith("rope.scaling.factor")]
    assert said in ([], ["linear"] if factors else ["none"])
    assert said == ["linear"] or not factors


# --- gains that are stored as they are, or as their distance from one ---


ZERO_CENTRED = [
    name
    for name in KINDS
    if any(isinstance(m, ZeroCenteredRMSNorm) for m in tiny.variant(name).build("meta").modules())
]


@pytest.mark.parametrize("name", ZERO_CENTRED)
def test_gains_are_shifted_by_exactly_one_and_nothing_else_is(write: Write, name: str) -> None:
    """Fault F25: the file stores one plus the weight. The ledger says so of every norm, and of nothing else."""
    of = tiny.variant(name)
    path, arrays = write(tiny.file(of)), tiny.arrays(of)
    with open_gguf(path) as file:
        rows = account(file.header, of).rows
    shifted = {row.parameter for row in rows if row.steps == ("subtract_one",)}
    assert shifted == {n for n, p in of.build("meta").named_parameters() if p.dim() == 1}
    assert all(row.steps == () for row in rows if row.parameter not in shifted)
    parameters = dict(loaded(path, of).named_parameters())
    for row in rows:
        assert row.stored is not None
        offset = arrays[row.stored.name] - parameters[row.parameter or ""].numpy()
        assert np.allclose(offset, 1.0 if row.parameter in shifted else 0.0, rtol=0, atol=1e-7), row.parameter


@pytest.mark.parametrize("name", ZERO_CENTRED)
def test_a_file_whose_gains_are_off_by_one_differs_at_every_norm_and_only_there(write: Write, name: str) -> None:
    of = tiny.variant(name)
    made = tiny.file(of)
    right = dict(loaded(write(made, "right.gguf"), of).named_parameters())
    norms = {t.name: a for t, a in zip(made.tensors, tiny.arrays(of).values(), strict=True) if a.ndim == 1}
    made.tensors = [f32(str(t.name), norms[t.name] - 1) if t.name in norms else t for t in made.tensors]
    wrong = dict(loaded(write(made, "wrong.gguf"), of).named_parameters())
    off = {n: float((right[n] - wrong[n]).mean()) for n in right if not torch.equal(right[n], wrong[n])}
    assert set(off) == {n for n, p in right.items() if p.dim() == 1}
    assert list(off.values()) == pytest.approx([1.0] * len(off))


def test_a_shift_happens_before_rounding(write: Write) -> None:
    """In bfloat16 a gain of 1.001 is 1: what is left of it must not be."""
    of = tiny.variant(ZERO_CENTRED[0])
    made = tiny.file(of)
    gain = np.full(of.config.hidden_size, 1.001)
    made.tensors = [f32("output_norm.weight", gain) if t.name == "output_norm.weight" else t for t in made.tensors]
    weight = loaded(write(made), of, torch.bfloat16).get_parameter("norm.weight")
    assert weight.float().mean().item() == pytest.approx(0.001, rel=5e-3)


# --- norms of heads, and heads of a width of their own ---


@pytest.mark.parametrize("name", WITH_HEAD_NORMS)
def test_a_head_norm_of_another_length_is_named(write: Write, name: str) -> None:
    """Fault F28: as long as one head, the norm is taken after the split into heads; as long as all, before it."""
    of = tiny.variant(name)
    made, c = tiny.file(of), of.config
    lengths = {n: p.shape[0] for n, p in of.build("meta").named_parameters()}
    for which, heads in (("q", c.num_attention_heads), ("k", c.num_key_value_heads)):
        stored, parameter = f"blk.0.attn_{which}_norm.weight", f"blocks.0.attention.{which}_norm.weight"
        own = lengths[parameter]
        [other] = {c.head_dim, heads * c.head_dim} - {own}
        tensors = [f32(stored, np.ones(other)) if t.name == stored else t for t in made.tensors]
        [finding] = findings(write(File(made.metadata, tensors)), of)
        assert finding.where == f"{stored} ({parameter})"
        assert (finding.expected, finding.found) == (f"shape [{own}]", f"shape [{other}]")


# --- norms behind the mechanisms and none in front ---

NORMED_IN_FRONT = having("blocks.0.ffn_norm.weight")
ONLY_BEHIND = [name for name in having("blocks.0.ffn_post_norm.weight") if name not in NORMED_IN_FRONT]
IN_FRONT = {"post_attention_norm": "attn_norm", "post_ffw_norm": "ffn_norm"}


@pytest.mark.parametrize("name", ONLY_BEHIND)
def test_a_file_with_norms_in_front_is_named(write: Write, name: str) -> None:
    """Fault F27: the same number of norms of the same shapes, under the names of those that stand in front."""
    of = tiny.variant(name)
    made = tiny.file(of)
    moved = {f"blk.{i}.{old}.weight": f"blk.{i}.{new}.weight" for i in range(2) for old, new in IN_FRONT.items()}
    arrays = tiny.arrays(of)
    tensors = [f32(moved[str(t.name)], arrays[str(t.name)]) if t.name in moved else t for t in made.tensors]
    path = write(File(made.metadata, tensors))
    found = {finding.where: finding.found for finding in findings(path, of)}
    missing = {f"blocks.{i}.{norm}.weight" for i in range(2) for norm in ("attention_post_norm", "ffn_post_norm")}
    assert {where for where, what in found.items() if what == "nothing stored"} == missing
    assert set(found) - missing == {repr(new) for new in moved.values()}
    with pytest.raises(CheckpointError):
        loaded(path, of)


@pytest.mark.parametrize("name", KINDS)
def test_a_head_is_as_wide_as_is_said_and_not_as_width_over_heads(write: Write, name: str) -> None:
    """Fault F31: 40 over 4 heads would be 10; the file says 16, and its tensors are as large as that."""
    of = tiny.variant(name, hidden_size=40, head_dim=16)
    made = tiny.file(of)
    path = write(made)
    assert findings(path, of) == []
    shapes = {row.parameter: row.stored.shape for row in rows_of(path, of) if row.stored}
    assert shapes["blocks.0.attention.q.weight"] == (64, 40)
    assert shapes["blocks.0.attention.k.weight"] == (32, 40)
    assert shapes["blocks.0.attention.o.weight"] == (40, 64)
    narrow = tiny.variant(name, hidden_size=40, head_dim=10)
    assert {f.where.partition(" ")[0] for f in findings(path, narrow) if f.check == "tensors"} >= {
        f"blk.{i}.attn_{which}.weight" for i in range(2) for which in ("q", "k", "v", "output")
    }


@pytest.mark.parametrize("name", KINDS)
def test_where_no_head_width_is_said_it_is_width_over_heads(write: Write, name: str) -> None:
    of = tiny.variant(name, hidden_size=40, head_dim=16)
    made = tiny.file(of)
    read = name_table(of.family, "gguf").read
    silent = {key: value for key, value in made.metadata.items() if read.get(key) != "head_dim"}
    [finding] = findings(write(File(silent, made.tensors)), of)
    assert (finding.expected, finding.found) == ("head_dim must be 16", "absent, which means 10")
    usual = tiny.variant(name)
    made = tiny.file(usual)
    silent = {key: value for key, value in made.metadata.items() if read.get(key) != "head_dim"}
    assert findings(write(File(silent, made.tensors)), usual) == []


def rows_of(path: Path, of: Variant) -> tuple[Any, ...]:
    with open_gguf(path) as file:
        return account(file.header, of).rows


# --- experts, merged or apart, and the family that shares their architecture's name ---


@pytest.mark.parametrize("name", WITH_EXPERTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_experts_stored_apart_are_stacked(write: Write, name: str, dtype: torch.dtype) -> None:
    of = tiny.variant(name)
    path = write(tiny.file(of, form=1))
    assert identified(path, of).matches == ("tiny-0",)
    assert findings(path, of) == []
    rows = [row for row in rows_of(path, of) if row.parameter == "blocks.1.feed_forward.up.weight"]
    assert [row.stored.name for row in rows] == [f"blk.1.ffn_up.{e}.weight" for e in range(4)]
    assert {row.steps for row in rows} == {("stack_experts",)}
    expected = meant(of, form=1)
    for parameter, tensor in loaded(path, of, dtype).named_parameters():
        assert tensor.dtype == dtype
        assert torch.equal(tensor, torch.from_numpy(expected[parameter]).to(dtype)), parameter
    assert not any("stack_experts" in row.steps for row in rows_of(write(tiny.file(of)), of))


@pytest.mark.parametrize("name", WITH_EXPERTS)
def test_the_expert_that_is_missing_or_of_another_shape_is_named(write: Write, name: str) -> None:
    of = tiny.variant(name)
    made = tiny.file(of, form=1)
    stored = "blk.1.ffn_down.2.weight"
    without = [t for t in made.tensors if t.name != stored]
    [finding] = findings(write(File(made.metadata, without)), of)
    assert (finding.where, finding.found) == ("blocks.1.feed_forward.down.weight[2]", "nothing stored")
    assert finding.expected == "a tensor of shape [64, 96]"
    turned = [*without, f32(stored, np.ones((96, 64)))]
    [finding] = findings(write(File(made.metadata, turned)), of)
    assert finding.where == f"{stored} (blocks.1.feed_forward.down.weight[2])"
    one_more = f32("blk.1.ffn_down.4.weight", np.ones((64, 96)))
    [finding] = findings(write(File(made.metadata, [*made.tensors, one_more])), of)
    assert finding.where == "'blk.1.ffn_down.4.weight'"
    merged = f32("blk.1.ffn_down_exps.weight", np.ones((4, 64, 96)))
    assert len(findings(write(File(made.metadata, [*made.tensors, merged])), of)) == 4  # the four that are now surplus


def dense_like(of: Variant) -> tuple[Variant, File]:
    """A tiny model of the other family whose files say the same architecture, and its file."""
    said = name_table(of.family, "gguf").must_equal["general.architecture"]
    for name in KINDS:
        other = tiny.variant(name, rope_theta=of.config.rope_theta, rms_norm_eps=of.config.rms_norm_eps)
        table = name_table(other.family, "gguf")
        if other.family != of.family and table.must_equal["general.architecture"] == said:
            return other, tiny.file(other)
    raise AssertionError(of.family)


@pytest.mark.parametrize("name", WITH_EXPERTS)
@pytest.mark.parametrize("form", [0, 1])
def test_experts_and_none_are_told_apart_by_what_is_stored(write: Write, name: str, form: int) -> None:
    """Both files say one architecture, and both are labelled as the other."""
    of = tiny.variant(name)
    dense, dense_file = dense_like(of)
    with_experts = tiny.file(of, form=form)
    for made, own in ((with_experts, of), (dense_file, dense)):
        label = {"general.name": dense.name if own is of else name, "general.basename": "x"}
        found = identified(write(File({**made.metadata, **label}, made.tensors)), of, dense)
        assert (found.nearest.family, found.differences) == (own.family, ())
        only_settings = identified(write(File(made.metadata)), of, dense)
        assert only_settings.nearest.family == own.family


@pytest.mark.parametrize("name", WITH_EXPERTS)
def test_a_setting_that_contradicts_the_tensors_does_not_hide_what_the_file_is(write: Write, name: str) -> None:
    of = tiny.variant(name)
    dense, made = dense_like(of)
    path = write(File({**made.metadata, "llama.expert_count": 8}, made.tensors))
    assert identified(path, of, dense).nearest.family == dense.family
    [finding] = findings(path, dense)
    assert (finding.where, finding.expected, finding.found) == ("'llama.expert_count'", "0", "8")
    made = tiny.file(of)
    path = write(File({**made.metadata, "llama.expert_count": 0}, made.tensors))
    found = identified(path, of, dense)
    assert found.nearest.family == of.family
    assert [(d.field, d.expected, d.found) for d in found.differences] == [("num_local_experts", "4", "0")]
    unsaid = {key: value for key, value in made.metadata.items() if key != "llama.expert_count"}
    path = write(File(unsaid, made.tensors))
    assert identified(path, of, dense).nearest.family == of.family
    [finding] = findings(path, of)
    assert (finding.where, finding.found) == ("'llama.expert_count'", "absent")


# --- a shared table that is stored twice ---


COPIES = [
    name
    for name in KINDS
    if "unembed.weight" not in dict(tiny.variant(name).build("meta").named_parameters())
    and any(constant.copy_of for constant in name_table(tiny.variant(name).family, "gguf").constants)
]


def with_head(of: Variant, change: float = 0.0) -> File:
    made, table = tiny.file(of), tiny.arrays(of)["token_embd.weight"].copy()
    table[-1, -1] += change
    made.tensors = [*made.tensors, f32("output.weight", table)]
    return made


@pytest.mark.parametrize("name", COPIES)
def test_a_shared_table_may_be_stored_twice_if_it_is_the_same(write: Write, name: str) -> None:
    of = tiny.variant(name)
    path = write(with_head(of))
    assert identified(path, of).matches == ("tiny-0",)
    assert findings(path, of) == []
    model: Any = loaded(path, of)
    assert model.embed.weight is model.unembed.weight
    with pytest.raises(CheckpointError, match=r"output\.weight.*the values of embed\.weight, which it repeats"):
        loaded(write(with_head(of, 1e-3)), of)
    made = tiny.file(of)
    made.tensors = [*made.tensors, f32("output.weight", np.ones((3, of.config.hidden_size)))]
    with pytest.raises(CheckpointError, match=r"output\.weight"):
        loaded(write(made), of)


TIED_WITHOUT_COPIES = [
    name
    for name in KINDS
    if name not in COPIES and "unembed.weight" not in dict(tiny.variant(name).build("meta").named_parameters())
]


@pytest.mark.parametrize("name", TIED_WITHOUT_COPIES)
def test_elsewhere_a_second_table_is_an_unembedding_of_its_own(write: Write, name: str) -> None:
    """Two matrices are two matrices, though their values be the same: another model."""
    of = tiny.variant(name)
    found = identified(write(with_head(of)), of)
    assert found.matches == ()
    assert ("unembed", "absent", "stored") in {(d.field, d.expected, d.found) for d in found.differences}


def test_a_long_table_is_compared_to_its_last_row(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openmodelatlas.weights.load.ROWS_AT_ONCE", 100)
    of = tiny.variant(COPIES[0])
    loaded(write(with_head(of)), of)
    with pytest.raises(CheckpointError, match="which it repeats"):
        loaded(write(with_head(of, 1e-3)), of)


def test_quantised_copies_are_compared_as_numbers(write: Write) -> None:
    """The same table in another storage type of the same values is a copy."""
    of = tiny.variant(COPIES[0])
    made = tiny.file(of)
    table = tiny.arrays(of)["token_embd.weight"].astype(np.float16)
    half = Tensor("output.weight", table.shape, table.tobytes(), kind=1)
    whole = f32("token_embd.weight", table.astype(np.float32))
    made.tensors = [half, *(whole if t.name == whole.name else t for t in made.tensors)]
    loaded(write(made), of)


# --- schedules of blocks ---


SCHEDULED = [name for name in KINDS if name_table(tiny.variant(name).family, "gguf").schedule]


@pytest.mark.parametrize("name", SCHEDULED)
def test_a_schedule_is_one_number_or_one_value_a_block(write: Write, name: str) -> None:
    of = tiny.variant(name)
    made = tiny.file(of)
    [key] = name_table(of.family, "gguf").schedule
    blocks: Any = of.build("meta").get_submodule("blocks")
    right = ["Local" in type(block).__name__ for block in blocks]
    assert len(set(right)) == 2
    assert findings(write(File({**made.metadata, key: right}, made.tensors)), of) == []
    [finding] = findings(write(File({**made.metadata, key: right[::-1]}, made.tensors)), of)
    assert (finding.where, finding.expected, finding.found) == (repr(key), repr(right), repr(right[::-1]))
