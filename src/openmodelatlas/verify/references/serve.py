"""The child process of a reference: `python -m openmodelatlas.verify.references.serve ADAPTER`.

Reads one folder a line, each with a request in it, and answers into the same folder. It ends with its input.
"""

import importlib
import os
import sys
import traceback
from pathlib import Path

REQUEST, ANSWER = "request.pt", "answer.pt"


def main(adapter: str) -> int:
    """Serve until the input ends. What the reference prints goes to stderr, so that replies stay alone on stdout."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    from openmodelatlas.infer.steady import one_thread
    from openmodelatlas.verify.references.exchange import load, save

    module = importlib.import_module(f"openmodelatlas.verify.references.{adapter}")
    for line in sys.stdin:
        folder = Path(line.rstrip("\n"))
        try:
            with one_thread():
                save(folder / ANSWER, module.answer(load(folder / REQUEST), folder))
            print("ok", file=replies)
        except Exception as error:
            traceback.print_exc()
            print(" ".join(f"{type(error).__name__}: {error}".split()), file=replies)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
