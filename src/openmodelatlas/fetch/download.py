"""One small text file over https, once, failing fast."""

import http.client
import urllib.error
import urllib.parse
import urllib.request

from openmodelatlas.errors import FetchError

TIMEOUT_SECONDS = 5.0
LIMIT = 4 * 2**20


def download(url: str, *, timeout: float = TIMEOUT_SECONDS, limit: int = LIMIT) -> bytes:
    """The bytes at `url`, or FetchError after one try. A page of HTML (a portal, a log-in) is not a file."""
    if urllib.parse.urlsplit(url).scheme != "https":
        raise FetchError("only https is fetched", where=url)
    request = urllib.request.Request(url, headers={"User-Agent": "openmodelatlas"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            kind = response.headers.get_content_type()
            if urllib.parse.urlsplit(response.url).scheme != "https" or kind == "text/html":
                raise FetchError("not the file", where=url, found=f"{kind} at {response.url}")
            data: bytes = response.read(limit + 1)
    except urllib.error.HTTPError as error:
        raise FetchError("could not be downloaded", where=url, found=f"HTTP {error.code}") from error
    except (OSError, http.client.HTTPException) as error:
        cause = getattr(error, "reason", error)
        raise FetchError("could not be downloaded", where=url, found=f"{cause}") from error
    if len(data) > limit:
        raise FetchError("file too large", where=url, expected=f"at most {limit} bytes")
    return data
