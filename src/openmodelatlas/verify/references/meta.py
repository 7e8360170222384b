"""Meta's own code, from its text: the file of the package `llama-models`, or the older one of `meta-llama/llama3`.

`options`: `model` and `args` (source text; no `args` for the older file, which defines its own), `name`, `version`.
"""

import hashlib
import re
import sys
import types
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas.verify.references import fairscale_shims
from openmodelatlas.verify.references.exchange import Answer, Case, Request, Values, past
from openmodelatlas.verify.references.watch import Point, Watcher, dtype_of, heads_first, keys_transposed

BLOCK, ATTENTION, FEED = "layers.{i}", "layers.{i}.attention", "layers.{i}.feed_forward"
OUR = "blocks.{i}"
POINTS = (
    Point("embed", "tok_embeddings"),
    Point(f"{OUR}.attention_norm", f"{BLOCK}.attention_norm"),
    Point(f"{OUR}.attention.q", f"{ATTENTION}.wq"),
    Point(f"{OUR}.attention.k", f"{ATTENTION}.wk"),
    Point(f"{OUR}.attention.v", f"{ATTENTION}.wv"),
    Point(f"{OUR}.attention.q_rotate", ATTENTION, "type_as", 0),
    Point(f"{OUR}.attention.k_rotate", ATTENTION, "type_as", 1),
    Point(f"{OUR}.attention.attend.repeat_k", ATTENTION, "matmul", 0, 1, keys_transposed),
    Point(f"{OUR}.attention.attend.scores", ATTENTION, "div", 0),
    Point(f"{OUR}.attention.attend.mask", ATTENTION, "add", 0),
    Point(f"{OUR}.attention.attend.softmax", ATTENTION, "type_as", 2),
    Point(f"{OUR}.attention.attend.repeat_v", ATTENTION, "matmul", 1, 1, heads_first),
    Point(f"{OUR}.attention.attend.mix", ATTENTION, "matmul", 1, None, heads_first),
    Point(f"{OUR}.attention.merge_heads", f"{ATTENTION}.wo", argument=0),
    Point(f"{OUR}.attention.o", f"{ATTENTION}.wo"),
    Point(f"{OUR}.attention_add", f"{BLOCK}.ffn_norm", argument=0),
    Point(f"{OUR}.ffn_norm", f"{BLOCK}.ffn_norm"),
    Point(f"{OUR}.feed_forward.gate", f"{FEED}.w1"),
    Point(f"{OUR}.feed_forward.up", f"{FEED}.w3"),
    Point(f"{OUR}.feed_forward.silu", FEED, "silu", 0),
    Point(f"{OUR}.feed_forward.multiply", f"{FEED}.w2", argument=0),
    Point(f"{OUR}.feed_forward.down", f"{FEED}.w2"),
    Point(f"{OUR}.ffn_add", BLOCK),
    Point("norm", "norm"),
    Point("unembed", "output"),
)
SCALING = {"scale_factor": "rope_factor", "low_freq_factor": "rope_low_freq_factor"}
SCALING |= {"high_freq_factor": "rope_high_freq_factor", "old_context_len": "rope_original_max_position_embeddings"}


def answer(request: Request, scratch: Path) -> Answer:
    """Build the model that the request describes, run its cases."""
    shims = ["the file's text is executed as it stands; the package is not installed"]
    shims.append(fairscale_shims.prepare(scratch))
    module = _module(request, shims)
    longest = max(_end(case) for case in request["cases"].values())
    batch = max(case["tokens"].shape[0] for case in request["cases"].values())
    model = _build(module, request, batch, longest)
    if request["tied"]:
        shims.append("it has no shared table: the unembedding is a second copy of the embedding's values")
    options = request["options"]
    text = hashlib.sha256(options["model"].encode()).hexdigest()
    yardstick = {"name": options["name"], "version": options["version"], "sha256": text, "shims": shims}
    cases = {name: _run(model, case, request) for name, case in request["cases"].items()}
    return Answer(yardstick=yardstick, cases=cases)


def _end(case: Case) -> int:
    return case["tokens"].shape[1] + (case["past"]["length"] if case["past"] else 0)


def _module(request: Request, shims: list[str]) -> types.ModuleType:
    """The reference's module, from its text."""
    options, package = request["options"], types.ModuleType("reference_llama3")
    package.__path__ = []
    sys.modules["reference_llama3"] = package
    text = options["model"]
    if "rope_factor" in request["config"]:
        text = _with_scaling(text, request["config"], shims, patch=options.get("patch", True))
    if ".cuda()" in text and not torch.cuda.is_available():
        torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign]
        shims.append(".cuda() returns its tensor unchanged")
    parts = {"args": options["args"], "model": text} if options.get("args") else {"model": text}
    for name, source in parts.items():
        full = f"reference_llama3.{name}"
        sys.modules[full] = module = types.ModuleType(full)
        module.__package__ = "reference_llama3"
        exec(compile(source, f"{full}.py", "exec"), vars(module))
    return sys.modules["reference_llama3.model"]


def _with_scaling(text: str, config: dict[str, Any], shims: list[str], *, patch: bool) -> str:
    """The text with the variant's scaling constants; only a factor may differ from what is written there."""
    for name, field in SCALING.items():
        found = re.search(rf"^    {name} = ([\d.]+)", text, re.MULTILINE)
        if found is None:
            raise ValueError(f"the file has no scaling constant {name}")
        wanted = config[field]
        if float(found[1]) == wanted:
            continue
        if name != "scale_factor":
            raise ValueError(f"the file's {name} is {found[1]}, the model's {wanted}")
        if patch:
            text = text.replace(found[0], f"    {name} = {wanted:g}")
            shims.append(f"its scale factor, {found[1]} in the text, is set to {wanted:g}")
    return text


def _build(module: Any, request: Request, batch: int, longest: int) -> nn.Module:
    c = request["config"]
    if c["head_dim"] * c["num_attention_heads"] != c["hidden_size"]:
        raise ValueError("this code has no head width of its own")
    args = module.ModelArgs(
        dim=c["hidden_size"],
        n_layers=c["num_hidden_layers"],
        n_heads=c["num_attention_heads"],
        n_kv_heads=c["num_key_value_heads"],
        vocab_size=c["vocab_size"],
        # Half the width, rounded up to a multiple of the width: how this code can be given any width.
        multiple_of=c["intermediate_size"],
        ffn_dim_multiplier=0.5 * c["intermediate_size"] / int(8 * c["hidden_size"] / 3),
        norm_eps=c["rms_norm_eps"],
        rope_theta=c["rope_theta"],
        max_batch_size=batch,
        max_seq_len=longest,
        **({"use_scaled_rope": True} if "rope_factor" in c else {}),
    )
    model: nn.Module = module.Transformer(args).eval().to(dtype_of(request["dtype"]))
    weights = dict(request["weights"])
    if request["tied"]:
        weights["output.weight"] = weights["tok_embeddings.weight"].clone()
    model.load_state_dict(weights, strict=True)
    return model


def _run(model: Any, case: Case, request: Request) -> list[Values]:
    if (case["positions"] != case["positions"][:1]).any():
        raise ValueError("this code has one position a column: no padding")
    _reset(model, case, request)
    watcher = Watcher(model, request["config"]["num_hidden_layers"], POINTS, case["keep"])
    made, start = [], 0
    for length in case["calls"]:
        part = slice(start, start + length)
        first = int(case["positions"][0, start])
        with watcher.watching(case["tokens"][:, part]) as values:
            logits: Tensor = model(case["tokens"][:, part], first)
        rows = model.freqs_cis[first : first + length].expand(case["tokens"].shape[0], -1, -1)
        values |= {"logits": logits, "rope.table:cos": rows.real, "rope.table:sin": rows.imag}
        made.append({node: value.clone(memory_format=torch.contiguous_format) for node, value in values.items()})
        start += length
    return made


def _reset(model: Any, case: Case, request: Request) -> None:
    """An empty cache, or the past that the case asks for."""
    c, batch = request["config"], case["tokens"].shape[0]
    for i, layer in enumerate(model.layers):
        attention = layer.attention
        with torch.inference_mode():
            attention.cache_k = torch.zeros_like(attention.cache_k, dtype=dtype_of(request["dtype"]))
            attention.cache_v = torch.zeros_like(attention.cache_v, dtype=dtype_of(request["dtype"]))
            if case["past"]:
                length = case["past"]["length"]
                heads, width = c["num_key_value_heads"], c["head_dim"]
                keys, values = past(case["past"], batch, heads, width, i, attention.cache_k.dtype)
                attention.cache_k[:batch, :length], attention.cache_v[:batch, :length] = keys, values
