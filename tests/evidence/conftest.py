"""A cache of its own for every test, no network, and no pip."""

from pathlib import Path

import pytest
from evidence_help import Network

from openmodelatlas.evidence import mirrors, resolve
from openmodelatlas.fetch import wheels


@pytest.fixture(autouse=True)
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Network:
    """Tests marked `network` keep the real one, and the real cache."""
    net = Network()
    mirrors.is_of.cache_clear()
    if request.node.get_closest_marker("network") is None:
        monkeypatch.setenv("OMA_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(resolve, "download", net.download)
        monkeypatch.setattr(wheels, "wheel", net.wheel)
    return net
