"""The real checkpoint: the same tokens as transformers on the same file, and mutations that must break that."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from openmodelatlas.infer.cache import Session
from openmodelatlas.infer.checkpoint import Loaded, load_checkpoint
from openmodelatlas.infer.generate import generate
from openmodelatlas.models import find

pytestmark = pytest.mark.slow

PROMPT = "The capital of France is"
STORY = "Once upon a time, in a village between two rivers, there lived"


@pytest.fixture(scope="module")
def demo(demo_checkpoint: Path) -> Loaded:
    return load_checkpoint(demo_checkpoint)


@pytest.fixture(scope="module")
def theirs(demo_checkpoint: Path) -> Any:
    # As the library loads any GGUF file: to float32, with its own code for names, rows and dequantisation.
    return transformers.AutoModelForCausalLM.from_pretrained(
        demo_checkpoint.parent, gguf_file=demo_checkpoint.name, dtype=torch.float32
    ).eval()


def text(demo: Loaded, prompt: str, count: int) -> str:
    ids = demo.tokenizer.encode(prompt)
    return demo.tokenizer.decode(generate(demo.model, ids, max_tokens=count, stop=demo.tokenizer.special.eos))


def test_paris(demo: Loaded) -> None:
    assert text(demo, PROMPT, 2).startswith(" Paris")


@pytest.mark.filterwarnings("ignore")  # what the library warns of is not ours
def test_200_greedy_tokens_equal_transformers(demo: Loaded, theirs: Any) -> None:
    ids = demo.tokenizer.encode(PROMPT)
    free = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    expected = theirs.generate(torch.tensor([ids]), max_new_tokens=200, min_new_tokens=200, **free)
    assert list(generate(demo.model, ids, max_tokens=200)) == expected[0, len(ids) :].tolist()


def test_logits_equal_transformers(demo: Loaded, theirs: Any) -> None:
    ids = torch.tensor([demo.tokenizer.encode(STORY)])
    positions = torch.arange(ids.shape[1])[None]
    with torch.no_grad():
        expected, ours = theirs(ids).logits, demo.model(ids, positions)
        difference = (ours - expected).abs().max().item()
        print(f"logits differ from those of transformers by {difference:.1e}")
        assert difference < 1e-3
        changed = dataclasses.replace(demo.variant, config=dataclasses.replace(demo.variant.config, rope_theta=1e4))
        assert (moved(demo, changed)(ids, positions) - expected).abs().max() > 1e-1
        q = demo.model.get_submodule("blocks.0.attention.q").weight
        kept = q.clone()
        try:  # rows as a half-split scheme would have them
            q.copy_(kept.reshape(-1, 32, 2, 576).transpose(1, 2).reshape(576, 576))
            assert (demo.model(ids, positions) - expected).abs().max() > 1e-1
        finally:
            q.copy_(kept)


def moved(demo: Loaded, variant: Any) -> torch.nn.Module:
    """The demo's weights in another variant's definition."""
    model: torch.nn.Module = variant.build("meta", torch.float32)
    model.load_state_dict(demo.model.state_dict(), assign=True)
    return model


def test_cached_logits_of_the_real_model(demo: Loaded) -> None:
    ids = demo.tokenizer.encode(STORY)
    ids += list(generate(demo.model, ids, max_tokens=160))
    session = Session(demo.model, 1, len(ids))
    steps = [session.advance(torch.tensor([[token]]), torch.tensor([[t]])) for t, token in enumerate(ids)]
    with torch.no_grad():
        whole = demo.model(torch.tensor([ids]), torch.arange(len(ids))[None])
    difference = (torch.cat(steps, 1) - whole).abs().max().item()
    print(f"cached and uncached logits of {len(ids)} positions differ by {difference:.1e}")
    assert difference < 2e-4
    assert torch.equal(torch.cat(steps, 1).argmax(-1), whole.argmax(-1))


def test_the_demo_is_the_catalogued_model(demo: Loaded) -> None:
    assert demo.variant.name == "smollm2-135m"
    assert demo.ledger.parameters == 134_515_008 == sum(p.numel() for p in demo.model.parameters())
    assert demo.variant.config == find("smollm2-135m").config
