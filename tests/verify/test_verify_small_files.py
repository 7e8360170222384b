"""Small files beside the weights that cannot be read: the checks that need them say so, and all others are run."""

from collections.abc import Callable
from pathlib import Path

import made_checkpoints as made
import pytest
import tiny

from openmodelatlas.verify.checkpoint import verify
from openmodelatlas.weights.open import open_checkpoint


@pytest.mark.parametrize(
    ("name", "damage", "code"),
    [
        ("generation_config.json", lambda path: path.write_bytes(b""), "configuration.generation-unreadable"),
        ("tokenizer.json", lambda path: path.write_bytes(b""), "files.empty"),
        ("tokenizer.json", lambda path: (path.unlink(), path.symlink_to("/etc/hostname")), "files.link-outside"),
        ("tokenizer_config.json", lambda path: path.write_bytes(b""), "files.empty"),
    ],
)
def test_small_files_that_cannot_be_read_are_findings(
    tmp_path: Path, name: str, damage: Callable[[Path], object], code: str
) -> None:
    """Nothing but its own check needs one; that it is there is seen without reading it."""
    folder = made.huggingface_folder(tmp_path / "x", tiny.variant())
    damage(folder / name)
    with open_checkpoint(folder) as opened:
        assert name in opened.beside
    assert code in {flaw.code for flaw in verify(folder).report.findings}
