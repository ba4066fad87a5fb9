"""The clock of cost measurements: the time that the work itself took, whatever else the machine was doing."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Self

WAITED = "/proc/thread-self/schedstat"
"""Nanoseconds that this thread ran, and that it was ready to run while others had the processor (Linux)."""


class Clock:
    """Seconds that pass in this thread, less those it waited for a processor that other work had.

    On a machine of its own the two are the same. Where the system does not count waiting, none is taken off. Used as a
    context, by one thread. (What an accelerator does is timed by `tasks.evaluate_device`, which waits for it.)

    elapsed, waited: seconds measured so far, waiting included, and the part of them that was waiting
    """

    def __init__(self) -> None:
        self.elapsed = self.waited = 0.0

    def __enter__(self) -> Self:
        try:
            self._counter = os.open(WAITED, os.O_RDONLY)
        except OSError:
            self._counter = -1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._counter >= 0:
            os.close(self._counter)

    def start(self) -> None:
        """Begin a measurement."""
        self._waited = self._waiting()
        self._began = time.perf_counter()

    def stop(self) -> float:
        """Seconds since `start`, without waiting."""
        elapsed = time.perf_counter() - self._began
        waited = min(self._waiting() - self._waited, elapsed)
        self.elapsed += elapsed
        self.waited += waited
        return elapsed - waited

    def _waiting(self) -> float:
        return int(os.pread(self._counter, 64, 0).split()[1]) / 1e9 if self._counter >= 0 else 0.0
