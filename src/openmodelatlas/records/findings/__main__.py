"""Write the page of every kind of finding: `python -m openmodelatlas.records.findings docs/findings.md`."""

import sys
from pathlib import Path

from openmodelatlas.errors import UsageError
from openmodelatlas.records.findings import page


def main(arguments: list[str]) -> int:
    """Write it to the one file that is named."""
    if len(arguments) != 1:
        raise UsageError("one file is needed", fix="python -m openmodelatlas.records.findings docs/findings.md")
    path = Path(arguments[0])
    path.write_text(page(), encoding="utf-8")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
