"""Times are measured by one process of a machine at a time: each holds the same file's lock while it does."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = "slotsweep-measures-times.lock"
POLL_SECONDS = 0.5

BUSY = "another slotsweep measures times on this machine, which must not be disturbed"
"""What whoever waits waits for."""


@contextmanager
def measuring_alone(given_up: Callable[[float], bool], on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock, or, if it is given up before, do not; `on_wait` is called once if it has to be waited for.

    given_up: waits for so many seconds at most; whether the lock is not wanted any more. It ends with the process.
    """
    file = _open(Path(tempfile.gettempdir()) / LOCK)
    told = False
    try:
        while not _lock(file):
            if not told:
                told = True
                on_wait()
            if given_up(POLL_SECONDS):
                break
        yield
    finally:
        os.close(file)


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(path: Path) -> int:
    """The file, which all users of the machine share; it is never written, so that it may be anybody's."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            pass
        try:
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            pass
