"""Sweeps that grow while they run: trials and proposals that follow from results, each decision in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Select, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from orchestrator.errors import StoreError
from orchestrator.store import schema
from orchestrator.store.base import StorePart
from orchestrator.store.chunks import chunks
from orchestrator.store.engine import reading
from orchestrator.store.records import CellRow, ProposalRow, SweepTrial, Verdict
from orchestrator.store.states import ENDED, TrialState
from orchestrator.store.submitting import TrialAsked, add_trials, next_position, store_cells

Verdicts = Mapping[tuple[int, int], Verdict]
"""What became of proposals, by study and number."""


class GrownElsewhereError(StoreError):
    """Another process took the same decision first."""


class Growing(StorePart):
    """The part of the store that takes what follows from results."""

    def grow(
        self,
        sweep: str,
        trials: Iterable[TrialAsked],
        proposals: Sequence[tuple[ProposalRow, CellRow | None]] = (),
        verdicts: Verdicts | None = None,
        best: Mapping[int, Collection[int]] | None = None,
    ) -> list[SweepTrial]:
        """Add `trials` and `proposals` to `sweep` and note `verdicts` on earlier ones; the trials as they are linked.

        proposals: each with its cell, of which trials may be asked for later only
        best: the numbers of the best by study, where they have become others; the tracker is told of their trials again

        A trial that the sweep has is not added again, and nothing is to a sweep that has ended. Raises
        GrownElsewhereError where one of the proposals is there.
        """
        try:
            with self.engine.begin() as connection:
                columns = schema.sweeps.c
                state, use_cache = connection.execute(
                    select(columns.state, columns.use_cache).where(columns.id == sweep)
                ).one()
                if state in ENDED:
                    return []
                added = _add_new(connection, sweep, list(trials), use_cache)
                _propose(connection, sweep, proposals)
                _judge(connection, sweep, verdicts or {})
                _distinguish(connection, sweep, best or {})
                return added
        except IntegrityError as error:
            raise GrownElsewhereError(f"sweep {sweep}: another process is making its proposals") from error

    def sweep_trials(self, sweep: str, trials: Iterable[int] | None = None) -> list[SweepTrial]:
        """The sweep's trials in plan order with their metrics, or those of `trials` (rows)."""
        rows, query = schema.trials.c, _sweep_trials(sweep)
        parts: list[Select[Any]] = (
            [query] if trials is None else [query.where(rows.id.in_(chunk)) for chunk in chunks(trials)]
        )
        with reading(self.engine) as connection:
            return [SweepTrial(*row) for part in parts for row in connection.execute(part)]

    def ended(self, trials: Iterable[int]) -> dict[int, dict[str, float] | None]:
        """Those of `trials` (rows) that have ended, with their metrics; None where they failed."""
        rows, results = schema.trials.c, schema.results.c
        query = (
            select(rows.id, results.metrics)
            .outerjoin(schema.results, results.trial == rows.id)
            .where(rows.state.in_((TrialState.DONE, TrialState.FAILED, TrialState.CANCELLED)))
        )
        with reading(self.engine) as connection:
            return {
                trial: metrics
                for chunk in chunks(trials)
                for trial, metrics in connection.execute(query.where(rows.id.in_(chunk)))
            }

    def proposals(self, sweep: str) -> list[ProposalRow]:
        """The sweep's proposals, study by study in the order in which they were made."""
        columns = schema.proposals.c
        query: Select[Any] = (
            select(
                columns.study, columns.number, columns.batch, columns.params, columns.attributes,
                schema.cells.c.digest, columns.same_as, columns.enqueued, columns.state, columns.error,
                columns.seeds, columns.best,
            )
            .outerjoin(schema.cells, schema.cells.c.id == columns.cell)
            .where(columns.sweep == sweep)
            .order_by(columns.study, columns.number)
        )  # fmt: skip
        with reading(self.engine) as connection:
            return [ProposalRow(*row) for row in connection.execute(query).all()]

    def proposed_cells(self, sweep: str) -> dict[int, tuple[int, int, bool]]:
        """For each cell (a row) that the sweep proposed: the first (study, number) to do so; whether it is a best."""
        columns = schema.proposals.c
        query = (
            select(columns.cell, columns.study, columns.number, columns.best)
            .where(columns.sweep == sweep, columns.cell.is_not(None))
            .order_by(columns.study, columns.number)
        )
        found: dict[int, tuple[int, int, bool]] = {}
        with reading(self.engine) as connection:
            for cell, study, number, best in connection.execute(query):
                first = found.setdefault(cell, (study, number, best))
                found[cell] = (*first[:2], first[2] or best)
        return found

    def cell_times(self, sweep: str) -> dict[str, tuple[float, float]]:
        """When the first trial of each cell (a digest) of the sweep was started, and when the last one ended."""
        links, rows, results = schema.sweep_trials.c, schema.trials.c, schema.results.c
        query = (
            select(schema.cells.c.digest, func.min(results.started), func.max(results.finished))
            .join(schema.trials, rows.cell == schema.cells.c.id)
            .join(schema.sweep_trials, links.trial == rows.id)
            .join(schema.results, results.trial == rows.id)
            .where(links.sweep == sweep)
            .group_by(schema.cells.c.digest)
        )
        with reading(self.engine) as connection:
            return {digest: (started, finished) for digest, started, finished in connection.execute(query)}


def _sweep_trials(sweep: str) -> Select[Any]:
    links, rows, results = schema.sweep_trials.c, schema.trials.c, schema.results.c
    return (
        select(links.position, rows.id, rows.cell, rows.seed, rows.state, results.metrics)
        .join(schema.trials, rows.id == links.trial)
        .outerjoin(schema.results, results.trial == rows.id)
        .where(links.sweep == sweep)
        .order_by(links.position)
    )


def _add_new(connection: Connection, sweep: str, trials: list[TrialAsked], use_cache: bool) -> list[SweepTrial]:
    """Add those of `trials` that the sweep has not: the answer to an earlier request may have been lost."""
    there: dict[str, SweepTrial] = {}
    for chunk in chunks(trials):
        query = _sweep_trials(sweep).add_columns(schema.trials.c.key)
        for *row, key in connection.execute(query.where(schema.trials.c.key.in_([key for _, _, key in chunk]))):
            there[key] = SweepTrial(*row)
    new = [trial for trial in trials if trial[2] not in there]
    added = add_trials(connection, sweep, next_position(connection, sweep), new, use_cache)
    there |= {key: one for (_, _, key), one in zip(new, added, strict=True)}
    return [there[key] for _, _, key in trials]


def _propose(connection: Connection, sweep: str, proposals: Sequence[tuple[ProposalRow, CellRow | None]]) -> None:
    ids: dict[str, int] = {}
    for chunk in chunks(proposals):
        store_cells(connection, {cell.digest: cell for _, cell in chunk if cell is not None}, ids)
        rows = [
            {**asdict(one), "sweep": sweep, "cell": None if cell is None else ids[cell.digest]} for one, cell in chunk
        ]
        connection.execute(insert(schema.proposals), rows)


def _judge(connection: Connection, sweep: str, verdicts: Verdicts) -> None:
    columns = schema.proposals.c
    for (study, number), verdict in verdicts.items():
        connection.execute(
            update(schema.proposals)
            .where(columns.sweep == sweep, columns.study == study, columns.number == number)
            .values(**asdict(verdict))
        )


def _distinguish(connection: Connection, sweep: str, best: Mapping[int, Collection[int]]) -> None:
    columns, links, rows = schema.proposals.c, schema.sweep_trials.c, schema.trials.c
    for study, numbers in best.items():
        mine = (columns.sweep == sweep, columns.study == study)
        changed = (*mine, columns.best | columns.number.in_(numbers))
        cells = list(connection.execute(select(columns.cell).where(*changed)).scalars())
        connection.execute(update(schema.proposals).where(*changed).values(best=columns.number.in_(numbers)))
        trials = (
            select(links.sweep, links.trial, links.reused)
            .join(schema.trials, rows.id == links.trial)
            .where(links.sweep == sweep, rows.cell.in_(cells), rows.state == TrialState.DONE)
        )
        connection.execute(insert(schema.outbox).from_select(["sweep", "trial", "reused"], trials))
