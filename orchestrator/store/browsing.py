"""What pages ask of the store beside states and results: how sweeps are built, why trials failed, what changed last."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import case, func, select

from orchestrator.store import schema
from orchestrator.store.base import StorePart
from orchestrator.store.engine import reading
from orchestrator.store.states import TrialState


@dataclass(frozen=True)
class Shape:
    """How a sweep is built: its cells, the different seeds, trials by device class asked for."""

    cells: int
    seeds: int
    devices: dict[str, int]


@dataclass(frozen=True)
class FailureRow:
    """Trials that failed with one reason and one message. trial: the row id of the first, `position` its place."""

    reason: str
    message: str
    trials: int
    trial: int
    position: int


@dataclass(frozen=True)
class SweepText:
    """What its author wrote. path: of the file that was submitted."""

    description: str
    spec: str
    path: str | None


class Browsing(StorePart):
    """The part of the store that pages look around in."""

    def sweep_text(self, sweep: str) -> SweepText:
        """The spec of a sweep that there is, by its full id."""
        columns = schema.sweeps.c
        described = columns.spec["description"].as_string()
        query = select(described, columns.spec_text, columns.spec_path).where(columns.id == sweep)
        with reading(self.engine) as connection:
            description, text, path = connection.execute(query).one()
        return SweepText(description or "", text, path)

    def shape(self, sweep: str) -> Shape:
        """How a sweep is built so far."""
        links, trials, cells = schema.sweep_trials.c, schema.trials.c, schema.cells.c
        mine = schema.trials.join(schema.sweep_trials, trials.id == links.trial)
        with reading(self.engine) as connection:
            counted = select(func.count(trials.cell.distinct()), func.count(trials.seed.distinct())).select_from(mine)
            of_cells, seeds = connection.execute(counted.where(links.sweep == sweep)).one()
            by_device = (
                select(cells.device, func.count())
                .select_from(mine.join(schema.cells, cells.id == trials.cell))
                .where(links.sweep == sweep)
                .group_by(cells.device)
                .order_by(cells.device)
            )
            devices: dict[str, int] = dict(connection.execute(by_device).all())
        return Shape(of_cells, seeds, devices)

    def batches(self, sweep: str) -> tuple[int, int]:
        """How many batches of the sweep were handed out, and how many of them are on their way."""
        attempts = schema.attempts.c
        query = select(func.count(), func.count().filter(schema.is_open)).where(attempts.sweep == sweep)
        with reading(self.engine) as connection:
            handed_out, on_their_way = connection.execute(query).one()
        return handed_out, on_their_way

    def computing_seconds(self, sweep: str) -> float:
        """For how long any batch of the sweep was on a worker: its pauses and waits are left out."""
        attempts = schema.attempts.c
        now = func.coalesce(attempts.finished, time.time())
        before = func.max(now).over(order_by=(attempts.started, attempts.id), rows=(None, -1))
        spans = select(attempts.started, now.label("ended"), before.label("before")).where(attempts.sweep == sweep)
        span = spans.subquery().c
        began = case((span.before > span.started, span.before), else_=span.started)
        length = case((span.ended > began, span.ended - began), else_=0.0)
        with reading(self.engine) as connection:
            return float(connection.execute(select(func.coalesce(func.sum(length), 0.0))).scalar_one())

    def failures(self, sweep: str) -> list[FailureRow]:
        """Why the sweep's trials failed: each reason and message, those of most trials first."""
        links, trials = schema.sweep_trials.c, schema.trials.c
        number = func.count().label("number")
        query = (
            select(trials.reason, trials.message, number, func.min(trials.id), func.min(links.position))
            .join(schema.sweep_trials, trials.id == links.trial)
            .where(links.sweep == sweep, trials.state == TrialState.FAILED)
            .group_by(trials.reason, trials.message)
            .order_by(number.desc(), func.min(links.position))
        )
        with reading(self.engine) as connection:
            return [
                FailureRow(str(reason), message or "", count, trial, position)
                for reason, message, count, trial, position in connection.execute(query)
            ]

    def last_change(self) -> tuple[int, float, float, float]:
        """Differs once a sweep was added, taken up or ended: their number, and when each of these was last."""
        columns = schema.sweeps.c
        times = [
            func.coalesce(func.max(column), 0.0) for column in (columns.created, columns.started, columns.finished)
        ]
        with reading(self.engine) as connection:
            number, created, started, finished = connection.execute(select(func.count(), *times)).one()
        return number, created, started, finished
