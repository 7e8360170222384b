"""`oma`: find the command, run it, turn an `AtlasError` into one line and its exit code."""

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence

from openmodelatlas.cli import commands
from openmodelatlas.errors import AtlasError

INTERRUPTED = 130  # the shell's code for a command ended by Ctrl-C


def parser() -> argparse.ArgumentParser:
    """The whole command line, read from the modules of `commands`."""
    top = argparse.ArgumentParser(
        prog="oma", description="Open Model Atlas: maps of open language models, derived from code that runs."
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND")
    for module in pkgutil.iter_modules(commands.__path__):
        command = importlib.import_module(f"{commands.__name__}.{module.name}")
        name = module.name.replace("_", "-")
        sub = subparsers.add_parser(name, help=command.HELP, description=command.HELP)
        command.arguments(sub)
        sub.set_defaults(run=command.run)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. 0 when all holds, 1 for findings or failures, 2 for what cannot be understood."""
    top = parser()
    args = top.parse_args(argv)
    if args.version:
        from importlib.metadata import version

        print(f"oma {version('openmodelatlas')}")
        return 0
    if args.command is None:
        top.print_help()
        return 0
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except AtlasError as error:
        print(f"oma {args.command}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"\noma {args.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) went away: not an error; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
