"""What Prometheus is told of the store: the same on every replica that serves it.

Reading whole tables takes time when there are a million trials, so each part is kept for a while: a few seconds, and
as long as makes reading it at most a twentieth of a processor's time, however often somebody asks.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from models.devices.device import DEVICE_CLASSES
from orchestrator.scheduler import LEASE_SECONDS
from orchestrator.service.webhooks import DUTY
from orchestrator.software import library_version
from orchestrator.store.measuring import Held, Histogram
from orchestrator.store.states import REASONS, SweepState, TrialState
from orchestrator.store.store import Store
from orchestrator.store.version import HEAD

KEEP_SECONDS = 5.0
KEEP_TIMES = 20.0
"""How long a part is kept: KEEP_SECONDS, or KEEP_TIMES as long as reading it took."""

MOST_USERS = 20
OTHERS = "others"
"""Users with the most waiting trials have a series each; the rest share one."""

WORKER_STATES = ("ready", "silent", "refused", "quarantined")
WRONG_SECONDS = 86_400.0
"""For how long a refused or quarantined worker is counted after it was last seen."""

DUTIES = ("run sweeps", DUTY)
"""Duties that are told of before anybody has had them."""

TRIAL_SECONDS = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
SWEEP_SECONDS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)

SHARED = "The same on every replica of a database."
"""The end of a help text whose numbers must not be added over replicas."""


class StoreMetrics:
    """Collects the metrics of `store`; `webhooks` are the names of those that this service tells."""

    def __init__(self, store: Store, webhooks: Sequence[str]) -> None:
        self._store, self._webhooks = store, webhooks
        self._lock = threading.Lock()
        self._parts = [
            _Part(read)
            for read in (
                self._sweeps, self._trials, self._waiting, self._workers, self._attempts, self._walls, self._starts,
                self._first_results, self._tracker, self._told, self._duties,
            )
        ]  # fmt: skip

    def collect(self) -> Iterator[Metric]:
        """Every family of metrics; whoever asks at the same time waits for one reading."""
        yield InfoMetricFamily(
            "slotsweep_service",
            "What serves: the version of slotsweep, of the schema, and the kind of database.",
            value={
                "version": library_version("slotsweep") or "unknown",
                "schema": HEAD,
                "database": self._store.engine.dialect.name,
            },
        )
        with self._lock:
            families = [family for part in self._parts for family in part.families()]
            age = max(time.monotonic() - part.read_at for part in self._parts)
        yield from families
        yield _gauge(
            "slotsweep_metrics_age_seconds", "Age of the oldest of this replica's numbers from the store.", age
        )

    def _sweeps(self) -> Iterator[Metric]:
        numbers, now = self._store.sweep_numbers(), time.time()
        states = {(state,): numbers.states.get(state, 0) for state in SweepState}
        yield _gauges("slotsweep_sweeps", f"Sweeps by state. {SHARED}", ["state"], states)
        yield _gauge(
            "slotsweep_queue_wait_seconds",
            f"Seconds since the submission of the oldest queued sweep that never began; 0 if none is. {SHARED}",
            _since(numbers.queued_since, now),
        )
        yield _gauge(
            "slotsweep_sweeps_without_worker",
            f"Running sweeps whose trials have no worker to go to. {SHARED}",
            numbers.without_worker,
        )
        yield _gauge(
            "slotsweep_outlook_age_seconds",
            f"Seconds since whoever runs the running sweeps spoke last of the one heard of least. {SHARED}",
            _since(numbers.foreseen, now),
        )

    def _trials(self) -> Iterator[Metric]:
        ended_badly = (TrialState.FAILED, TrialState.CANCELLED)
        counts = {(state, ""): 0 for state in TrialState if state not in ended_badly}
        counts |= {(TrialState.FAILED, reason): 0 for reason in REASONS if reason != "cancelled"}
        counts[TrialState.CANCELLED, "cancelled"] = 0
        for (state, reason), count in self._store.trial_numbers().items():
            key = TrialState(state), (reason or "") if state in ended_badly else ""
            counts[key] = counts.get(key, 0) + count
        yield _gauges(
            "slotsweep_trials",
            f"Trials by state; failed and cancelled ones have a reason. {SHARED}",
            ["state", "reason"],
            counts,
        )

    def _waiting(self) -> Iterator[Metric]:
        by_user = self._store.waiting_trials()
        ordered = sorted(by_user.items(), key=lambda item: (-item[1], item[0] or ""))
        counts = {(user or "",): count for user, count in ordered[:MOST_USERS]}
        counts[OTHERS,] = counts.get((OTHERS,), 0) + sum(count for _, count in ordered[MOST_USERS:])
        yield _gauges(
            "slotsweep_waiting_trials",
            f"Pending trials of unfinished sweeps by user, of the {MOST_USERS} with most (empty: submitted without the "
            f"service). {SHARED}",
            ["user"],
            counts,
        )

    def _workers(self) -> Iterator[Metric]:
        now = time.time()
        seen, lately = self._store.worker_numbers(now - LEASE_SECONDS), self._store.worker_numbers(now - WRONG_SECONDS)
        counts: dict[tuple[str, str], int] = {
            (device, state): 0 for device in DEVICE_CLASSES for state in WORKER_STATES
        }
        for (device, state), count in lately.items():
            if state == "ready":
                counts[device, "ready"] = seen.get((device, state), 0)
                counts[device, "silent"] = count - seen.get((device, state), 0)
            elif state in WORKER_STATES:
                counts[device, state] = count
        yield _gauges(
            "slotsweep_workers",
            "Workers by device class and state; silent: not heard of for longer than a lease. Of the last day only. "
            + SHARED,
            ["device", "state"],
            counts,
        )
        held = {device: Held(0, 0, 0) for device in DEVICE_CLASSES} | self._store.held()
        for name, what, field in (
            ("slotsweep_busy_workers", "Workers that hold a batch", "workers"),
            ("slotsweep_held_batches", "Batches that workers hold", "batches"),
            ("slotsweep_held_trials", "Trials that workers hold", "trials"),
        ):
            values = {(device,): getattr(one, field) for device, one in held.items()}
            yield _gauges(name, f"{what}, by device class. {SHARED}", ["device"], values)

    def _attempts(self) -> Iterator[Metric]:
        numbers = self._store.attempt_numbers()
        done = sum(count for (state, _), count in numbers.items() if state == "done")
        yield _counters("slotsweep_batches_done", f"Batches that came back. {SHARED}", [], {(): done})
        yield _counters(
            "slotsweep_leases_lost",
            f"Batches that were lost, their leases with them, by reason. {SHARED}",
            ["reason"],
            {(reason,): numbers.get(("lost", reason), 0) for reason in REASONS},
        )

    def _walls(self) -> Iterator[Metric]:
        walls = self._store.wall_seconds(TRIAL_SECONDS)
        yield _histogram("slotsweep_trial_wall_seconds", f"Seconds that done trials took. {SHARED}", walls)
        yield _counters("slotsweep_trials_done", f"Trials with a result. {SHARED}", [], {(): walls.count})

    def _starts(self) -> Iterator[Metric]:
        yield _histogram(
            "slotsweep_sweep_start_seconds",
            f"Seconds from the submission of sweeps until they began. {SHARED}",
            self._store.start_seconds(SWEEP_SECONDS),
        )

    def _first_results(self) -> Iterator[Metric]:
        yield _histogram(
            "slotsweep_sweep_first_result_seconds",
            f"Seconds from the submission of sweeps until the first of their batches came back. {SHARED}",
            self._store.first_result_seconds(SWEEP_SECONDS),
        )

    def _tracker(self) -> Iterator[Metric]:
        backlog = self._store.tracker_backlog()
        yield _gauge(
            "slotsweep_tracker_undelivered", f"Notices that the tracker has not heard of. {SHARED}", backlog.waiting
        )
        yield _gauge(
            "slotsweep_tracker_refused", f"Those of them that the tracking store refused. {SHARED}", backlog.refused
        )
        yield _gauge(
            "slotsweep_tracker_lag_seconds",
            f"Age of the oldest notice that the tracker has not heard of; 0 if there is none. {SHARED}",
            _since(backlog.since, time.time()),
        )

    def _told(self) -> Iterator[Metric]:
        numbers = self._store.webhook_numbers(self._webhooks)
        yield _counters(
            "slotsweep_webhook_deliveries",
            f"Events that webhooks took, and that were given up. {SHARED}",
            ["outcome"],
            {("delivered",): numbers.delivered, ("given_up",): numbers.given_up},
        )
        yield _counters(
            "slotsweep_webhook_attempts",
            f"Attempts to deliver events to webhooks. {SHARED}",
            [],
            {(): numbers.attempts},
        )
        yield _gauge(
            "slotsweep_webhook_undelivered", f"Events that webhooks still have to take. {SHARED}", numbers.waiting
        )
        yield _gauge(
            "slotsweep_webhook_lag_seconds",
            f"Age of the oldest event that a webhook still has to take; 0 if there is none. {SHARED}",
            _since(numbers.since, time.time()),
        )

    def _duties(self) -> Iterator[Metric]:
        duties, mine = self._store.duties(), _our_processes()
        taken, held = dict.fromkeys(DUTIES, False), dict.fromkeys(DUTIES, False)
        for one in duties:
            taken[one.duty], held[one.duty] = one.taken, one.taken and (one.host, one.pid) in mine
        for name, help_text, values in (
            ("slotsweep_duty_taken", f"Whether a living process has the duty. {SHARED}", taken),
            ("slotsweep_duty_held", "Whether this replica, or a process that it started, has the duty.", held),
        ):
            yield _gauges(name, help_text, ["duty"], {(duty,): value for duty, value in values.items()})


class _Part:
    """Families of metrics that are read together, and kept."""

    def __init__(self, read: Callable[[], Iterable[Metric]]) -> None:
        self._read = read
        self._families: list[Metric] = []
        self._until = 0.0
        self.read_at = 0.0

    def families(self) -> list[Metric]:
        began = time.monotonic()
        if began >= self._until:
            self._families = list(self._read())
            self.read_at = time.monotonic()
            self._until = self.read_at + max(KEEP_SECONDS, KEEP_TIMES * (self.read_at - began))
        return self._families


def _our_processes() -> set[tuple[str, int]]:
    """(host, pid) of this process and of those it started."""
    import psutil

    host, me = socket.gethostname(), psutil.Process()
    return {(host, os.getpid()), *((host, child.pid) for child in me.children())}


def _since(then: float | None, now: float) -> float:
    return 0.0 if then is None else max(0.0, now - then)


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def _gauges(name: str, help_text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    """A gauge for each tuple of label values in `values`."""
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for key, value in values.items():
        family.add_metric([str(label) for label in key], float(value))
    return family


def _counters(name: str, help_text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    """A counter for each tuple of label values in `values`; its name ends in _total where it is told."""
    family = CounterMetricFamily(name, help_text, labels=labels)
    for key, value in values.items():
        family.add_metric([str(label) for label in key], float(value))
    return family


def _histogram(name: str, help_text: str, histogram: Histogram) -> Metric:
    buckets, below = [], 0
    for bound, count in zip((*map(str, histogram.bounds), "+Inf"), histogram.counts, strict=True):
        below += count
        buckets.append((bound, float(below)))
    return HistogramMetricFamily(name, help_text, buckets=buckets, sum_value=float(histogram.total))
