"""Sweeps at a glance for all who ask again and again: counted once, and remembered for a moment."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

T = TypeVar("T")

SECONDS = 1.0
LONGEST_SECONDS = 5.0
SHARE = 10.0
"""What takes long to ask is remembered for longer, up to LONGEST_SECONDS: asking takes at most a tenth of the time."""

MOST_KEPT = 1000


@dataclass
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    until: float = 0.0
    answer: Any = None


class Glances:
    """Answers by what was asked. Who asks for one that is on its way waits for it."""

    def __init__(self) -> None:
        self._slots: OrderedDict[Hashable, _Slot] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, asked: Hashable, ask: Callable[[], T], *, fresh: bool = False) -> T:
        """What `ask` gives, now or, unless it has to be `fresh`, a moment ago. Raises what it raises."""
        slot = self._slot(asked)
        with slot.lock:
            now = time.monotonic()
            if fresh or now >= slot.until:
                slot.answer = ask()
                took = time.monotonic() - now
                slot.until = now + took + min(LONGEST_SECONDS, max(SECONDS, SHARE * took))
            answer: T = slot.answer
            return answer

    async def get_soon(self, asked: Hashable, ask: Callable[[], T], *, fresh: bool = False) -> T:
        """As `get`, for routes without a thread of their own: only what has to be asked takes one."""
        slot = self._slots.get(asked)
        if slot is not None and not fresh and time.monotonic() < slot.until:
            answer: T = slot.answer
            return answer
        return await run_in_threadpool(self.get, asked, ask, fresh=fresh)

    def forget(self) -> None:
        """Ask anew from now on: something was changed through this process."""
        with self._lock:
            self._slots.clear()

    def _slot(self, asked: Hashable) -> _Slot:
        with self._lock:
            slot = self._slots.setdefault(asked, _Slot())
            self._slots.move_to_end(asked)
            while len(self._slots) > MOST_KEPT:
                self._slots.popitem(last=False)
            return slot
