"""Mutants of what is not code: equations in docstrings, numbers of the catalogue."""

import re
from collections.abc import Iterator

from .code import Mutant

SWAPS = (
    (r"\cos", r"\sin"),
    (r"\sin", r"\cos"),
    (r"\le", r"\ge"),
    (" + ", " - "),
    (" - ", " + "),
    (r"\sqrt{", r"\exp{"),
    (r"\odot", "+"),
    (r"\exp", r"\sin"),
    (r"\lfloor", r"\lceil"),
    (r"^{\top}", ""),
    (" < ", r" \le "),
    (" > ", r" \ge "),
    (r"\infty", "1"),
    ("2i", "i"),
    ("2i+1", "2i"),
    ("-2", "2"),
    (r"2\pi", r"\pi"),
    (r"\frac{1}{d}", ""),
    ("^{2}", ""),
    ("j=1", "j=2"),
    ("{h,t,s}", "{h,s,t}"),
    (r"_{s'}", "_{t}"),
    (r"\leftarrow", r"\rightarrow"),
    ("E + e", "e + E"),
    (r"\sum", r"\prod"),
)


def equations(target: str, source: str) -> Iterator[Mutant]:
    """Each token of each equation changed, each port and constant named otherwise."""
    for match in re.finditer(r"^class (\w+).*?^    Equation:\n(.*?)(?=^    \w+:|^    \"\"\")", source, re.M | re.S):
        text, start = match[2], match.start(2)
        changes = [(m.start(), old, new) for old, new in SWAPS for m in re.finditer(re.escape(old), text)]
        macros = list(dict.fromkeys(re.findall(r"\\(?:port|param|const)\{[\w.]+\}", text)))
        for old, new in zip(macros, macros[1:] + macros[:1], strict=True):
            changes += [(m.start(), old, new) for m in re.finditer(re.escape(old), text) if new != old]
        for at, old, new in changes:
            changed = source[: start + at] + new + source[start + at + len(old) :]
            what = f"{match[1]}: equation, `{old}` → `{new}` at {at}"
            yield Mutant(kind="equation", target=target, scope=match[1], what=what, source=changed)


def numbers(target: str, source: str) -> Iterator[Mutant]:
    """Each configured context of a release."""
    for index, match in enumerate(re.finditer(r"^config = \{ positions = (\d+)", source, re.M), 1):
        for new in (int(match[1]) + 1, int(match[1]) * 2):
            changed = f"{source[: match.start(1)]}{new}{source[match.end(1) :]}"
            what = f"context {index}, {match[1]} → {new}"
            yield Mutant(kind="catalogue", target=target, scope="context", what=what, source=changed)
