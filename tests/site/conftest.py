"""One built site for all tests of it."""

from pathlib import Path

import made_site
import pytest

from openmodelatlas.records.graph import Graph


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built site."""
    out = tmp_path_factory.mktemp("site") / "out"
    made_site.build_site(out)
    return out


@pytest.fixture(scope="session")
def graphs() -> dict[str, Graph]:
    """The maps of the site's models."""
    from openmodelatlas import maps

    return {name: maps.graph(name) for name in made_site.MODELS}


@pytest.fixture(scope="session")
def all_graphs() -> dict[str, Graph]:
    """The maps of every model of the catalogue."""
    from openmodelatlas import maps

    return {name: maps.graph(name) for name in made_site.ALL}
