"""Download of one file, with checks of encryption, type and size."""

from __future__ import annotations

from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from dualshield.errors import InputError

CHUNK = 1 << 20
TIMEOUT_SECONDS = 30

Progress = Callable[[int, int | None], None]


class DownloadError(Exception):
    """A failed download; the message completes the caller's sentence."""


class _NoDowngrade(HTTPRedirectHandler):
    """Follow redirects, but never from https to an unencrypted address."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: object, newurl: str
    ) -> Request | None:
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise DownloadError(f"{req.host} redirects to an address without encryption")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def download(address: str, target: Path, limit: int, progress: Progress | None = None) -> None:
    """Download ``address`` to ``target``; raises DownloadError above ``limit`` bytes."""
    request = Request(address, headers={"User-Agent": "dualshield"})
    try:
        with build_opener(_NoDowngrade).open(request, timeout=TIMEOUT_SECONDS) as response:
            if response.headers.get_content_type() == "text/html":
                raise DownloadError("the address is a web page; open it in a browser")
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            if total is not None and total > limit:
                raise DownloadError(f"the file has {total} bytes, expected at most {limit}")
            with _writable(target) as file:
                done = 0
                while chunk := response.read(CHUNK):
                    done += len(chunk)
                    if done > limit:
                        raise DownloadError(f"the file has more than the expected {limit} bytes")
                    _write(file, chunk, target)
                    if progress is not None:
                        progress(done, total)
    except HTTPError as error:
        error.close()
        raise DownloadError(f"{urlsplit(address).netloc} answers {error.code} {error.reason}") from error
    except URLError as error:
        raise DownloadError(f"cannot reach {urlsplit(address).netloc} ({error.reason})") from error
    except (HTTPException, OSError, ValueError) as error:
        raise DownloadError(f"the download was interrupted ({error})") from error
    if total is not None and done != total:
        raise DownloadError(f"the download was interrupted after {done} of {total} bytes")


def _writable(target: Path) -> IO[bytes]:
    try:
        return target.open("wb")
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from error


def _write(file: IO[bytes], chunk: bytes, target: Path) -> None:
    try:
        file.write(chunk)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from error
