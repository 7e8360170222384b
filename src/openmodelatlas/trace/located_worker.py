"""The process in which a reference runs: `python -m openmodelatlas.trace.located_worker REQUEST RESULT`.

The request is JSON; the answer is written by `torch.save`, since what a reference prints is its own affair, or is an
error's parts. A request locates a model's nodes, calls functions of the file, asks for its rotary angles, or has it
make a model of a variant's full size without storage.
"""

import hashlib
import json
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas.errors import AtlasError, UsageError
from openmodelatlas.models import find, tied
from openmodelatlas.models.variant import Variant
from openmodelatlas.trace import located_run, located_stored
from openmodelatlas.trace.located_build import MULTIPLE, Built, arguments, build, configs, configured, loaded
from openmodelatlas.trace.located_load import load
from openmodelatlas.trace.located_match import Match, match
from openmodelatlas.trace.located_run import BATCH, BEFORE, NEW, TINY
from openmodelatlas.trace.located_watch import Watcher
from openmodelatlas.trace.regions import kinds

PLAIN = "compute_default_rope_parameters"
"""The function by which a library's rotary classes make frequencies that nothing scales."""


def main(request: Path, result: Path) -> None:
    """Answer one request."""
    asked = json.loads(request.read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    path = Path(asked["reference"])
    try:
        if "calls" in asked:
            with torch.device(asked["device"]):
                answer = call(path, asked["replace"], asked["calls"])
        elif "angles" in asked:
            answer = angles(find(asked["angles"]), path)
        elif "sizes" in asked:
            answer = sizes(find(asked["sizes"]), path)
        else:
            answer = locate(find(asked["model"]), path, asked["replace"], asked["beside"])
    except AtlasError as error:
        answer = {"error": {k: v if v is None else str(v) for k, v in vars(error).items()}}
    torch.save({"sha256": hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "", **answer}, result)


# --- functions --------------------------------------------------------------------------------------------------------


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
    return {"shims": list(shims), "results": [_answer(r) for r in results]}


def _answer(result: Any) -> Any:
    if isinstance(result, nn.Module):
        return {name: list(p.shape) for name, p in result.named_parameters()}
    return result if isinstance(result, (Tensor, int, float, str, list, tuple)) else None


def _argument(value: Any, results: list[Any]) -> Any:
    if isinstance(value, dict):
        return results[value["result"]] if "result" in value else torch.tensor(value["float32"], dtype=torch.float32)
    return value


# --- full size --------------------------------------------------------------------------------------------------------


def _configured(module: types.ModuleType, variant: Variant) -> Any:
    """The library's own configuration object with the variant's numbers, as a published file would give them."""
    for kind in configs(module, "huggingface", variant):
        return configured(kind, arguments(kind, "huggingface", variant, {}))
    raise UsageError("the file has no configuration class of this family", where=module.__name__)


def angles(variant: Variant, path: Path) -> dict[str, Any]:
    """Frequencies and tables of the file's rotary class, one for each kind of block that it tells apart, for every
    position that the configuration takes: `plain` before any scaling, `used`, `cos` and `sin`."""
    module, shims = load(path)
    kinds = [k for k in vars(module).values() if isinstance(k, type) and hasattr(k, PLAIN)]
    if not kinds:
        raise UsageError("the file has no rotary class of this kind", where=str(path), expected=PLAIN)
    config = _configured(module, variant)
    rotary: Any = kinds[0](config)
    kept = dict(rotary.named_buffers())
    positions = torch.arange(variant.config.max_position_embeddings)[None]
    found = []
    for kind in sorted(rotary.rope_type) if isinstance(rotary.rope_type, dict) else [None]:
        more = {} if kind is None else {"layer_type": kind}
        with torch.no_grad():
            cos, sin = rotary(torch.zeros(1), positions, **more)
        half = cos.shape[-1] // 2
        found.append(
            {
                "kind": kind or "",
                "plain": getattr(kinds[0], PLAIN)(config, **more)[0],
                "used": kept["inv_freq" if kind is None else f"{kind}_inv_freq"],
                "cos": cos[0, :, :half].clone(),
                "sin": sin[0, :, :half].clone(),
            }
        )
    return {"shims": list(shims), "class": kinds[0].__name__, "angles": found}


def sizes(variant: Variant, path: Path) -> dict[str, Any]:
    """What the library says of the variant's full-size tensors, all without storage, when it makes a model of them:
    which it misses, does not know, or has in another shape; and how many numbers that model has."""
    module, shims = load(path)
    name = located_stored.settings(variant, "huggingface")["architectures"][0]
    kind = getattr(module, name, None)
    if kind is None:
        raise UsageError("the file has no class of that name", where=str(path), expected=name)
    answer: dict[str, Any] = {"shims": list(shims), "class": name, "wrong": [], "total": 0}
    answer["tensors"] = len(located_stored.places(variant, "huggingface"))
    try:
        made, answer["wrong"] = loaded(
            kind, _configured(module, variant), variant.build("meta"), variant, torch.device("meta")
        )
        answer["total"] = sum(p.numel() for p in made.parameters())
    except RuntimeError as error:  # a tensor of a shape that its conversion cannot take
        answer["wrong"] = [str(error).strip().splitlines()[0]]
    return answer


# --- lines ------------------------------------------------------------------------------------------------------------


def locate(variant: Variant, path: Path, replace: dict[str, str], beside: Sequence[str]) -> dict[str, Any]:
    """Run both, match every value with the lines of the file, and with those of files that it calls."""
    torch.manual_seed(0)
    watcher = Watcher(str(path.resolve()), [str(Path(other).resolve()) for other in beside])

    def watched(make: Callable[[], nn.Module]) -> nn.Module:
        with watcher.watching():
            return make().eval()

    settings = {"batch": BATCH, "slots": BEFORE + NEW, "multiple": MULTIPLE}
    built = build(path, located_run.twin(variant), settings, located_run.filled, watched, replace)
    tokens = torch.randint(0, TINY["vocab_size"], (BATCH, BEFORE + NEW))
    theirs, start = located_run.run_reference(built.theirs, tokens, watcher)
    values = located_run.run_ours(built.ours, built.variant, tokens, start)
    logits, rows = values[-1].value, range(start, BEFORE + NEW)
    if theirs.shape != logits.shape:
        raise UsageError("the model returns scores of another shape", where=str(path), found=list(theirs.shape))
    by_file = {p: [e for e in watcher.entries if e.path == p] for p in (watcher.path, *watcher.beside)}
    found, missing = match(values, by_file.pop(watcher.path), rows)
    elsewhere = {p: match(values, entries, rows)[0] for p, entries in by_file.items()}
    return {
        **_facts(built),
        "logits": float((theirs.double() - logits.double()).abs().max() / logits.abs().max()),
        "positions": NEW,
        "recorded": len(watcher.entries),
        "matches": [plain(m) for m in found],
        "elsewhere": {given: [plain(m) for m in elsewhere[str(Path(given).resolve())]] for given in beside},
        "missing": [[h.path, h.port] for h in missing],
    }


def _facts(built: Built) -> dict[str, Any]:
    names = list(built.theirs.named_parameters(remove_duplicate=False))
    shared = len(names) - len({id(p) for _, p in names})
    return {
        "shims": list(built.shims),
        "scheme": built.scheme,
        "shared": shared,
        "tied": tied(built.variant),
        "blocks": list(kinds(built.ours)),
    }


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


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
