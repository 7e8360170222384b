"""llama.cpp, by the package `xllamacpp`: it reads the GGUF file itself.

`options`: `gguf`; `generate` (greedy tokens to follow the prompt); `top` (log-probabilities wanted at each of them).
Each case is run twice: `NAME, as stored`, and `NAME, in float32` from a copy of the file whose blocks are unpacked.
"""

import gc
import hashlib
import importlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gguf
import torch

from openmodelatlas.verify.references.exchange import Answer, Case, Request, Values

xllamacpp: Any = importlib.import_module("xllamacpp")  # has no types

SLOTS, THREADS = 512, 1
STORED, FLOAT32 = "as stored", "in float32"
SHIMS = (
    "as stored: its kernels round activations to 8 bits, to multiply them with stored blocks",
    "in float32: llama.cpp's own package gguf unpacks the blocks into a copy of the file, so that nothing is rounded",
    "keys and values are cached in float32, without its fused attention",
)


def answer(request: Request, scratch: Path) -> Answer:
    """Tokens (`generated` [n]) with ids and log-probabilities of the likeliest at each (`top`, `logprobs` [n, top])."""
    options, found = request["options"], {}
    copy = scratch / "float32.gguf"
    unpack(options["gguf"], copy)
    for kind, path in ((STORED, options["gguf"]), (FLOAT32, str(copy))):
        server = _server(path)
        for name, case in request["cases"].items():
            found[f"{name}, {kind}"] = [_run(server, case, options)]
        del server
        gc.collect()
    library = next(Path(xllamacpp.__file__).parent.glob("xllamacpp*.so"), Path(xllamacpp.__file__))
    yardstick = {
        "name": "llama.cpp, by xllamacpp",
        "version": version("xllamacpp"),
        "sha256": hashlib.sha256(library.read_bytes()).hexdigest(),
        "shims": list(SHIMS),
    }
    return Answer(yardstick=yardstick, cases=found)


def unpack(source: str, target: Path) -> None:
    """A copy of the file in which every tensor is float32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=inner)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _server(path: str) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx, params.n_gpu_layers, params.n_parallel, params.warmup, params.verbosity = SLOTS, 0, 1, False, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return xllamacpp.Server(params)


def _run(server: Any, case: Case, options: dict[str, Any]) -> Values:
    asked = {
        "prompt": case["tokens"][0].tolist(),
        "n_predict": options["generate"],
        "n_probs": options["top"],
        "temperature": 0,
        "cache_prompt": False,
        "ignore_eos": True,
    }
    steps = server.handle_completions(asked)["choices"][0]["logprobs"]["content"]
    return {
        "generated": torch.tensor([step["id"] for step in steps]),
        "top": torch.tensor([[entry["id"] for entry in step["top_logprobs"]] for step in steps]),
        "logprobs": torch.tensor([[entry["logprob"] for entry in step["top_logprobs"]] for step in steps]),
    }
