"""The library `transformers` asked what it makes of a published configuration, in a process of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from openmodelatlas.errors import UsageError
from openmodelatlas.records.report import Header, StoredTensor
from openmodelatlas.verify.references.exchange import Request
from openmodelatlas.verify.references.worker import needs, worker
from openmodelatlas.weights.configuration import flat

PACKAGE = "transformers"


@dataclass(frozen=True, kw_only=True)
class Library:
    """What the library says. `file` is its code of the model, on this machine; `filled` are all settings, `defaults`
    those of a configuration that states nothing, `given` what the file states; `tensors` are shapes by published name;
    `total` counts parameters."""

    version: str
    config: str
    model: str
    file: Path
    filled: Mapping[str, Any]
    defaults: Mapping[str, Any]
    tensors: Mapping[str, tuple[int, ...]]
    total: int
    given: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The code's path inside the package's wheel."""
        parts = self.file.parts
        return "/".join(parts[len(parts) - 1 - parts[::-1].index(PACKAGE) :])

    def default(self, key: str) -> Any:
        """What the class has for a key that a file leaves out; None where it has nothing, or works it out from others.

        A number of rotary positions may stand in a section of its own, one for each kind of block."""
        found, filled = flat(self.defaults), flat(self.filled)
        names = [key, *(name for name in found if name.startswith("rope_parameters.") and _last(name) == _last(key))]
        stated = next((name for name in names if found.get(name) is not None), None)
        if stated is None or (key not in self.given and filled.get(stated) != found[stated]):
            return None
        return found[stated]

    def header(self, settings: Mapping[str, Any], path: str) -> Header:
        """A checkpoint of that configuration that stores every tensor as the library names it."""
        stored = tuple(
            StoredTensor(name=name, shape=shape, type="BF16", bytes=0, offset=0, shard="")
            for name, shape in self.tensors.items()
        )
        return Header(format="config.json", path=path, file_bytes=0, metadata=flat(settings), tensors=stored)


def ask(config: Mapping[str, Any], classes: Mapping[str, str] | None = None) -> Library:
    """What the library says of the configuration, with those of its classes or those that the configuration means.

    UsageError where it has no such model; AtlasError where it cannot make one."""
    needs(PACKAGE)
    asked = {"config": dict(config), "options": {"classes": dict(classes or {})}}
    found = cast("dict[str, Any]", worker("library").ask(cast("Request", asked)))
    if "lacks" in found:
        raise UsageError(
            "the library has no model of this configuration",
            where=f"{PACKAGE} {found['version']}",
            expected="architectures and model_type that it knows",
            found=found["lacks"] or "neither",
        )
    found["tensors"] = {name: tuple(shape) for name, shape in found["tensors"].items()}
    return Library(**{**found, "file": Path(found["file"]), "given": flat(config)})


def _last(key: str) -> str:
    return key.rpartition(".")[2]
