"""What this process runs: its sweeps are nobody else's, on no host, until it leaves them or dies."""

from __future__ import annotations

import threading
from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError

from orchestrator.errors import StoreError
from orchestrator.patience import patiently
from orchestrator.store.store import Store

KEEP_SECONDS = 3.0


class Owner:
    """An orchestrator that sweeps belong to. `keep` says that it lives; with `begin` it says so by itself."""

    def __init__(self, store: Store) -> None:
        self.id: str = patiently(store.register_orchestrator)
        self._store = store
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_on, name="keep-sweeps", daemon=True)

    def takes(self, sweep: str) -> bool:
        """Whether `sweep` (an id) is this owner's, now or already."""
        return patiently(self._store.own_sweep, sweep, self.id)

    def leave(self, sweep: str) -> None:
        """Let others have a sweep."""
        patiently(self._store.leave_sweep, sweep, self.id)

    def keep(self) -> None:
        """Say that this process lives. Raises what the database raises."""
        self._store.keep_sweeps(self.id)

    def begin(self) -> Owner:
        """Say so now and then, until `end`."""
        self._thread.start()
        return self

    def end(self) -> None:
        """Let others have all sweeps."""
        self._over.set()
        with suppress(SQLAlchemyError, StoreError):  # else they are free when it is seen that this process is gone
            self._store.leave_sweeps(self.id)

    def _keep_on(self) -> None:
        while not self._over.wait(KEEP_SECONDS):
            with suppress(SQLAlchemyError, StoreError):
                self.keep()
