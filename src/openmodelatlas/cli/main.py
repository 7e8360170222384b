"""`oma`: find the command, run it, turn an `AtlasError` into one line and its exit code."""

import argparse
import codecs
import importlib
import io
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import NoReturn

from openmodelatlas.cli import commands
from openmodelatlas.errors import AtlasError

INTERRUPTED = 130  # the shell's code for a command ended by Ctrl-C


class Parser(argparse.ArgumentParser):
    """argparse, but what cannot be understood is said in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit 2."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())}; `{self.prog} --help` explains\n")


def parser() -> argparse.ArgumentParser:
    """The whole command line, read from the modules of `commands`."""
    top = Parser(prog="oma", description="Open Model Atlas: maps of open language models, derived from code that runs.")
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
    name = "oma"
    _speak_any_encoding()
    try:
        top = parser()
        args = top.parse_args(argv)
        if args.version:
            from importlib.metadata import version

            print(f"oma {version('openmodelatlas')}")
            return 0
        if args.command is None:
            top.print_help()
            return 0
        name = f"oma {args.command}"
        code: int = args.run(args)
        if sys.stdout is not None:  # None: the caller closed it
            sys.stdout.flush()
        return code
    except AtlasError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        line_before = "\n" if sys.stderr is not None and sys.stderr.isatty() else ""  # after the terminal's own ^C
        print(f"{line_before}{name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # the reader (head, less) went away: not an error
        return 0
    except OSError as error:
        print(f"{name}: {os_words(error)}", file=sys.stderr)
        _drop_output()
        return 1


def os_words(error: OSError) -> str:
    """What the operating system refused, and where, in one line."""
    what = error.strerror or type(error).__name__
    return what if error.filename is None else f"{what}: {error.filename}"


def _drop_output() -> None:
    """Send what is still to be written nowhere, so that the interpreter does not complain of it at exit."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _speak_any_encoding() -> None:
    r"""Write what the terminal's encoding lacks as `\uXXXX`: nothing is lost, and JSON stays JSON."""
    codecs.register_error("json-escape", _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="json-escape")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)), error.end


if __name__ == "__main__":
    sys.exit(main())
