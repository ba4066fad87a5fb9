"""A sweep is run by one orchestrator: whoever comes second watches, and goes on with it when the first is gone."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from orchestrator.alike import group_of
from orchestrator.client import local
from orchestrator.client.base import Outcome
from orchestrator.client.local import LocalClient
from orchestrator.owner import Owner
from orchestrator.requests import SpecFile
from orchestrator.scheduler import StopRequest
from orchestrator.service.sweep_queue import next_sweeps
from orchestrator.settings import Settings
from orchestrator.store import schema
from orchestrator.store.owning import PREFIX, RUN_SWEEPS
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store
from orchestrator.timing import BUSY, measuring_alone
from tests.orchestrator.specs import SMALL

TINY = SMALL.replace("seeds: 4", "seeds: 1").replace("episodes: 3", "episodes: 1")
TIMED = """\
name: timed
kind: cost_scaling
workload: {name: associative_recall, items: 4, repeats: 2, dim: 8, noise: 0.3}
mechanisms: [{name: full_attention}]
seeds: 1
episodes: 1
"""


@pytest.fixture
def elsewhere(store: Store) -> str:
    """An orchestrator of another host, which says that it lives."""
    owner = store.register_orchestrator()
    with store.engine.begin() as connection:
        orchestrators = schema.orchestrators
        connection.execute(orchestrators.update().where(orchestrators.c.id == owner).values(host="elsewhere"))
    return owner


@pytest.fixture
def client(settings: Settings) -> LocalClient:
    return LocalClient(settings, "inline")


def spec(folder: Path, text: str = TINY) -> SpecFile:
    path = folder / "spec.yaml"
    path.write_text(text)
    return SpecFile("spec.yaml", path)


class Running(threading.Thread):
    """`run` in a thread of its own: what it tells, and its outcomes."""

    def __init__(self, client: LocalClient, sweep: str) -> None:
        super().__init__(daemon=True)
        self.stop = StopRequest()
        self.told: list[str] = []
        self.outcomes: list[Outcome] = []
        self._client, self._sweep = client, sweep
        self.start()

    def run(self) -> None:
        self.outcomes = self._client.run(
            [self._sweep],
            on_progress=lambda progress: self.told.append(progress.waiting or ""),
            stop=self.stop,
            tell=self.told.append,
        )

    def until_told(self, word: str) -> None:
        until = time.monotonic() + 60
        while not any(word in one for one in self.told):
            assert time.monotonic() < until, self.told
            time.sleep(0.05)


def test_what_is_submitted_to_be_run_is_left_alone_by_a_service(
    client: LocalClient, store: Store, tmp_path: Path
) -> None:
    """Also on another host; what was only queued is not."""
    [mine] = client.submit([spec(tmp_path)], to_run=True).submitted.values()
    [queued] = client.submit([spec(tmp_path)]).submitted.values()
    with store.engine.begin() as connection:
        orchestrators = schema.orchestrators
        connection.execute(orchestrators.update().values(host="elsewhere"))
    assert [one.id for one in next_sweeps(store, group_of(store.sweep(mine.sweep)))] == [queued.sweep]


def test_who_comes_second_watches_and_goes_on_when_the_first_is_gone(
    client: LocalClient, store: Store, tmp_path: Path, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "DESERTED_SECONDS", 0.5)
    [submitted] = client.submit([spec(tmp_path)]).submitted.values()
    assert store.own_sweep(submitted.sweep, elsewhere)
    running = Running(client, submitted.sweep)
    running.until_told("another process runs it")
    time.sleep(1.5)
    assert store.counts(submitted.sweep).done == 0
    store.leave_sweeps(elsewhere)
    running.join(120)
    [outcome] = running.outcomes
    assert (outcome.sweep.state, outcome.sweep.counts.done) == ("done", submitted.trials)
    assert store.owned() == set()


def test_a_service_runs_what_its_store_is_asked_to_run(
    settings: Settings, store: Store, tmp_path: Path, elsewhere: str
) -> None:
    """Wherever it is; the command watches, and pauses there."""
    assert store.take_duty(RUN_SWEEPS, elsewhere, 60)
    client = LocalClient(settings)
    [submitted] = client.submit([spec(tmp_path)], to_run=True).submitted.values()
    assert store.owned() == set()
    store.set_sweep_state(submitted.sweep, SweepState.PAUSED)
    running = Running(client, submitted.sweep)
    running.until_told("a service runs the sweeps of this store")
    assert store.status(submitted.sweep).state == "queued"
    running.stop.escalate()
    running.join(60)
    assert [one.sweep.state for one in running.outcomes] == ["paused"]
    assert store.counts(submitted.sweep).done == 0


def test_an_owner_keeps_its_sweeps_and_leaves_them(store: Store, client: LocalClient, tmp_path: Path) -> None:
    [submitted] = client.submit([spec(tmp_path)]).submitted.values()
    first, second = Owner(store), Owner(store)
    assert first.takes(submitted.sweep)
    assert not second.takes(submitted.sweep)
    leases = schema.service_leases
    with store.engine.begin() as connection:
        connection.execute(leases.update().values(leased_until=0.0))
    first.keep()
    assert not second.takes(submitted.sweep)
    first.leave(submitted.sweep)
    assert second.takes(submitted.sweep)
    second.end()
    with store.engine.connect() as connection:
        assert not connection.execute(leases.select().where(leases.c.duty.startswith(PREFIX))).all()


def test_times_are_measured_by_one_process_of_a_machine_at_a_time(
    client: LocalClient, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    [submitted] = client.submit([spec(tmp_path, TIMED)]).submitted.values()
    with measuring_alone(lambda _: True, lambda: None):
        running = Running(client, submitted.sweep)
        running.until_told(BUSY)
        assert store.counts(submitted.sweep).done == 0
    running.join(120)
    assert [one.sweep.state for one in running.outcomes] == ["done"]
