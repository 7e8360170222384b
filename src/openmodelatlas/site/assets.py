"""Get KaTeX, which sets the formulas: `python -m openmodelatlas.site.assets`.

The package is named by version and hash, taken through npm's own client, and unpacked into a folder that git ignores
and the wheel carries; installed users need no npm.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from openmodelatlas.errors import AtlasError, FetchError

PACKAGE = "katex@0.19.1"
INTEGRITY = "sha512-jG8uKntjSEcm2EpQOh0XturpPuuC9r3Sq5HLHdsFdWZT27E672SF19QEi+of0/YeOy15lDgRhKvr5614uRrEfA=="
FOLDER = Path(__file__).parent / "static" / "katex"
SCRIPT, STYLE, LICENSE, FONTS = "katex.min.js", "katex.min.css", "LICENSE", "fonts"
_STAMP = "PACKAGE"
_MEMBERS = {f"package/dist/{SCRIPT}": SCRIPT, f"package/dist/{STYLE}": STYLE, f"package/{LICENSE}": LICENSE}
_TIMEOUT = 180


def present() -> bool:
    """Are the assets here, and those of the pinned package?"""
    stamp = FOLDER / _STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == f"{PACKAGE} {INTEGRITY}"


def need() -> Path:
    """The folder of the assets; without them, an error that says how to get them."""
    if not present():
        raise FetchError(
            "the site needs KaTeX",
            where=PACKAGE,
            fix="run: python -m openmodelatlas.site.assets (or make assets), which takes it from npm",
        )
    return FOLDER


def install() -> bool:
    """Fetch, check and unpack; False if all was there already. The folder appears whole or not at all."""
    if present():
        return False
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent, prefix=".katex-") as scratch:
        ready = Path(scratch) / "ready"
        _unpack(_pack(Path(scratch)), ready)
        (ready / _STAMP).write_text(f"{PACKAGE} {INTEGRITY}\n", encoding="utf-8")
        if FOLDER.exists():
            FOLDER.rename(Path(scratch) / "old")
        ready.rename(FOLDER)
    return True


def _pack(scratch: Path) -> Path:
    """The package's archive, if its hash is the recorded one."""
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError("npm is not here", where=PACKAGE, fix="install Node.js, or use a built wheel, which has KaTeX")
    command = [npm, "pack", PACKAGE, "--silent", "--ignore-scripts", "--pack-destination", str(scratch)]
    try:
        done = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, timeout=_TIMEOUT, check=False, env=os.environ
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError("npm did not answer", where=PACKAGE, found=f"nothing within {_TIMEOUT} s") from error
    archives = sorted(scratch.glob("*.tgz"))
    if done.returncode or not archives:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise FetchError("npm could not fetch the package", where=PACKAGE, found=said[0] if said else "no archive")
    digest = base64.b64encode(hashlib.sha512(archives[0].read_bytes()).digest()).decode()
    if f"sha512-{digest}" != INTEGRITY:
        raise FetchError("not the pinned package", where=PACKAGE, expected=INTEGRITY, found=f"sha512-{digest}")
    return archives[0]


def _unpack(archive: Path, into: Path) -> None:
    """Only the files that are needed, each by name: nothing of the archive decides where it goes."""
    (into / FONTS).mkdir(parents=True)
    wanted = dict(_MEMBERS)
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            name = Path(member.name).name
            if member.isfile() and member.name == f"package/dist/{FONTS}/{name}" and name.endswith(".woff2"):
                wanted[member.name] = f"{FONTS}/{name}"
        for source, target in wanted.items():
            data = tar.extractfile(source)
            if data is None:
                raise FetchError("the package lacks a file", where=f"{PACKAGE}: {source}")
            (into / target).write_bytes(data.read())


def main() -> int:
    """Install, and say so."""
    try:
        fresh = install()
    except AtlasError as error:
        print(f"assets: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{PACKAGE}: {'installed' if fresh else 'already here'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
