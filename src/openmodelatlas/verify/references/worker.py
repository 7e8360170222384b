"""The parent's side of a reference's process."""

import atexit
import functools
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path

from openmodelatlas.errors import AtlasError, FetchError
from openmodelatlas.verify.references.exchange import Answer, Request, load, save
from openmodelatlas.verify.references.serve import ANSWER, REQUEST

TIMEOUT_SECONDS = 300.0
LAST_LINES = 3


class Worker:
    """A reference that is running and takes requests. One process serves many requests, since importing a reference
    takes longer than running it."""

    def __init__(self, adapter: str) -> None:
        self.adapter = adapter
        self._scratch = tempfile.TemporaryDirectory(prefix="oma-reference-", ignore_cleanup_errors=True)
        self._log = Path(self._scratch.name, "log").open("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        command = [sys.executable, "-m", "openmodelatlas.verify.references.serve", adapter]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, encoding="utf-8"
        )

    def ask(self, request: Request) -> Answer:
        """The reference's answer. AtlasError, with its last words, if it fails or takes too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory(dir=self._scratch.name, ignore_cleanup_errors=True) as folder:
            save(Path(folder, REQUEST), request)
            timer = threading.Timer(TIMEOUT_SECONDS, self._process.kill)
            timer.start()
            try:
                self._process.stdin.write(f"{folder}\n")
                self._process.stdin.flush()
                reply = self._process.stdout.readline().strip()
            except BrokenPipeError:
                reply = ""
            finally:
                timer.cancel()
            if reply != "ok":
                raise AtlasError("the reference did not run", where=self.adapter, found=reply or self._last_words())
            answer: Answer = load(Path(folder, ANSWER))
            return answer

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End the process and remove its files."""
        if self._process.poll() is None:
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()
        self._log.close()
        self._scratch.cleanup()

    def _last_words(self) -> str:
        self._log.flush()
        self._log.seek(0)
        lines = [line.strip() for line in self._log if line.strip()]
        return " / ".join(lines[-LAST_LINES:]) or "nothing was said"


@functools.cache
def _workers() -> dict[str, Worker]:
    found: dict[str, Worker] = {}
    atexit.register(close_all)
    return found


def worker(adapter: str) -> Worker:
    """The running reference of that name; it is started when it is first asked for."""
    found = _workers()
    if adapter in found and found[adapter].ended:
        found.pop(adapter).close()
    if adapter not in found:
        found[adapter] = Worker(adapter)
    return found[adapter]


def release(adapter: str) -> None:
    """End the reference of that name, if it runs."""
    if adapter in _workers():
        _workers().pop(adapter).close()


def close_all() -> None:
    """End every reference that runs."""
    found = _workers()
    while found:
        found.popitem()[1].close()


def needs(package: str) -> None:
    """FetchError if a reference's package is not installed."""
    if find_spec(package) is None:
        raise FetchError("a reference is not installed", where=package, fix="pip install 'openmodelatlas[references]'")
