"""A sweep's log: one JSON object a line, written by every process that works for the sweep, read across rotation.

`<home>/logs/<sweep>.jsonl` holds the newest lines; when it has grown to ROTATE_BYTES it becomes `<sweep>.jsonl.1`, in
place of the one before. Lines torn by a kill stand alone and are passed over by readers.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from orchestrator.settings import Settings

ROTATE_BYTES = 20 * 2**20
CHUNK_BYTES = 64 * 1024
POLL_SECONDS = 0.5

LEADING = ("time", "level", "event", "sweep", "trial", "batch", "worker", "reason", "message")
"""Fields in the order in which a line begins with them; `lines` ends it."""

SECRETS = (
    re.compile(r"(://[^\s:/@'\"]*:)[^\s'\"]+(?=@)"),
    re.compile(r"([?&](?:password|sslpassword|token)=)[^\s&'\"]+", re.IGNORECASE),
)
"""Passwords in URLs. The first goes to the last `@`: a password may hold one that was not escaped."""

Entry = dict[str, Any]


def log_file(settings: Settings, sweep: str) -> Path:
    """Where the sweep's log lies, once there is one."""
    return settings.home / "logs" / f"{sweep}.jsonl"


def _older(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


class SweepLog:
    """Writes a sweep's log. Several processes and threads may write the same one; no line is torn or lost among them.

    Never raises: what cannot be written (a full disk, say) is dropped, and the first time that is said on stderr.
    """

    def __init__(self, settings: Settings, sweep: str) -> None:
        import structlog

        self._log = structlog.wrap_logger(
            _Appender(log_file(settings, sweep), sweep),
            processors=[
                structlog.processors.add_log_level,
                _add_time,
                _plain_and_ordered,
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            context_class=dict,
        ).bind(sweep=sweep)

    def info(self, event: str, **fields: Any) -> None:
        """Log `event`, a few words that say what happened, with `fields`; those that are None are left out.

        trial    key of the trial                batch   attempt
        worker   id of the worker                reason  reason of a failure
        message  for people, one or more lines   lines   last lines that the code printed or logged
        """
        self._log.info(event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        """As `info`: what may need somebody's attention."""
        self._log.warning(event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        """As `info`: what went wrong for good."""
        self._log.error(event, **fields)


def _add_time(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    now = datetime.now(UTC).replace(tzinfo=None)
    fields["time"] = f"{now.isoformat(timespec='milliseconds')}Z"
    return fields


def _plain_and_ordered(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> Entry:
    given = {name: _plain(value) for name, value in fields.items() if value is not None}
    lines = {"lines": given.pop("lines")} if "lines" in given else {}
    return {name: given.pop(name) for name in LEADING if name in given} | given | lines


def _plain(value: Any) -> Any:
    """`value` as JSON can say it, without secrets."""
    if isinstance(value, str):
        return _masked(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return _masked(str(value))


def _masked(text: str) -> str:
    if "://" not in text:
        return text
    for secret in SECRETS:
        text = secret.sub(r"\1***", text)
    return text


class _Appender:
    """Where finished lines go: the end of a file that is rotated."""

    def __init__(self, path: Path, sweep: str) -> None:
        self._path = path
        self._sweep = sweep
        self._complained = False

    def info(self, line: str) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _append(self._path, f"{line}\n".encode("utf-8", "replace"))
        except OSError as error:
            self._complain(error)

    warning = error = info

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            with suppress(OSError):
                reason = error.strerror or error
                print(f"the log of sweep {self._sweep} cannot be written, lines are dropped: {reason}", file=sys.stderr)


def _append(path: Path, line: bytes) -> None:
    with _opened_alone(path) as file:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":  # a line that a kill or a full disk cut short
            line = b"\n" + line
        if os.write(file, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if size + len(line) >= ROTATE_BYTES:
            os.replace(path, _older(path))


@contextmanager
def _opened_alone(path: Path) -> Iterator[int]:
    """The file at `path`, open for appending; nobody else writes to it or rotates it meanwhile."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            with suppress(OSError):  # file systems without locks: an append is still one call
                fcntl.flock(file, fcntl.LOCK_EX)
            if _stands_at(path, file):
                yield file
                return
        finally:
            os.close(file)


def _stands_at(path: Path, file: int) -> bool:
    """Whether the open `file` is the one at `path`: it may have been rotated while its lock was waited for."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False


class LogReader:
    """Reads a sweep's log from its oldest line on, each line once, however often it is rotated meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._begun = b""

    def entries(self) -> Iterator[Entry]:
        """The entries written since the last call."""
        while True:
            following = self._following()  # asked for first: once there is one, the file before it is complete
            for line in self._lines():
                with suppress(ValueError):
                    yield json.loads(line)
            if following is None:
                return
            self.close()
            self._file, self._begun = following, b""

    def follow(self, ended: Callable[[], bool]) -> Iterator[Entry]:
        """Entries as they are written, until a moment after `ended()`: the last words come after the end."""
        over = False
        while True:
            before, over = over, ended()
            yield from self.entries()
            if before and over:
                return
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """Close the file that is being read."""
        if self._file is not None:
            self._file.close()

    def _lines(self) -> Iterator[bytes]:
        if self._file is None:
            return
        while chunk := self._file.read(CHUNK_BYTES):
            *lines, self._begun = (self._begun + chunk).split(b"\n")
            yield from lines

    def _following(self) -> BinaryIO | None:
        """The file to read after the one being read, if there is one already."""
        # In this order: a rotation in between shows one file twice rather than none.
        newest, older = _open(self._path), _open(_older(self._path))
        chosen = None
        if newest is None or not _same(newest, self._file):
            rotated = older is not None and not _same(older, newest) and not _same(older, self._file)
            chosen = older if rotated else newest
        for file in (newest, older):
            if file is not None and file is not chosen:
                file.close()
        return chosen


def _open(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        return None


def _same(one: BinaryIO, other: BinaryIO | None) -> bool:
    return other is not None and os.path.sameopenfile(one.fileno(), other.fileno())
