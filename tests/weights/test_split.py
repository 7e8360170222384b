"""Shares of a model that was saved from several devices: merged by named rules, bit for bit, and every flaw named."""

from collections.abc import Callable
from pathlib import Path

import made_checkpoints as made
import pytest
import tiny
import torch
from torch import Tensor

from openmodelatlas.verify.checkpoint import verify
from openmodelatlas.weights.open import open_checkpoint

OF = tiny.variant("llama-3-8b")
Shares = list[dict[str, Tensor]]


def shares(path: Path, ranks: int) -> Shares:
    made.meta_folder(path, OF, ranks=ranks)
    return [torch.load(path / f"consolidated.{number:02}.pth") for number in range(ranks)]


def rewrite(path: Path, changed: Shares) -> Path:
    for number, share in enumerate(changed):
        torch.save(share, path / f"consolidated.{number:02}.pth")
    return path


def codes(path: Path, *, values: bool = False) -> dict[str, str]:
    """What is found of how the shares stand together."""
    report = verify(path, values=values).report
    return {flaw.code: flaw.where for flaw in report.findings if flaw.code.startswith("files.share")}


@pytest.mark.parametrize("ranks", [2, 4])
def test_shares_are_the_whole_bit_for_bit(tmp_path: Path, ranks: int) -> None:
    """With four, a share has half a key head."""
    shares(tmp_path, ranks)
    whole = made.tensors(OF, "meta", dtype=torch.bfloat16)
    with open_checkpoint(tmp_path) as opened:
        assert {tensor.name: tensor.shape for tensor in opened.header.tensors} == {
            name: tuple(weight.shape) for name, weight in whole.items()
        }
        for name, weight in whole.items():
            assert torch.equal(opened.values(name).view(torch.int16), weight.view(torch.int16))
            assert torch.equal(opened.values(name, 3, 61), weight[3:61])
        assert opened.by_values() == []
        wq = next(tensor for tensor in opened.header.tensors if tensor.name == "layers.0.attention.wq.weight")
        assert len(wq.parts) == ranks
        assert wq.bytes == 2 * 64 * 64


def test_a_table_of_tokens_may_be_split_by_columns(tmp_path: Path) -> None:
    """As the second generation's was; which it is shows in the shapes."""
    split = shares(tmp_path, 2)
    whole = made.tensors(OF, "meta", dtype=torch.bfloat16)["tok_embeddings.weight"]
    for share, part in zip(split, whole.chunk(2, 1), strict=True):
        share["tok_embeddings.weight"] = part.contiguous().clone()
    with open_checkpoint(rewrite(tmp_path, split)) as opened:
        assert torch.equal(opened.values("tok_embeddings.weight"), whole)
        assert torch.equal(opened.values("tok_embeddings.weight", 5, 9), whole[5:9])


def test_merged_shares_hold(tmp_path: Path) -> None:
    shares(tmp_path, 2)
    report = verify(tmp_path, values=True).report
    assert {flaw.code for flaw in report.findings} <= {"model.differs", "files.no-tokenizer", "tokenizer.missing"}
    assert report.counts["stored"] == report.counts["total"]


def corrupt(split: Shares) -> None:
    split[1]["norm.weight"][7] += 1


def lose(split: Shares) -> None:
    del split[1]["layers.1.attention.wk.weight"]


def shorten(split: Shares) -> None:
    split[1]["layers.0.attention.wo.weight"] = split[1]["layers.0.attention.wo.weight"][:, :-4].clone()


def widen(split: Shares) -> None:
    split[0]["norm.weight"] = split[0]["norm.weight"].float()


@pytest.mark.parametrize(
    ("change", "code", "where"),
    [
        (corrupt, "files.share-copy", "'norm.weight'"),
        (lose, "files.share-incomplete", "'layers.1.attention.wk.weight'"),
        (shorten, "files.share-shape", "'layers.0.attention.wo.weight'"),
        (widen, "files.share-type", "'norm.weight'"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, change: Callable[[Shares], None], code: str, where: str) -> None:
    split = shares(tmp_path, 2)
    change(split)
    rewrite(tmp_path, split)
    assert codes(tmp_path, values=True) == {code: where}
    assert bool(codes(tmp_path)) == (code != "files.share-copy")  # only values tell copies apart


def test_equal_copies_that_are_not_numbers_are_equal(tmp_path: Path) -> None:
    split = shares(tmp_path, 2)
    for share in split:
        share["norm.weight"][3] = float("nan")
    rewrite(tmp_path, split)
    assert codes(tmp_path, values=True) == {}


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("stated", [{}, {"norm_eps": 3e-6}], ids=["in the atlas", "not in the atlas"])
def test_a_share_alone_is_told_from_a_smaller_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int, stated: dict[str, float]
) -> None:
    """No file name tells that others are absent; every matrix shows it."""
    monkeypatch.setattr("openmodelatlas.weights.identify.variants", lambda: {"tiny": OF})
    made.meta_folder(tmp_path, OF, ranks=ranks)
    for number in range(1, ranks):
        (tmp_path / f"consolidated.{number:02}.pth").unlink()
    made.write_json(tmp_path / "params.json", made.settings(OF, "meta") | stated)
    found = {flaw.code: flaw for flaw in verify(tmp_path).report.findings if not flaw.code.startswith("model.")}
    flaw = found.pop("tensors.shares-absent")
    assert (flaw.expected, flaw.found) == (f"{ranks} shares", "1, with parts of 16 tensors")
    assert "configuration.shapes" not in found
    assert "tensors.shape" not in found


def test_a_model_of_half_the_size_is_no_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the heads, half the inner width and half the vocabulary of another model: its own settings say so."""
    monkeypatch.setattr("openmodelatlas.weights.identify.variants", lambda: {"tiny": OF})
    halves = {"num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 48, "vocab_size": 136}
    made.meta_folder(tmp_path, tiny.variant("llama-3-8b", **halves))
    found = {flaw.code for flaw in verify(tmp_path).report.findings}
    assert "tensors.shares-absent" not in found
    assert "parameters.count" not in found


def test_beside_a_share_that_cannot_be_read_the_others_keep_their_names(tmp_path: Path) -> None:
    shares(tmp_path, 2)
    (tmp_path / "consolidated.01.pth").write_bytes(b"PK" + b"x" * 500)
    found = {flaw.code for flaw in verify(tmp_path).report.findings}
    assert "files.unknown-format" in found
    assert "tensors.names" not in found
