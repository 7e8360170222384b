"""The documents of the project, cut into what tests look at."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_MARKED = re.compile(r"^<!-- (\w+)( [a-z ]+)?: ([^\n]+) -->\n```\w*\n(.*?)^```$", re.M | re.S)
_INLINE = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")


@dataclass(frozen=True)
class Marked:
    """A block under a comment `<!-- KIND WITH: WHAT -->`."""

    document: str
    kind: str
    needs: str
    what: str
    text: str

    @property
    def output(self) -> str:
        """What follows the line with the command."""
        first, _, rest = self.text.partition("\n")
        assert first == f"$ {self.what}", f"{self.document}: the block under `{self.what}` shows another command"
        return rest


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def marked(kind: str, needs: str = "") -> list[Marked]:
    """Every marked block of that kind, over all documents."""
    return [
        Marked(name, m[1], (m[2] or "").strip(), m[3], m[4])
        for name in NAMES
        for m in _MARKED.finditer(read(name))
        if m[1] == kind and (m[2] or "").strip() == needs
    ]


def blocks(text: str, language: str) -> list[str]:
    return [body for found, body in _FENCE.findall(text) if found == language]


def inline(text: str) -> list[str]:
    """Inline code, outside blocks."""
    return [" ".join(code.split()) for code in _INLINE.findall(_FENCE.sub("", text))]


def prose(text: str) -> str:
    """What is left without code, comments and the targets of links."""
    text = re.sub(r"<!--.*?-->", "", _FENCE.sub("", text), flags=re.S)
    return re.sub(r"\]\([^)]*\)", "]", _INLINE.sub("", text))


def rows(text: str, *header: str) -> list[list[str]]:
    """The cells of every table with that header."""
    lines = text.splitlines()
    found, wanted = [], f"| {' | '.join(header)} |"
    for start in (i for i, line in enumerate(lines) if line == wanted):
        for line in lines[start + 2 :]:
            if not line.startswith("|"):
                break
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    assert found, f"no table {wanted}"
    return found


def commands() -> Iterator[tuple[str, str]]:
    """Every command in a shell block or a console, with its document."""
    for name in NAMES:
        text = read(name)
        for block in blocks(text, "sh"):
            yield from ((name, line.partition("#")[0].strip()) for line in block.splitlines() if line.strip())
        for block in blocks(text, "console"):
            yield from ((name, line.removeprefix("$ ")) for line in block.splitlines() if line.startswith("$ "))


def matches(shown: str, real: str) -> bool:
    """Whether output is as shown: a line `…` stands for any lines, `…` in a line for any text."""
    parts = []
    for line in shown.splitlines():
        if line == "…":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(r"[^\n]*".join(map(re.escape, line.split("…"))) + "\n")
    return re.fullmatch("".join(parts), real if real.endswith("\n") else real + "\n") is not None
