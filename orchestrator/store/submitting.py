"""Submitting sweeps, adding trials to them, and opening new generations of trials."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from orchestrator.store import schema
from orchestrator.store.base import StorePart, count_states, insert_new, notify_sweep
from orchestrator.store.chunks import chunks
from orchestrator.store.engine import reading
from orchestrator.store.explaining import save_fingerprints
from orchestrator.store.records import CellRow, NewSweep, Submitted, SweepTrial
from orchestrator.store.rules import SweepChange, sweeps_that_may
from orchestrator.store.states import SweepState, TrialState

TrialAsked = tuple[CellRow, int, str]

CodeHashes = Mapping[str, Mapping[str, str]]
"""The hash of each module behind a fingerprint: {fingerprint: {module: hash}}."""

NO_CODE: CodeHashes = MappingProxyType({})


class Submitting(StorePart):
    """The part of the store that takes sweeps in."""

    def submit(self, sweep: NewSweep, trials: Iterable[TrialAsked], code: CodeHashes = NO_CODE) -> Submitted:
        """Store a sweep (state queued) and its trials, given as (cell, seed, key) in plan order.

        `code` records which modules, by hash, are behind the fingerprints of the trials' cells.
        """
        identity = uuid.uuid4().hex[:10]
        row = asdict(sweep) | {"id": identity, "code": sweep.code.digest, "state": SweepState.QUEUED}
        row |= {"trials": 0, "reused": 0, "created": time.time()}
        with self.engine.begin() as connection:
            connection.execute(insert_new(connection, schema.code).values(asdict(sweep.code)))
            connection.execute(insert(schema.sweeps), row)
            save_fingerprints(connection, code)
            submitted = _submitted(identity, add_trials(connection, identity, 0, trials, sweep.use_cache))
            notify_sweep(connection, identity)
        return submitted

    def extend(
        self, sweep: str, changes: dict[str, Any], trials: Iterable[TrialAsked], code: CodeHashes = NO_CODE
    ) -> Submitted:
        """Add `trials` to a sweep that nobody runs, set `changes` of its row, and queue it; the trials added."""
        with self.engine.begin() as connection:
            save_fingerprints(connection, code)
            added = _submitted(sweep, add_trials(connection, sweep, next_position(connection, sweep), trials, True))
            connection.execute(update(schema.sweeps).where(schema.sweeps.c.id == sweep).values(**changes))
            _queue_again(connection, sweep)
        return added

    def retry(self, sweep: str, states: Sequence[TrialState]) -> int:
        """Open a new generation of the sweep's trials in `states` (failed, cancelled) and queue it; how many."""
        links, trials = schema.sweep_trials.c, schema.trials.c
        with self.engine.begin() as connection:
            old = connection.execute(
                select(links.position, trials.id, trials.key, trials.cell, trials.seed)
                .join(schema.trials, trials.id == links.trial)
                .where(links.sweep == sweep, trials.state.in_(states))
                .order_by(links.position)
            ).all()
            for chunk in chunks(old):
                asked = [(row.cell, row.seed, row.key) for row in chunk]
                fresh = _open_generations(connection, asked, use_cache=False)
                for row in chunk:
                    connection.execute(
                        update(schema.sweep_trials)
                        .where(links.sweep == sweep, links.position == row.position)
                        .values(trial=fresh[row.key].trial, reused=False)
                    )
            if old or count_states(connection, sweep).open:
                _queue_again(connection, sweep)
        return len(old)

    def done_keys(self, keys: Iterable[str]) -> set[str]:
        """Those of `keys` that have a finished trial."""
        columns = schema.trials.c
        with reading(self.engine) as connection:
            return {
                key
                for chunk in chunks(keys)
                for key in connection.execute(
                    select(columns.key).where(columns.key.in_(chunk), columns.state == TrialState.DONE)
                ).scalars()
            }

    def asked(self, sweep: str) -> list[tuple[CellRow, int, str]]:
        """The sweep's trials as they were asked for: (cell, seed, key) in plan order."""
        links, trials, cells = schema.sweep_trials.c, schema.trials.c, schema.cells
        query = (
            select(trials.cell, trials.seed, trials.key)
            .join(schema.sweep_trials, trials.id == links.trial)
            .where(links.sweep == sweep)
            .order_by(links.position)
        )
        with reading(self.engine) as connection:
            rows = connection.execute(query).all()
            wanted = {cell for cell, _, _ in rows}
            known: dict[int, CellRow] = {}
            for chunk in chunks(sorted(wanted)):
                for row in connection.execute(select(cells).where(cells.c.id.in_(chunk))).mappings():
                    known[row["id"]] = CellRow(**{name: value for name, value in row.items() if name != "id"})
        return [(known[cell], seed, key) for cell, seed, key in rows]


def next_position(connection: Connection, sweep: str) -> int:
    """The position of the next trial that is added to `sweep`."""
    links = schema.sweep_trials.c
    last = connection.execute(select(func.max(links.position)).where(links.sweep == sweep)).scalar_one()
    return 0 if last is None else int(last) + 1


def add_trials(
    connection: Connection, sweep: str, offset: int, trials: Iterable[TrialAsked], use_cache: bool
) -> Iterator[SweepTrial]:
    """Link `trials` to `sweep` from position `offset` on; each as it is linked. They are added once all were taken."""
    cells: dict[str, int] = {}
    total = reused = 0
    for chunk in chunks(trials):
        store_cells(connection, {cell.digest: cell for cell, _, _ in chunk}, cells)
        linked = _link(
            connection, sweep, offset + total, [(cells[cell.digest], seed, key) for cell, seed, key in chunk], use_cache
        )
        total += len(linked)
        reused += sum(one.state == TrialState.DONE for one in linked)
        yield from linked
    columns = schema.sweeps.c
    connection.execute(
        update(schema.sweeps)
        .where(columns.id == sweep)
        .values(trials=columns.trials + total, reused=columns.reused + reused)
    )


def _submitted(sweep: str, linked: Iterable[SweepTrial]) -> Submitted:
    done = Counter(one.state == TrialState.DONE for one in linked)
    return Submitted(sweep, done.total(), done[True])


def store_cells(connection: Connection, chunk: dict[str, CellRow], known: dict[str, int]) -> None:
    """Store those cells of `chunk` (by digest) that are not `known`, and add their rows to it."""
    new = [cell for digest, cell in chunk.items() if digest not in known]
    if not new:
        return
    connection.execute(insert_new(connection, schema.cells), [asdict(cell) for cell in new])
    columns = schema.cells.c
    rows = connection.execute(select(columns.digest, columns.id).where(columns.digest.in_([c.digest for c in new])))
    known.update((digest, identity) for digest, identity in rows)


def _link(
    connection: Connection, sweep: str, offset: int, rows: list[tuple[int, int, str]], use_cache: bool
) -> list[SweepTrial]:
    """Link `rows` (cell, seed, key) to `sweep` from position `offset` on."""
    found = _open_generations(connection, rows, use_cache)
    linked = [
        SweepTrial(offset + index, found[key].trial, cell, seed, found[key].state)
        for index, (cell, seed, key) in enumerate(rows)
    ]
    links = [
        {"sweep": sweep, "position": one.position, "trial": one.trial, "reused": one.state == TrialState.DONE}
        for one in linked
    ]
    connection.execute(insert(schema.sweep_trials), links)
    done = [{"sweep": sweep, "trial": link["trial"], "reused": True} for link in links if link["reused"]]
    if done:
        connection.execute(insert(schema.outbox), done)
    return linked


@dataclass(frozen=True)
class Generation:
    """One generation of a key: its trial row, number and state."""

    trial: int
    number: int
    state: str


def _open_generations(
    connection: Connection, rows: list[tuple[int, int, str]], use_cache: bool
) -> dict[str, Generation]:
    """The generation of each key of `rows` that a sweep links to: one to share where there is one, else a new one."""
    keys = [key for _, _, key in rows]
    before = _generations(connection, keys)
    shared = {key: _to_share(generations) for key, generations in before.items()} if use_cache else {}
    found = {key: generation for key, generation in shared.items() if generation is not None}
    new = [
        {
            "key": key,
            "generation": before[key][-1].number + 1 if key in before else 1,
            "cell": cell,
            "seed": seed,
            "state": TrialState.PENDING,
        }
        for cell, seed, key in rows
        if key not in found
    ]
    if new:
        connection.execute(insert_new(connection, schema.trials), new)
        after = _generations(connection, [str(row["key"]) for row in new])
        found |= {key: generations[-1] for key, generations in after.items()}
    return found


def _to_share(generations: Sequence[Generation]) -> Generation | None:
    """The newest finished generation, else the newest if it is still to come; None if all failed or were cancelled."""
    done = [generation for generation in generations if generation.state == TrialState.DONE]
    if done:
        return done[-1]
    return generations[-1] if generations[-1].state in (TrialState.PENDING, TrialState.LEASED) else None


def _generations(connection: Connection, keys: Sequence[str]) -> dict[str, list[Generation]]:
    """The generations of each of `keys` that has any, oldest first."""
    columns = schema.trials.c
    rows = connection.execute(
        select(columns.key, columns.id, columns.generation, columns.state)
        .where(columns.key.in_(keys))
        .order_by(columns.generation)
    )
    found: dict[str, list[Generation]] = {}
    for key, trial, number, state in rows:
        found.setdefault(key, []).append(Generation(trial, number, state))
    return found


def _queue_again(connection: Connection, sweep: str) -> None:
    connection.execute(
        update(schema.sweeps)
        .where(schema.sweeps.c.id == sweep, sweeps_that_may(SweepChange(SweepState.QUEUED)))
        .values(state=SweepState.QUEUED, finished=None)
    )
    notify_sweep(connection, sweep)
