"""What whoever decides which sweeps run next asks the store: which wait, who is at them, whose report is missing."""

from __future__ import annotations

import socket
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, exists, select

from orchestrator.store import schema
from orchestrator.store.base import StorePart
from orchestrator.store.clock import is_dead
from orchestrator.store.engine import reading
from orchestrator.store.states import ENDED, SweepState, TrialState


@dataclass(frozen=True)
class WaitingSweep:
    """A sweep that is to be run, as far as the order of sweeps depends on it."""

    id: str
    state: SweepState
    kind: str
    code: str
    plugins: tuple[str, ...]
    priority: int
    user: str | None
    created: float


class Conducting(StorePart):
    """The part of the store that says what there is to run."""

    def to_run(self, states: Collection[SweepState]) -> list[WaitingSweep]:
        """Sweeps in `states`, by falling priority, older ones first."""
        return self._waiting(schema.sweeps.c.state.in_(states))

    def undrawn(self) -> list[WaitingSweep]:
        """Ended sweeps with results and without a report, in the same order: their process died before it drew one."""
        columns, links, trials = schema.sweeps.c, schema.sweep_trials.c, schema.trials.c
        is_worth_it = exists().where(
            links.sweep == columns.id, trials.id == links.trial, trials.state == TrialState.DONE
        )
        return self._waiting(columns.state.in_(ENDED) & columns.report.is_(None) & is_worth_it)

    def _waiting(self, condition: ColumnElement[bool]) -> list[WaitingSweep]:
        columns = schema.sweeps.c
        query = (
            select(
                columns.id,
                columns.state,
                columns.kind,
                columns.code,
                columns.spec["plugins"].label("plugins"),
                columns.priority,
                columns.user,
                columns.created,
            )
            .where(condition)
            .order_by(columns.priority.desc(), columns.created, columns.id)
        )
        with reading(self.engine) as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return [
            WaitingSweep(plugins=tuple(row.pop("plugins") or ()), state=SweepState(row.pop("state")), **row)
            for row in rows
        ]

    def attended(self) -> dict[str, set[int]]:
        """Sweeps of which living processes of this host hold batches, with these processes' ids."""
        attempts, holders = schema.attempts.c, schema.orchestrators.c
        query = (
            select(attempts.sweep, holders.host, holders.boot, holders.pid, holders.process_started)
            .join(schema.orchestrators, holders.id == attempts.orchestrator)
            .where(schema.is_open)
            .distinct()
        )
        with reading(self.engine) as connection:
            rows = connection.execute(query).all()
        here = {row[1:] for row in rows if row[1] == socket.gethostname()}
        alive = {process for process in here if not is_dead(*process)}
        found: dict[str, set[int]] = {}
        for sweep, *process in rows:
            if tuple(process) in alive:
                found.setdefault(sweep, set()).add(process[2])
        return found

    def hosts_of(self, sweep: str) -> set[str]:
        """Hosts whose processes handed out batches of `sweep`: there its log lies."""
        attempts, holders = schema.attempts.c, schema.orchestrators.c
        query = (
            select(holders.host)
            .join(schema.attempts, attempts.orchestrator == holders.id)
            .where(attempts.sweep == sweep)
            .distinct()
        )
        with reading(self.engine) as connection:
            return set(connection.execute(query).scalars())

    def leased(self, sweeps: Collection[str]) -> set[str]:
        """Those of `sweeps` of which some trials are being computed."""
        attempts = schema.attempts.c
        query = select(attempts.sweep).where(schema.is_open, attempts.sweep.in_(sweeps)).distinct()
        with reading(self.engine) as connection:
            return set(connection.execute(query).scalars())
