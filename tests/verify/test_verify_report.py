"""The forms of a report: text, GitHub's, JUnit's; whatever a file's names hold, and however much is wrong."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import tiny
from gguf_writer import File, f32

from openmodelatlas.cli import render_report, render_report_ci
from openmodelatlas.cli.main import main
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Check, Report, Waived
from openmodelatlas.verify.report_groups import grouped, pattern

Write = Callable[..., Path]
HOSTILE = "a<script>alert(1)</script>::error::\r\n::stop-commands::x\0\x1b[31m%0A]]>&\"'`|\u202e\ud800\ufffe"
"""What a tensor of somebody else's file may be called: markup, commands, ends of lines, controls, half a character."""


def report(*places: str, code: str = "tensors.surplus", notes: tuple[str, ...] = (), target: str = "x") -> Report:
    """A report with a finding at each place."""
    flaws = tuple(finding(code, place, expected="none", found=place) for place in places)
    return Report(
        target=target,
        ok=not flaws,
        model=None if flaws else "tiny",
        nearest="tiny",
        format="GGUF v3",
        counts={"total": 1234},
        checks=(
            Check(name="files", state="ok", detail="GGUF v3"),
            Check(name="tensors", state="failed" if flaws else "ok", detail="counted", notes=notes),
            Check(name="values", state="not run", detail="not read"),
        ),
        findings=flaws,
        waived=(),
    )


def text(of: Report) -> str:
    return "\n".join(render_report.lines(of))


def test_the_sections_come_in_their_order() -> None:
    assert text(report()).splitlines() == [
        "1 Files",
        "  ok    files          GGUF v3",
        "2 Ledger",
        "  ok    tensors        counted",
        "  -     values         not read",
        "        total 1,234",
        "3 Verdict",
        "  x is tiny",
    ]


def test_a_kind_is_told_once_with_what_to_do() -> None:
    flaw = finding("files.truncated", "a.gguf", expected="9 bytes", found="8")
    made = dataclasses.replace(report(), ok=False, findings=(flaw,))
    assert text(made).splitlines()[2:5] == [
        "        truncated [files.truncated]",
        "          at a.gguf: expected 9 bytes; found 8",
        "          fetch the file again",
    ]
    assert text(made).endswith("x does not hold: 1 finding")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["a.7.b"], "a.7.b"),
        ([f"blocks.{n}.q" for n in range(32)], "blocks.{0..31}.q"),
        (["b.0", "b.1", "b.3"], "b.{0..1,3}"),
        (["b.3", "b.1"], "b.{1,3}"),
        ([f"b.{n}.e.{e}" for n in (4, 5) for e in (0, 2)], "b.{4..5}.e.{0,2}"),
        ([f"b.{n}" for n in range(0, 40, 2)], "b.{0,2,4,6,8,…,38}"),
        (["9" * 5000], "9" * 5000),
    ],
)
def test_places_that_differ_in_numbers_are_one(texts: list[str], expected: str) -> None:
    assert pattern(texts) == expected


def test_thousands_of_findings_stay_on_a_screen() -> None:
    made = report(*(f"blocks.{n}.{leaf}" for n in range(500) for leaf in "abcdefgh"))
    lines = text(made).splitlines()
    assert len(lines) < 20
    assert "          at blocks.{0..499}.a (500 places): expected none; found blocks.0.a" in lines
    assert "          and 2,000 more (--json lists all)" in lines
    assert sum(len(group.findings) for group in grouped(made.findings)) == 4000


def test_no_name_ends_a_line_or_speaks_to_a_terminal() -> None:
    made = text(report(HOSTILE, target=HOSTILE, notes=(HOSTILE,)))
    assert all(character.isprintable() for line in made.split("\n") for character in line)
    assert not [line for line in made.split("\n") if line.lstrip().startswith(("::", "##["))]
    assert r"\x00\x1b[31m" in made
    assert r"\u202e\ud800\ufffe" in made


def test_github_takes_one_command_a_line() -> None:
    made = list(render_report_ci.github(report(HOSTILE, target="a,b:c%d\ne")))
    assert all("\n" not in line and "\r" not in line for line in made)
    assert [line for line in made if line.startswith("::")] == made[:-1]
    match = re.fullmatch(r"::error file=([^,:]*),title=([^,:]*)::(.*)", made[0])
    assert match is not None
    assert match[1] == "a%2Cb%3Ac%25d e"
    assert match[2] == "a stored tensor has no owner [tensors.surplus]"
    assert "%250A" in match[3]  # the name's own per cent sign is no escape


def test_github_gets_no_more_than_it_shows() -> None:
    made = list(render_report_ci.github(report(*("x" * n for n in range(1, 400)))))
    assert len(made) < 60
    assert "and 349 more" in made[-2]


def test_the_summary_of_a_workflow_is_inert() -> None:
    made = render_report_ci.summary(report(HOSTILE, "[a](b) | @me"))
    assert "<script" not in made
    assert r"\[a\]\(b\) \| \@me" in made
    assert all(line.startswith(("#", "|", "- ")) or not line for line in made.split("\n"))


def test_junit_is_xml_whatever_a_name_holds() -> None:
    waived = Waived(finding=finding("tensors.missing", HOSTILE), reason="known", expires="2999-01-01")
    made = dataclasses.replace(report(HOSTILE, target=HOSTILE, notes=(HOSTILE,)), waived=(waived,))
    root = ElementTree.fromstring(render_report_ci.junit(made).encode("utf-8"))
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    cases = {case.get("name"): case for case in suite.findall("testcase")}
    assert list(cases) == ["files", "tensors", "values"]
    failure = cases["tensors"].find("failure")
    assert failure is not None
    assert failure.get("type") == "tensors.surplus"
    assert "a<script>" in (failure.text or "")
    assert cases["files"].find("failure") is None
    skipped = cases["values"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "not read"


def test_a_failed_check_whose_findings_have_another_home_is_still_told() -> None:
    made = dataclasses.replace(report(), ok=False, findings=(finding("hash.differs", "x", found="y"),))
    assert "not the file that the catalogue names [hash.differs]" in text(made)


@pytest.mark.parametrize("form", [["--json"], ["--format", "json"], ["--format", "github"], ["--format", "junit"]])
def test_what_is_no_checkpoint_has_a_report_for_machines(
    form: list[str], write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n", "model.gguf")
    assert main(["verify", str(path), *form]) == 2
    out, err = capsys.readouterr()
    assert err == ""
    assert "files.lfs-pointer" in out
    if "json" in form[-1]:
        made = json.loads(out)
        assert made["ok"] is False
        assert made["findings"][0]["where"] == str(path)
    if form[-1] == "junit":
        ElementTree.fromstring(out)


def test_json_or_another_form(tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tiny_checkpoint), "--json", "--format", "junit"]) == 2
    assert "two forms of one output" in capsys.readouterr().err


def test_a_workflow_gets_its_summary(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    made = tiny.file()
    path = write(File(made.metadata, [*made.tensors, f32("x", np.ones(32))]))
    assert main(["verify", str(path), "--format", "github"]) == 1
    assert summary.read_text().startswith("before\n### ")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "folder"))
    assert main(["verify", str(path), "--format", "github"]) == 1
    assert "no summary written" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--html", "x.html"], ["--values"], ["--against", "x"], ["--format", "json"]])
def test_options_of_checkpoints_are_not_for_models(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "llama-3-8b", *option]) == 2
    assert f"{option[0]} is for checkpoints: llama-3-8b" in capsys.readouterr().err
    assert main(["verify", "--list", *option]) == 2
    assert main(["verify", "--all", *option]) == 2


def test_a_repository_of_the_hub_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "meta-llama/Llama-3.1-8B"]) == 2
    assert "on the Hub it is hf:meta-llama/Llama-3.1-8B" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--values"], ["--against", "x.gguf"], ["--record"]])
def test_no_tensor_of_a_repository_is_read(
    option: list[str], write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(name="x.gguf")
    monkeypatch.chdir(tmp_path)
    assert main(["verify", "hf:a/b", *option]) == 2
    assert option[0] in capsys.readouterr().err
