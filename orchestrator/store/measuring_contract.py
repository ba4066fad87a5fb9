"""What counting needs of a store, as tests: subclass `MeasuringContract` as `orchestrator.store.contract` tells."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, replace

import pytest

from orchestrator.store.contract import (
    WORKER,
    asked,
    dead_orchestrator,
    failure,
    new_sweep,
    result,
    trials_of,
    with_worker,
)
from orchestrator.store.measuring import Backlog, Held, WebhookNumbers
from orchestrator.store.serving import OutlookRow
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store

HOOKS = ("http://example.org #1", "http://example.org #2")


@dataclass(frozen=True)
class Content:
    """What `fill` put into a store: a sweep that ended, one that runs and one that is queued."""

    ended: str
    running: str
    queued: str


def fill(store: Store) -> Content:
    """Six trials that ended (done in 1, 2, 3 and 40 s, one failed, one cancelled), one that is held, four that wait.

    One of those came back when its worker was lost. The ended sweep and a quarantined worker are events that two
    webhooks were told of: the first took one of them and gave the other up, the second took none yet.
    """
    with_worker(store)
    store.register_worker("another", "machine", {}, executor="inline", device="cuda", pid=2)
    for hook in HOOKS:
        store.add_webhook(hook)
    ended = store.submit(replace(new_sweep(), user="ada"), asked(1, 6)).sweep
    store.set_sweep_state(ended, SweepState.RUNNING)
    trials = trials_of(store, ended)
    first = store.claim(ended, trials[:3], WORKER, 60)
    second = store.claim(ended, trials[3:5], WORKER, 60)
    assert first is not None
    assert second is not None
    done = [
        replace(result(trial), wall_seconds=seconds) for trial, seconds in zip(trials, (1.0, 2.0, 3.0), strict=False)
    ]
    store.accept(first.attempt, WORKER, done)
    store.accept(second.attempt, WORKER, [replace(result(trials[3]), wall_seconds=40.0), failure(trials[4], "timeout")])
    store.cancel_pending(ended)
    assert store.set_sweep_state(ended, SweepState.FAILED)
    running = store.submit(replace(new_sweep(use_cache=False), user="bob"), asked(2, 2)).sweep
    store.set_sweep_state(running, SweepState.RUNNING)
    trials = trials_of(store, running)
    lost = store.claim(running, trials[:1], WORKER, 60)
    assert lost is not None
    store.lose(lost.attempt, "worker_lost")
    assert store.claim(running, trials[1:2], WORKER, 60) is not None
    store.set_outlook(OutlookRow(running, 1.0, waiting="no worker"))
    queued = store.submit(new_sweep(use_cache=False), asked(1, 1)).sweep
    store.set_worker_state("another", "quarantined")
    taken, spent = store.due_deliveries(HOOKS[:1], 10)
    store.note_delivery(taken, None, None)
    store.note_delivery(spent, "refused", None)
    tried = store.due_deliveries(HOOKS[1:], 10)[0]
    store.note_delivery(tried, "refused", time.time() + 60)
    return Content(ended, running, queued)


class MeasuringContract:
    """What every backend must count."""

    def test_sweeps_trials_and_workers_are_counted(self, store: Store) -> None:
        """By state, by who waits and by what is held."""
        began = time.time()
        fill(store)
        sweeps = store.sweep_numbers()
        assert sweeps.states == {"failed": 1, "running": 1, "queued": 1}
        assert sweeps.queued_since is not None
        assert began <= sweeps.queued_since <= time.time()
        assert (sweeps.without_worker, sweeps.foreseen) == (1, 1.0)
        assert store.trial_numbers() == {
            ("done", None): 4,
            ("failed", "timeout"): 1,
            ("cancelled", "cancelled"): 1,
            ("leased", None): 1,
            ("pending", "worker_lost"): 1,
            ("pending", None): 3,
        }
        assert store.waiting_trials() == {"bob": 3, None: 1}
        assert store.worker_numbers(0.0) == {("cpu", "ready"): 1, ("cuda", "quarantined"): 1}
        assert store.worker_numbers(time.time() + 1) == {}
        assert store.held() == {"cpu": Held(1, 1, 1)}
        assert store.attempt_numbers() == {("done", None): 2, ("lost", "worker_lost"): 1, ("open", None): 1}

    def test_times_are_counted_by_size(self, store: Store) -> None:
        """What lies on a bound is not beyond it."""
        fill(store)
        walls = store.wall_seconds((1.0, 2.5, 10.0))
        assert (walls.counts, walls.count) == ((1, 1, 1, 1), 4)
        assert walls.total == pytest.approx(46.0)
        assert store.start_seconds((0.0, 1000.0)).count == 2
        assert store.first_result_seconds((0.0, 1000.0)).counts == (0, 1, 0)

    def test_what_nobody_was_told_is_counted(self, store: Store) -> None:
        """The tracker's notices and the webhooks' events."""
        assert store.tracker_backlog() == Backlog(0, 0, None)
        assert store.webhook_numbers(HOOKS) == WebhookNumbers(0, 0, 0, 0, None)
        began = time.time()
        fill(store)
        notices = store.notices(None, 100)
        store.delivered([notice.id for notice in notices[1:]])
        store.refuse(notices[0].id, "refused")
        backlog = store.tracker_backlog()
        assert (backlog.waiting, backlog.refused) == (1, 1)
        assert backlog.since is not None
        assert began <= backlog.since <= time.time()
        numbers = store.webhook_numbers(HOOKS)
        assert (numbers.delivered, numbers.given_up, numbers.attempts, numbers.waiting) == (1, 1, 3, 2)
        assert numbers.since == store.events(0, 1)[0].at
        assert store.webhook_numbers(HOOKS[:1]).waiting == 0

    def test_a_duty_is_taken_as_long_as_its_process_lives_and_renews_it(self, store: Store) -> None:
        """Whoever had it before is still named."""
        one = store.register_orchestrator()
        assert store.duties() == []
        store.take_duty("a", one, 60)
        store.take_duty("b", one, -1)
        store.take_duty("c", dead_orchestrator(store), 60)
        assert [(duty.duty, duty.host, duty.taken) for duty in store.duties()] == [
            ("a", socket.gethostname(), True),
            ("b", socket.gethostname(), False),
            ("c", socket.gethostname(), False),
        ]
