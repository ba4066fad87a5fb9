"""Trackers and servers that die half-way, and what the runs look like afterwards."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from orchestrator.tracker import drain as draining
from orchestrator.tracker.drain import Delivery, drain
from orchestrator.tracker.mlflow_client import MlflowClientTracker
from orchestrator.tracker.mlflow_sql import MlflowSql
from orchestrator.tracker.records import TrialRun

TRIALS = 120

DELIVERER = """
import json, sys, threading
from pathlib import Path
from orchestrator.tracker.drain import Delivery, drain
from orchestrator.tracker.opening import open_tracker
from orchestrator.tracker.records import TrialRun

class FileOutbox:
    # Numbers that are done, one a line: what a killed process has not written there is delivered again.
    def __init__(self, runs, done):
        self.runs, self.file = runs, done
    def next(self, limit):
        done = set(map(int, self.file.read_text().split()))
        return [Delivery(i, TrialRun(**run)) for i, run in enumerate(self.runs) if i not in done][:limit]
    def done(self, ids):
        with self.file.open("a") as file:
            file.write("".join(f"{i}\\n" for i in ids))
    def refused(self, id, reason):
        raise AssertionError(reason)

uri, root, runs, done = sys.argv[1:]
tracker = open_tracker(uri, root)
tracker.prepare()
print("ready", flush=True)
drain(FileOutbox(json.loads(Path(runs).read_text()), Path(done)), tracker, threading.Event(), limit=10)
print("finished", flush=True)
"""


def fields(run: TrialRun) -> dict[str, object]:
    return {name: getattr(run, name) for name in TrialRun.__slots__}


def children(uri: str, experiment: str) -> list[Run]:
    viewer = MlflowClient(uri)
    found = viewer.search_runs(
        [viewer.get_experiment_by_name(experiment).experiment_id], order_by=["attributes.start_time"], max_results=5000
    )
    return [run for run in found if "mlflow.parentRunId" in run.data.tags]


def is_complete(runs: Sequence[Run], expected: Sequence[TrialRun]) -> bool:
    """Whether `runs` are `expected`, each once, with their times, status, params and metrics."""
    got = [
        (run.info.run_name, run.info.status, run.info.start_time, run.info.end_time, len(run.data.params))
        for run in runs
    ]
    wanted = [(run.name, run.status, run.start_ms, run.end_ms, len(run.params)) for run in expected]
    return got == wanted and [run.data.metrics for run in runs] == [run.metrics for run in expected]


@pytest.mark.parametrize("way", ["bulk", pytest.param("http", marks=pytest.mark.slow)])
def test_killed_at_random_moments_and_repeated_every_run_is_there_once(
    way, request, parent, trial, tmp_path, empty_store
) -> None:
    experiment = f"killed {way}"
    if way == "bulk":
        (tmp_path / "mlflow.db").write_bytes(empty_store.read_bytes())
        uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
        MlflowSql(uri, str(tmp_path)).write_parent(parent(experiment, experiment))
    else:
        uri = request.getfixturevalue("server").uri
        MlflowClientTracker(uri).write_parent(parent(experiment, experiment))
    expected = [trial(position, experiment, experiment) for position in range(TRIALS)]
    (tmp_path / "runs.json").write_text(json.dumps([fields(run) for run in expected]))
    done = tmp_path / "done"
    done.touch()
    command = [sys.executable, "-c", DELIVERER, uri, str(tmp_path), str(tmp_path / "runs.json"), str(done)]
    moments = random.Random(7)
    kills = half_way = 0
    while kills < 4 or (not half_way and kills < 40):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0.0, (0.03 if way == "bulk" else 0.4) * (1 + kills / 4)))
        process.kill()
        if process.communicate()[0] == "finished\n":
            break
        kills += 1
        half_way += 0 < len(done.read_text().split()) < TRIALS
    assert half_way
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "ready\nfinished\n"
    assert len(done.read_text().split()) >= TRIALS
    assert is_complete(children(uri, experiment), expected)


class Memory:
    """An outbox in memory."""

    def __init__(self, runs: Sequence[object]) -> None:
        self.waiting = [Delivery(number, run) for number, run in enumerate(runs)]  # type: ignore[arg-type]

    def next(self, limit: int) -> Sequence[Delivery]:
        return self.waiting[:limit]

    def done(self, ids: Sequence[int]) -> None:
        self.waiting = [delivery for delivery in self.waiting if delivery.id not in ids]

    def refused(self, id: int, reason: str) -> None:
        raise AssertionError(reason)


@pytest.mark.slow
def test_a_server_that_dies_and_comes_back_has_all_runs_once(new_server, parent, trial, monkeypatch) -> None:
    """Scenario: the MLflow server is down for a part of a sweep; nothing waits, nothing is lost, nothing is doubled."""
    monkeypatch.setattr(draining, "LONGEST_WAIT_SECONDS", 1.0)
    server = new_server()
    expected = [trial(position) for position in range(TRIALS)]
    outbox = Memory([parent(status="RUNNING", end_ms=None), *expected, parent()])
    tracker, stop = MlflowClientTracker(server.uri), threading.Event()
    delivering = threading.Thread(target=drain, args=(outbox, tracker, stop, 20))
    delivering.start()
    while len(outbox.waiting) > TRIALS - 30:
        time.sleep(0.01)
    server.kill()
    time.sleep(1.0)
    assert delivering.is_alive()
    left = len(outbox.waiting)
    assert 0 < left <= TRIALS
    server.start()
    delivering.join(180)
    assert not delivering.is_alive()
    assert outbox.waiting == []
    assert is_complete(children(server.uri, "recall-frontier"), expected)
    viewer = MlflowClient(server.uri)
    (sweep,) = viewer.search_runs(
        [viewer.get_experiment_by_name("recall-frontier").experiment_id], "tags.`slotsweep.kind` = 'frontier'"
    )
    assert (sweep.info.status, sweep.info.end_time) == ("FINISHED", parent().end_ms)


def test_a_trial_costs_three_requests(server, parent, trial) -> None:
    experiment = "requests"
    tracker = MlflowClientTracker(server.uri)
    tracker.write_parent(parent(experiment, experiment))
    before = len(server.requests())
    tracker.write_trials([trial(position, experiment, experiment) for position in range(100)])
    made = server.requests()[before:]
    assert len([one for one in made if "runs/search" not in one]) == 3 * 100
    assert len(made) == 3 * 100 + 2


def test_a_store_busy_with_another_writer_is_waited_for(sqlite_store, tmp_path, parent, trial) -> None:
    tracker = MlflowSql(sqlite_store, str(tmp_path))
    tracker.write_parent(parent())
    other = sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.5, lambda: other.execute("COMMIT")).start()
    tracker.write_trials([trial()])
    assert is_complete(children(sqlite_store, "recall-frontier"), [trial()])


def test_a_transaction_killed_half_way_leaves_no_part_of_it(sqlite_store, tmp_path, parent, trial) -> None:
    MlflowSql(sqlite_store, str(tmp_path)).write_parent(parent())
    run = tmp_path / "run.json"
    run.write_text(json.dumps(fields(trial())))
    program = (
        "import json, os, signal, sys; from orchestrator.tracker import mlflow_sql;"
        "from orchestrator.tracker.records import TrialRun;"
        "mlflow_sql.METRICS = type('Deadly', (), {'append': lambda *_: os.kill(os.getpid(), signal.SIGKILL)});"
        "run = TrialRun(**json.load(open(sys.argv[3])));"
        "mlflow_sql.MlflowSql(*sys.argv[1:3]).write_trials([run])"
    )
    killed = subprocess.run([sys.executable, "-c", program, sqlite_store, str(tmp_path), str(run)])
    assert killed.returncode == -signal.SIGKILL
    assert children(sqlite_store, "recall-frontier") == []
    MlflowSql(sqlite_store, str(tmp_path)).write_trials([trial()])
    assert is_complete(children(sqlite_store, "recall-frontier"), [trial()])


def test_writers_of_the_same_runs_at_once_leave_each_once(
    postgres_store, sqlite_store, tmp_path, parent, trial
) -> None:
    expected = [trial(position) for position in range(200)]
    for store in (sqlite_store, postgres_store):
        trackers = [MlflowSql(store, str(tmp_path)) for _ in range(4)]
        starting = [threading.Thread(target=tracker.write_parent, args=(parent(),)) for tracker in trackers]
        writing = [
            threading.Thread(target=drain, args=(Memory(runs), tracker, threading.Event(), 50))
            for tracker, runs in zip(trackers, (expected, expected[::-1], expected[100:], expected[:100]), strict=True)
        ]
        for threads in (starting, writing):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert is_complete(children(store, "recall-frontier"), expected)


@pytest.mark.alone
def test_five_hundred_runs_take_less_than_half_a_millisecond_each(sqlite_store, tmp_path, parent, trial, pace) -> None:
    """12 params, 12 metrics, 25 tags a run; the best of several batches, since other work may share the machine."""
    tracker = MlflowSql(sqlite_store, str(tmp_path))
    tracker.write_parent(parent())
    params = {f"mechanism.option_{i}": i / 7 for i in range(12)}
    metrics = {f"metric_{i}": i / 7 for i in range(12)}
    tags = {f"hw.fact_{i}": "some text of usual length" for i in range(17)}
    batches = [
        [trial(500 * batch + i, params=params, metrics=metrics, tags=tags) for i in range(500)] for batch in range(6)
    ]
    seconds = []
    for batch in batches:
        start = time.perf_counter()
        tracker.write_trials(batch)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) / 500 < 0.5e-3 * pace
    assert len(MlflowClient(sqlite_store).get_run(batches[0][0].run_id).data.tags) == 25


@pytest.mark.slow
@pytest.mark.alone
def test_a_run_costs_the_same_in_a_store_of_ten_thousand(sqlite_store, tmp_path, parent, trial) -> None:
    tracker = MlflowSql(sqlite_store, str(tmp_path))
    tracker.write_parent(parent())
    seconds = []
    for batch in range(20):
        runs = [trial(500 * batch + i) for i in range(500)]
        start = time.perf_counter()
        tracker.write_trials(runs)
        seconds.append(time.perf_counter() - start)
    assert min(seconds[-5:]) / min(seconds[:5]) < 1.5
