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
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from orchestrator.secrecy import environment_secrets, without_secrets
from orchestrator.settings import Settings, private_folder

if TYPE_CHECKING:
    from orchestrator.store.store import Store

ROTATE_BYTES = 20 * 2**20
CHUNK_BYTES = 64 * 1024
POLL_SECONDS = 0.5

LEADING = ("time", "level", "event", "sweep", "trial", "batch", "worker", "reason", "message")
"""Fields in the order in which a line begins with them; `lines` ends it."""

Entry = dict[str, Any]


def log_file(settings: Settings, sweep: str) -> Path:
    """Where the sweep's log lies, once there is one."""
    return settings.home / "logs" / f"{sweep}.jsonl"


def elsewhere(store: Store, sweep: str) -> tuple[str, ...]:
    """Other hosts that ran the sweep: there parts of its log lie, unless they share this one's SLOTSWEEP_HOME."""
    return tuple(sorted(store.hosts_of(sweep) - {socket.gethostname()}))


def older_log(path: Path) -> Path:
    """Where the lines before those in the log at `path` are, once there were many."""
    return path.with_name(f"{path.name}.1")


class JsonLog:
    """Writes a log. Several processes and threads may write the same one; no line is torn or lost among them.

    Never raises: what cannot be written (a full disk, say) is dropped, and the first time that is said on stderr.
    """

    def __init__(self, path: Path, whose: str, **fields: Any) -> None:
        """whose: the log's name in that complaint; `fields` stand in every line"""
        import structlog

        self._log = structlog.wrap_logger(
            _Appender(path, whose),
            processors=[
                structlog.processors.add_log_level,
                _add_time,
                _plain_and_ordered,
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            context_class=dict,
        ).bind(**fields)

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


class SweepLog(JsonLog):
    """The log of a sweep."""

    def __init__(self, settings: Settings, sweep: str) -> None:
        super().__init__(log_file(settings, sweep), f"the log of sweep {sweep}", sweep=sweep)


class ServiceLog(JsonLog):
    """What the processes of a service do, beside what they do for a sweep: `<home>/logs/service.jsonl`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(log_file(settings, "service"), "the service's log", process=os.getpid())


def _add_time(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    now = datetime.now(UTC).replace(tzinfo=None)
    fields["time"] = f"{now.isoformat(timespec='milliseconds')}Z"
    return fields


def _plain_and_ordered(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> Entry:
    secrets = environment_secrets()
    given = {name: _plain(value, secrets) for name, value in fields.items() if value is not None}
    lines = {"lines": given.pop("lines")} if "lines" in given else {}
    return {name: given.pop(name) for name in LEADING if name in given} | given | lines


def _plain(value: Any, secrets: Sequence[str]) -> Any:
    """`value` as JSON can say it, without secrets."""
    if isinstance(value, str):
        return without_secrets(value, secrets)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, secrets) for item in value]
    return without_secrets(str(value), secrets)


class _Appender:
    """Where finished lines go: the end of a file that is rotated."""

    def __init__(self, path: Path, whose: str) -> None:
        self._path = path
        self._whose = whose
        self._complained = False

    def info(self, line: str) -> None:
        try:
            private_folder(self._path.parent.parent)
            self._path.parent.mkdir(exist_ok=True)
            _append(self._path, f"{line}\n".encode("utf-8", "replace"))
        except OSError as error:
            self._complain(error)

    warning = error = info

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            with suppress(OSError):
                reason = error.strerror or error
                print(f"{self._whose} cannot be written, lines are dropped: {reason}", file=sys.stderr)


def _append(path: Path, line: bytes) -> None:
    with _opened_alone(path) as file:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":  # a line that a kill or a full disk cut short
            line = b"\n" + line
        if os.write(file, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if size + len(line) >= ROTATE_BYTES:
            os.replace(path, older_log(path))


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
        newest, older = _open(self._path), _open(older_log(self._path))
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
