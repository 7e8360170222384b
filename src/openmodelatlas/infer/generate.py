"""Tokens one after another."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas.errors import CheckpointError, InputError
from openmodelatlas.infer.cache import Session

CHUNK = 512  # prompt positions a call: bounds the T × S scores of a long prompt


def generate(
    model: nn.Module,
    prompt: Sequence[int],
    *,
    max_tokens: int,
    temperature: float = 0.0,
    seed: int = 0,
    stop: Collection[int] = (),
    chunk: int = CHUNK,
) -> Iterator[int]:
    """Yield the tokens that follow `prompt`, until one of `stop` (not yielded), `max_tokens`, or the context is full
    (every token yielded has a position in it).

    Temperature 0 takes the likeliest token; above it tokens are drawn with `seed`, the same ones for the same seed on
    the same machine. InputError, at the first `next`, for what cannot be run; CheckpointError where the model's scores
    are no numbers."""
    config: Any = model.config
    check_prompt(prompt, config.max_position_embeddings, config.vocab_size)
    if max_tokens < 0:
        raise InputError("negative number of tokens", where="max_tokens", found=max_tokens)
    if not 0.0 <= temperature < float("inf"):
        raise InputError("temperature out of range", expected="0 or more", found=temperature)
    device = next(model.parameters()).device
    last = min(len(prompt) + max_tokens, config.max_position_embeddings)
    session = Session(model, 1, last)
    drawn = torch.Generator().manual_seed(seed)
    tokens = torch.tensor([list(prompt)], device=device)
    logits = _read_prompt(session, tokens, chunk)
    for position in range(len(prompt), last):
        token = _choose(logits[0, -1], temperature, drawn)
        if token in stop:
            return
        yield token
        if position + 1 == last:
            return
        logits = session.advance(torch.tensor([[token]], device=device), torch.tensor([[position]], device=device))


def check_prompt(prompt: Sequence[int], context: int, vocabulary: int) -> None:
    """InputError for a prompt that is empty, longer than the context, or has a token outside the vocabulary."""
    if not prompt:
        raise InputError("empty prompt", fix="give at least one token of text")
    if len(prompt) > context:
        raise InputError("prompt longer than the context", expected=f"at most {context} tokens", found=len(prompt))
    if not all(0 <= token < vocabulary for token in prompt):
        raise InputError("token outside the vocabulary", expected=f"0 to {vocabulary - 1}")


def _read_prompt(session: Session, tokens: Tensor, chunk: int) -> Tensor:
    positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
    logits = tokens.new_empty(0)
    for start in range(0, tokens.shape[1], chunk):
        part = slice(start, start + chunk)
        logits = session.advance(tokens[:, part], positions[:, part])
    return logits


def _choose(logits: Tensor, temperature: float, drawn: torch.Generator) -> int:
    if not logits.isfinite().all():
        raise CheckpointError(
            "the scores of the next token are not finite", fix="`oma verify` finds weights that are no numbers"
        )
    if temperature == 0.0:
        return int(logits.argmax())
    # On the CPU, so that a seed means the same on every device.
    scores = logits.cpu().double()
    weights = ((scores - scores.max()) / temperature).softmax(-1)  # the best is 0: no temperature makes it infinite
    return int(torch.multinomial(weights, 1, generator=drawn))
