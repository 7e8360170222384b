"""`oma pull`: fetch a known checkpoint into the cache."""

import argparse
import sys

HELP = "fetch a known checkpoint into the cache; without a name, list them"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("name", nargs="?", help="checkpoint id, such as smollm2-135m-instruct")
    parser.add_argument("--offline", action="store_true", help="do not use the network")
    parser.add_argument("--check", action="store_true", help="hash the whole file again, even if it is here")


def run(args: argparse.Namespace) -> int:
    """The path on stdout, everything else on stderr."""
    from openmodelatlas.catalog.checkpoints import checkpoints, find
    from openmodelatlas.cli.endings import end_like_interrupt
    from openmodelatlas.cli.progress import Show
    from openmodelatlas.fetch.checkpoints import place, present, pull

    if args.name is None:
        for known in checkpoints().values():
            here = f"here: {place(known)}" if present(known) else "not here"
            print(f"{known.id}  {known.title}  {known.bytes / 2**20:.0f} MiB  {known.license}  {here}")
        return 0
    checkpoint = find(args.name)
    if present(checkpoint, check=args.check):
        print(f"already here{', hash checked' if args.check else ''}", file=sys.stderr)
        print(place(checkpoint))
        return 0
    end_like_interrupt()
    show = Show()
    try:
        path = pull(checkpoint, offline=args.offline, check=args.check, progress=show)
    finally:
        show.close()
    print(path)
    return 0
