"""Typeset the short symbols of values in SVG: a base, its accent, primes, a subscript and a superscript.

Formulas on pages are KaTeX's work. A diagram has to stand alone as a picture, so its few symbols are set here, with the
same fonts where they are at hand.
"""

import re
from dataclasses import dataclass
from html import escape

from openmodelatlas.records.plain_math import symbol_text

_GLYPHS = {
    "Delta": "Δ", "theta": "θ", "varphi": "φ", "gamma": "γ", "ell": "ℓ", "cos": "cos", "sin": "sin", "lambda": "λ",
    "alpha": "α", "pi": "π",
}  # fmt: skip
_UPRIGHT = {"Δ", "cos", "sin"}
_WIDTH = {"cos": 1.3, "sin": 1.2, "Δ": 0.83, "ℓ": 0.42, "K": 0.85, "Q": 0.79, "M": 0.97, "P": 0.64, "O": 0.76,
          "V": 0.77, "Z": 0.68, "t": 0.36, "x": 0.57}  # fmt: skip
_PATTERN = re.compile(r"(?:\\(?P<accent>hat|tilde)\{(?P<inner>[^{}]+)\}|\\(?P<name>[A-Za-z]+) ?|(?P<char>[^\\_^{}' ]))")
_SCRIPT = re.compile(r"(?P<kind>[_^])(?:\{(?P<group>(?:[^{}]|\{[^{}]*\})*)\}|(?P<one>\\?[A-Za-z0-9]+?))")


@dataclass(frozen=True)
class Piece:
    """A run of one style: what, its shift down in em, relative size, upright or italic, and an accent above it."""

    text: str
    shift: float = 0.0
    size: float = 1.0
    upright: bool = False
    accent: str = ""

    @property
    def width(self) -> float:
        """In em of the symbol's size."""
        return self.size * sum(_WIDTH.get(c, 0.55) for c in ([self.text] if self.text in _WIDTH else self.text))


def pieces(latex: str) -> tuple[Piece, ...]:
    """The runs of a symbol; one that this small grammar does not know becomes its plain text."""
    out: list[Piece] = []
    at = 0
    while at < len(latex):
        if latex[at] in " {}":
            at += 1
        elif latex[at] == "'":
            out.append(Piece("′", -0.3, 0.72, upright=True))
            at += 1
        elif script := _SCRIPT.match(latex, at):
            text = script["group"] if script["group"] is not None else script["one"]
            shift = 0.28 if script["kind"] == "_" else -0.38
            out += _script(text, shift)
            at = script.end()
        elif base := _PATTERN.match(latex, at):
            inner = base["inner"] or ""
            text = _GLYPHS.get(inner[1:], "") if inner.startswith("\\") else inner
            text = text or base["char"] or _GLYPHS.get(base["name"], "")
            if not text:
                return (Piece(symbol_text(latex), upright=True),)
            out.append(Piece(text, upright=text in _UPRIGHT, accent=base["accent"] or ""))
            at = base.end()
        else:
            return (Piece(symbol_text(latex), upright=True),)
    return tuple(out)


def _script(text: str, shift: float) -> list[Piece]:
    """Words stand upright, so do digits and signs; letters are italic."""
    if "mathrm" in text:
        return [Piece(symbol_text(text), shift, 0.72, upright=True)]
    runs = re.findall(r"[A-Za-z]+|[^A-Za-z]+", symbol_text(text))
    return [Piece(run, shift, 0.72, upright=not run.isalpha()) for run in runs]


def symbol_width(latex: str, size: float) -> float:
    """Width of a symbol in pixels."""
    return sum(piece.width for piece in pieces(latex)) * size


def symbol_svg(latex: str, x: float, y: float, size: float) -> str:
    """SVG of a symbol whose baseline starts at x, y."""
    spans, marks, left, level = [], [], x, 0.0
    for piece in pieces(latex):
        style = "u" if piece.upright else "i"
        down = (piece.shift - level) * size
        move = f' dy="{down:.1f}"' if abs(down) > 0.05 else ""
        scale = f' font-size="{piece.size * size:.1f}"' if piece.size != 1 else ""
        spans.append(f'<tspan class="{style}"{move}{scale}>{escape(piece.text)}</tspan>')
        level = piece.shift
        if piece.accent:
            marks.append(_accent(piece, left, y, size))
        left += piece.width * size
    return f'<text class="sym" x="{x:.1f}" y="{y:.1f}" font-size="{size:g}">{"".join(spans)}</text>{"".join(marks)}'


def _accent(piece: Piece, left: float, y: float, size: float) -> str:
    middle = left + piece.width * size * 0.54
    top = y - size * (0.86 if piece.text.isupper() else 0.62)
    if piece.accent == "hat":
        return f'<path class="acc" d="M{middle - 2.6:.1f} {top + 2:.1f}l2.6 -2.4l2.6 2.4"/>'
    return f'<path class="acc" d="M{middle - 3.2:.1f} {top + 1:.1f}q1.6 -2.4 3.2 -0.8t3.2 -0.8"/>'
