"""Submitting sweeps, adding trials to them, and opening new generations of trials."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, insert, literal, select, text, update

from orchestrator.store import schema
from orchestrator.store.base import StorePart, count_states, forget_outlook, insert_new, notify_sweep
from orchestrator.store.chunks import chunks
from orchestrator.store.engine import reading
from orchestrator.store.explaining import save_fingerprints
from orchestrator.store.many import among, numbered
from orchestrator.store.owning import own
from orchestrator.store.records import CellRow, NewSweep, Submitted, SweepTrial
from orchestrator.store.rules import SweepChange, sweeps_that_may
from orchestrator.store.states import SweepState, TrialState

TrialAsked = tuple[CellRow, int, str]

CodeHashes = Mapping[str, Mapping[str, str]]
"""The hash of each module behind a fingerprint: {fingerprint: {module: hash}}."""

NO_CODE: CodeHashes = MappingProxyType({})

MANY = 1_000
"""Trials after whose submission the database is made to count its rows anew."""

LINKS = 50_000
"""Trials that are linked to a sweep by one statement."""


@dataclass(frozen=True)
class AskedSweep:
    """A sweep to be submitted, and its trials, given as (cell, seed, key) in plan order.

    `code` records which modules, by hash, are behind the fingerprints of the trials' cells.
    """

    sweep: NewSweep
    trials: Iterable[TrialAsked]
    code: CodeHashes


class _StagedTrial(NamedTuple):
    """A trial whose row (`trial`) is there, before its sweep is."""

    trial: int
    cell: int
    seed: int
    key: str


@dataclass(frozen=True)
class _Staged:
    """A sweep whose trials are there."""

    id: str
    asked: AskedSweep
    trials: list[_StagedTrial]


class Submitting(StorePart):
    """The part of the store that takes sweeps in."""

    def submit(self, sweep: NewSweep, trials: Iterable[TrialAsked], code: CodeHashes = NO_CODE) -> Submitted:
        """As `submit_all`, of one sweep."""
        [submitted] = self.submit_all([AskedSweep(sweep, trials, code)])
        return submitted

    def submit_all(
        self, asked: Sequence[AskedSweep], *, key: str | None = None, owner: str | None = None
    ) -> list[Submitted]:
        """Store sweeps (state queued) with their trials, all of them or none.

        Others write meanwhile: while trials are planned nobody waits, and rows of trials are made some at a time. Until
        the sweeps themselves are there, in the last transaction, nobody asks for these; whoever does shares them.

        key: what tells this request from others; a request that was carried out already changes nothing, and its sweeps
        are given again. owner: an orchestrator (see `orchestrator.store.owning`) to which the sweeps belong at once
        """
        sweeps = [
            _Staged(_identity(key, place), one, self._stage(one.trials, one.sweep.use_cache))
            for place, one in enumerate(asked)
        ]
        with self.engine.begin() as connection:
            done = [_submitted_before(connection, one.id) or _add_sweep(connection, one, owner) for one in sweeps]
        if sum(len(one.trials) for one in sweeps) >= MANY:
            with self.engine.begin() as connection:
                _count_anew(connection)
        return done

    def _stage(self, trials: Iterable[TrialAsked], use_cache: bool) -> list[_StagedTrial]:
        """Make rows for `trials`, those that are to be shared aside."""
        cells: dict[str, int] = {}
        staged: list[_StagedTrial] = []
        for chunk in chunks(trials):
            with self.engine.begin() as connection:
                store_cells(connection, {cell.digest: cell for cell, _, _ in chunk}, cells)
                rows = [(cells[cell.digest], seed, key) for cell, seed, key in chunk]
                found = _open_generations(connection, rows, use_cache)
            staged += [_StagedTrial(found[row[2]].trial, *row) for row in rows]
        return staged

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
                # The tracker hears that these runs are no longer the sweep's.
                told = [{"sweep": sweep, "trial": row.id, "reused": False} for row in chunk]
                connection.execute(insert(schema.outbox), told)
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


def _count_anew(connection: Connection) -> None:
    """Let Postgres know how many trials wait now: it would learn it by itself within a minute or so.

    Until then it believes that next to none does, and leases thousands by comparing each with every one.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"ANALYZE {schema.trials.name}, {schema.sweep_trials.name}"))


def _identity(key: str | None, place: int) -> str:
    """An id for a sweep: of one request, the same each time."""
    return uuid.uuid4().hex[:10] if key is None else hashlib.sha256(f"{key} {place}".encode()).hexdigest()[:10]


def _submitted_before(connection: Connection, sweep: str) -> Submitted | None:
    """What was said of `sweep` when it was submitted, if it was."""
    columns = schema.sweeps.c
    row = connection.execute(select(columns.id, columns.trials, columns.reused).where(columns.id == sweep)).first()
    return None if row is None else Submitted(*row)


def _add_sweep(connection: Connection, staged: _Staged, owner: str | None) -> Submitted:
    """Store a sweep whose trials are there."""
    new = staged.asked.sweep
    row = asdict(new) | {"id": staged.id, "code": new.code.digest, "state": SweepState.QUEUED}
    row |= {"trials": len(staged.trials), "reused": 0, "created": time.time()}
    connection.execute(insert_new(connection, schema.code).values(digest=new.code.digest, archive=new.code.archive))
    connection.execute(insert(schema.sweeps), row)
    save_fingerprints(connection, staged.asked.code)
    for first in range(0, len(staged.trials), LINKS):
        _link_staged(connection, staged.id, first, staged.trials[first : first + LINKS])
    reused = _note_reused(connection, staged.id)
    connection.execute(update(schema.sweeps).where(schema.sweeps.c.id == staged.id).values(reused=reused))
    if owner is not None:
        own(connection, staged.id, owner)
    notify_sweep(connection, staged.id)
    return Submitted(staged.id, len(staged.trials), reused)


def _link_staged(connection: Connection, sweep: str, first: int, staged: list[_StagedTrial]) -> None:
    """Link `staged` trials to `sweep` from position `first` on; new generations of those that failed meanwhile."""
    columns = schema.trials.c
    spoilt = (TrialState.FAILED, TrialState.CANCELLED)
    numbers = [one.trial for one in staged]
    query = select(columns.id).where(among(connection, columns.id, numbers), columns.state.in_(spoilt))
    if gone := set(connection.execute(query).scalars()):
        again = [(one.cell, one.seed, one.key) for one in staged if one.trial in gone]
        fresh = _open_generations(connection, again, use_cache=True)
        numbers = [fresh[one.key].trial if one.trial in gone else one.trial for one in staged]
    asked = numbered(connection, numbers)
    links = (
        select(literal(sweep), asked.c.position + first, columns.id, columns.state == TrialState.DONE)
        .select_from(asked)
        .join(schema.trials, columns.id == asked.c.number)
    )
    connection.execute(insert(schema.sweep_trials).from_select(["sweep", "position", "trial", "reused"], links))


def _note_reused(connection: Connection, sweep: str) -> int:
    """Let the tracker hear of trials that were done before `sweep` asked for them; how many."""
    links = schema.sweep_trials.c
    mine = (links.sweep == sweep) & links.reused
    count = connection.execute(select(func.count()).select_from(schema.sweep_trials).where(mine)).scalar_one()
    done = select(links.sweep, links.trial, literal(True)).where(mine).order_by(links.position)
    if count:
        connection.execute(insert(schema.outbox).from_select(["sweep", "trial", "reused"], done))
    return int(count)


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
    stored = among(connection, columns.digest, [cell.digest for cell in new])
    rows = connection.execute(select(columns.digest, columns.id).where(stored))
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
        .where(among(connection, columns.key, keys))
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
    forget_outlook(connection, sweep)
    notify_sweep(connection, sweep)
