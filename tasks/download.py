"""Fetch one file over HTTP: bounded in size and time, retried where that can help, refused if its SHA-256 is wrong."""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

CHUNK_BYTES = 1 << 18
ATTEMPTS = 4
FIRST_WAIT_SECONDS = 0.5
STALL_SECONDS = 30.0
DEADLINE_SECONDS = 600.0
SLOWEST_BYTES_PER_SECOND = 100_000
"""An attempt may take `DEADLINE_SECONDS`, and beyond that as long as the largest file expected takes at this rate."""

WORTH_RETRYING = {408, 425, 429, 500, 502, 503, 504}


class DownloadError(Exception):
    """A file could not be fetched; a further attempt would not help."""


class TransientError(DownloadError):
    """A file could not be fetched; a further attempt may help."""


def download(url: str, target: Path, sha256: str | None, limit_bytes: int) -> None:
    """Write what `url` serves to `target`, and check it where its `sha256` is known.

    Raises DownloadError after the last attempt; `target` is then incomplete.
    """
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

    attempts = Retrying(
        retry=retry_if_exception_type(TransientError),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential_jitter(multiplier=FIRST_WAIT_SECONDS, jitter=FIRST_WAIT_SECONDS),
        reraise=True,
    )
    attempts(_attempt, url, target, sha256, limit_bytes)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def deadline_seconds(limit_bytes: int) -> float:
    """How long one attempt at a file of up to `limit_bytes` may take."""
    return DEADLINE_SECONDS + limit_bytes / SLOWEST_BYTES_PER_SECOND


def copy_within(read: Callable[[int], bytes], target: IO[bytes], limit_bytes: int) -> int:
    """Bytes copied from `read` to `target`. Raises DownloadError beyond the limits of size and time."""
    seconds = deadline_seconds(limit_bytes)
    deadline = time.monotonic() + seconds
    received = 0
    while chunk := read(CHUNK_BYTES):
        received += len(chunk)
        if received > limit_bytes:
            raise DownloadError(f"it is larger than the {limit_bytes} bytes expected at most")
        if time.monotonic() > deadline:
            raise TransientError(f"not complete after {seconds:.0f} s, in which {received} bytes came")
        target.write(chunk)
    return received


def _attempt(url: str, target: Path, sha256: str | None, limit_bytes: int) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "slotsweep"})
    try:
        with urllib.request.urlopen(request, timeout=STALL_SECONDS) as response, target.open("wb") as file:
            declared = response.headers.get("Content-Length")
            received = copy_within(response.read1, file, limit_bytes)  # read1: what has come, so a trickle ends in time
    except urllib.error.HTTPError as error:
        kind = TransientError if error.code in WORTH_RETRYING else DownloadError
        raise kind(f"the server answered {error.code} {error.reason}") from error
    except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
        raise TransientError(f"no answer: {getattr(error, 'reason', None) or error!r}") from error
    if declared is not None and received != int(declared):
        raise TransientError(f"the transfer broke off after {received} of {declared} bytes")
    if sha256 is not None and (found := file_sha256(target)) != sha256:
        raise DownloadError(f"its SHA-256 is {found}, not {sha256}: it was altered on the way or by its publisher")
