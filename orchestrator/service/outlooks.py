"""What a conductor tells of its sweeps while it runs them: written to the store now and then, beside its work."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from orchestrator.job import Progress
from orchestrator.store.serving import OutlookRow
from orchestrator.store.store import Store

REFRESH_SECONDS = 15.0
"""How often an outlook is written that has not changed, so that it is seen that somebody is at the sweep."""


class Outlooks:
    """Takes progress as it comes; `write` stores what is new of it. Both may be called from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._present: dict[str, OutlookRow] = {}
        self._news: dict[str, OutlookRow] = {}
        self._refreshed = time.monotonic()

    def note(self, progress: Progress) -> None:
        """A sweep has got on, or waits."""
        row = OutlookRow(progress.sweep, time.time(), progress.left, progress.waiting, progress.growth)
        with self._lock:
            self._present[row.sweep] = self._news[row.sweep] = row

    def end(self, sweep: str, why: str | None = None) -> None:
        """Nobody is at the sweep here any more; `why`, if it is not by its user's will."""
        with self._lock:
            self._present.pop(sweep, None)
            self._news[sweep] = OutlookRow(sweep, time.time(), waiting=why)

    def write(self) -> None:
        """Store what is new, and now and then all there is. What cannot be stored is stored the next time."""
        now = time.monotonic()
        with self._lock:
            if now - self._refreshed >= REFRESH_SECONDS:
                self._refreshed = now
                self._news = {name: _as_of_now(row) for name, row in self._present.items()} | self._news
            news, self._news = self._news, {}
        try:
            self._store.set_outlooks(list(news.values()))
        except Exception:
            with self._lock:
                self._news = news | self._news
            raise


def _as_of_now(row: OutlookRow) -> OutlookRow:
    now = time.time()
    left = None if row.seconds_left is None else max(0.0, row.seconds_left - (now - row.updated))
    return replace(row, updated=now, seconds_left=left)
