"""Stand-ins for the parts of fairscale that Meta's code imports, for one process: plain torch layers of the same names.

fairscale itself is used where it is installed.
"""

import importlib
import sys
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import nn

USED = "fairscale's layers are torch's Linear and Embedding (fairscale is not installed; one process)"


class ParallelLinear(nn.Linear):
    """Column and row parallel layers of one process."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, **_: Any) -> None:
        super().__init__(inputs, outputs, bias=bias)


class VocabParallelEmbedding(nn.Embedding):
    """The vocabulary of one process."""

    def __init__(self, rows: int, width: int, **_: Any) -> None:
        super().__init__(rows, width)


def prepare(scratch: Path) -> str:
    """Make `fairscale.nn.model_parallel` importable and ready for one process; returns how, as a shim's sentence."""
    if "fairscale_shims_used" in sys.modules:
        return USED
    if find_spec("fairscale") is None:
        _stand_in()
        return USED
    dist: Any = importlib.import_module("torch.distributed")
    initialize: Any = importlib.import_module("fairscale.nn.model_parallel.initialize")
    if not dist.is_initialized():
        store = dist.FileStore(str(scratch.parent / "store"), 1)
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        initialize.initialize_model_parallel(1)
    from importlib.metadata import version

    return f"fairscale {version('fairscale')} with gloo, in one process on the CPU"


def _stand_in() -> None:
    root = "fairscale.nn.model_parallel"
    initialize, layers = types.ModuleType(f"{root}.initialize"), types.ModuleType(f"{root}.layers")
    vars(initialize)["get_model_parallel_world_size"] = lambda: 1
    vars(layers).update(
        ColumnParallelLinear=ParallelLinear,
        RowParallelLinear=ParallelLinear,
        VocabParallelEmbedding=VocabParallelEmbedding,
    )
    packages = {name: types.ModuleType(name) for name in ("fairscale", "fairscale.nn", root)}
    vars(packages[root]).update(initialize=initialize, layers=layers)
    sys.modules.update(packages)
    sys.modules.update({f"{root}.initialize": initialize, f"{root}.layers": layers})
    sys.modules["fairscale_shims_used"] = types.ModuleType("fairscale_shims_used")
