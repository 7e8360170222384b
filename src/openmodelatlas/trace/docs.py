"""A class's docstring as page text, and its equation with ports replaced by the symbols of the derived tensors."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from openmodelatlas.errors import DefinitionError
from openmodelatlas.records.graph import Constant, Definition, Light
from openmodelatlas.records.plain_math import plain

SECTIONS = ("Equation", "Dtype", "Sources")
_MACRO = re.compile(r"\\(port|param|const|out)(?:\{([\w.]+)\}|(?![A-Za-z]))")


@dataclass(frozen=True)
class Page:
    """The parts of a docstring."""

    sentence: str
    equation: str
    dtype: str
    sources: str


def page(kind: type) -> Page:
    """The docstring of an op or container, cut into its sections; text before them is the sentence."""
    text = inspect.getdoc(kind) or ""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):", text, flags=re.M)
    found = dict(zip(parts[1::2], (" ".join(p.split()) for p in parts[2::2]), strict=True))
    return Page(" ".join(parts[0].split()), *(found.get(name, "") for name in SECTIONS))


def definition(kind: type) -> Definition:
    """Where the class stands in this package."""
    lines, first = inspect.getsourcelines(kind)
    path = (inspect.getsourcefile(kind) or "").replace("\\", "/").rpartition("openmodelatlas/")[2]
    return Definition(path=path, lines=(first, first + len(lines) - 1))


@dataclass(frozen=True)
class Symbol:
    """What stands for a port or a parameter in an equation."""

    latex: str
    tensor: str
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Equation:
    """An equation of one node: LaTeX with lights, one line of text, and the lights themselves."""

    latex: str
    text: str
    lights: tuple[Light, ...]


def equation(
    source: str,
    node: str,
    symbol: Callable[[str, str], Symbol | None],
    constants: Mapping[str, Constant],
    required: set[str],
) -> Equation:
    """Replace every macro. `symbol(kind, name)` gives what a `port`, `out` or `param` stands for; `required` are the
    input ports that must occur. DefinitionError names a macro that does not resolve, or a port that is not used."""
    if not source:
        return Equation("", "", ())
    lights: dict[str, Light] = {}
    used: set[str] = set()

    def value(match: re.Match[str], mark: Callable[[Symbol], str]) -> str:
        kind, name = match[1], match[2] or "out"
        if kind == "const":
            if name not in constants:
                raise DefinitionError("equation names a constant that the op lacks", where=node, found=match[0])
            return number(constants[name])
        found = symbol(kind, name)
        if found is None:
            raise DefinitionError("equation macro does not resolve", where=node, found=match[0])
        if kind == "port":
            used.add(name)
        lights.setdefault(found.latex, Light(symbol=found.latex, tensor=found.tensor, targets=found.targets))
        return mark(found)

    latex = _MACRO.sub(lambda m: value(m, lambda s: f"\\htmlData{{light={' '.join(s.targets)}}}{{{s.latex}}}"), source)
    text = _MACRO.sub(lambda m: value(m, lambda s: f"\\sym{{{s.latex}}}"), source)
    if required - used:
        raise DefinitionError("equation leaves out a port", where=node, found=", ".join(sorted(required - used)))
    return Equation(latex, plain(text).replace("\u2060", ""), tuple(lights.values()))


def number(value: Constant) -> str:
    """A constant in LaTeX: small powers of ten as such, whole floats without a point."""
    if isinstance(value, float):
        mantissa, _, exponent = f"{value:e}".partition("e")
        if int(exponent) <= -4 and float(mantissa) == 1:
            return f"10^{{{int(exponent)}}}"
        return f"{value:g}" if not value.is_integer() else str(int(value))
    return str(value)
