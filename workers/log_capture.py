"""The last lines of what code printed or logged: kept while a batch runs, or read from a dead worker's files."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

LINES = 20
LINE_CHARACTERS = 500
TAIL_BYTES = 64 * 1024
"""Read from the end of a file: more than LINES lines of LINE_CHARACTERS take, whatever the alphabet."""

RAY_MARKS = (":job_id:", ":actor_name:", ":task_name:")
"""Beginnings of lines that Ray writes into its workers' files for itself."""

_FORMAT = logging.Formatter("%(levelname)s %(name)s: %(message)s")


class LineTail:
    """The last `limit` lines added, each cut at LINE_CHARACTERS; blank lines are left out.

    Lines are what a terminal would show: of a progress bar that overwrites itself, its last state.
    """

    def __init__(self, limit: int = LINES) -> None:
        self._lines: deque[str] = deque(maxlen=limit)
        self.open = True
        """Whether lines still belong here; who added them before may still be writing."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines kept, oldest first."""
        return tuple(self._lines)

    def add(self, lines: Iterable[str]) -> None:
        """Take the last of `lines`, which hold no line ends."""
        if self.open:
            self._lines.extend(shown for shown in map(_shown, lines) if shown)


def _shown(line: str) -> str:
    visible = _visible(line)
    if len(visible) > LINE_CHARACTERS:
        visible = f"{visible[: LINE_CHARACTERS - 1]}…"
    # Databases take neither NUL nor halves of surrogate pairs.
    return visible.rstrip().replace("\0", "�").encode("utf-8", "replace").decode("utf-8")


def _visible(line: str) -> str:
    """What is left of `line` on a terminal after carriage returns."""
    return line.rstrip("\r").rpartition("\r")[2]


@contextmanager
def capture_lines(limit: int = LINES) -> Iterator[LineTail]:
    """Keep the last `limit` lines that any thread of this process prints or logs inside `with`; all still goes its way.

    Seen are writes to `sys.stdout` and `sys.stderr`, and records of `logging` at the levels its loggers are set to
    (handlers are left as they are: one more would silence `logging.basicConfig` and the default output of warnings).
    Not seen is what goes past them: to the file descriptors, or to a stream that the code put there itself. Captures
    may be nested, and may end in any order.
    """
    tail = LineTail(limit)
    streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    tees = {name: _Tee(stream, tail) for name, stream in streams.items() if stream is not None}
    for name, tee in tees.items():
        setattr(sys, name, tee)
    records = _RecordTee(logging.getLogRecordFactory(), tail)
    logging.setLogRecordFactory(records)
    try:
        yield tail
    finally:
        for tee in tees.values():
            tee.finish_lines()
        tail.open = False
        for name, tee in tees.items():
            setattr(sys, name, _uncovered(getattr(sys, name), tee))
        logging.setLogRecordFactory(_uncovered(logging.getLogRecordFactory(), records))


class _Tee:
    """A text stream that passes everything on to the one `under` it, and whole lines to `tail`."""

    def __init__(self, under: Any, tail: LineTail) -> None:
        self.under = under
        self.tail = tail
        self._begun: dict[int, str] = {}  # by thread: lines of several threads do not mix

    def __getattr__(self, name: str) -> Any:
        return getattr(self.under, name)

    def write(self, text: str) -> int:
        with suppress(OSError):  # a full disk or a closed pipe must not fail the trial that prints
            self.under.write(text)
        if self.tail.open and not _called_by_logging():  # records have been taken when they were made
            self._split(text)
        return len(text)

    def writelines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self.under.flush()

    def _split(self, text: str) -> None:
        thread = threading.get_ident()
        *lines, rest = (self._begun.pop(thread, "") + text).split("\n")
        self.tail.add(lines)
        if rest:
            ending = "\r" if rest.endswith("\r") else ""
            self._begun[thread] = _visible(rest)[: LINE_CHARACTERS + 1] + ending

    def finish_lines(self) -> None:
        """Hand over lines whose end never came."""
        self.tail.add(list(self._begun.values()))


class _RecordTee:
    """A factory of log records that makes them by the one `under` it, and hands their lines to `tail`."""

    def __init__(self, under: Any, tail: LineTail) -> None:
        self.under = under
        self.tail = tail

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = cast("logging.LogRecord", self.under(*args, **kwargs))
        if self.tail.open and record.name is not None:  # logging makes nameless records to fill in later
            try:
                text = _FORMAT.format(record)
            except Exception:  # arguments that do not fit: logging itself reports that where the record is handled
                text = str(record.msg)
            self.tail.add(text.split("\n"))
        return record


def _called_by_logging() -> bool:
    """Whether the write that asks was made by a handler of `logging`, through however many tees."""
    frame = sys._getframe(1)
    while frame.f_globals is globals() and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals is vars(logging)


def _uncovered(current: Any, ours: _Tee | _RecordTee) -> Any:
    """What shall stand in place of `current` after `ours` ended.

    That is `current` itself where others put it there: they will take it away. But a stream that its owner closed
    would fail every later batch that prints.
    """
    if current is not ours and not getattr(current, "closed", False):
        return current
    under = ours.under
    while isinstance(under, _Tee | _RecordTee) and not under.tail.open:
        under = under.under
    return under


def worker_log_tail(pid: int, folder: str | os.PathLike[str], limit: int = LINES) -> list[str]:
    """The last `limit` lines that the Ray worker of process `pid` left in `folder`, the `logs` of Ray's session; of its
    two files the one written last comes last. Never raises: what cannot be read is left out.

    Ray names them `worker-<worker id>-<job id>-<pid>.out` and `.err`, on the worker's own machine: where there are
    none, the answer is []. Process ids mean nothing on another machine, so ask for workers of this one only.
    """
    tail = LineTail(limit)
    with suppress(OSError):
        for path in _worker_files(pid, Path(folder)):
            tail.add(line for line in _last_text(path).split("\n") if not line.startswith(RAY_MARKS))
    return list(tail.lines)


def _worker_files(pid: int, folder: Path) -> list[Path]:
    """The files of the last worker with this process id (they come again), in the order of their last change."""
    found = [path for place in (folder, folder / "old") for path in place.glob(f"worker-*-{pid}.*")]
    found = [path for path in found if path.suffix in (".out", ".err")]
    found.sort(key=lambda path: path.stat().st_mtime_ns)
    return [path for path in found if path.stem == found[-1].stem]


def _last_text(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        return file.read().decode("utf-8", "replace")
