"""What every room's tests share: the demo checkpoint, and tiny made-up ones."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
import torch
from gguf_writer import File

from openmodelatlas.infer.steady import steady

torch.set_num_threads(min(2, torch.get_num_threads()))
steady()

DEMO = "smollm2-135m-instruct"


@pytest.fixture(scope="session")
def demo_checkpoint() -> Path:
    """The real checkpoint that the project pulls, from its cache or by pulling it now."""
    from openmodelatlas.catalog.checkpoints import find
    from openmodelatlas.errors import FetchError
    from openmodelatlas.fetch.checkpoints import pull

    try:
        return pull(find(DEMO))
    except FetchError as error:
        pytest.skip(f"needs `oma pull {DEMO}`: {error}")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a made-up file (File or bytes) and return its path."""

    def made(content: File | bytes | None = None, name: str = "tiny.gguf") -> Path:
        path = tmp_path / name
        content = tiny.file() if content is None else content
        path.write_bytes(content if isinstance(content, bytes) else content.bytes())
        return path

    return made


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny tied checkpoint; load it with `variant=tiny.variant()`."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    path.write_bytes(tiny.file().bytes())
    return path
