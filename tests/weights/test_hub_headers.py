"""Checkpoints on the Hub: headers alone, by ranges, of a server that answers as the Hub does; every failure a line."""

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import made_checkpoints as made
import pytest
import tiny
import torch
from huggingface_hub import close_session, constants
from made_hub import COMMIT, Hub, serving

from openmodelatlas.errors import AtlasError, CheckpointError, FetchError, NotACheckpoint, UnknownName, UsageError
from openmodelatlas.fetch import hub as fetch_hub
from openmodelatlas.fetch.hub import open_model
from openmodelatlas.weights.open import open_checkpoint
from openmodelatlas.weights.reading import causes, gguf, remote

OF = tiny.variant()
WHERE = f"hf:org/tiny@{COMMIT}"


@pytest.fixture
def point(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Have the library ask this address, without a proxy and without waiting long."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "none")
    monkeypatch.setattr(fetch_hub, "TIMEOUT_SECONDS", 1.0)

    def at(address: str) -> None:
        close_session()
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)

    yield at
    close_session()


@pytest.fixture
def hub(tmp_path: Path, point: Callable[[str], None]) -> Iterator[Hub]:
    (tmp_path / "hub").mkdir()
    with serving(tmp_path / "hub") as found:
        point(found.address)
        yield found


def error(target: str = "hf:org/tiny") -> AtlasError:
    with pytest.raises(AtlasError) as caught:
        open_checkpoint(target)
    assert str(caught.value).isprintable()
    return caught.value


def large(path: Path) -> Path:
    """A checkpoint in three shards, the tensors of which are much more than their headers."""
    of = tiny.variant(hidden_size=512)
    return made.huggingface_folder(path, of, shards=3)


def header_bytes(path: Path) -> int:
    """What headers take, where the first kibibyte of a file is read to tell what it is."""
    files = path.glob("*.safetensors")
    return sum(max(8 + struct.unpack("<Q", file.read_bytes()[:8])[0], causes.HEAD) for file in files)


def test_the_header_is_that_of_the_folder(hub: Hub) -> None:
    large(hub.folder)
    with open_checkpoint(hub.folder) as here, open_checkpoint("hf:org/tiny") as there:
        assert there.scheme == "huggingface"
        assert there.header.path == WHERE
        assert there.header.tensors == here.header.tensors
        assert there.header.metadata == here.header.metadata
        assert there.header.file_bytes == here.header.file_bytes
        assert (there.findings, there.notes) == ((), ())
        assert set(there.beside) == set(here.beside)


def test_only_settings_index_and_headers_are_fetched(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FIRST", 256)
    large(hub.folder)
    small = sum((hub.folder / name).stat().st_size for name in ("config.json", "model.safetensors.index.json"))
    with open_checkpoint("hf:org/tiny") as opened:
        assert hub.sent == small + header_bytes(hub.folder)
        before = hub.sent
        assert json.loads(opened.beside["generation_config.json"])["eos_token_id"] == 0
        assert hub.sent == before + (hub.folder / "generation_config.json").stat().st_size
        with pytest.raises(CheckpointError, match=r"only headers are fetched.*fetch the files"):
            opened.values("model.norm.weight")
        assert len(opened.beside["tokenizer.json"]) == (hub.folder / "tokenizer.json").stat().st_size


def test_a_revision_is_pinned_to_its_commit(hub: Hub) -> None:
    made.huggingface_folder(hub.folder, OF)
    for revision in ("main", "v1", COMMIT):
        assert open_checkpoint(f"hf:org/tiny@{revision}").header.path == WHERE
    resolved = [request for request in hub.requests if "/resolve/" in request]
    assert all(request.startswith(f"/org/tiny/resolve/{COMMIT}/") for request in resolved)
    assert "no such revision of the model: hf:org/tiny@v9" in str(error("hf:org/tiny@v9"))
    assert open_model("org/tiny", "v1").revision == COMMIT


def test_the_token_is_sent_to_the_hub_and_not_where_it_redirects(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    made.huggingface_folder(hub.folder, OF)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.fault = "redirect"
    assert open_checkpoint("hf:org/tiny").findings == ()
    assert {hub.tokens[host] for host in hub.tokens if host.startswith("127.0.0.1")} == {"Bearer hf_secret"}
    assert {hub.tokens[host] for host in hub.tokens if host.startswith("localhost/cdn")} == {None}


FAULTS = {
    "401": (FetchError, "HF_TOKEN"),
    "403": (FetchError, "the Hub refuses: hf:org/tiny; found HTTP 403; HF_TOKEN does not give access"),
    "500": (FetchError, "found HTTP 500"),
    "gated list": (FetchError, "gated: its terms must be accepted first: hf:org/tiny; accept them"),
    "gated": (FetchError, f"gated: its terms must be accepted first: {WHERE}/"),
    "no ranges": (FetchError, "the server does not send parts of files"),
    "other range": (FetchError, "the server does not send parts of files"),
    "breaks off": (FetchError, "the Hub cannot be reached"),
    "endless": (FetchError, "the Hub cannot be reached: .* redirect"),
    "silence": (FetchError, "the Hub does not answer: hf:org/tiny; found nothing within 1 s"),
    "drip": (FetchError, "the Hub is too slow"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_failure_is_one_line(hub: Hub, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    large(hub.folder)
    monkeypatch.setattr(fetch_hub, "SLOWEST", 1 << 30)
    monkeypatch.setattr(fetch_hub, "PIECE", 1 << 10)
    if fault == "drip":
        monkeypatch.setattr(fetch_hub, "TIMEOUT_SECONDS", 0.25)
        monkeypatch.setattr(remote, "FIRST", 1 << 17)
    for shard in hub.folder.glob("*.safetensors"):
        os.truncate(shard, 1 << 28)  # sparse
    hub.fault = fault
    kind, words = FAULTS[fault]
    found = error()
    assert type(found) is kind
    assert re.search(words, str(found)), str(found)
    if fault == "no ranges":  # a few buffers on the way, never the files
        assert hub.sent < 1 << 26


def test_a_server_without_ranges_may_send_what_is_wanted_whole(hub: Hub) -> None:
    made.huggingface_folder(hub.folder, OF)
    model = open_model("org/tiny")
    hub.fault = "no ranges"
    size = (hub.folder / "config.json").stat().st_size
    buffer = bytearray(size)
    model.read_into("config.json", 0, memoryview(buffer))
    assert bytes(buffer) == (hub.folder / "config.json").read_bytes()
    with pytest.raises(FetchError, match="does not send parts"):
        model.read_into("config.json", 0, memoryview(bytearray(size - 1)))


def test_offline_is_one_line(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "offline: hf:org/tiny; unset HF_HUB_OFFLINE" in str(error())
    assert hub.requests == []


def test_the_environment_says_which_hub(tmp_path: Path) -> None:
    made.huggingface_folder(tmp_path, OF)
    code = (
        "import sys; from openmodelatlas.weights.open import open_checkpoint as o; print(o('hf:org/tiny').header.path)"
    )
    with serving(tmp_path) as found:
        environment = {"HF_ENDPOINT": found.address, "NO_PROXY": "127.0.0.1", "PATH": "/bin", "HOME": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == WHERE


def test_no_server_is_one_line(point: Callable[[str], None]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    point(f"http://127.0.0.1:{port}")
    found = error()
    assert isinstance(found, FetchError)
    assert "the Hub cannot be reached: hf:org/tiny" in str(found)


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {},
        {"id": "org/tiny", "sha": 3, "siblings": []},
        {"id": "org/tiny", "sha": COMMIT, "siblings": [{"rfilename": "a", "size": "x"}]},
        {"id": "org/tiny", "sha": "../..", "siblings": [3]},
        "text",
    ],
)
def test_an_answer_that_makes_no_sense_is_one_line(hub: Hub, answer: Any) -> None:
    hub.answer = answer
    assert "the Hub's answer makes no sense: hf:org/tiny" in str(error())


@pytest.mark.parametrize(
    "target", ["hf:", "hf:tiny", "hf:a/b/c", "hf:../x", "hf:org/tiny@", "hf:org/tiny@a b", "hf:a\n/b"]
)
def test_what_is_no_name_is_a_mistake_of_use(point: Callable[[str], None], target: str) -> None:
    point("http://127.0.0.1:9")
    assert type(error(target)) is UsageError


@pytest.mark.usefixtures("hub")
def test_a_model_that_is_not_there() -> None:
    assert "no such model on the Hub, or it is private: hf:org/none" in str(error("hf:org/none"))


def test_faults_of_files_are_found_as_in_a_folder(hub: Hub) -> None:
    large(hub.folder)
    (hub.folder / "model-00002-of-00003.safetensors").unlink()
    (hub.folder / "model-00003-of-00003.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n" * 3)
    codes = {found.code for found in open_checkpoint("hf:org/tiny").findings}
    assert codes == {"files.shard-missing", "files.lfs-pointer"}
    (hub.folder / "config.json").write_text("{")
    assert error().code == "files.json"


def test_a_gguf_file_is_read_by_its_start(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "FIRST", 1 << 10)
    content = tiny.file(tiny.variant(hidden_size=512)).bytes()
    (hub.folder / "a.gguf").write_bytes(content)
    with open_checkpoint(hub.folder) as here, open_checkpoint("hf:org/tiny") as there:
        assert there.header.tensors == here.header.tensors
        assert there.section("") == here.section("")
        assert hub.sent < len(content) / 10
        with pytest.raises(CheckpointError, match="only headers are fetched"):
            there.values("output_norm.weight")
    (hub.folder / "a.gguf").write_bytes(content[:-1000])
    assert error().code == "files.truncated"
    (hub.folder / "a.gguf").write_bytes(content[:2000])
    assert error().code == "files.truncated"


def test_one_of_several_is_chosen_by_its_name(hub: Hub) -> None:
    made.huggingface_folder(hub.folder, OF)
    (hub.folder / "a.gguf").write_bytes(tiny.file().bytes())
    assert error().code == "files.several-checkpoints"
    assert open_checkpoint("hf:org/tiny:a.gguf").scheme == "gguf"
    assert open_checkpoint("hf:org/tiny@v1:model.safetensors").scheme == "huggingface"
    assert type(error("hf:org/tiny:b.gguf")) is UnknownName
    assert error("hf:org/tiny:tokenizer.json").code == "files.not-by-ranges"


def test_folders_of_a_model(hub: Hub) -> None:
    made.huggingface_folder(hub.folder / "below", OF)
    assert error().code == "files.in-folder"
    assert open_checkpoint("hf:org/tiny:below").header.path == f"{WHERE}/below"
    assert open_checkpoint("hf:org/tiny:below/model.safetensors").findings == ()
    shutil.rmtree(hub.folder / "below")
    made.meta_folder(hub.folder / "original", OF, dtype=torch.float32)
    assert error("hf:org/tiny:original").code == "files.not-by-ranges"


def test_a_file_without_a_size_is_refused(hub: Hub) -> None:
    made.huggingface_folder(hub.folder, OF)
    hub.answer = {"id": "org/tiny", "sha": COMMIT, "siblings": [{"rfilename": "model.safetensors"}]}
    found = error()
    assert isinstance(found, NotACheckpoint)
    assert found.code == "files.unknown-size"
