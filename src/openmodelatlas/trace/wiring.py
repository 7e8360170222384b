"""Which value each port carries: feeds of the run resolved to canonical tensors, in region form."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from openmodelatlas.records.graph import Region
from openmodelatlas.trace.regions import BLOCKS
from openmodelatlas.trace.run import Call

PortKey = tuple[str, str]
"""A module path of the run and a port name."""


class Wiring:
    """Names nodes, ports and tensors of a run. Paths are the run's own; ids are in region form (`block.attention`)."""

    def __init__(self, calls: Mapping[str, Call], regions: Sequence[Region]) -> None:
        """`regions`: the region of each block of the run; one that is there twice is drawn once, by its first block."""
        self.calls = calls
        self.prefixes = {f"{BLOCKS}.{i}": region for i, region in enumerate(regions)}
        self.repeated = {p for i, (p, r) in enumerate(self.prefixes.items()) if r in regions[:i]}
        self.feeds: dict[PortKey, PortKey | None] = {}
        self.inputs: set[PortKey] = set()
        for call in calls.values():
            self.feeds.update(call.feeds)
            self.inputs.update((call.path, p.name) for p in call.inputs)
        self._canonical: dict[PortKey, PortKey] = {}
        self._raised = {self._producer((path, "out")): (path, "out") for path in self.prefixes if path in calls}
        self.fed: dict[PortKey, list[PortKey]] = defaultdict(list)
        for target, source in self.feeds.items():
            if source is not None:
                self.fed[source].append(target)

    def region(self, path: str) -> Region | None:
        """The region that a path lies in."""
        return next((r for p, r in self.prefixes.items() if path == p or path.startswith(p + ".")), None)

    def id(self, path: str) -> str:
        """A module path as a node id: `blocks.0.attention` to `block.attention`."""
        for prefix, region in self.prefixes.items():
            if path == prefix or path.startswith(prefix + "."):
                return region.name + path.removeprefix(prefix)
        return path

    def port(self, key: PortKey) -> str:
        """A port's own name: a region's first argument is its `in`; a model's per-block ports take the region form."""
        path, name = key
        if path in self.prefixes and self.calls[path].inputs and name == self.calls[path].inputs[0].name:
            return "in"
        if path == "":
            for i, region in enumerate(self.prefixes.values()):
                name = name.replace(f".{BLOCKS}.{i}.", f".{region.name}.")
        return name

    def text(self, key: PortKey) -> str:
        """`node:port`."""
        return f"{self.id(key[0])}:{self.port(key)}"

    def canonical(self, key: PortKey) -> PortKey:
        """The port where the value of `key` is at home: the op that made it, or a region's own input or output."""
        producer = self._producer(key)
        return self._raised.get(producer, producer)

    def _producer(self, key: PortKey) -> PortKey:
        if key in self._canonical:
            return self._canonical[key]
        source = self.feeds.get(key)
        home = (key in self.inputs and self._is_region_input(key)) or source is None
        found = key if home or source is None else self._producer(source)
        self._canonical[key] = found
        return found

    def fed_by(self, key: PortKey, home: PortKey) -> bool:
        """Whether the value of `key` is the one at home in `home`; a region's input looks at what feeds it."""
        source = self.feeds.get(key)
        return source is not None and self.text(self.canonical(source)) == self.text(home)

    def is_repeated(self, path: str) -> bool:
        """Whether a path lies in a block whose region an earlier block shows."""
        return any(path == p or path.startswith(p + ".") for p in self.repeated)

    def _is_region_input(self, key: PortKey) -> bool:
        return key[0] in self.prefixes and self.port(key) == "in"
