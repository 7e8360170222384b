"""`oma tokens`: what it prints, and its exit codes."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_checkpoints as made
import pytest
import tiny

from openmodelatlas.cli.main import main

Write = Callable[..., Path]
HELLO = tiny.tokenizer()["tokenizer.ggml.tokens"].index("hello")


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["tokens", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_ids_pieces_and_bytes(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    found = lines(capsys, str(write()), "helloé<|end|>")
    assert found[:4] == [
        f"{HELLO}   'hello'    68 65 6c 6c 6f",
        "197   '\ufffd'        c3",
        "171   '\ufffd'        a9",
        "  0 * '<|end|>'  3c 7c 65 6e 64 7c 3e",
    ]
    assert found[4] == "4 tokens of tokenizer.ggml, 272 ids; beginning: 1 <|start|> not added, as the checkpoint says"
    assert found[5] == "names of control tokens are control tokens; --literal takes them as text"


def test_control_strings_as_text(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault F89: the mode is told."""
    found = lines(capsys, str(write()), "<|end|>", "--literal")
    assert found[-2].startswith("7 tokens of")
    assert found[-1] == "names of control tokens are text (--literal)"
    assert not any("*" in line for line in found)


def test_the_beginning(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write())
    assert lines(capsys, path, "x", "--bos")[0].startswith("  1 * '<|start|>'")
    assert "added, as asked" in lines(capsys, path, "x", "--bos")[-2]
    assert "not added, as asked" in lines(capsys, path, "x", "--no-bos")[-2]


def test_json(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads("\n".join(lines(capsys, str(write()), "hello", "--json", "--bos")))
    assert content["tokens"] == [
        {"id": 1, "kind": "control", "entry": "<|start|>", "bytes": "3c 7c 73 74 61 72 74 7c 3e"},
        {"id": HELLO, "kind": "text", "entry": "hello", "bytes": "68 65 6c 6c 6f"},
    ]
    assert (content["tokenizer"], content["vocabulary"], content["decoded"]) == (
        "tokenizer.ggml",
        272,
        "<|start|>hello",
    )


def test_folders_and_files_of_a_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made.huggingface_folder(tmp_path / "model", tiny.variant())
    (tmp_path / "alone").mkdir()
    made.write_tokenizer(tmp_path / "alone")
    for target in (tmp_path / "model", tmp_path / "alone", tmp_path / "alone" / "tokenizer.json"):
        found = lines(capsys, str(target), "hello")
        assert found[0].startswith(f"{HELLO}   'hello'")
        assert found[1].startswith("1 token of tokenizer.json")


def piped(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))


def test_text_from_a_pipe(write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, b"hello")
    assert lines(capsys, str(write()), "-")[0].startswith(f"{HELLO}   'hello'")
    piped(monkeypatch, b"ab\xff")
    assert main(["tokens", str(write()), "-"]) == 1
    assert capsys.readouterr().err == "oma tokens: the text is not UTF-8: stdin; found byte 2 is not\n"


@pytest.mark.parametrize(
    ("change", "arguments", "code", "words"),
    [
        ({"tokenizer.ggml.pre": "new"}, [], 1, "a way of cutting text that is not known: tokenizer.ggml.pre"),
        ({"tokenizer.ggml.bos_token_id": None}, ["--bos"], 1, "the tokenizer has no beginning"),
        ({}, ["a\udcff"], 1, "text is not valid Unicode: character 1"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    write: Write,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    file = tiny.file()
    file.metadata = {key: value for key, value in {**file.metadata, **change}.items() if value is not None}
    text = [] if any(not argument.startswith("-") for argument in arguments) else ["x"]
    assert main(["tokens", str(write(file)), *text, *arguments]) == code
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_nothing_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tokens", str(tmp_path / "no"), "x"]) == 2
    assert main(["tokens", str(tmp_path), "x"]) == 2
    assert capsys.readouterr().err.count("\n") == 2
