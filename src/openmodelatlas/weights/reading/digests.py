"""Meta's `checklist.chk`: a list of digests, held against the files. The length of a digest says what kind it is."""

import hashlib
import re

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.fetch.progress import Progress, silent
from openmodelatlas.records.findings import finding, of_error
from openmodelatlas.records.report import Finding
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.reading.place import LocalPlace, Place

CHECKLIST = "checklist.chk"
ALGORITHMS = {32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}
_LINE = re.compile(r"(?P<digest>[0-9a-fA-F]+) [ *](?P<name>[^/\\\0]+)")
AT_ONCE = 1 << 22


def check_digests(opened: Opened, progress: Progress = silent) -> list[Finding]:
    """Read every file of the checkpoint's list and compare; nothing if it has no list, or is not here."""
    place, findings = getattr(opened.beside, "place", None), []
    if not isinstance(place, LocalPlace) or CHECKLIST not in opened.beside:
        return []
    lines = opened.beside[CHECKLIST].decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{CHECKLIST}, line {number}"
        match = _LINE.fullmatch(line.strip())
        if match is None or match["name"] in (".", ".."):
            findings.append(finding("files.digest-line", where, expected="DIGEST  NAME", found=shown(line)))
        elif len(match["digest"]) not in ALGORITHMS:
            expected = ", ".join(f"{length} ({name})" for length, name in ALGORITHMS.items())
            found = f"{len(match['digest'])} digits for {shown(match['name'])}"
            findings.append(finding("files.digest-kind", where, expected=f"{expected} digits", found=found))
        else:
            findings += _held(place, match["name"], match["digest"].lower(), progress)
    return findings


def _held(place: Place, name: str, digest: str, progress: Progress) -> list[Finding]:
    algorithm = ALGORITHMS[len(digest)]
    try:
        source = place.source(name)
        if name == CHECKLIST:
            return []
        hashed, at = hashlib.new(algorithm, usedforsecurity=False), 0
        while chunk := source.read(at, AT_ONCE):
            hashed.update(chunk)
            at += len(chunk)
            progress(f"{algorithm} of {name}", at, source.size)
    except NotACheckpoint as error:
        return [of_error(error, "files.unreadable", shown(name))]
    if hashed.hexdigest() == digest:
        return []
    return [
        finding("files.digest-differs", shown(name), expected=f"{algorithm} {digest}", found=hashed.hexdigest()),
    ]
