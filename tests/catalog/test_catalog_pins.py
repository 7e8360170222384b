"""Every pin against the real text: the wheel (fetched into the reader's cache), and git where a mirror is given."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from catalog_help import stands_in

from openmodelatlas.catalog import find
from openmodelatlas.catalog.checkpoints import find as find_checkpoint
from openmodelatlas.catalog.load import references
from openmodelatlas.evidence.resolve import resolve
from openmodelatlas.fetch import checkpoints as files
from openmodelatlas.records.evidence import Claim, PinReport

CLAIMS = [claim for reference in references().values() for claim in reference.claims]
MIRROR = os.environ.get("OMA_TEST_MIRROR")


HOMES = {reference.id: reference.home for reference in references().values()}


def expressions_stand(claim: Claim, reports: Mapping[str, tuple[PinReport, ...]], kind: str) -> int:
    """How many of a claim's expressions were looked up in pins of that kind: its own, or another version of the same
    code. Each must stand there; code of others says the same in other words."""
    looked, own = 0, reports[claim.id][0]
    for report in reports[claim.id]:
        version = report is own or HOMES[claim.reference].kind == "git"
        if report.pin.place.kind == kind and version:
            for node, expression in claim.expressions.items():
                assert stands_in(expression, "\n".join(report.text)), (claim.id, node, report.pin.place.path)
                looked += 1
    return looked


@pytest.mark.network
def test_every_wheel_pin_holds_and_every_expression_stands_in_it() -> None:
    reports = resolve(CLAIMS, offline=False)
    wheels = [r for rows in reports.values() for r in rows if r.pin.place.kind == "wheel"]
    wrong = [(r.claim, r.status, r.detail) for r in wheels if r.status != "same"]
    assert wrong == []
    assert {r.claim for r in wheels} == {claim.id for claim in CLAIMS}, "every claim has lines in a wheel"
    assert all(expressions_stand(c, reports, "wheel") == len(c.expressions) for c in CLAIMS)


@pytest.mark.network
@pytest.mark.skipif(MIRROR is None, reason="OMA_TEST_MIRROR names no folder of git mirrors")
def test_every_git_pin_holds_in_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMA_CACHE", str(tmp_path))  # so that the mirror answers, not the cache
    reports = resolve(CLAIMS, mirror=Path(MIRROR or ""), offline=True)
    git = [r for rows in reports.values() for r in rows if r.pin.place.kind == "git"]
    wrong = [
        (r.claim, r.status, r.detail) for r in git if (r.status, r.via) not in (("same", "mirror"), ("same", "cache"))
    ]
    assert wrong == []
    assert len(git) > 40
    assert sum(expressions_stand(claim, reports, "git") for claim in CLAIMS) >= 40


NAMED = {
    "llama-3-8b": ("llama3_8b,", '"dim": 4096', "128256"),
    "llama-3-70b": ("llama3_70b,", '"dim": 8192', "128256"),
    "llama-3.1-8b": ("llama3_1_8b,", '"dim": 4096', "128256"),
    "llama-3.1-70b": ("llama3_1_70b,", '"dim": 8192', "128256"),
    "llama-3.1-405b": ("bf16-mp8", '"n_layers": 126', "128256"),
    "llama-3.2-1b": ("llama3_2_1b,", '"dim": 2048', "128256"),
    "llama-3.2-3b": ("llama3_2_3b,", '"dim": 3072', "128256"),
    "llama-3.3-70b": ("llama3_3_70b_instruct,", '"dim": 8192', "128256"),
    "gemma-3-1b": ("class Gemma3_1B", "_NUM_LAYERS_GEMMA3_1B = 26", "6 * 1152"),
    "gemma-3-4b": ("class Gemma3_4B", "_NUM_LAYERS_GEMMA3_4B = 34", "2560 * 8 // 2"),
    "gemma-3-12b": ("class Gemma3_12B", "_NUM_LAYERS_GEMMA3_12B = 48", "8 * 30 * 128 // 2"),
    "gemma-3-27b": ("class Gemma3_27B", "_NUM_LAYERS_GEMMA3_27B = 62", "5376 * 8 // 2"),
}
LISTED = {m.id: m.configuration.claim for m in find.models() if m.configuration.claim}


@pytest.mark.network
@pytest.mark.parametrize("model", LISTED)
def test_the_configuration_lines_name_their_model(model: str) -> None:
    text = "\n".join(resolve([find.claim(LISTED[model])])[LISTED[model]][0].text)
    assert [part for part in NAMED[model] if part not in text] == []


@pytest.mark.network
@pytest.mark.slow
def test_the_demo_checkpoint_is_what_it_is_pinned_to_be() -> None:
    checkpoint = find_checkpoint("smollm2-135m-instruct")
    path = files.pull(checkpoint)
    assert path.stat().st_size == checkpoint.bytes
    with path.open("rb") as file:
        assert file.read(4) == b"GGUF"
    assert files.present(checkpoint, check=True)
