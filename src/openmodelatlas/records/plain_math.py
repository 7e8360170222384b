"""LaTeX, as the atlas uses it, to one line of plain text: for terminals, tooltips and screen readers."""

import re

_WORDS = {
    "theta": "θ", "lambda": "λ", "alpha": "α", "gamma": "γ", "varphi": "φ", "varepsilon": "ε", "ell": "ℓ", "pi": "π",
    "Delta": "Δ", "odot": "⊙", "cdot": "·", "times": "×", "le": "≤", "ge": "≥", "infty": "∞", "sum": " Σ",
    "leftarrow": "←", "lfloor": "⌊", "rfloor": "⌋", "top": "ᵀ", "sin": "sin ", "cos": "cos ", "exp": "exp",
    "quad": "   ", "qquad": "   ", "left": "", "right": "", "in": "∈",
}  # fmt: skip
_ACCENTS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304"}
_SPACES = {",": " ", ";": " ", "!": "", "\\": "; ", " ": " "}
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[{}^_&]|[^\\{}^_&]", re.S)


def plain(latex: str) -> str:
    """The text of a formula. Subscripts keep their underscore; a subscript of a marked symbol becomes `[i]`."""
    text, _ = _sequence(_TOKEN.findall(" ".join(latex.split())), 0)
    return re.sub(r" {4,}", "   ", re.sub(r"(?<! ) {2}(?! )", " ", text)).strip()


def _sequence(tokens: list[str], at: int) -> tuple[str, int]:
    """Text up to the closing brace or the end."""
    out, summing = "", False
    while at < len(tokens) and tokens[at] != "}":
        token = tokens[at]
        if summing and token not in "^_":
            out, summing = out + " ", False
        summing = summing or token == "\\sum"
        if token in "^_":
            script, at = _atom(tokens, at + 1)
            out += _script(out, token, script)
        elif token == "\\begin" or token == "\\end":
            name, at = _atom(tokens, at + 1)
            out += ("{ " if token == "\\begin" else " }") if name == "cases" else ""
        else:
            piece, at = _atom(tokens, at)
            out += piece
    return out, at


def _script(before: str, kind: str, script: str) -> str:
    script = script.strip()
    if script == "ᵀ":
        return script
    if before.endswith("\u2060"):  # the mark of a whole symbol: its own index
        return f"[{script}]" if kind == "_" else f"^{_tight(script)}"
    return kind + _tight(script)


def _tight(text: str) -> str:
    return text if re.fullmatch(r"[\w'′*]+|.", text) else f"({text})" if " " in text or "/" in text else f"{{{text}}}"


def _atom(tokens: list[str], at: int) -> tuple[str, int]:
    """One symbol, group or command with its arguments."""
    token = tokens[at]
    if token == "{":
        text, end = _sequence(tokens, at + 1)
        return text, end + 1
    if not token.startswith("\\"):
        return {"'": "′", "-": "−", "~": " ", "&": " "}.get(token, token), at + 1
    name = token[1:]
    if name == "frac":
        top, at = _atom(tokens, at + 1)
        bottom, at = _atom(tokens, at)
        short = len(top) == len(bottom) == 1
        return f"{top}/{bottom}" if short else f"{_grouped(top)} / {_grouped(bottom)}", at
    if name == "sqrt":
        inside, at = _atom(tokens, at + 1)
        return f"√{_grouped(inside)}", at
    if name in ("mathrm", "operatorname", "text", "mathit"):
        return _atom(tokens, at + 1)
    if name == "sym":
        inside, at = _atom(tokens, at + 1)
        return inside + "\u2060", at
    if name in _ACCENTS:
        inside, at = _atom(tokens, at + 1)
        return inside[:1] + _ACCENTS[name] + inside[1:], at
    if name in _SPACES:
        return _SPACES[name], at + 1
    return _WORDS.get(name, name), at + 1


def _grouped(text: str) -> str:
    text = text.strip()
    return text if re.fullmatch(r"[\w′'{}\u0302\u0303\u2060∞]+", text) else f"({text})"


def symbol_text(latex: str) -> str:
    """A symbol as text: `x_{n+1}` to `x_{n+1}`, `\\Delta_{\\mathrm{attn}}` to `Δ_attn`."""
    return plain(latex).replace("\u2060", "")
