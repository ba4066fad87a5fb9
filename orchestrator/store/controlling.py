"""Sweeps as rows: finding them, counting their trials, changing their state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, insert, select, true, update

from orchestrator.code_snapshot import CodeSnapshot
from orchestrator.errors import StoreError
from orchestrator.store import schema
from orchestrator.store.base import StorePart, change_trials, count_states, forget_outlook, notify_sweep
from orchestrator.store.engine import reading
from orchestrator.store.records import CellRow, Counts, SweepRow
from orchestrator.store.rules import SweepChange, TrialChange, sweeps_that_may
from orchestrator.store.serving import note_event
from orchestrator.store.states import ENDED, EventKind, SweepState, TrialState


class Controlling(StorePart):
    """The part of the store that knows sweeps."""

    def sweep(self, identity: str) -> SweepRow:
        """The sweep whose id is or begins with `identity`. Raises StoreError if none or several do."""
        columns = schema.sweeps.c
        with reading(self.engine) as connection:
            prefix = identity.replace("%", "").replace("_", "")
            rows = (
                connection.execute(select(schema.sweeps).where(columns.id.like(f"{prefix}%")).limit(2)).mappings().all()
            )
            if not rows or not prefix:
                raise StoreError(f"there is no sweep `{identity}`: `slotsweep status` lists them")
            if len(rows) > 1:
                raise StoreError(f"several sweeps begin with `{identity}`: write more of the id")
            return _sweep_row(rows[0], count_states(connection, rows[0]["id"]))

    def sweeps(self) -> list[SweepRow]:
        """All sweeps, newest first."""
        with reading(self.engine) as connection:
            rows = connection.execute(select(schema.sweeps).order_by(schema.sweeps.c.created.desc())).mappings().all()
            links, trials = schema.sweep_trials.c, schema.trials.c
            grouped = connection.execute(
                select(links.sweep, trials.state, func.count())
                .join(schema.trials, trials.id == links.trial)
                .group_by(links.sweep, trials.state)
            ).all()
        counts: dict[str, dict[str, int]] = {}
        for sweep, state, count in grouped:
            counts.setdefault(sweep, {})[state] = count
        return [_sweep_row(row, Counts(**counts.get(row["id"], {}))) for row in rows]

    def sweep_states(self, sweeps: Sequence[str]) -> dict[str, SweepState]:
        """The present state of each of `sweeps`."""
        columns = schema.sweeps.c
        with reading(self.engine) as connection:
            rows = connection.execute(select(columns.id, columns.state).where(columns.id.in_(sweeps)))
            return {identity: SweepState(state) for identity, state in rows}

    def waiting_sweeps(self, states: Sequence[SweepState]) -> list[str]:
        """Ids of the sweeps in `states`, by falling priority, older ones first."""
        columns = schema.sweeps.c
        with reading(self.engine) as connection:
            query = (
                select(columns.id)
                .where(columns.state.in_(states))
                .order_by(columns.priority.desc(), columns.created, columns.id)
            )
            return list(connection.execute(query).scalars())

    def code(self, sweep: SweepRow) -> CodeSnapshot:
        """The code that was pinned when the sweep was submitted."""
        query = select(schema.code.c.archive).where(schema.code.c.digest == sweep.code)
        with reading(self.engine) as connection:
            archive = bytes(connection.execute(query).scalar_one())
        return CodeSnapshot(sweep.code, archive, sweep.software.get("git_commit"), sweep.software.get("git_dirty"))

    def cells(self, sweep: str) -> dict[int, CellRow]:
        """The sweep's cells by row id."""
        links, trials = schema.sweep_trials.c, schema.trials.c
        wanted = select(trials.cell).join(schema.sweep_trials, trials.id == links.trial).where(links.sweep == sweep)
        with reading(self.engine) as connection:
            rows = connection.execute(select(schema.cells).where(schema.cells.c.id.in_(wanted))).mappings()
            return {row["id"]: CellRow(**{k: v for k, v in row.items() if k != "id"}) for row in rows}

    def counts(self, sweep: str) -> Counts:
        """The sweep's trials by state."""
        with reading(self.engine) as connection:
            return count_states(connection, sweep)

    def set_sweep_state(self, sweep: str, state: SweepState, was: str | None = None, why: str | None = None) -> bool:
        """Change a sweep's state if every rule lets it; False (and nothing changed) if one does not.

        What was to be expected of it before is forgotten.

        was: the state that it must have now; None: any. why: what is told of it in this state, if it is not what its
        user wants
        """
        values: dict[str, Any] = {"state": state}
        if state == SweepState.RUNNING:
            values |= {"started": func.coalesce(schema.sweeps.c.started, time.time()), "finished": None}
        if state in ENDED:
            values["finished"] = time.time()
        has_state = true() if was is None else schema.sweeps.c.state == was
        with self.engine.begin() as connection:
            changed = connection.execute(
                update(schema.sweeps)
                .where(schema.sweeps.c.id == sweep, sweeps_that_may(SweepChange(state)), has_state)
                .values(**values)
            ).rowcount
            if changed:
                notify_sweep(connection, sweep)
                forget_outlook(connection, sweep)
                if why is not None:
                    connection.execute(insert(schema.outlooks).values(sweep=sweep, updated=time.time(), waiting=why))
                if state in ENDED:
                    note_event(connection, EventKind(state), sweep=sweep)
        return bool(changed)

    def set_report(self, sweep: str, path: str) -> None:
        """Note where the sweep's report lies."""
        with self.engine.begin() as connection:
            connection.execute(update(schema.sweeps).where(schema.sweeps.c.id == sweep).values(report=path))
            notify_sweep(connection, sweep)

    def cancel_pending(self, sweep: str) -> int:
        """Cancel the sweep's pending trials that no other unfinished sweep waits for; the number cancelled."""
        links, trials, sweeps = schema.sweep_trials, schema.trials.c, schema.sweeps
        others = links.alias()
        wanted = (
            select(others.c.trial)
            .join(sweeps, sweeps.c.id == others.c.sweep)
            .where(others.c.sweep != sweep, sweeps.c.state.not_in(ENDED))
        )
        with self.engine.begin() as connection:
            mine = connection.execute(
                select(trials.id)
                .join(links, links.c.trial == trials.id)
                .where(links.c.sweep == sweep, trials.state == TrialState.PENDING, trials.id.not_in(wanted))
            ).scalars()
            return len(change_trials(connection, list(mine), TrialChange(TrialState.CANCELLED, reason="cancelled")))


def _sweep_row(row: Any, counts: Counts) -> SweepRow:
    return SweepRow(**row, counts=counts)
