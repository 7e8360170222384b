import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from evidence_help import Network

from openmodelatlas.cli.main import main


def test_without_any_source_the_command_says_what_is_missing(
    network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evidence", "llama-3.1-8b", "--offline"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("excerpts 0 of 54")
    assert "block-residuals" in out
    assert "236–248" in out
    assert "258–269, 298–302" in out
    assert network.asked == []


def test_changed_text_is_exit_1(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    network.files["llama/model.py"] = b"import torch\n"
    assert main(["evidence", "llama-3"]) == 1
    assert "CHANGED" in capsys.readouterr().out


def test_an_unknown_model_is_exit_2_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evidence", "llama-3.1-8"]) == 2
    assert "llama-3.1-8b" in capsys.readouterr().err


def test_json_has_every_pin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evidence", "smollm2-135m", "--offline", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["model"] == "smollm2-135m"
    assert data["excerpts"] == {"found": 0, "of": sum(len(rows) for rows in data["claims"].values())}
    assert data["claims"]["block-residuals"][0]["pin"]["ranges"][0]["first"] == 236


def test_the_command_needs_no_torch(tmp_path: Path) -> None:
    program = (
        "import sys; from openmodelatlas.cli.main import main; code = main(['evidence', 'llama-3', '--offline']);"
        "sys.exit(code or 'torch' in sys.modules)"
    )
    env = os.environ | {"OMA_CACHE": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", program], env=env, stdout=subprocess.DEVNULL).returncode == 0
