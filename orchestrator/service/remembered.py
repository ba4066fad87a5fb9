"""An answer that many ask for and that takes long: asked for once, and remembered for a little while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """What `ask` gives, at most `seconds` old. Who comes while it is asked for waits for that answer."""

    def __init__(self, ask: Callable[[], T], seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._lock = threading.Lock()
        self._answer: tuple[float, T] | None = None

    def get(self) -> T:
        """The answer. Raises what `ask` raises."""
        with self._lock:
            if self._answer is None or time.monotonic() - self._answer[0] > self._seconds:
                self._answer = time.monotonic(), self._ask()
            return self._answer[1]
