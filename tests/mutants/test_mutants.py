"""A sample of the mutants on every run; all of them by `python -m tests.mutants`."""

import subprocess
import sys
from pathlib import Path

import pytest

from openmodelatlas import models

from . import __main__ as command
from .code import mutants

ROOT = Path(__file__).parents[2]
SAMPLE = 40


def test_a_sample_is_noticed() -> None:
    """In a process of its own, since each mutant is a fork."""
    asked = [sys.executable, "-m", "tests.mutants", "--sample", str(SAMPLE), "--jobs", "2"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "all " in done.stdout


def test_mutants_are_many_distinct_and_the_same_every_time() -> None:
    first, second = command.made(()), command.made(())
    assert [m.key for m in first] == [m.key for m in second]
    assert len({m.key for m in first}) == len(first) > 1500
    assert {"definition", "equation", "catalogue"} == {m.kind for m in first}
    families = {variant.family for variant in models.variants().values()}
    named = {"shared parts", "statements", *families}
    assert {m.of for m in first} == named
    for family in families:
        assert len({m.key for m in first if m.of == family and m.kind == "definition"}) > 100


def test_every_survivor_is_one_that_is_made_and_has_a_reason() -> None:
    made = {m.key for m in command.made(())}
    listed = command.survivors(pins=False)
    assert set(listed) <= made
    assert len(listed) < 0.02 * len(made)
    assert all(len(reason) > 30 for reason in command.survivors().values())


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("def f(x, y):\n    return x - y\n", "x + y"),
        ("def f(x, y):\n    return x - y\n", "y - x"),
        ("def f(x, y):\n    return x < y\n", "x <= y"),
        ("def f(x):\n    return x.exp().type_as(x) * 3\n", "(x.exp() * 3).type_as(x)"),
        ("def f(x):\n    return g(x.float())\n", "g(x)"),
        ("def f(x):\n    x = 2 * x\n    return x\n", "pass"),
        ("def f(x):\n    return x if x is None else -x\n", "-x if x is None else x"),
    ],
)
def test_changes(source: str, wanted: str) -> None:
    assert any(wanted in m.source for m in mutants("any", "any", source))


def test_annotations_docstrings_and_imports_are_left_alone() -> None:
    source = """
import math

class A:
    "One 1."

    x: Float["3 4"]

    def f(self, x: int) -> "5":
        "Two 2."
"""
    assert list(mutants("any", "any", source)) == []
