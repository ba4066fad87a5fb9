"""When the studies of sweeps that tune are written to Optuna's own store: off the critical path, by the tracker."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from orchestrator.errors import RequestError
from orchestrator.patience import patiently
from orchestrator.spec import SpecError
from orchestrator.store.states import ENDED
from orchestrator.tracker.tracker import TrackerRefusedError, TrackerUnavailableError
from tasks.kind import KINDS

if TYPE_CHECKING:
    from orchestrator.settings import Settings
    from orchestrator.store.store import Store

MIRROR_SECONDS = 20.0
"""How often studies that go on are written."""

UNWRITTEN = "the studies of sweep %s are not in Optuna's store: %s"


class Mirrors:
    """Keeps Optuna's own store up to date: now and then while a sweep that tunes runs, and once it has ended.

    What could not be written at the time is caught up by the next process.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._updated: dict[str, float] = {}

    def catch_up(self) -> None:
        """Write the studies of ended sweeps that Optuna's store lacks, or has as they once were."""
        ended = [row for row in patiently(self._store.sweeps) if row.state in ENDED]
        for row in ended:
            if not KINDS.implementation(row.kind).proposes:
                continue
            from orchestrator.tuner.mirroring import catch_up

            try:
                why = catch_up(self._store, row, self._settings)
            except (RequestError, SpecError) as error:
                logging.warning("the studies of sweep %s cannot be read: %s", row.id, error)
                continue
            if why is not None:
                logging.warning(UNWRITTEN, row.id, why)
                return

    def update(self, sweep: str) -> None:
        """Write what is new of the sweep's studies. What cannot be written now is written with what comes next."""
        row = self._store.sweep(sweep)
        if not KINDS.implementation(row.kind).proposes:
            return
        now = time.monotonic()
        if row.state not in ENDED and now - self._updated.get(sweep, now - MIRROR_SECONDS) < MIRROR_SECONDS:
            return
        from orchestrator.tuner.mirroring import mirror_studies

        self._updated[sweep] = now
        try:
            mirror_studies(self._store, row, self._settings)
        except (TrackerUnavailableError, TrackerRefusedError) as error:
            logging.warning(UNWRITTEN, sweep, error)
