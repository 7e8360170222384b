"""`python -m tests.mutants`: make every mutant, run the checks on each, print the score.

Ends with an error if the right definition does not pass, if a survivor is not in the list, or under 98 % are killed.
"""

import argparse
import os
import random
import sys
import time
import tomllib
from collections.abc import Container
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
    from mutants import killers, run
    from mutants.code import Mutant

    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, metavar="N", help="only N mutants of code, always the same, and no pins")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--verbose", action="store_true", help="print what every mutant was noticed by")
    args = parser.parse_args()
    began = time.monotonic()
    listed = survivors()
    everything = made(() if args.sample else None)
    if stale := set(listed) - {m.key for m in everything}:
        print("listed as survivors, but no longer made:", *sorted(stale), sep="\n  ")
        return 1
    fixed = killers.prepare(others=args.sample is None)
    right = Mutant(
        kind="right", target=everything[0].target, line=0, what="none", source=run.sources(root())[everything[0].target]
    )
    control = next(run.run([right], fixed))
    if control.check:
        print(f"the definition itself does not pass {control.check}: {control.said}")
        return 1
    chosen = everything
    if args.sample:
        keys = {m.key for m in random.Random(0).sample(everything, args.sample)}
        chosen = [m for m in made(keys) if m.key in keys]
    found = []
    if args.sample is None:
        from mutants import pins

        found, absent = pins.results()
        for name in absent:
            print(f"pins not tried, their file is not at hand: {name}")
    for result in run.run(chosen, fixed, args.jobs, progress):
        found.append(result)
        if args.verbose:
            print(f"{result.check or 'SURVIVED':<12} {result.key}  {result.said}")
    return report(found, listed, time.monotonic() - began, least=0.0 if args.sample else LEAST)


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


def survivors() -> dict[str, str]:
    """Mutants that are known to pass every check, with the reason."""
    rows = tomllib.loads((HERE / "survivors.toml").read_text())["survivor"]
    return {key: row["reason"] for row in rows for key in row["mutants"]}


def progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {total}", end="", file=sys.stderr, flush=True)
    elif done % 250 == 0:
        print(f"{done} of {total}", file=sys.stderr, flush=True)


def report(found: list, listed: dict[str, str], seconds: float, least: float) -> int:
    """The score by kind, the survivors, and whether that will do."""
    from mutants.run import score

    print(f"{'kind':<12} {'killed':>7} {'of':>6}")
    for kind, (killed, total) in sorted(score(found).items()):
        print(f"{kind:<12} {killed:>7} {total:>6}  {killed / total:.1%}")
    left = [r.key for r in found if not r.check]
    unknown = [key for key in left if key not in listed]
    killed = len(found) - len(left)
    print(f"{'all':<12} {killed:>7} {len(found):>6}  {killed / len(found):.1%} in {seconds:.0f} s")
    print(f"{len(left)} survivors, {len(left) - len(unknown)} of them listed with a reason")
    for key in unknown:
        print(f"  not listed: {key}")
    for key in [r.key for r in found if r.check and r.key in listed]:
        print(f"  listed as a survivor, but killed: {key}")
    good = not unknown and killed >= least * len(found)
    return 0 if good and not any(r.check and r.key in listed for r in found) else 1


if __name__ == "__main__":
    sys.exit(main())
