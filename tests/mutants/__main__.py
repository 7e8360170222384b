"""`python -m tests.mutants`: make every mutant, run the checks on each, print the score.

Ends with an error if the right definition does not pass, if a survivor is not in the list, or if under 98 % are noticed
of any family, of the shared parts, of the statements, or of the pins of any reference.
"""

import argparse
import os
import random
import sys
import time
import tomllib
from collections.abc import Container
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

HERE = Path(__file__).parent
LEAST = 0.98
HELPERS = {"module", "states", "states.enter", "enter", "single", "Statement"}
"""Scopes of the statements' module that state nothing."""


def main() -> int:
    """Everything, or a sample."""
    sys.path[:0] = [str(HERE.parent)]
    import torch

    torch.set_num_threads(1)
    from mutants import killers, pins, run
    from mutants.code import Mutant

    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, metavar="N", help="only N mutants of code, always the same, and no pins")
    parser.add_argument("--only", metavar="TEXT", help="only mutants of code whose name has the text, and no pins")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--verbose", action="store_true", help="print what every mutant was noticed by")
    args = parser.parse_args()
    began = time.monotonic()
    partly = bool(args.sample or args.only)
    everything = made(() if partly else None)
    sources = run.sources(root())
    fixed = killers.prepare(list(sources))
    families = {name: text for name, text in sources.items() if name.startswith("models.")}
    right = [Mutant(kind="right", target=name, scope="", what="none", source=text) for name, text in families.items()]
    for control in run.run(right, fixed, args.jobs):
        if control.check:
            print(f"the definition itself does not pass {control.check}: {control.key}: {control.said}")
            return 1
    chosen = everything
    if partly:
        keys = {m.key for m in everything if (args.only or "") in m.key}
        keys = set(random.Random(0).sample(sorted(keys), args.sample)) if args.sample else keys
        chosen = [m for m in made(keys) if m.key in keys]
    with ProcessPoolExecutor(1, get_context("fork")) as beside:
        pinned = None if partly else beside.submit(pins.results)
        found = list(run.run(chosen, fixed, args.jobs, progress))
        pin_results, absent = pinned.result() if pinned else ([], [])
    if args.verbose:
        for result in found:
            print(f"{result.check or 'SURVIVED':<12} {result.key}  {result.said}")
    for name in absent:
        print(f"pins not tried, their file is not at hand: {name}")
    return report([*found, *pin_results], time.monotonic() - began, partly=partly)


def root() -> Path:
    """The package's folder."""
    import openmodelatlas

    return Path(openmodelatlas.__file__).parent


def made(wanted: Container[str] | None = None) -> list:
    """Every mutant of code and equations, always in the same order; the text of code only where it is wanted."""
    from mutants import code, data, named, run

    sources = run.sources(root())
    statements = (HERE.parent / "equations" / "statements.py").read_text()
    found = [m for name, text in sources.items() for m in code.mutants("definition", name, text, wanted=wanted)]
    found += named.named(sources)
    found += [m for name, text in sources.items() for m in data.equations(name, text)]
    found += code.mutants("equation", "equations.statements", statements, HELPERS, wanted)
    rows = [i for i, m in enumerate(found) if m.target.startswith("models.") and m.what.startswith("module: ")]
    for i in rows:
        found[i] = code.renamed(found[i], "catalogue")
    return found


def survivors(*, pins: bool = True) -> dict[str, str]:
    """Mutants that are known to pass every check, with the reason; without those of pins if asked so."""
    rows = tomllib.loads((HERE / "survivors.toml").read_text())["survivor"]
    return {key: row["reason"] for row in rows if pins or not row.get("pins") for key in row["mutants"]}


def progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {total}", end="", file=sys.stderr, flush=True)
    elif done % 250 == 0:
        print(f"{done} of {total}", file=sys.stderr, flush=True)


def report(found: list, seconds: float, *, partly: bool) -> int:
    """The score by what was changed and by kind, the survivors, and whether that will do."""
    from mutants.run import score

    totals = dict[str, tuple[int, int]]()
    print(f"{'of':<24} {'kind':<12} {'killed':>7} {'of':>6}")
    for (of, kind), (killed, total) in sorted(score(found).items()):
        print(f"{of:<24} {kind:<12} {killed:>7} {total:>6}  {killed / total:.1%}")
        before = totals.get(of, (0, 0))
        totals[of] = (before[0] + killed, before[1] + total)
    killed, total = (sum(column) for column in zip(*totals.values(), strict=True))
    print(f"{'all':<37} {killed:>7} {total:>6}  {killed / total:.1%} in {seconds:.0f} s")
    listed, left = survivors(), {r.key for r in found if not r.check}
    print(f"{len(left)} survivors, {len(left & set(listed))} of them listed with a reason")
    wrong = {
        "not listed": left - set(listed),
        "listed as a survivor, but killed": {r.key for r in found if r.check} & set(listed),
        "listed as a survivor, but not made": set() if partly else set(listed) - {r.key for r in found},
        f"less than {LEAST:.0%} are noticed": {of for of, (k, n) in totals.items() if k < LEAST * n and not partly},
    }
    for what, names in wrong.items():
        for name in sorted(names):
            print(f"  {what}: {name}")
    return int(any(wrong.values()))


if __name__ == "__main__":
    sys.exit(main())
