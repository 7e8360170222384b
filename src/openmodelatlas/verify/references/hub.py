"""The library `transformers`, as it builds a model from a published configuration or from a GGUF file.

`options`: `table` (the family's: classes and points); `config` (as published) and `weights` under their stored names,
which the library loads as it loads a checkpoint; or `gguf`, a file to load instead; `half_split` (whether its rotated
features stand in another order than ours); `generate` (greedy tokens to add to each case, under `generated`).
"""

import hashlib
import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from openmodelatlas.verify.references.exchange import Answer, Case, Request, Values, past
from openmodelatlas.verify.references.watch import INDEX, LAYOUTS, Point, Watcher, dtype_of

transformers: Any = importlib.import_module("transformers")  # parts of it have no types

ATTENTION = "eager"
HALF_SPLIT = "queries and keys are compared through interleave_rotary_rows: it keeps half-split rows"


def answer(request: Request, _scratch: Path) -> Answer:
    """Build the model that the request describes, run its cases."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    options, shims = request["options"], []
    if "gguf" in options:
        shims.append("weights by the library's own GGUF reader, as float32")
    shims += options["table"].get("shims", [])
    if options["half_split"]:
        shims.append(HALF_SPLIT)
    model = _from_gguf(request) if "gguf" in options else build(request)
    code = Path(inspect.getfile(type(model))).read_text(encoding="utf-8")
    yardstick = {
        "name": f"transformers, {ATTENTION} attention",
        "version": transformers.__version__,
        "sha256": hashlib.sha256(code.encode()).hexdigest(),
        "shims": shims,
    }
    points = [point(node, row) for node, row in options["table"]["points"].items()]
    cases = {name: _run(model, case, request, points) for name, case in request["cases"].items()}
    return Answer(yardstick=yardstick, cases=cases)


def point(node: str, row: Mapping[str, Any]) -> Point:
    """A row of the family's table."""
    known = {"at", "call", "nth", "argument", "item", "layout", "kind"}
    if not set(row) <= known:
        raise ValueError(f"a point has unknown keys: {node}: {', '.join(sorted(set(row) - known))}")
    head, dot, rest = node.partition(".")
    return Point(
        node=f"blocks.{INDEX}{dot}{rest}" if head == "block" else node,
        path=row["at"],
        function=row.get("call"),
        nth=row.get("nth", 0),
        argument=row.get("argument"),
        layout=LAYOUTS[row.get("layout", "as_is")],
        item=row.get("item"),
        kind=row.get("kind"),
    )


def build(request: Request) -> Any:
    """The library's own loading of a checkpoint, with every stored name known to it and none missing."""
    options, dtype = request["options"], dtype_of(request["dtype"])
    classes = options["table"]["classes"]
    config = getattr(transformers, classes["config"]).from_dict(
        {**options["config"], "tie_word_embeddings": request["tied"]}
    )
    model, told = getattr(transformers, classes["model"]).from_pretrained(
        None,
        config=config,
        state_dict=dict(request["weights"]),
        dtype=dtype,
        attn_implementation=ATTENTION,
        output_loading_info=True,
        **options["table"].get("load", {}),
    )
    wrong = [f"{what}: {', '.join(sorted(map(str, names)))[:200]}" for what, names in told.items() if names]
    if wrong:
        raise ValueError("; ".join(wrong))
    if (model.get_output_embeddings().weight is model.get_input_embeddings().weight) != request["tied"]:
        raise ValueError("shared embeddings are not what was asked for")
    return model


_loaded: dict[str, Any] = {}


def _from_gguf(request: Request) -> Any:
    """The library's own reading of the file; kept, since it takes seconds."""
    path = Path(request["options"]["gguf"])
    if str(path) not in _loaded:
        _loaded.clear()
        _loaded[str(path)] = transformers.AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation=ATTENTION
        ).eval()
    return _loaded[str(path)].to(dtype_of(request["dtype"]))


def _run(model: Any, case: Case, request: Request, points: list[Point]) -> list[Values]:
    kinds = getattr(model.config, "layer_types", None) or ()
    watcher = Watcher(model, model.config.num_hidden_layers, points, case["keep"], kinds)
    cache = transformers.DynamicCache(config=model.config)
    if case["past"]:
        _fill(cache, case, request)
    made, start = [], 0
    real = (case["positions"] >= 0).long()
    for length in case["calls"]:
        part = slice(start, start + length)
        tokens, positions = case["tokens"][:, part], case["positions"][:, part].clamp(min=0)
        mask = real[:, : start + length] if not case["past"] else None
        with torch.no_grad(), watcher.watching(tokens) as values:
            logits: Tensor = model(
                tokens, attention_mask=mask, position_ids=positions, cache=cache, use_cache=True
            ).logits
        made.append({**values, "logits": logits})
        start += length
    if count := request["options"].get("generate"):
        made[-1]["generated"] = _generate(model, case, count)
    return made


def _fill(cache: Any, case: Case, request: Request) -> None:
    c, spec, batch = request["config"], case["past"], case["tokens"].shape[0]
    assert spec is not None
    for i in range(c["num_hidden_layers"]):
        heads, width = c["num_key_value_heads"], c["head_dim"]
        keys, values = past(spec, batch, heads, width, i, dtype_of(request["dtype"]))
        if request["options"]["half_split"]:  # adjacent pairs to its order
            keys = keys.reshape(*keys.shape[:-1], -1, 2).transpose(-1, -2).flatten(-2)
        cache.update(keys.transpose(1, 2), values.transpose(1, 2), i)


def _generate(model: Any, case: Case, count: int) -> Tensor:
    made: Tensor = model.generate(
        case["tokens"], max_new_tokens=count, min_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    return made[:, case["tokens"].shape[1] :]
