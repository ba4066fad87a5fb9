"""Watching sweeps that a service runs: when they are over, and what Ctrl-C asks of the service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from orchestrator.client.base import Outcome
from orchestrator.client.watching import Watch, refuse_unable, unable, used_up
from orchestrator.errors import PreparationError, RequestError
from orchestrator.job import Progress
from orchestrator.scheduler import StopRequest
from orchestrator.store.records import Counts
from orchestrator.store.states import SweepState
from orchestrator.store.status import SweepStatus

RUNNING = SweepStatus(
    *("a" * 10, "small", "frontier", SweepState.RUNNING, 0, "ada"), 4, 0, 1.0, 2.0, None, None, Counts(2, 2)
)


class Service:
    """One sweep: what it is when asked for the first time, the second, and so on."""

    def __init__(self, *statuses: SweepStatus, when_asked: Callable[[int], None] = lambda _: None) -> None:
        self.asked: list[str] = []
        self._statuses = list(statuses)
        self._when_asked = when_asked
        self._count = 0

    def sweep(self, name: str) -> SweepStatus:
        self._count += 1
        self._when_asked(self._count)
        return self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]

    def sweep_now(self, name: str) -> SweepStatus:
        return self.sweep(name)

    def pause(self, name: str) -> SweepStatus:
        self.asked.append("pause")
        return self._set(SweepState.PAUSED)

    def cancel(self, name: str) -> SweepStatus:
        self.asked.append("cancel")
        return self._set(SweepState.CANCELLED)

    def outcome(self, sweep: SweepStatus, seconds: float) -> Outcome:
        return Outcome(sweep, seconds, None, None)

    def _set(self, state: SweepState) -> SweepStatus:
        self._statuses = [replace(one, state=state) for one in self._statuses[-1:]]
        return self._statuses[0]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.client.watching.POLL_SECONDS", 0.0)
    monkeypatch.setattr("orchestrator.client.watching.SECONDS_A_SWEEP", 0.0)


def watch(service: Service, stop: StopRequest | None = None) -> tuple[list[Progress], Outcome]:
    told: list[Progress] = []
    [outcome] = Watch(service, told.append, stop or StopRequest()).until_over([RUNNING.id])
    return told, outcome


def test_progress_is_told_when_it_is_news_until_the_end() -> None:
    half = replace(RUNNING, counts=Counts(leased=2, done=2), seconds_left=8.0)
    done = replace(RUNNING, state=SweepState.DONE, counts=Counts(done=3, failed=1))
    told, outcome = watch(Service(RUNNING, RUNNING, half, half, done))
    assert [(one.done, one.failed, one.left, one.is_over) for one in told] == [
        (0, 0, None, False),
        (2, 0, 8.0, False),
        (3, 1, 0.0, True),
    ]
    assert [one.seconds > 0 for one in told] == [False, True, True]
    assert outcome.sweep == done


def test_a_sweep_that_cannot_be_run_ends_as_it_does_for_who_runs_it() -> None:
    """One that others can run beside it does not."""
    paused = replace(RUNNING, state=SweepState.PAUSED, counts=Counts(pending=4), waiting="it cannot be run: no data")
    assert (unable(paused), used_up(paused)) == ("no data", None)
    assert used_up(replace(paused, waiting="a cap is used up: 2 hours")) == "a cap is used up: 2 hours"
    broken = Outcome(paused, 1.0, None, None, broken=unable(paused))
    with pytest.raises(PreparationError, match=r"^sweep a{10} \(small\) is paused: no data$"):
        refuse_unable([broken])
    whole = Outcome(replace(RUNNING, state=SweepState.DONE), 1.0, None, None)
    assert refuse_unable([broken, whole]) == [broken, whole]


def test_a_queued_sweep_waits_for_its_turn_and_then_no_longer() -> None:
    queued = replace(RUNNING, state=SweepState.QUEUED, started=None)
    done = replace(RUNNING, state=SweepState.DONE, counts=Counts(done=4))
    told, _ = watch(Service(queued, replace(queued, waiting="cuda"), RUNNING, done))
    assert [one.waiting for one in told] == ["the service runs it when its turn comes", "cuda", None, None]


def test_what_was_over_a_moment_ago_is_asked_for_again() -> None:
    """A replica may not know yet that another one has queued the sweep again."""
    failed = replace(RUNNING, state=SweepState.FAILED, counts=Counts(failed=4))
    done = replace(RUNNING, state=SweepState.DONE, counts=Counts(done=4))
    _, outcome = watch(Service(failed, RUNNING, RUNNING, done, done))
    assert outcome.sweep == done


@pytest.mark.parametrize(("times", "asked", "state"), [(1, ["pause"], "paused"), (2, ["pause", "cancel"], "cancelled")])
def test_ctrl_c_pauses_once_and_cancels_twice(times: int, asked: list[str], state: str) -> None:
    """What runs is finished before a sweep counts as paused."""
    stop = StopRequest()
    drained = replace(RUNNING, state=SweepState.PAUSED, counts=Counts(pending=2, done=2))

    def interrupt(count: int) -> None:
        if count in range(2, 2 + times):
            stop.escalate()
        if times == 1 and count == 6:
            service._statuses = [drained]

    service = Service(RUNNING, when_asked=interrupt)
    _, outcome = watch(service, stop)
    assert service.asked == asked
    assert outcome.sweep.state == state


def test_a_sweep_that_ends_before_it_can_be_paused_is_no_error() -> None:
    stop = StopRequest()
    stop.escalate()

    class Ending(Service):
        def pause(self, name: str) -> SweepStatus:
            raise RequestError("it has ended")

    _, outcome = watch(Ending(replace(RUNNING, state=SweepState.DONE, counts=Counts(done=4))), stop)
    assert outcome.sweep.state == SweepState.DONE
