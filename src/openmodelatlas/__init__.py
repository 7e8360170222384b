"""Open Model Atlas: maps of open language models, derived from definitions that run.

    import openmodelatlas as oma
    model = oma.load("llama-3.1-8b")
    model.graph, model.config, model.build(device="cpu")

Names are imported when they are first used: importing the package costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openmodelatlas.atlas import AtlasModel as AtlasModel
    from openmodelatlas.atlas import derive as derive
    from openmodelatlas.atlas import diff as diff
    from openmodelatlas.atlas import load as load
    from openmodelatlas.trace.capture import summaries as capture
    from openmodelatlas.verify.checkpoint import verify as verify

_PUBLIC = {
    "load": ("atlas", "load"),
    "AtlasModel": ("atlas", "AtlasModel"),
    "derive": ("atlas", "derive"),
    "diff": ("atlas", "diff"),
    "capture": ("trace.capture", "summaries"),
    "verify": ("verify.checkpoint", "verify"),
}

__all__ = ["AtlasModel", "capture", "derive", "diff", "load", "verify"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
