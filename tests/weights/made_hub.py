"""A small server that answers as the Hugging Face Hub does, of the folders that it is given; with its failures."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """`folder`: the files of the one model, `org/tiny`. `fault`: how it misbehaves. `sent` counts bytes of files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.fault, self.answer = folder, "", None
        self.sent, self.requests, self.tokens = 0, list[str](), dict[str, str | None]()
        self.address = ""

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        hub, path = self.hub, urlsplit(self.path).path
        hub.requests.append(f"{path} {self.headers.get('Range', '')}".strip())
        hub.tokens[f"{self.headers['Host'].partition(':')[0]}{path}"] = self.headers.get("Authorization")
        if hub.fault == "silence":
            time.sleep(1.5)
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            self.model(found[1], found[2])
        elif found := re.fullmatch(rf"/org/tiny/resolve/{COMMIT}/(.+)", path):
            self.file(found[1])
        elif path.startswith("/cdn/"):
            self.ranges(path.removeprefix("/cdn/"))
        else:
            self.fail(404, "EntryNotFound")

    def fail(self, status: int, code: str = "", body: bytes = b"{}") -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def model(self, name: str, revision: str | None) -> None:
        hub = self.hub
        if hub.fault in ("401", "403", "500"):
            return self.fail(int(hub.fault))
        if hub.fault == "gated list":
            return self.fail(403, "GatedRepo")
        if name != "org/tiny":
            return self.fail(401, "RepoNotFound")
        if revision not in (None, "main", "v1", COMMIT):
            return self.fail(404, "RevisionNotFound")
        siblings = [{"rfilename": file, "size": (hub.folder / file).stat().st_size} for file in hub.files()]
        content = {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings}
        return self.fail(200, body=json.dumps(content if hub.answer is None else hub.answer).encode())

    def file(self, name: str) -> None:
        if self.hub.fault == "gated":
            return self.fail(403, "GatedRepo")
        if self.hub.fault == "redirect":
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.hub.address.rpartition(':')[2]}/cdn/{name}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if self.hub.fault == "endless":
            self.send_response(302)
            self.send_header("Location", self.path)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        return self.ranges(name)

    def ranges(self, name: str) -> None:
        hub, path = self.hub, self.hub.folder / name
        if not path.is_file():
            return self.fail(404, "EntryNotFound")
        size = path.stat().st_size
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted is None or hub.fault == "no ranges":
            return self.body(path, 0, size, 200, {})
        first, last = int(wanted[1]), min(int(wanted[2]), size - 1)
        if hub.fault == "other range":
            first, last = first + 1, last + 1
        return self.body(path, first, last - first + 1, 206, {"Content-Range": f"bytes {first}-{last}/{size}"})

    def body(self, path: Path, first: int, count: int, status: int, headers: dict[str, str]) -> None:
        hub = self.hub
        self.send_response(status)
        for key, text in (headers | {"Content-Length": str(count)}).items():
            self.send_header(key, text)
        self.end_headers()
        with open(path, "rb") as file:
            file.seek(first)
            if hub.fault == "breaks off":
                count //= 2
            while count > 0:
                piece = file.read(min(count, 1 << 14))
                try:
                    self.wfile.write(piece)
                except OSError:
                    break
                hub.sent += len(piece)
                count -= len(piece)
                if hub.fault == "drip":
                    time.sleep(0.1)
        if hub.fault == "breaks off":
            self.close_connection = True


class Server(ThreadingHTTPServer):
    """Clients that hang up are what the tests are about."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        pass


@contextmanager
def serving(folder: Path) -> Iterator[Hub]:
    """The hub on a free port, until the block ends."""
    hub = Hub(folder)
    server = Server(("127.0.0.1", 0), type("OfHub", (Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
