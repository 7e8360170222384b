"""The import table of docs/design.md, the size of files, and what may stand in the tree, as tests."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "openmodelatlas"
FREE = {"errors"}  # every room may raise
HEAVY = {"torch"}
BESIDE = {"maps", "atlas"}  # modules beside the rooms join rooms that may not see each other; only cli may use them


def rooms() -> list[str]:
    return sorted(p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists())


def table() -> dict[str, tuple[set[str], set[str]]]:
    """Room to what it may import and what it may never import, from the table of docs/design.md."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    text = (ROOT / "docs" / "design.md").read_text()
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) != 3 or cells[0] in ("room", "") or set(cells[0]) <= set("-: "):
            continue
        names = [n.strip() for n in cells[0].split(",")]
        if all(re.fullmatch(r"[a-z]+", n) for n in names):
            for name in names:
                found[name] = (words(cells[1]), words(cells[2]))
    return found


def words(cell: str) -> set[str]:
    return set(re.findall(r"[a-z]+", cell))


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Modules a file imports, and whether at its top level (so that importing the file imports them)."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and node.module == "openmodelatlas":
                names = [f"openmodelatlas.{a.name}" for a in node.names]
            for name in names:
                yield name, node in tree.body


def room_of(module: str) -> str:
    return module.split(".")[1] if module.startswith("openmodelatlas.") else ""


@pytest.mark.parametrize("room", rooms())
def test_a_room_imports_only_what_the_table_allows(room: str) -> None:
    may, never = table()[room]
    if room == "cli":
        may |= BESIDE
    for path in (PACKAGE / room).rglob("*.py"):
        for module, _ in imports(path):
            other = room_of(module)
            where = f"{path.relative_to(ROOT)} imports {module}"
            assert other in may | FREE | {room, ""}, where
            assert other not in never, where
            if module.split(".")[0] in HEAVY:
                assert "torch" not in never, where


def test_the_table_names_every_room() -> None:
    assert set(rooms()) <= set(table())


def test_the_table_can_fail() -> None:
    """The checks above see an import inside a function, too."""
    names = {m for m, _ in imports(PACKAGE / "maps.py")}
    assert {"openmodelatlas.models", "openmodelatlas.trace.derive"} <= names


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_stay_small(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    family = path.parent.name == "models" and "VARIANTS" in path.read_text()
    assert lines <= (250 if family else 600)


@pytest.mark.parametrize(
    "code",
    [
        "import openmodelatlas",
        "from openmodelatlas.cli.main import parser; parser()",
        "import openmodelatlas.records.graph, openmodelatlas.records.compare, openmodelatlas.maps",
        "from openmodelatlas.catalog import find; find.models()",
        "import openmodelatlas.evidence.resolve",
        "import openmodelatlas.site.build",
        "import openmodelatlas.weights.reading.gguf",
    ],
)
def test_torch_is_not_imported(code: str) -> None:
    check = f"{code}; import sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_public_names_resolve() -> None:
    import openmodelatlas

    for name in openmodelatlas.__all__:
        assert getattr(openmodelatlas, name) is not None
    with pytest.raises(AttributeError):
        _ = openmodelatlas.nothing


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail("the tree is no git clone: tracked files cannot be listed")
    return [ROOT / name for name in done.stdout.split("\0") if name]


def test_no_fetched_or_binary_asset_is_tracked() -> None:
    kinds = (".woff2", ".ttf", ".otf", ".gguf", ".safetensors", ".pth", ".whl", ".npz")
    assert [p for p in tracked() if p.name.endswith(kinds) or p.name.endswith(".min.js")] == []
    assert [p for p in tracked() if p.exists() and p.stat().st_size > 600 * 1024] == []


def test_no_machine_path_is_tracked() -> None:
    path = re.compile(r"""["'` (=](/tmp|/work|/root|/home/[a-z]+)/""")
    found = []
    for file in tracked():
        if file.suffix in (".py", ".md", ".toml", ".txt", ".js", ".css", ".html", "") and file.exists():
            text = file.read_text(errors="ignore")
            found += [f"{file.relative_to(ROOT)}: {m[0]}" for m in path.finditer(text)]
    assert [f for f in found if not f.startswith("tests/test_architecture.py")] == []
