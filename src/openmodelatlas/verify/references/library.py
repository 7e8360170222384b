"""What the library `transformers` says of a published configuration: its classes for it, every setting as it fills it
in, and the tensors of its own model, made without storage.

`options`: `classes` (names of the configuration's and the model's class; empty: those that the configuration means).
"""

import importlib
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

transformers: Any = importlib.import_module("transformers")  # parts of it have no types

TEXT = "text_config"
"""The section of a configuration that reads more than text in which the language model's own settings stand."""


def answer(request: Mapping[str, Any], _scratch: Path) -> dict[str, Any]:
    """The facts of the configuration; or which class the library lacks, under `lacks`."""
    transformers.logging.set_verbosity_error()
    raw, classes = request["config"], request["options"]["classes"]
    name = classes.get("model") or meant(raw)
    kind = getattr(transformers, name, None)
    if kind is None or not hasattr(kind, "config_class"):
        return {"lacks": name, "version": transformers.__version__}
    config_kind = getattr(transformers, classes.get("config") or kind.config_class.__name__)
    config = config_kind.from_dict(section(raw, config_kind))
    with torch.device("meta"):
        model = kind(config)
    tensors = published(model)
    return {
        "version": transformers.__version__,
        "config": config_kind.__name__,
        "model": name,
        "file": inspect.getfile(kind),
        "filled": written(config),
        "defaults": written(config_kind()),
        "tensors": {stored: list(value.shape) for stored, value in tensors.items()},
        "total": sum(p.numel() for p in model.parameters()),
    }


def meant(raw: Mapping[str, Any]) -> str:
    """The class of the text model that a configuration describes."""
    named: list[str] = raw.get("architectures") or [""]
    known: Mapping[str, str] = importlib.import_module(
        "transformers.models.auto.modeling_auto"
    ).MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    inner = raw.get(TEXT, raw)
    return named[0] if TEXT not in raw and named[0] else known.get(inner.get("model_type", ""), named[0])


def section(raw: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """The part of a configuration that is of that class."""
    inner = raw.get(TEXT)
    return dict(inner if isinstance(inner, Mapping) and inner.get("model_type") == kind.model_type else raw)


def written(config: Any) -> dict[str, Any]:
    """Every setting, as the library would write it."""
    found: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    return found


def published(model: nn.Module) -> dict[str, Tensor]:
    """The model's tensors under the names that checkpoints have, each once: a shared one under its first name."""
    kept: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, value in model.state_dict(keep_vars=True).items():
        if id(value) not in seen:
            seen.add(id(value))
            kept[name] = value.detach()
    loading: Any = importlib.import_module("transformers.core_model_loading")
    found: dict[str, Tensor] = loading.revert_weight_conversion(model, kept)
    return found
