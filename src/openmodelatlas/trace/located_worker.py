"""The process in which a reference runs: `python -m openmodelatlas.trace.located_worker REQUEST RESULT`.

The request is JSON; the answer is written by `torch.save`, since what a reference prints is its own affair. An error is
answered as its parts. A request either locates a model's nodes, or calls functions of the file.
"""

import dataclasses
import hashlib
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas.errors import AtlasError, UsageError
from openmodelatlas.models import find
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.cache import BlockCache, Cache
from openmodelatlas.trace.located_load import MULTIPLE, Reference, build, copy_weights, load
from openmodelatlas.trace.located_match import Match, match
from openmodelatlas.trace.located_watch import Handed, Watcher, handed

TINY = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 97,
    "intermediate_size": 128,
}
BATCH, BEFORE, NEW = 2, 3, 5
"""A call of 5 new positions after 3 that lie in the cache, so that no two values have to be equal."""


def main(request: Path, result: Path) -> None:
    """Answer one request."""
    asked = json.loads(request.read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    path = Path(asked["reference"])
    try:
        if "calls" in asked:
            with torch.device(asked["device"]):
                answer = call(path, asked["replace"], asked["calls"])
        else:
            answer = locate(asked["model"], path, asked["replace"])
    except AtlasError as error:
        answer = {"error": {k: v if v is None else str(v) for k, v in vars(error).items()}}
    torch.save(answer, result)


def call(path: Path, replace: dict[str, str], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The results of functions of the file; an argument `{"result": n}` is what call n gave. Arguments by name are a
    dict. A module that is built is answered as its parameters' shapes, any other object as nothing."""
    module, shims = load(path, replace)
    results: list[Any] = []
    for wanted in calls:
        function = getattr(module, wanted["function"], None)
        if function is None:
            raise UsageError("the file has no such function", where=str(path), found=wanted["function"])
        given = wanted["args"]
        if isinstance(given, dict):
            results.append(function(**given))
        else:
            results.append(function(*(_argument(a, results) for a in given)))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"sha256": digest, "shims": list(shims), "results": [_answer(r) for r in results]}


def _answer(result: Any) -> Any:
    if isinstance(result, nn.Module):
        return {name: list(p.shape) for name, p in result.named_parameters()}
    return result if isinstance(result, (Tensor, int, float, str, list, tuple)) else None


def _argument(value: Any, results: list[Any]) -> Any:
    if isinstance(value, dict):
        return results[value["result"]] if "result" in value else torch.tensor(value["float32"], dtype=torch.float32)
    return value


def locate(name: str, path: Path, replace: dict[str, str]) -> dict[str, Any]:
    """Run both, match every value."""
    torch.manual_seed(0)
    variant = twin(find(name))
    watcher = Watcher(str(path.resolve()))

    def watched(make: Callable[[], nn.Module]) -> nn.Module:
        with watcher.watching():
            return make().eval()

    settings = {"batch": BATCH, "slots": BEFORE + NEW, "multiple": MULTIPLE}
    reference = build(path, variant, settings, watched, replace)
    width = dict(reference.model.named_parameters())[reference.parameters["blocks.0.feed_forward.gate.weight"]].shape[0]
    variant = dataclasses.replace(variant, config=dataclasses.replace(variant.config, intermediate_size=width))
    ours = filled(variant)
    copy_weights(ours, reference, variant)
    tokens = torch.randint(0, TINY["vocab_size"], (BATCH, BEFORE + NEW))
    theirs, start = run_reference(reference, tokens, watcher)
    values = run_ours(ours, variant, tokens, start)
    found, missing = match(values, watcher.entries, range(start, BEFORE + NEW))
    logits = values[-1].value
    if theirs.shape != logits.shape:
        raise UsageError("the model returns scores of another shape", where=str(path), found=list(theirs.shape))
    return {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "shims": list(reference.shims),
        "scheme": reference.scheme,
        "shared": shared(reference.model),
        "logits": float((theirs.double() - logits.double()).abs().max() / logits.abs().max()),
        "positions": NEW,
        "recorded": len(watcher.entries),
        "matches": [plain(m) for m in found],
        "missing": list(dict.fromkeys(h.path for h in missing)),
    }


def shared(model: nn.Module) -> int:
    """How many names the reference's parameters have beyond one each."""
    names = list(model.named_parameters(remove_duplicate=False))
    return len(names) - len({id(p) for _, p in names})


def plain(found: Match) -> dict[str, Any]:
    """What leaves the process: no values."""
    return {
        "path": found.handed.path,
        "port": found.handed.port,
        "moves": found.handed.moves,
        "lines": found.lines,
        "called": found.called,
        "others": found.others,
        "distance": found.distance,
    }


def twin(variant: Variant) -> Variant:
    """The variant at tiny sizes: structure and every other number kept."""
    return dataclasses.replace(variant, config=dataclasses.replace(variant.config, **TINY))


def filled(variant: Variant) -> nn.Module:
    """Random weights of a size at which every op matters; gains random too, so that a gain is not the identity."""
    model = variant.build("cpu", torch.float32)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            if parameter.dim() == 1:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(std=0.5 if name == "embed.weight" else 1.5 / parameter.shape[1] ** 0.5)
    return model


def run_reference(reference: Reference, tokens: Tensor, watcher: Watcher) -> tuple[Tensor, int]:
    """The reference's logits of the new positions, and where they start: 0 where it cannot be called in two steps."""
    parameters = inspect.signature(reference.model.forward).parameters
    with torch.no_grad():
        try:
            if "start_pos" in parameters:
                reference.model(tokens[:, :BEFORE], 0)
                with watcher.watching():
                    out = reference.model(tokens[:, BEFORE:], BEFORE)
                return logits_of(out), BEFORE
            with watcher.watching():
                out = reference.model(tokens)
            return logits_of(out), 0
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            raise UsageError("the model cannot be called", where=reference.path, found=found) from error


def logits_of(out: Any) -> Tensor:
    """The scores in whatever a model returns."""
    for value in (out, getattr(out, "logits", None), *(out if isinstance(out, tuple) else ())):
        if isinstance(value, Tensor):
            return value
    raise UsageError("the model returns no tensor", found=type(out).__name__)


def run_ours(model: nn.Module, variant: Variant, tokens: Tensor, start: int) -> list[Handed]:
    """Our values of the call that the reference was watched in."""
    positions = torch.arange(tokens.shape[1]).expand(len(tokens), -1)
    if not start:
        return handed(model, tokens, positions)
    shape = (len(tokens), tokens.shape[1], variant.config.num_key_value_heads, variant.config.head_dim)
    blocks = tuple(BlockCache(torch.zeros(shape), torch.zeros(shape)) for _ in range(variant.config.num_hidden_layers))
    stored = torch.full(tokens.shape, -1)
    stored[:, :start] = positions[:, :start]
    with torch.no_grad():
        model(tokens[:, :start], positions[:, :start], Cache(torch.arange(start), stored, blocks))
    stored = positions.clone()
    slots = torch.arange(start, tokens.shape[1])
    return handed(model, tokens[:, start:], positions[:, start:], Cache(slots, stored, blocks))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
