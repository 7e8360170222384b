import io
import socket
import time
import urllib.error
import urllib.request
from email.message import Message
from typing import Any

import pytest

from openmodelatlas.errors import FetchError
from openmodelatlas.fetch.download import download

URL = "https://example.invalid/file.txt"


def answer(monkeypatch: pytest.MonkeyPatch, body: bytes, kind: str = "text/plain", url: str = URL) -> None:
    class Response(io.BytesIO):
        headers = Message()

    Response.headers["Content-Type"] = kind

    def urlopen(_request: Any, timeout: float) -> Response:
        assert timeout <= 10
        response = Response(body)
        response.url = url  # type: ignore[attr-defined]
        return response

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)


def test_a_file_comes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, b"text\n")
    assert download(URL) == b"text\n"


def test_only_https_is_asked() -> None:
    for url in ("http://example.invalid/x", "file:///etc/passwd", "ftp://example.invalid/x"):
        with pytest.raises(FetchError, match="only https"):
            download(url)


def test_a_log_in_page_is_not_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, b"<html>", kind="text/html; charset=utf-8")
    with pytest.raises(FetchError, match="not the file"):
        download(URL)


def test_a_redirect_away_from_https_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, b"text", url="http://elsewhere.invalid/")
    with pytest.raises(FetchError, match="not the file"):
        download(URL)


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, b"x" * 11)
    with pytest.raises(FetchError, match="too large"):
        download(URL, limit=10)


def test_an_http_error_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def urlopen(_request: Any, **_: Any) -> Any:
        raise urllib.error.HTTPError(URL, 404, "Not Found", Message(), io.BytesIO())

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    with pytest.raises(FetchError, match="HTTP 404"):
        download(URL)


def test_a_server_that_does_not_answer_is_given_up_soon() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        started = time.monotonic()
        with pytest.raises(FetchError, match="could not be downloaded"):
            download(f"https://127.0.0.1:{server.getsockname()[1]}/x", timeout=0.3)
        assert time.monotonic() - started < 5
