"""Deliveries reach a tracker in order, in bulk, once, and as late as it takes."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from orchestrator.tracker import drain as draining
from orchestrator.tracker.drain import Delivery, drain
from orchestrator.tracker.records import ParentRun, Place, RunStatus, TrialRun
from orchestrator.tracker.tracker import Tracker, TrackerRefusedError, TrackerUnavailableError


@dataclass
class Outbox:
    """A source in memory; `largest` is the most it was ever asked for at once."""

    waiting: list[Delivery]
    refusals: dict[int, str] = field(default_factory=dict)
    largest: int = 0

    def next(self, limit: int) -> Sequence[Delivery]:
        self.largest = max(self.largest, limit)
        return self.waiting[:limit]

    def done(self, ids: Sequence[int]) -> None:
        self.waiting = [delivery for delivery in self.waiting if delivery.id not in ids]

    def refused(self, id: int, reason: str) -> None:
        self.refusals[id] = reason
        self.done([id])


class Recorder(Tracker):
    """A tracker in memory that can be down for a number of calls and refuses some runs."""

    def __init__(self, down: int = 0, refused: Sequence[str] = ()) -> None:
        self.down = down
        self.refused = refused
        self.writes: list[list[str]] = []

    def _write(self, runs: Sequence[ParentRun | TrialRun]) -> None:
        if self.down:
            self.down -= 1
            raise TrackerUnavailableError("connection refused")
        bad = [run.name for run in runs if run.name in self.refused]
        if bad:
            raise TrackerRefusedError(f"{bad[0]} is not accepted")
        self.writes.append([run.name for run in runs])

    def prepare(self) -> None: ...

    def write_parent(self, run: ParentRun) -> None:
        self._write([run])

    def write_trials(self, runs: Sequence[TrialRun]) -> None:
        self._write(runs)

    def close_orphans(self, experiment: str, parent_run_id: str, status: RunStatus, end_ms: int) -> int:
        return 0

    def find(self, experiment: str, run_id: str) -> Place | None:
        raise AssertionError("whoever drains writes runs, and looks for none")

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "FIRST_WAIT_SECONDS", 0.01)


@pytest.fixture
def deliveries(parent, trial) -> list[Delivery]:
    """A sweep that starts, five trials, the sweep in between, two trials."""
    runs = [parent(), *(trial(i) for i in range(5)), parent(), trial(5), trial(6)]
    return [Delivery(number, run) for number, run in enumerate(runs, start=1)]


def test_neighbouring_trials_are_written_together_and_order_is_kept(deliveries) -> None:
    outbox, tracker = Outbox(deliveries), Recorder()
    assert drain(outbox, tracker, threading.Event()) == 9
    sweep = "recall-frontier"
    assert tracker.writes == [[sweep], [f"dp_cache {i}" for i in range(5)], [sweep], ["dp_cache 5", "dp_cache 6"]]
    assert outbox.waiting == []


def test_no_more_than_the_limit_is_held_at_once(deliveries) -> None:
    outbox, tracker = Outbox(deliveries), Recorder()
    assert drain(outbox, tracker, threading.Event(), limit=2) == 9
    assert outbox.largest == 2
    assert max(len(write) for write in tracker.writes) == 2


def test_no_more_than_the_tracker_writes_at_once_is_held(deliveries, monkeypatch) -> None:
    monkeypatch.setattr(Recorder, "most_together", 3)
    outbox, tracker = Outbox(deliveries), Recorder()
    assert drain(outbox, tracker, threading.Event()) == 9
    assert outbox.largest == 3
    assert list(itertools.chain(*tracker.writes)) == [delivery.run.name for delivery in deliveries]


def test_while_the_tracker_is_down_the_same_deliveries_are_tried_again(deliveries, caplog) -> None:
    outbox, tracker = Outbox(deliveries), Recorder(down=4)
    assert drain(outbox, tracker, threading.Event()) == 9
    assert len(tracker.writes) == 4
    assert [record.message for record in caplog.records] == [
        "the tracker cannot be reached, runs will appear later: connection refused"
    ]


def test_stop_ends_a_long_wait_at_once_and_loses_nothing(deliveries, monkeypatch) -> None:
    monkeypatch.setattr(draining, "FIRST_WAIT_SECONDS", 30.0)
    outbox, tracker, stop = Outbox(deliveries), Recorder(down=1000), threading.Event()
    threading.Timer(0.2, stop.set).start()
    start = time.monotonic()
    assert drain(outbox, tracker, stop) == 0
    assert time.monotonic() - start < 15
    assert outbox.waiting == deliveries


def test_stop_set_beforehand_writes_nothing(deliveries) -> None:
    outbox, tracker, stop = Outbox(deliveries), Recorder(), threading.Event()
    stop.set()
    assert drain(outbox, tracker, stop) == 0
    assert tracker.writes == []


def test_what_is_refused_is_handed_back_with_the_reason_and_the_rest_goes_on(deliveries) -> None:
    outbox, tracker = Outbox(deliveries), Recorder(refused=["dp_cache 2", "dp_cache 6"])
    assert drain(outbox, tracker, threading.Event()) == 7
    assert outbox.refusals == {4: "dp_cache 2 is not accepted", 9: "dp_cache 6 is not accepted"}
    assert outbox.waiting == []


def test_stop_while_the_good_ones_of_a_refused_group_wait_for_the_tracker(deliveries) -> None:
    stop = threading.Event()

    class GoesDown(Recorder):
        def _write(self, runs: Sequence[ParentRun | TrialRun]) -> None:
            if len(self.writes) == 2:
                stop.set()
                raise TrackerUnavailableError("gone")
            super()._write(runs)

    outbox = Outbox(deliveries)
    assert drain(outbox, GoesDown(refused=["dp_cache 2"]), stop) == 1
    assert [delivery.id for delivery in outbox.waiting] == [3, 4, 5, 6, 7, 8, 9]
