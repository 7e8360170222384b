import tomllib
from typing import Any

import pytest

from openmodelatlas.catalog import find, load
from openmodelatlas.errors import CatalogError

TEXT = """
id = "acme"
title = "Acme"
home = "git"
[place.git]
kind = "git"
source = "acme/thing"
revision = "{rev}"
path = "thing.py"
blob = "{rev}"
license = "none"
[[claim]]
id = "one"
statement = "It is so."
at = "git"
lines = [[1, 2, "{sha}"], [4, 4, "{sha}"]]
direct = ["a"]
contextual = ["b"]
[claim.expressions]
"a" = "x"
""".format(rev="0" * 40, sha="1" * 64)


def read(text: str) -> Any:
    return load._reference(load.Entry(tomllib.loads(text), "test.toml"))


def test_the_sample_is_right() -> None:
    claim = read(TEXT).claims[0]
    assert (claim.reference, [(r.first, r.last) for r in claim.pin.ranges]) == ("acme", [(1, 2), (4, 4)])


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('title = "Acme"\n', "", "missing key.*title"),
        ('title = "Acme"', 'title = "Acme"\ntitel = "x"', "surplus key.*titel"),
        ('title = "Acme"', "title = 3", "wrong kind.*title"),
        ("[1, 2,", "[3, 2,", "lines"),
        ("[1, 2,", "[0, 2,", "lines"),
        ("[4, 4,", "[2, 4,", "lines"),
        ('"1111', '"x111', "lines"),
        ('at = "git"', 'at = "elsewhere"', "unknown place.*elsewhere"),
        ('contextual = ["b"]', 'contextual = ["a"]', "direct and contextual"),
        ('contextual = ["b"]', 'contextual = ["b"]\ncaveat = "no"', "a caveat about what a node computes.*one"),
        ('"a" = "x"', '"c" = "x"', "expression for a node not claimed.*c"),
        ('path = "thing.py"', 'path = "../thing.py"', "path"),
        ('path = "thing.py"', 'path = "-thing.py"', "path"),
        ('revision = "0000', 'revision = "--00', "revision"),
        ('kind = "git"', 'kind = "wheel"', "wheel_sha256"),
    ],
)
def test_an_impossible_file_is_named(old: str, new: str, complaint: str) -> None:
    assert old in TEXT
    with pytest.raises(CatalogError, match=complaint) as caught:
        read(TEXT.replace(old, new, 1))
    assert "test.toml" in str(caught.value)


def test_a_conflict_or_a_drop_must_name_a_claim_that_is_made() -> None:
    from dataclasses import replace

    model = find.model("llama-3.2-1b")
    with pytest.raises(CatalogError, match=r"not made.*kv-cash"):
        find.claims(replace(model, conflicts={"kv-cash": "no"}))
    with pytest.raises(CatalogError, match=r"unknown claim.*nothing"):
        find.claims(replace(model, deviations=(replace(model.deviations[0], drops=("nothing",)),)))
