"""Formulas: LaTeX to HTML by KaTeX, run inside Python. Each distinct formula is set once for all pages."""

import re
from collections.abc import Mapping
from html import escape
from typing import Any

import dukpy

from openmodelatlas.errors import DefinitionError
from openmodelatlas.site import assets

_RENDER = """
katex.renderToString(dukpy['tex'], {
  displayMode: dukpy['display'], output: 'html', strict: 'ignore', throwOnError: true,
  trust: function (context) { return context.command === '\\\\htmlData'; }
})
"""


class Maths:
    """A running KaTeX and what it has set so far."""

    def __init__(self) -> None:
        script = (assets.need() / assets.SCRIPT).read_text(encoding="utf-8")
        self._engine: Any = dukpy.JSInterpreter()
        self._engine.evaljs(script)
        self._done: dict[tuple[str, bool], str] = {}

    def html(self, tex: str, *, display: bool = False) -> str:
        """The formula as HTML; one that KaTeX refuses is a DefinitionError that shows it."""
        key = (tex, display)
        if key not in self._done:
            try:
                self._done[key] = str(self._engine.evaljs(_RENDER, tex=tex, display=display))
            except dukpy.JSRuntimeError as error:
                reason = str(error).splitlines()[0]
                raise DefinitionError("KaTeX cannot set a formula", where=tex, found=reason) from error
        return self._done[key]

    def lit(self, tex: str, names: Mapping[str, str]) -> str:
        """A display formula whose symbols light up: each can be reached with the keyboard and says what it points at.

        `names`: by the value of `data-light`, what is read out. KaTeX hides its HTML from screen readers; with symbols
        to focus inside, that would hide the focus."""

        def mark(match: re.Match[str]) -> str:
            name = escape(names.get(match["light"], ""))
            return f'<span tabindex="0" role="button" aria-label="{name}" {match["rest"]}'

        shown = self.html(in_rows(tex), display=True)
        shown = shown.replace('class="katex-html" aria-hidden="true"', 'class="katex-html"')
        return _LIGHT.sub(mark, shown)


def in_rows(tex: str) -> str:
    r"""Statements that stand side by side, parted by `\quad` or `\qquad`, one under another: a page is narrow."""
    parts, depth, start = [], 0, 0
    for token in _DEPTH.finditer(tex):
        if token["open"]:
            depth += 1
        elif token["close"]:
            depth -= 1
        elif depth == 0 and token["gap"]:
            parts.append(tex[start : token.start()])
            start = token.end()
    parts.append(tex[start:])
    rows = [part.strip() for part in parts if part.strip()]
    if len(rows) < 2:
        return tex
    return r"\begin{gathered}" + r" \\[10pt] ".join(rows) + r"\end{gathered}"


_DEPTH = re.compile(r"\\[{}]|(?P<open>\{|\\begin\b|\\left\b)|(?P<close>\}|\\end\b|\\right\b)|(?P<gap>\\q?quad\b)")
_LIGHT = re.compile(r'<span (?P<rest>(?:class="enclosing" )?data-light="(?P<light>[^"]*)")')
