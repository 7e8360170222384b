"""Mutants of Python source: one change each, made on the syntax tree."""

import ast
import dataclasses
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

Place = tuple[ast.AST, str, int | None]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One wrong version. `target` is what it is made of (a module, a reference file), `source` its whole new text;
    `scope` is the class or function that is changed."""

    kind: str
    target: str
    scope: str
    what: str
    source: str

    @property
    def of(self) -> str:
        """What the score counts it with: its family, the shared parts, the statements."""
        room, _, name = self.target.partition(".")
        return {"parts": "shared parts", "equations": "statements"}.get(room, name)

    @property
    def key(self) -> str:
        """What the list of survivors calls it: stays the same when lines move."""
        return f"{self.target}: {self.what}"


def mutants(
    kind: str,
    target: str,
    source: str,
    without: Container[str] = (),
    wanted: Container[str] | None = None,
) -> Iterator[Mutant]:
    """Every mutant of a module's source; nothing of the scopes `without` is changed. The text is made for the keys
    that are `wanted` only (all, if None): it takes most of the time."""
    tree = ast.parse(source)
    seen: dict[str, int] = {}
    for place, scope in _places(tree):
        if scope.name in without:
            continue
        node = _get(place)
        for what, new in _alternatives(node, scope):
            name = f"{scope.name}: {what}"
            seen[name] = seen.get(name, 0) + 1
            name += f" (#{seen[name]})" if seen[name] > 1 else ""
            text = ""
            if wanted is None or f"{target}: {name}" in wanted:
                _set(place, new)
                text = ast.unparse(ast.fix_missing_locations(tree))
                _set(place, node)
            yield Mutant(kind=kind, target=target, scope=scope.name.partition(".")[0], what=name, source=text)


# --- walking ----------------------------------------------------------------------------------------------------------


@dataclass
class Scope:
    """What is around a node: the function or class, the names that may stand for one another, sibling attributes; and
    the names that the module knows."""

    name: str
    alike: dict[str, str]
    siblings: list[str]
    known: frozenset[str]
    initialiser: bool = False


def _get(place: Place) -> ast.AST:
    parent, field, index = place
    value = getattr(parent, field)
    found: ast.AST = value if index is None else value[index]
    return found


def _set(place: Place, node: ast.AST) -> None:
    parent, field, index = place
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _places(tree: ast.Module) -> Iterator[tuple[Place, Scope]]:
    imported = [alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    yield from _below(tree, Scope("module", {}, [], frozenset((*imported, *classes))))


SKIPPED = (ast.Import, ast.ImportFrom)
SKIPPED_FIELDS = ("annotation", "returns", "decorator_list", "bases")


def _below(node: ast.AST, scope: Scope) -> Iterator[tuple[Place, Scope]]:
    """Nodes that compute: no annotations, docstrings, imports or decorators."""
    for field, value in ast.iter_fields(node):
        if field in SKIPPED_FIELDS or (field == "keywords" and isinstance(node, ast.ClassDef)):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, SKIPPED) or _is_docstring(child):
                continue
            inner = _scope(child, node, scope)
            yield (node, field, index), inner
            yield from _below(child, inner)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _scope(child: ast.AST, parent: ast.AST, scope: Scope) -> Scope:
    if isinstance(child, ast.ClassDef):
        return Scope(child.name, {}, _attributes(child), scope.known)
    if isinstance(child, ast.FunctionDef):
        name = f"{scope.name}.{child.name}" if isinstance(parent, ast.ClassDef) else child.name
        return Scope(name, _alike(child), scope.siblings, scope.known, child.name == "__init__")
    return scope


def _attributes(node: ast.ClassDef) -> list[str]:
    """Attributes that a class assigns, in order."""
    return [
        n.attr
        for n in ast.walk(node)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name)
    ]


def _alike(function: ast.FunctionDef) -> dict[str, str]:
    """Each name to another of its kind: arguments of one annotation, locals among themselves."""
    groups: dict[str, list[str]] = {}
    for arg in function.args.args:
        if arg.arg != "self":
            groups.setdefault(ast.dump(arg.annotation) if arg.annotation else "", []).append(arg.arg)
    local = [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    known = {name for group in groups.values() for name in group}
    groups["local"] = [name for name in dict.fromkeys(local) if name not in known]
    several = [group for group in groups.values() if len(group) > 1]
    return {name: group[(i + 1) % len(group)] for group in several for i, name in enumerate(group)}


# --- changing ---------------------------------------------------------------------------------------------------------

OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.MatMult: ast.Add,
}
COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
REVERSED: dict[type, type] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
FUNCTIONS = {"cos": "sin", "sin": "cos", "rsqrt": "sqrt", "sqrt": "exp", "exp": "sqrt", "mean": "sum", "sum": "mean"}
FUNCTIONS |= {"softmax": "log_softmax", "silu": "gelu", "gelu": "silu", "tanh": "sin"}
FUNCTIONS |= {"index_copy_": "index_add_", "index_copy": "index_add", "where": "where_swapped"}
PAIRS = (
    ("Unembed", "TiedUnembed"),
    ("Config", "ScaledConfig"),
    ("Rope", "ScaledRope"),
    ("Multiply", "ResidualAdd"),
    ("LocalBlock", "GlobalBlock"),
)
NAMES = {"SiLU": "Upcast", "GELU": "Upcast"} | dict(PAIRS) | {b: a for a, b in PAIRS}
COMMUTE = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr)
SYMMETRIC = {"transpose", "promote_types"}
LIBRARIES = {"torch", "nn", "math", "F", "np"}

Change = tuple[str, ast.AST]


def _alternatives(node: ast.AST, scope: Scope) -> Iterator[Change]:
    before = ast.unparse(node) if not isinstance(node, (ast.operator, ast.cmpop, ast.expr_context)) else ""
    changes: list[ast.AST] = []
    for kind, make in CHANGES:
        if isinstance(node, kind):
            changes += make(node, scope)
    for new in changes:
        after = ast.unparse(ast.fix_missing_locations(new))
        if after != before:
            yield f"`{_short(before)}` → `{_short(after)}`", new


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 90 else text[:87] + "…"


def _constant(node: ast.Constant, _scope: Scope) -> list[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        return [ast.Constant(not value)]
    if isinstance(value, int):
        return [ast.Constant(value + 1), *([ast.Constant(value * 2)] if value > 2 else [])]
    if isinstance(value, float):
        return [ast.Constant(value * 2 if value else 1.0), *([ast.Constant(value / 10)] if value else [])]
    if isinstance(value, str) and "->" in value:
        given, made = value.split("->")
        first, second = given.split(",")
        return [ast.Constant(f"{second},{first}->{made}"), ast.Constant(f"{given}->{made[:-2]}{made[-1]}{made[-2]}")]
    if value == "tanh":
        return [ast.Constant("none")]
    if value == "-inf":
        return [ast.Constant("0"), ast.Constant("-1")]
    return []


def _binary(node: ast.BinOp, _scope: Scope) -> list[ast.AST]:
    found: list[ast.AST] = [ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right), node.left, node.right]
    if not isinstance(node.op, COMMUTE):
        found.append(ast.BinOp(node.right, node.op, node.left))
    left = node.left
    if isinstance(left, ast.Call) and isinstance(left.func, ast.Attribute) and left.func.attr in ("type_as", "to"):
        # The cast comes later than it should.
        inner = ast.Attribute(ast.BinOp(left.func.value, node.op, node.right), left.func.attr, ast.Load())
        found.append(ast.Call(inner, left.args, left.keywords))
    return found


def _compare(node: ast.Compare, _scope: Scope) -> list[ast.AST]:
    if len(node.ops) != 1:
        return []
    kinds = [COMPARISONS.get(type(node.ops[0])), REVERSED.get(type(node.ops[0]))]
    return [ast.Compare(node.left, [kind()], node.comparators) for kind in kinds if kind]


def _call(node: ast.Call, scope: Scope) -> list[ast.AST]:
    found: list[ast.AST] = []
    function = node.func
    for i in range(len(node.args) - 1):
        swapped = list(node.args)
        swapped[i], swapped[i + 1] = swapped[i + 1], swapped[i]
        symmetric = isinstance(function, ast.Attribute) and function.attr in SYMMETRIC
        if not symmetric and not any(isinstance(a, ast.Starred) for a in swapped[i : i + 2]):
            found.append(ast.Call(function, swapped, node.keywords))
    if isinstance(function, ast.Attribute):
        owner = function.value
        own = isinstance(owner, ast.Name) and owner.id in ("self", *LIBRARIES)
        if (
            (not own and not isinstance(owner, ast.Call | ast.Name))
            or (isinstance(owner, ast.Name) and not own)
            or (isinstance(owner, ast.Call) and not (isinstance(owner.func, ast.Name) and owner.func.id == "super"))
        ):
            found.append(owner)
        if function.attr in FUNCTIONS and FUNCTIONS[function.attr] != "where_swapped":
            new = ast.Attribute(owner, FUNCTIONS[function.attr], ast.Load())
            found.append(ast.Call(new, node.args, node.keywords))
        if own and not scope.initialiser and node.args and not isinstance(node.args[0], ast.Starred):
            found.append(node.args[0])
    elif isinstance(function, ast.Name) and len(node.args) == 1 and not scope.initialiser and function.id != "super":
        found.append(node.args[0])
    return found


def _name(node: ast.Name, scope: Scope) -> list[ast.AST]:
    if not isinstance(node.ctx, ast.Load):
        return []
    other = scope.alike.get(node.id) or NAMES.get(node.id)
    known = other in scope.alike or other in scope.known
    return [ast.Name(other, ast.Load())] if other and known else []


def _attribute(node: ast.Attribute, scope: Scope) -> list[ast.AST]:
    """The next attribute of the object instead of this one."""
    if not isinstance(node.ctx, ast.Load) or not isinstance(node.value, ast.Name) or node.value.id != "self":
        return []
    if node.attr not in scope.siblings or len(scope.siblings) < 2:
        return []
    other = scope.siblings[(scope.siblings.index(node.attr) + 1) % len(scope.siblings)]
    return [ast.Attribute(node.value, other, ast.Load())]


def _unary(node: ast.UnaryOp, _scope: Scope) -> list[ast.AST]:
    return [node.operand] if isinstance(node.op, (ast.USub, ast.Not)) else []


def _boolean(node: ast.BoolOp, _scope: Scope) -> list[ast.AST]:
    return [ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values), node.values[0]]


def _tuple(node: ast.Tuple, _scope: Scope) -> list[ast.AST]:
    plain = isinstance(node.ctx, ast.Load) and len(node.elts) > 1
    return [ast.Tuple(list(reversed(node.elts)), ast.Load())] if plain else []


def _choice(node: ast.IfExp, _scope: Scope) -> list[ast.AST]:
    return [ast.IfExp(node.test, node.orelse, node.body)]


def _condition(node: ast.If, _scope: Scope) -> list[ast.AST]:
    return [ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)]


def _assignment(node: ast.Assign, scope: Scope) -> list[ast.AST]:
    """The statement left out, where something else still has the name."""
    return [ast.Pass()] if not scope.initialiser or "weight" in ast.unparse(node.targets[0]) else []


CHANGES: tuple[tuple[type, Callable[..., list[ast.AST]]], ...] = (
    (ast.Constant, _constant),
    (ast.BinOp, _binary),
    (ast.Compare, _compare),
    (ast.Call, _call),
    (ast.Name, _name),
    (ast.Attribute, _attribute),
    (ast.UnaryOp, _unary),
    (ast.BoolOp, _boolean),
    (ast.Tuple, _tuple),
    (ast.IfExp, _choice),
    (ast.If, _condition),
    (ast.Assign, _assignment),
)


def renamed(mutant: Mutant, kind: str) -> Mutant:
    """The same mutant, counted as another kind."""
    return dataclasses.replace(mutant, kind=kind)
