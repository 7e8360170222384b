"""Commands in the documents: they exist, parse, and the README's table is the command line's own."""

import argparse
import re
import shlex

import pytest
from docs_help import NAMES, ROOT, blocks, commands, inline, read, rows

from openmodelatlas.cli.main import parser


def subparsers() -> dict[str, argparse.ArgumentParser]:
    top = parser()
    action = next(a for a in top._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def form(sub: argparse.ArgumentParser) -> tuple[list[str], set[str]]:
    """Positional arguments as a usage line writes them, and the long options."""
    words, options = [], set[str]()
    for action in sub._actions:
        if action.option_strings:
            options.update(o for o in action.option_strings if o.startswith("--") and o != "--help")
        else:
            word = str(action.metavar or action.dest.upper())
            words.append(f"[{word}]" if action.nargs in ("?", "*") else word)
    return words, options


def documented() -> dict[str, tuple[list[str], set[str]]]:
    found = {}
    for first, _ in rows(read("README.md"), "command", "what it does"):
        usage, *options = re.findall(r"`([^`]+)`", first)
        _, name, *words = usage.replace("\\|", "|").split()
        found[name] = (words, {o for text in options for o in text.split()})
    return found


def test_the_table_of_commands_is_the_command_line() -> None:
    assert documented() == {name: form(sub) for name, sub in subparsers().items()}


def parses(arguments: list[str]) -> bool:
    try:
        parser().parse_args(arguments)
    except SystemExit:
        return False
    return True


@pytest.mark.parametrize(("name", "line"), list(commands()), ids=str)
def test_commands_in_blocks_are_understood(name: str, line: str) -> None:
    words = shlex.split(line)
    if words[0] == "oma":
        assert parses(words[1:]), f"{name}: {line}"
    elif words[0] == "make":
        assert set(words[1:]) <= targets(), f"{name}: {line}"
    else:
        pytest.fail(f"{name}: a command that no test reads: {line}")


@pytest.mark.parametrize("name", NAMES)
def test_commands_in_sentences_are_understood(name: str) -> None:
    known = subparsers()
    for code in inline(read(name)):
        words = code.split()
        if words[0] != "oma" or len(words) == 1 or words[1] == "COMMAND" or "`oma" in code or "\\|" in code:
            continue
        assert words[1] in known, f"{name}: {code}"
        if len(words) > 2 and not any(w.startswith("[") for w in words):
            assert parses(shlex.split(code)[1:]), f"{name}: {code}"


def targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return {t for line in re.findall(r"^([a-z][\w -]*):(?!=)", text, re.M) for t in line.split()}


@pytest.mark.parametrize("name", NAMES)
def test_make_targets_exist(name: str) -> None:
    asked = {c.split()[1] for c in inline(read(name)) if re.fullmatch(r"make [a-z-]+", c)}
    assert asked <= targets()


def test_every_block_has_a_language() -> None:
    for name in NAMES:
        assert blocks(read(name), "") == [], name
