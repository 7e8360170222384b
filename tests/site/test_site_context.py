"""The table of positions by who says so, and the conflict where they differ."""

import dataclasses
from pathlib import Path

import made_site
from made_site import read

from openmodelatlas.records.catalog import Figure
from openmodelatlas.site.context import conflict, said
from openmodelatlas.site.facts import facts

SENTENCE = "These figures differ: the definition follows the configuration's"


def test_the_rows_say_who_says_what() -> None:
    rows = said(made_site.page("llama-3.1-8b"))
    assert [(row.who, row.positions, row.aside) for row in rows] == [
        ("configuration", "131,072", False),
        ("maker's card", "131,072", False),
        ("before the scaling", "8,192", True),
        ("reference code's default", "2,048", True),
    ]
    assert all(row.source and row.state == "stated" for row in rows)
    assert "no limit" in rows[2].note
    assert "no limit" in rows[3].note


def test_what_is_no_statement_of_a_length_makes_no_conflict() -> None:
    assert conflict(made_site.page("llama-3.1-8b")) == ""


def test_any_other_number_makes_one() -> None:
    page = made_site.page("llama-3.1-8b")
    card = Figure(positions=131000, source="a card", note=None)
    model = dataclasses.replace(page.model, context=dataclasses.replace(page.model.context, advertised=card))
    changed = dataclasses.replace(page, model=model)
    assert conflict(changed).startswith(f"{SENTENCE} 131,072")
    assert next(f.state for f in facts(changed.graph, model) if f.name == "context") == "conflict"
    assert next(f.state for f in facts(page.graph, page.model) if f.name == "context") is None


def test_the_pages_show_it(site: Path) -> None:
    small = read(site / "smollm2-135m" / "index.html")
    assert f"{SENTENCE} 8,192" in small.text
    assert "huggingface/smollm @ a041759883ec" in small.text
    strip = small.source.partition('<dl class="strip">')[2].partition("</dl>")[0]
    assert strip.count('class="state conflict"') == 1
    section = small.source.partition('<section class="card context">')[2].partition("</section>")[0]
    assert section.partition("</h2>")[0].count('class="state conflict"') == 1
    plain = read(site / "llama-3-8b" / "index.html")
    assert "Context, by who says so" in plain.text
    assert SENTENCE not in plain.text
