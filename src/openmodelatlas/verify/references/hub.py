"""The library `transformers`, as it builds a Llama from a configuration or from a GGUF file.

`options`: `attention` (`eager` or `sdpa`); `gguf` (a file to load instead of `weights`); `generate` (greedy tokens to
add to each case, under `generated`). Queries and keys come out in its own row order, half-split.
"""

import hashlib
import importlib
import inspect
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from openmodelatlas.verify.references.exchange import Answer, Case, Request, Values, past
from openmodelatlas.verify.references.watch import Point, Watcher, dtype_of, heads_first, kept, keys_transposed

transformers: Any = importlib.import_module("transformers")  # parts of it have no types

BLOCK, ATTENTION, FEED = "model.layers.{i}", "model.layers.{i}.self_attn", "model.layers.{i}.mlp"
OUR = "blocks.{i}"
POINTS = (
    Point("embed", "model.embed_tokens"),
    Point(f"{OUR}.attention_norm", f"{BLOCK}.input_layernorm"),
    Point(f"{OUR}.attention.q", f"{ATTENTION}.q_proj"),
    Point(f"{OUR}.attention.k", f"{ATTENTION}.k_proj"),
    Point(f"{OUR}.attention.v", f"{ATTENTION}.v_proj"),
    Point(f"{OUR}.attention.q_rotate", ATTENTION, "add", 0, None, heads_first),
    Point(f"{OUR}.attention.k_rotate", ATTENTION, "add", 1, None, heads_first),
    Point(f"{OUR}.attention.merge_heads", f"{ATTENTION}.o_proj", argument=0),
    Point(f"{OUR}.attention.o", f"{ATTENTION}.o_proj"),
    Point(f"{OUR}.attention_add", f"{BLOCK}.post_attention_layernorm", argument=0),
    Point(f"{OUR}.ffn_norm", f"{BLOCK}.post_attention_layernorm"),
    Point(f"{OUR}.feed_forward.gate", f"{FEED}.gate_proj"),
    Point(f"{OUR}.feed_forward.up", f"{FEED}.up_proj"),
    Point(f"{OUR}.feed_forward.silu", f"{FEED}.act_fn"),
    Point(f"{OUR}.feed_forward.multiply", f"{FEED}.down_proj", argument=0),
    Point(f"{OUR}.feed_forward.down", f"{FEED}.down_proj"),
    Point(f"{OUR}.ffn_add", BLOCK),
    Point("norm", "model.norm"),
    Point("unembed", "lm_head"),
)
EAGER = (
    Point(f"{OUR}.attention.attend.repeat_k", ATTENTION, "matmul", 0, 1, keys_transposed),
    Point(f"{OUR}.attention.attend.scores", ATTENTION, "mul", 4),
    Point(f"{OUR}.attention.attend.mask", ATTENTION, "add", 2),
    Point(f"{OUR}.attention.attend.softmax", ATTENTION, "dropout", 0),
    Point(f"{OUR}.attention.attend.repeat_v", ATTENTION, "matmul", 1, 1, heads_first),
    Point(f"{OUR}.attention.attend.mix", ATTENTION, "matmul", 1, None, heads_first),
)
FUSED = (Point(f"{OUR}.attention.attend.mix", ATTENTION, "scaled_dot_product_attention", 0, None, heads_first),)


def answer(request: Request, _scratch: Path) -> Answer:
    """Build the model that the request describes, run its cases."""
    transformers.logging.set_verbosity_error()
    shims: list[str] = []
    model = _from_gguf(request, shims) if "gguf" in request["options"] else _build(request)
    code = Path(inspect.getfile(type(model))).read_text(encoding="utf-8")
    yardstick = {
        "name": f"transformers, {request['options']['attention']} attention",
        "version": transformers.__version__,
        "sha256": hashlib.sha256(code.encode()).hexdigest(),
        "shims": [*shims, "queries and keys are compared through interleave_rotary_rows: it keeps half-split rows"],
    }
    cases = {name: _run(model, case, request) for name, case in request["cases"].items()}
    return Answer(yardstick=yardstick, cases=cases)


def _build(request: Request) -> Any:
    c = request["config"]
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": c["rope_theta"]}
    if "rope_factor" in c:
        names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
        rope |= {"rope_type": "llama3", **{name: c[f"rope_{name}"] for name in names}}
    plain = {key: value for key, value in c.items() if not key.startswith("rope_")}
    config = transformers.LlamaConfig(**plain, rope_parameters=rope, tie_word_embeddings=request["tied"])
    config._attn_implementation = request["options"]["attention"]
    model = transformers.LlamaForCausalLM(config).eval().to(dtype_of(request["dtype"]))
    weights = dict(request["weights"])
    if request["tied"]:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model.load_state_dict(weights, strict=True)
    if (model.lm_head.weight is model.model.embed_tokens.weight) != request["tied"]:
        raise ValueError("shared embeddings are not what was asked for")
    return model


_loaded: dict[tuple[str, str], Any] = {}


def _from_gguf(request: Request, shims: list[str]) -> Any:
    """The library's own reading of the file; kept, since it takes seconds."""
    path, attention = Path(request["options"]["gguf"]), request["options"]["attention"]
    shims.append("weights by the library's own GGUF reader, as float32")
    key = (str(path), attention)
    if key not in _loaded:
        _loaded.clear()
        _loaded[key] = transformers.AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation=attention
        ).eval()
    return _loaded[key].to(dtype_of(request["dtype"]))


def _run(model: Any, case: Case, request: Request) -> list[Values]:
    fused = request["options"]["attention"] != "eager"
    watcher = Watcher(model, model.config.num_hidden_layers, POINTS + (FUSED if fused else EAGER))
    cache = transformers.DynamicCache(config=model.config)
    if case["past"]:
        _fill(cache, case, request)
    made, start = [], 0
    real = (case["positions"] >= 0).long()
    for length in case["calls"]:
        part = slice(start, start + length)
        positions = case["positions"][:, part].clamp(min=0)
        mask = real[:, : start + length] if not case["past"] else None
        with torch.no_grad(), watcher.watching() as values:
            logits: Tensor = model(
                case["tokens"][:, part], attention_mask=mask, position_ids=positions, cache=cache, use_cache=True
            ).logits
        cos, sin = model.model.rotary_emb(logits, position_ids=positions)
        half = cos.shape[-1] // 2
        values |= {"logits": logits, "rope.table:cos": cos[..., :half], "rope.table:sin": sin[..., :half]}
        made.append(kept(values, case["keep"]))
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
        keys = (
            keys.reshape(*keys.shape[:-1], -1, 2).transpose(-1, -2).flatten(-2)
        )  # adjacent pairs to its half-split order
        cache.update(keys.transpose(1, 2), values.transpose(1, 2), i)


def _generate(model: Any, case: Case, count: int) -> Tensor:
    made: Tensor = model.generate(
        case["tokens"], max_new_tokens=count, min_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    return made[:, case["tokens"].shape[1] :]
