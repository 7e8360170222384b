"""What the tests of this room share."""

import hashlib
import zipfile
from pathlib import Path

PIP = """
import pathlib, shutil, sys, time
dest, what = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1]), sys.argv[-1]
shelf = pathlib.Path(__file__).parent
with open(shelf / "calls", "a") as calls:
    calls.write(what + "\\n")
wheel = shelf / (what.replace("==", "-") + "-py3-none-any.whl")
if (shelf / "slow").exists():
    (shelf / "started").touch()
    time.sleep(30)
if not wheel.exists():
    sys.exit("ERROR: No matching distribution found for " + what)
shutil.copy(wheel, dest)
"""


def build(folder: Path, members: dict[str, bytes], name: str = "demo", version: str = "1.0") -> tuple[Path, str]:
    """A wheel of these members, and its sha256."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


BODY = bytes(range(256)) * 12000  # over two chunks


def leftovers(cache: Path) -> list[str]:
    """Every file under the cache, by name."""
    return sorted(path.name for path in cache.rglob("*") if path.is_file())
