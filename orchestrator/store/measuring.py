"""Numbers about everything in the store, for whoever watches the service. Each costs a read of a table or an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Select, and_, case, func, or_, select

from orchestrator.store import schema
from orchestrator.store.base import StorePart
from orchestrator.store.clock import is_dead, lease_now
from orchestrator.store.engine import reading
from orchestrator.store.owning import PREFIX as OWNED
from orchestrator.store.states import SweepState, TrialState

UNFINISHED = (SweepState.QUEUED, SweepState.RUNNING, SweepState.PAUSED)


@dataclass(frozen=True)
class Histogram:
    """Values counted by size: `counts[i]` of them are at most `bounds[i]` and more than the bound before it.

    counts has one more entry than bounds, for values beyond the last.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(self.counts)


@dataclass(frozen=True)
class SweepNumbers:
    """Sweeps by state.

    queued_since    when the oldest queued sweep that never began was submitted (seconds since the epoch); None: none is
    without_worker  running sweeps whose trials have no worker to go to
    foreseen        the oldest outlook of a running sweep (seconds since the epoch); None: there is none
    """

    states: dict[str, int]
    queued_since: float | None
    without_worker: int
    foreseen: float | None


@dataclass(frozen=True)
class Held:
    """What workers of one device class hold now: how many of them hold something, in how many batches and trials."""

    workers: int
    batches: int
    trials: int


@dataclass(frozen=True)
class Backlog:
    """What somebody has not been told: how many notices, refused ones among them, and when the oldest was noted."""

    waiting: int
    refused: int
    since: float | None


@dataclass(frozen=True)
class WebhookNumbers:
    """Deliveries taken, given up and begun in vain, and the events that the webhooks asked for still have to take."""

    delivered: int
    given_up: int
    attempts: int
    waiting: int
    since: float | None


@dataclass(frozen=True)
class DutyRow:
    """A duty and the process that has, or had, it; taken: it still has."""

    duty: str
    host: str
    pid: int
    taken: bool


class Measuring(StorePart):
    """The part of the store that counts."""

    def sweep_numbers(self) -> SweepNumbers:
        """Sweeps by state, and how long some of them wait."""
        sweeps, outlooks = schema.sweeps.c, schema.outlooks.c
        fresh = case((and_(sweeps.state == SweepState.QUEUED, sweeps.started.is_(None)), sweeps.created))
        running = (
            select(func.count(outlooks.waiting), func.min(outlooks.updated))
            .join(schema.sweeps, sweeps.id == outlooks.sweep)
            .where(sweeps.state == SweepState.RUNNING)
        )
        with reading(self.engine) as connection:
            rows = connection.execute(select(sweeps.state, func.count(), func.min(fresh)).group_by(sweeps.state)).all()
            without_worker, foreseen = connection.execute(running).one()
        return SweepNumbers(
            states={state: count for state, count, _ in rows},
            queued_since=next((since for state, _, since in rows if state == SweepState.QUEUED), None),
            without_worker=without_worker,
            foreseen=foreseen,
        )

    def trial_numbers(self) -> dict[tuple[str, str | None], int]:
        """Trials by (state, reason); a trial that waits again has the reason why it came back."""
        columns = schema.trials.c
        query = select(columns.state, columns.reason, func.count()).group_by(columns.state, columns.reason)
        with reading(self.engine) as connection:
            return {(state, reason): count for state, reason, count in connection.execute(query)}

    def waiting_trials(self) -> dict[str | None, int]:
        """Pending trials of unfinished sweeps by the sweeps' user; one that two users ask for counts for both."""
        sweeps, links, trials = schema.sweeps.c, schema.sweep_trials.c, schema.trials.c
        query = (
            select(sweeps.user, func.count())
            .join(schema.sweep_trials, links.sweep == sweeps.id)
            .join(schema.trials, trials.id == links.trial)
            .where(sweeps.state.in_(UNFINISHED), trials.state == TrialState.PENDING)
            .group_by(sweeps.user)
        )
        with reading(self.engine) as connection:
            rows = connection.execute(query)
            return dict(rows.all())

    def worker_numbers(self, after: float) -> dict[tuple[str, str], int]:
        """Workers last seen `after` (seconds since the epoch) by (device, state)."""
        columns = schema.workers.c
        query = (
            select(columns.device, columns.state, func.count())
            .where(columns.last_seen > after)
            .group_by(columns.device, columns.state)
        )
        with reading(self.engine) as connection:
            return {(device, state): count for device, state, count in connection.execute(query)}

    def held(self) -> dict[str, Held]:
        """What workers hold now, by device."""
        workers, attempts = schema.workers.c, schema.attempts.c
        query = (
            select(
                workers.device, func.count(workers.id.distinct()), func.count(), func.sum(attempts.trials)
            )
            .join(schema.attempts, attempts.worker == workers.id)
            .where(schema.is_open)
            .group_by(workers.device)
        )  # fmt: skip
        with reading(self.engine) as connection:
            return {device: Held(*numbers) for device, *numbers in connection.execute(query)}

    def attempt_numbers(self) -> dict[tuple[str, str | None], int]:
        """Attempts by (state, reason)."""
        columns = schema.attempts.c
        query = select(columns.state, columns.reason, func.count()).group_by(columns.state, columns.reason)
        with reading(self.engine) as connection:
            return {(state, reason): count for state, reason, count in connection.execute(query)}

    def wall_seconds(self, bounds: Sequence[float]) -> Histogram:
        """Seconds that done trials took."""
        return self._histogram(schema.results.c.wall_seconds, schema.results, bounds)

    def start_seconds(self, bounds: Sequence[float]) -> Histogram:
        """Seconds from the submission of sweeps until they began."""
        columns = schema.sweeps.c
        return self._histogram(columns.started - columns.created, schema.sweeps, bounds, columns.started.is_not(None))

    def first_result_seconds(self, bounds: Sequence[float]) -> Histogram:
        """Seconds from the submission of sweeps until the first of their batches came back."""
        sweeps, attempts = schema.sweeps, schema.attempts.c
        first = (
            select(attempts.sweep, func.min(attempts.finished).label("finished"))
            .where(attempts.state == "done")
            .group_by(attempts.sweep)
            .subquery()
        )
        joined = sweeps.join(first, first.c.sweep == sweeps.c.id)
        return self._histogram(first.c.finished - sweeps.c.created, joined, bounds)

    def tracker_backlog(self) -> Backlog:
        """What the tracker has not heard of. Notices from before schema 0007 do not say since when."""
        columns = schema.outbox.c
        query = select(func.count(), func.count(columns.refused), func.min(columns.noted)).where(
            columns.delivered.is_(None)
        )
        with reading(self.engine) as connection:
            return Backlog(*connection.execute(query).one())

    def webhook_numbers(self, webhooks: Sequence[str]) -> WebhookNumbers:
        """All deliveries there ever were, and what `webhooks` still have to take."""
        events, hooks, deliveries = schema.events.c, schema.webhooks.c, schema.deliveries.c
        given_up = and_(deliveries.delivered.is_(None), deliveries.next_attempt.is_(None))
        ended = select(func.count(deliveries.delivered), func.count(case((given_up, 1))), func.sum(deliveries.attempts))
        here = and_(deliveries.event == events.id, deliveries.webhook == hooks.name)
        waiting = (
            select(func.count(), func.min(events.at))
            .select_from(schema.events.join(schema.webhooks, events.id > hooks.since))
            .outerjoin(schema.deliveries, here)
            .where(hooks.name.in_(webhooks), or_(deliveries.event.is_(None), deliveries.next_attempt.is_not(None)))
        )
        with reading(self.engine) as connection:
            delivered, spent, attempts = connection.execute(ended).one()
            return WebhookNumbers(delivered, spent, attempts or 0, *connection.execute(waiting).one())

    def duties(self) -> list[DutyRow]:
        """Every duty that a process ever had, and whether it still has it; to run one sweep is none of these."""
        leases, holders = schema.service_leases.c, schema.orchestrators.c
        query = select(
            leases.duty, leases.lease_clock, leases.leased_until,
            holders.host, holders.boot, holders.pid, holders.process_started,
        ).join(schema.orchestrators, holders.id == leases.holder).order_by(leases.duty)  # fmt: skip
        query = query.where(leases.duty.not_like(f"{OWNED}%"))
        with reading(self.engine) as connection:
            clock, now = lease_now(connection)
            rows = connection.execute(query).all()
        return [
            DutyRow(
                row.duty,
                row.host,
                row.pid,
                taken=row.lease_clock == clock
                and row.leased_until >= now
                and not is_dead(row.host, row.boot, row.pid, row.process_started),
            )
            for row in rows
        ]

    def _histogram(
        self, value: ColumnElement[float], source: FromClause, bounds: Sequence[float], *conditions: ColumnElement[bool]
    ) -> Histogram:
        with reading(self.engine) as connection:
            return _histogram(connection, select(value.label("value")).select_from(source).where(*conditions), bounds)


def _histogram(connection: Connection, values: Select[Any], bounds: Sequence[float]) -> Histogram:
    value = values.subquery().c.value
    bucket = case(*((value <= bound, index) for index, bound in enumerate(bounds)), else_=len(bounds))
    # Buckets are named in a query of their own: with parameters in it, Postgres does not know one expression again.
    sized = select(bucket.label("bucket"), value.label("value")).subquery().c
    rows = connection.execute(select(sized.bucket, func.count(), func.sum(sized.value)).group_by(sized.bucket)).all()
    counts = {index: count for index, count, _ in rows}
    return Histogram(
        bounds=tuple(bounds),
        counts=tuple(counts.get(index, 0) for index in range(len(bounds) + 1)),
        total=sum(total for _, _, total in rows),
    )
