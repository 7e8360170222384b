"""Generation: the cache changes nothing but the time, and neither does padding or the size of a chunk."""

import copy
from pathlib import Path

import pytest
import tiny
import torch

from openmodelatlas.errors import CheckpointError, InputError, NotACheckpoint
from openmodelatlas.infer.cache import Session, left_padded
from openmodelatlas.infer.checkpoint import Loaded, load_checkpoint
from openmodelatlas.infer.fuse import fuse
from openmodelatlas.infer.generate import generate
from openmodelatlas.models.variant import Variant
from openmodelatlas.text.tokenizer import Tokenizer

STEPS = 200
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-11}


@pytest.fixture(scope="module", params=list(TOLERANCE), ids=str)
def loaded(request: pytest.FixtureRequest, tiny_checkpoint: Path) -> Loaded:
    return load_checkpoint(tiny_checkpoint, dtype=request.param, variant=tiny.variant())


def tolerance(loaded: Loaded) -> float:
    return TOLERANCE[next(loaded.model.parameters()).dtype]


def tokens(rows: int, columns: int, seed: int = 5) -> torch.Tensor:
    return torch.randint(0, tiny.VOCAB, (rows, columns), generator=torch.Generator().manual_seed(seed))


def whole(loaded: Loaded, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = loaded.model(ids, torch.arange(ids.shape[1]).expand_as(ids))
    return logits


def test_cached_steps_equal_the_whole(loaded: Loaded) -> None:
    ids = tokens(2, STEPS)
    expected = whole(loaded, ids)
    session = Session(loaded.model, 2, STEPS)
    steps = [session.advance(ids[:, t : t + 1], torch.full((2, 1), t)) for t in range(STEPS)]
    assert (torch.cat(steps, 1) - expected).abs().max() < tolerance(loaded)


@pytest.mark.parametrize("chunk", [1, 7, 64, 199])
def test_chunks_equal_the_whole(loaded: Loaded, chunk: int) -> None:
    ids = tokens(1, STEPS)
    session, parts = Session(loaded.model, 1, STEPS), []
    for start in range(0, STEPS, chunk):
        part = ids[:, start : start + chunk]
        parts.append(session.advance(part, torch.arange(start, start + part.shape[1])[None]))
    assert (torch.cat(parts, 1) - whole(loaded, ids)).abs().max() < tolerance(loaded)


def test_left_padded_rows_equal_rows_alone(loaded: Loaded) -> None:
    rows = [tokens(1, n, seed=n)[0].tolist() for n in (3, 17, 40)]
    ids, positions = left_padded(rows)
    session = Session(loaded.model, 3, 60)
    batch = [session.advance(ids, positions)]
    more = tokens(3, 20, seed=9)
    for t in range(20):
        batch.append(session.advance(more[:, t : t + 1], torch.tensor([[len(row) + t] for row in rows])))
    logits = torch.cat(batch, 1)
    assert logits.isfinite().all()
    for i, row in enumerate(rows):
        alone = whole(loaded, torch.tensor([row + more[i].tolist()]))
        assert (logits[i, 40 - len(row) :] - alone[0]).abs().max() < tolerance(loaded)


def greedy_without_cache(loaded: Loaded, prompt: list[int], count: int) -> list[int]:
    ids = list(prompt)
    for _ in range(count):
        ids.append(int(whole(loaded, torch.tensor([ids]))[0, -1].argmax()))
    return ids[len(prompt) :]


def test_greedy_tokens_equal_those_without_a_cache(loaded: Loaded) -> None:
    prompt = tokens(1, 20)[0].tolist()
    found = list(generate(loaded.model, prompt, max_tokens=160, chunk=8))
    assert found == greedy_without_cache(loaded, prompt, 160)


def test_fused_attention_equals_the_explicit_one(loaded: Loaded) -> None:
    fused = copy.deepcopy(loaded.model)
    paths = [path for path, _ in loaded.model.named_modules() if ".attend." not in path]
    assert fuse(fused) == 2
    assert [path for path, _ in fused.named_modules()] == paths
    ids, positions = left_padded([tokens(1, n, seed=n)[0].tolist() for n in (3, 17, 40)])
    with torch.no_grad():
        difference = (fused(ids, positions) - loaded.model(ids, positions)).abs()[positions >= 0].max()
    assert difference < tolerance(loaded)
    prompt = tokens(1, 20)[0].tolist()
    expected = list(generate(loaded.model, prompt, max_tokens=160))
    assert list(generate(fused, prompt, max_tokens=160)) == expected


def test_a_session_refuses_more_than_its_room(loaded: Loaded) -> None:
    session = Session(loaded.model, 1, 4)
    session.advance(tokens(1, 3), torch.arange(3)[None])
    with pytest.raises(InputError, match="cache is full; expected at most 4 positions, found 5"):
        session.advance(tokens(1, 2), torch.arange(3, 5)[None])


@pytest.fixture(scope="module")
def model(tiny_checkpoint: Path) -> torch.nn.Module:
    return load_checkpoint(tiny_checkpoint, variant=tiny.variant()).model


def test_it_ends_at_a_stop_token_which_is_not_given_out(model: torch.nn.Module) -> None:
    free = list(generate(model, [5, 6, 7], max_tokens=30))
    stop = free[10]
    assert list(generate(model, [5, 6, 7], max_tokens=30, stop={stop})) == free[: free.index(stop)]


def test_it_ends_where_the_context_ends(model: torch.nn.Module) -> None:
    assert len(list(generate(model, [5] * 250, max_tokens=100))) == 6
    assert list(generate(model, [5] * 256, max_tokens=100)) == []


def test_max_tokens(model: torch.nn.Module) -> None:
    assert list(generate(model, [5], max_tokens=0)) == []
    assert len(list(generate(model, [5], max_tokens=3))) == 3


def test_the_same_seed_draws_the_same_tokens(model: torch.nn.Module) -> None:
    def drawn(seed: int, temperature: float = 1.0) -> list[int]:
        return list(generate(model, [5, 6, 7], max_tokens=25, temperature=temperature, seed=seed))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(1, 1e-6) == list(generate(model, [5, 6, 7], max_tokens=25))
    assert drawn(1, 5e-324) == drawn(1, 1e-6)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_scores_that_are_no_numbers_end_the_run(model: torch.nn.Module, temperature: float) -> None:
    spoilt = copy.deepcopy(model)
    with torch.no_grad():
        spoilt.norm.weight[3] = torch.nan
    with pytest.raises(CheckpointError, match="scores of the next token are not finite; `oma verify`"):
        list(generate(spoilt, [5, 6, 7], max_tokens=3, temperature=temperature))


@pytest.mark.parametrize(
    ("prompt", "options", "reason"),
    [
        ([], {}, "empty prompt"),
        ([5] * 257, {}, "prompt longer than the context; expected at most 256 tokens, found 257"),
        ([tiny.VOCAB], {}, "outside the vocabulary"),
        ([-1], {}, "outside the vocabulary"),
        ([5], {"max_tokens": -1}, "negative"),
        ([5], {"temperature": -0.1}, "temperature"),
        ([5], {"temperature": float("nan")}, "temperature"),
    ],
)
def test_what_cannot_be_run(model: torch.nn.Module, prompt: list[int], options: dict[str, float], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        list(generate(model, prompt, **({"max_tokens": 1} | options)))


def test_no_grad_mode_leaks_out_of_the_generator(model: torch.nn.Module) -> None:
    steps = generate(model, [5], max_tokens=3)
    next(steps)
    assert torch.is_grad_enabled()


def test_a_checkpoint_that_is_no_model_of_the_atlas(tiny_checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no model of the atlas; the nearest is .*, whose .* differs"):
        load_checkpoint(tiny_checkpoint)
    with pytest.raises(NotACheckpoint, match="no such file"):
        load_checkpoint(tmp_path / "none")


def test_what_cannot_be_run_is_refused_before_any_tensor_is_read(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openmodelatlas.infer.checkpoint.load", lambda *_, **__: pytest.fail("read"))

    def refuse(tokenizer: Tokenizer, variant: Variant) -> None:
        raise InputError(f"{tokenizer.vocab_size} {variant.config.vocab_size}")

    size = tiny.variant().config.vocab_size
    with pytest.raises(InputError, match=f"{size} {size}"):
        load_checkpoint(tiny_checkpoint, variant=tiny.variant(), ready=refuse)
