"""A model on the Hugging Face Hub: its files by name and size, and ranges of their bytes. Nothing is kept on disk.

Which Hub, with which token, or none at all while offline: as `HF_ENDPOINT`, `HF_TOKEN` and `HF_HUB_OFFLINE` say to
huggingface_hub, whose session makes every request."""

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from openmodelatlas.errors import FetchError, UsageError

TIMEOUT_SECONDS = 20.0
SLOWEST = 50_000  # bytes a second, on top of the timeout: a server may not drip for ever
PIECE = 1 << 16
NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}", re.ASCII)
REVISION = re.compile(r"[\w./+-]{1,200}", re.ASCII)


@dataclass(kw_only=True)
class HubModel:
    """A model at a commit. `files`: size by name, None where the Hub doesn't say. `fetched` counts bytes of files."""

    name: str
    revision: str
    files: Mapping[str, int | None]
    fetched: int = 0
    _counting: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def where(self) -> str:
        """As messages call it, with the commit."""
        return f"hf:{self.name}@{self.revision}"

    def read_into(self, file: str, start: int, buffer: memoryview) -> None:
        """Bytes of a file from `start` on, as many as the buffer takes. FetchError unless the server sends just these;
        of a server that would send the whole file nothing is taken."""
        count, size, where = len(buffer), self.files.get(file), f"{self.where}/{file}"
        with _errors(where):
            from huggingface_hub import hf_hub_url
            from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

            url = hf_hub_url(self.name, file, revision=self.revision)
            wanted = {"Range": f"bytes={start}-{start + count - 1}", "Accept-Encoding": "identity"}
            headers = build_hf_headers() | wanted
            with get_session().stream("GET", url, headers=headers, timeout=TIMEOUT_SECONDS) as response:
                hf_raise_for_status(response)
                whole = response.status_code == 200 and start == 0 and count == size
                sent = response.headers.get("content-range", "").partition("/")[0]
                if not whole and (response.status_code != 206 or sent != f"bytes {start}-{start + count - 1}"):
                    found = sent if response.status_code == 206 else f"HTTP {response.status_code}"
                    raise FetchError(
                        "the server does not send parts of files",
                        where=where,
                        expected=f"bytes {start} to {start + count - 1}",
                        found=found,
                        fix="fetch the files and name their folder",
                    )
                self._fill(buffer, response.iter_raw(PIECE), where)

    def _fill(self, buffer: memoryview, pieces: Iterator[bytes], where: str) -> None:
        at, until = 0, time.monotonic() + TIMEOUT_SECONDS + len(buffer) / SLOWEST
        for piece in pieces:
            taken = min(len(piece), len(buffer) - at)
            buffer[at : at + taken] = piece[:taken]
            at += taken
            with self._counting:
                self.fetched += taken
            if at == len(buffer):
                return
            if time.monotonic() > until:
                raise FetchError("the Hub is too slow", where=where, found=f"{at:,} of {len(buffer):,} bytes")
        raise FetchError("the answer breaks off", where=where, expected=f"{len(buffer):,} bytes", found=f"{at:,}")


def open_model(name: str, revision: str | None = None) -> HubModel:
    """The model's files at a revision (a branch, a tag or a commit; None: the main branch), pinned to its commit.

    FetchError says in a line why it cannot be had; UsageError for what is no name of a model or revision."""
    target = name if revision is None else f"{name}@{revision}"
    if not NAME.fullmatch(name) or ".." in name or (revision is not None and not REVISION.fullmatch(revision)):
        raise UsageError("not a model on the Hub", where=repr(target[:200]), expected="ORG/NAME or ORG/NAME@REVISION")
    where = f"hf:{target}"
    with _errors(where):
        from huggingface_hub import HfApi, constants

        api = HfApi(endpoint=constants.ENDPOINT)
        try:
            info = api.model_info(name, revision=revision, files_metadata=True, timeout=TIMEOUT_SECONDS)
            files = {sibling.rfilename: sibling.size for sibling in info.siblings or ()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # as the library fails on other JSON
            found = f"{type(error).__name__}: {error}"[:200]
            raise FetchError("the Hub's answer makes no sense", where=where, found=found) from None
    commit, sizes = info.sha, list(files.values())
    if not isinstance(commit, str) or not REVISION.fullmatch(commit) or not all(map(_is_size, sizes)):
        raise FetchError("the Hub's answer makes no sense", where=where, expected="a commit and its files")
    return HubModel(name=name, revision=commit, files=files)


def _is_size(size: object) -> bool:
    return size is None or type(size) is int


@contextmanager
def _errors(where: str) -> Iterator[None]:
    """Every failure of a request as one FetchError that says what it means."""
    import httpx2
    from huggingface_hub import errors

    def fail(what: str, fix: str | None = None, found: str | None = None) -> FetchError:
        return FetchError(what, where=where, fix=fix, found=found)

    try:
        yield
    except errors.OfflineModeIsEnabled:
        raise fail("offline", "unset HF_HUB_OFFLINE, or name a folder with the files") from None
    except errors.GatedRepoError:
        raise fail("gated: its terms must be accepted first", "accept them on the Hub and set HF_TOKEN") from None
    except errors.RevisionNotFoundError:
        raise fail("no such revision of the model") from None
    except errors.RepositoryNotFoundError:
        raise fail("no such model on the Hub, or it is private", "check the name; HF_TOKEN gives access") from None
    except errors.EntryNotFoundError:
        raise fail("no such file in the model") from None
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        fix = {401: "the token is not accepted; check HF_TOKEN", 403: "HF_TOKEN does not give access"}.get(status or 0)
        raise fail("the Hub refuses", fix, f"HTTP {status}") from None
    except httpx2.TimeoutException:
        raise fail("the Hub does not answer", found=f"nothing within {TIMEOUT_SECONDS:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise fail("the Hub cannot be reached", "check the network", str(error)[:200] or type(error).__name__) from None
