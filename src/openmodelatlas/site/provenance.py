"""The line under a model's name that says what its map rests on, and what nobody has checked."""

from collections.abc import Sequence
from html import escape

from openmodelatlas.catalog.annotate import url_of
from openmodelatlas.records.catalog import Deviation, Reference
from openmodelatlas.records.evidence import Claim
from openmodelatlas.site.inputs import ModelPage
from openmodelatlas.site.panel import Row
from openmodelatlas.site.words import SHORT, pin_words

FULL = 40
"""Digits of a git revision; a package has a version."""


def provenance_line(page: ModelPage, verdict: str = "", rows: Sequence[Row] = ()) -> str:
    """Reference code, how the model departs from it, configuration, and what is not verified, as HTML.

    `rows`: of the panel, which say what of the rest is verified, and by what.
    `verdict`: of the checkpoint that the page shows; it stands in place of what is not verified without one."""
    made = page.provenance
    ref = made.reference
    parts = [f"Reference code {_code(ref)}"]
    buts = [_but(deviation, claim) for deviation, claim in made.deviations]
    if not made.own:
        parts[0] += f", which computes as {escape(made.computes_as)}"
        parts[0] += f" but for {_listed(buts)}" if buts else ""
    elif buts:
        parts[0] += f", but for {_listed(buts)}"
    by = {row.name: row.by for row in rows if row.by}
    missing = [name for name in made.not_verified if name not in by]
    tail = ""
    for words in dict.fromkeys(by[name] for name in made.not_verified if name in by):
        names = _listed([name for name in made.not_verified if by.get(name) == words])
        tail += f" · {escape(names)} verified ({escape(words)})"
    tail += f' · <span class="unverified">{escape(_listed(missing))} not verified</span>' if missing else ""
    if verdict:
        tail = f" · checkpoint: {escape(verdict)}"
    return f"{parts[0]}; configuration {_configuration(page)}{tail}"


def _code(ref: Reference) -> str:
    """A repository at its revision, as a link; of a package, which has no page of its own, version and file."""
    if len(ref.revision) < FULL:
        return escape(f"{ref.repo}=={ref.revision}, {ref.path.rpartition('/')[2]}")
    url = f"https://github.com/{ref.repo}/blob/{ref.revision}/{ref.path}"
    return f'<a href="{url}" rel="noreferrer">{escape(ref.repo)} @ {ref.revision[:SHORT]}</a>'


def _but(deviation: Deviation, claim: Claim | None) -> str:
    if claim is None:
        return escape(deviation.summary)
    return f"{escape(deviation.summary)} ({_pin(claim)})"


def _pin(claim: Claim) -> str:
    """`meta-llama/llama-models @ 5fdf831, model.py 45–69`: the repository's name for the lines if it has one."""
    pins = [claim.pin, *(pin for pin in claim.also if pin.place.blob == claim.pin.place.blob)]
    pin = next((pin for pin in pins if pin.place.kind == "git"), claim.pin)
    words = pin_words(pin)
    if pin.place.kind != "git":
        return escape(words)
    url = url_of(pin.place, (pin.ranges[0].first, pin.ranges[-1].last))
    return f'<a href="{url}" rel="noreferrer">{escape(words)}</a>'


def _configuration(page: ModelPage) -> str:
    made = page.provenance
    if made.configuration_claim is not None:
        return escape(pin_words(made.configuration_claim.pin))
    return escape(made.configuration.source)


def _listed(items: list[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]
