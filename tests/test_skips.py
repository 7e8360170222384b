"""The one list of tests that may be skipped, each with its reason; a skip that is not listed here fails."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
MAY_SKIP = {
    "catalog/test_catalog_pins.py": "pins in git need a folder of clones, named by OMA_TEST_MIRROR",
    "trace/test_derive.py": "the peak of one program is read from Linux",
    "trace/test_locate.py": "the repository's own file needs its download or a clone; transformers is an extra",
    "browser/conftest.py": "needs Chromium and its driver, which `make test` installs",
    "fetch/test_fetch_cache.py": "where a cache stands is each platform's own rule",
    "fetch/test_fetch_checkpoints.py": "signals are sent as POSIX has them",
    "models/test_published_configs.py": "the wider set of published configurations is named by OMA_TEST_DATA",
    "verify/test_verify_published_conflicts.py": "published configurations and their conflicts are in OMA_TEST_DATA",
    "cli/test_commands.py": "a full disk is played by a device of Linux",
    "verify/test_evidence_checks.py": "the repository's own file needs its download or a clone",
    "verify/test_verify_command.py": "signals are sent as POSIX has them",
    "cli/test_convert.py": "signals and limits are set as POSIX has them",
    "text/test_tokenizer_peers.py": "the vendors' files of tokenizers need the pinned packages",
    "text/test_write_tokenizer.py": "the vendor's file of ranks needs the pinned package",
    "weights/test_load_formats.py": "the memory of one program is read from Linux",
    "weights/test_write_files.py": "the memory of one program is read from Linux",
    "conftest.py": "the demo checkpoint needs a package registry the first time",
    "equations/test_equations.py": "the kept scores are computed again by transformers, which is an extra",
    "faults/test_fault_manifest.py": "the collection of faults is in the folder that OMA_TEST_DATA names",
    "docs/test_docs_examples.py": "examples of pinned text need the pinned package",
}
SKIP = re.compile(r"pytest\.skip\(|mark\.skipif\(|mark\.skip\b|importorskip\(|mark\.xfail")


def test_every_skip_is_listed_and_every_listing_is_used() -> None:
    found = {p.relative_to(TESTS).as_posix() for p in TESTS.rglob("*.py") if SKIP.search(p.read_text())}
    assert found - {"test_skips.py"} == set(MAY_SKIP)
