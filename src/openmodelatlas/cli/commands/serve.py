"""`oma serve`: show a built site in a browser."""

import argparse
import errno
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from openmodelatlas.errors import UsageError

HELP = "serve a built site on this machine"
HOST = "127.0.0.1"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--port", type=int, default=8000, help="port to listen on, 0 for any free one (default: 8000)")
    parser.add_argument("--dir", type=Path, default=Path("build/site"), help="the site (default: build/site)")


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    with server(args.dir, args.port) as listening:
        print(f"http://{HOST}:{listening.server_address[1]}/ (Ctrl-C stops)", flush=True)
        try:
            listening.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing of it."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """No line for each request."""


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of that folder, bound to this machine only."""
    if not (folder / "index.html").is_file():
        raise UsageError("no site there", where=f"{folder}", fix="run: oma site")
    try:
        return ThreadingHTTPServer((HOST, port), partial(_Quiet, directory=str(folder)))
    except OverflowError as error:
        raise UsageError("impossible port", where=f"{port}", expected="0 to 65535") from error
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        raise UsageError(f"port {port} {why}", fix="choose another with --port") from error
