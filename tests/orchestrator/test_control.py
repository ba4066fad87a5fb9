"""Steering sweeps: pause, resume, cancel, retry, priorities, limits, bad workers, edited specs."""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.executors.base import Event, Finished, Lost, Shortage
from orchestrator.fleet import Demand, Want
from orchestrator.job import Progress
from orchestrator.plan import Plan
from orchestrator.runner import SweepQueue, submit_plan
from orchestrator.scheduler import LEASE_SECONDS, Scheduler, StopRequest
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from orchestrator.store.states import SweepState, TrialState
from orchestrator.store.store import Store
from tasks.evaluate import Outcome
from tests.orchestrator.conftest import SLOTSWEEP
from tests.orchestrator.specs import FAILING_PLUGIN, SMALL, write_small
from workers.batch import BatchReport, BatchTask, TrialReport
from workers.hardware import this_machine
from workers.host import WorkerCard

ONE_MECHANISM = """\
name: {}
kind: frontier
priority: {}
workload: {{name: associative_recall, items: 4}}
mechanisms: [{{name: {}}}]
seeds: {}
episodes: 1
"""


class SimulatedExecutor:
    """Workers that answer at once, or misbehave as told: no process, no arithmetic, the real scheduler and store."""

    name = "simulated"
    depth = 2
    scales = False

    def __init__(
        self, workers: int = 2, bad: Sequence[str] = (), broken: Sequence[str] = (), slow: float = 0.0
    ) -> None:
        self.order: list[str] = []
        self.batch_sizes: list[int] = []
        self.dismissed: list[str] = []
        self.killed: list[str] = []
        self._workers = [f"worker-{i}" for i in range(workers)]
        self._bad = bad
        self._broken = broken
        self._slow = slow
        self._held: list[tuple[str, BatchTask]] = []

    def start(self, wants: AbstractSet[Want], given_up: Callable[[], bool]) -> Sequence[WorkerCard]:
        return [WorkerCard(worker, "cpu", 1, "machine", {"cpu_model": "none"}) for worker in self._workers]

    def grow(self, wants: AbstractSet[Want], waiting: Mapping[Want, int]) -> None:
        """Nobody joins, nobody leaves."""

    def shortage(self, demands: AbstractSet[Demand]) -> Shortage | None:
        return None

    def rivals(self, worker: str) -> AbstractSet[str]:
        return frozenset()

    def submit(self, worker: str, task: BatchTask) -> None:
        self._held.append((worker, task))

    def wait(self, seconds: float) -> list[Event]:
        if not self._held:
            return []
        worker, task = self._held[0]
        if any(tree.get("tag") == "hang" for tree in task.mechanisms):
            time.sleep(0.05)
            return []
        self._held.pop(0)
        time.sleep(self._slow)
        self.order += [tree["name"] for tree in task.mechanisms]
        self.batch_sizes.append(len(task.trials))
        reports = []
        for trial, _, mechanism in task.trials:
            failing = worker in self._bad or task.mechanisms[mechanism]["name"] in self._broken
            outcome = Outcome(None, "user_error", "bad") if failing else Outcome({"recall": 1.0})
            reports.append(TrialReport(trial, outcome, 1.0, 2.0, 0.1, 0.1))
        return [Finished(worker, BatchReport(task.attempt, tuple(reports)))]

    def kill(self, worker: str) -> Lost:
        self.killed.append(worker)
        return Lost(worker, self._drop(worker), "killed")

    def dismiss(self, worker: str, *, for_good: bool = True) -> tuple[int, ...]:
        self.dismissed.append(worker)
        return self._drop(worker)

    def _drop(self, worker: str) -> tuple[int, ...]:
        attempts = tuple(task.attempt for holder, task in self._held if holder == worker)
        self._held = [(holder, task) for holder, task in self._held if holder != worker]
        return attempts

    def replace(self, worker: str) -> WorkerCard | None:
        return WorkerCard(f"{worker}'", "cpu", 1, "machine", {"cpu_model": "none"})

    def stop(self) -> None:
        self._held.clear()


def submit(store: Store, text: str) -> str:
    return submit_plan(store, Plan(read_spec(text))).sweep


def schedule(store: Store, settings: Settings, executor: SimulatedExecutor, named: Sequence[str] | None = None) -> None:
    first = store.sweep((named or store.waiting_sweeps(list(SweepState)))[0])
    queue = SweepQueue(store, settings, first, named)
    Scheduler(store, executor, queue, lambda _: None, StopRequest()).run()
    queue.close()


def test_a_sweep_of_high_priority_overtakes_a_long_one(store: Store, settings: Settings) -> None:
    """Scenario 19: submitted behind 200 trials, 4 trials finish first."""
    text = ONE_MECHANISM.replace("episodes: 1", "episodes: 9")
    submit(store, text.format("long", 0, "full_attention", 200))
    submit(store, text.format("short", 5, "knn", 4))
    executor = SimulatedExecutor()
    schedule(store, settings, executor)
    assert executor.order[0] == "knn"
    assert {row.state for row in store.sweeps()} == {"done"}


def test_a_sweep_submitted_meanwhile_overtakes_too(store: Store, settings: Settings) -> None:
    text = ONE_MECHANISM
    submit(store, text.format("long", 0, "full_attention", 20_000))
    late = threading.Timer(0.3, lambda: submit(store, text.format("short", 5, "knn", 4)))
    late.start()
    executor = SimulatedExecutor(slow=0.1)
    schedule(store, settings, executor)
    late.join()
    assert 0 < executor.order.index("knn") < len(executor.order) - 1


class TwoMachines(SimulatedExecutor):
    """A worker on this machine that fails everything, and one on a machine of another kind."""

    def __init__(self) -> None:
        super().__init__(2, bad=["worker-0"])

    def start(self, wants: AbstractSet[Want], given_up: Callable[[], bool]) -> Sequence[WorkerCard]:
        machines = (this_machine(), "another")
        cards = zip(super().start(wants, given_up), machines, strict=True)
        return [replace(card, machine=machine) for card, machine in cards]


def test_failures_are_final_where_no_other_worker_may_measure(store: Store, settings: Settings) -> None:
    """A worker of another machine can give no second opinion, and nobody waits for it."""
    sweep = submit(store, SMALL.replace("kind: frontier", "kind: cost_scaling"))
    stop = StopRequest()
    patience = threading.Timer(30.0, stop.cancel.set)
    patience.start()
    queue = SweepQueue(store, settings, store.sweep(sweep), [sweep])
    Scheduler(store, TwoMachines(), queue, lambda _: None, stop).run()
    patience.cancel()
    queue.close()
    row = store.sweep(sweep)
    assert (row.state, row.counts.failed) == ("failed", row.counts.total)


def test_a_worker_that_fails_everything_is_quarantined_and_the_rest_finish(store: Store, settings: Settings) -> None:
    """Scenario 17: its failures are judged by another worker, and no trial is lost to it."""
    sweep = submit(store, SMALL.replace("seeds: 4", "seeds: 300").replace("episodes: 3", "episodes: 50"))
    executor = SimulatedExecutor(workers=3, bad=["worker-1"])
    schedule(store, settings, executor)
    assert store.counts(sweep).done == 1800
    assert executor.dismissed == ["worker-1"]


def test_a_mechanism_that_fails_everywhere_costs_no_worker(store: Store, settings: Settings) -> None:
    sweep = submit(store, SMALL.replace("seeds: 4", "seeds: 300").replace("episodes: 3", "episodes: 50"))
    executor = SimulatedExecutor(workers=3, broken=["dp_cache"])
    schedule(store, settings, executor)
    counts = store.counts(sweep)
    assert (counts.done, counts.failed) == (1200, 600)
    assert executor.dismissed == []
    assert store.sweep(sweep).state == "failed"


def test_a_whole_sweep_that_fails_ends_with_its_workers_acquitted(store: Store, settings: Settings) -> None:
    sweep = submit(store, SMALL)
    executor = SimulatedExecutor(workers=2, broken=["dp_cache", "recency", "full_attention"])
    schedule(store, settings, executor)
    assert store.counts(sweep).failed == 24
    assert executor.dismissed == []


@pytest.mark.parametrize(("reaction", "most"), [("stop", 60), ("{stop_after: 100}", 160)])
def test_a_sweep_stops_after_as_many_failures_as_it_is_told(
    store: Store, settings: Settings, reaction: str, most: int
) -> None:
    text = SMALL.replace("seeds: 4", f"seeds: 500\non_failure: {reaction}").replace("episodes: 3", "episodes: 300")
    sweep = submit(store, text)
    schedule(store, settings, SimulatedExecutor(workers=1, broken=["dp_cache"]))
    counts = store.counts(sweep)
    assert 0 < counts.failed <= most
    assert counts.cancelled > 1000
    assert store.sweep(sweep).state == "failed"


def test_a_trial_that_hangs_is_found_by_halving_its_batch(store: Store, settings: Settings, monkeypatch) -> None:
    """Its worker is killed; the others of its batch are computed; it fails with `timeout`."""
    monkeypatch.setattr("orchestrator.scheduler.TIMEOUT_GRACE_SECONDS", 0.1)
    monkeypatch.setattr("orchestrator.scheduler.CONTROL_SECONDS", 0.05)
    sweep = submit(store, SMALL.replace("seeds: 4", "seeds: 2\ntimeout: 0.01"))

    class Hanging(SimulatedExecutor):
        def wait(self, seconds: float) -> list[Event]:
            if self._held and any(t == 3 for t, _, _ in self._held[0][1].trials):
                time.sleep(0.02)
                return []
            return super().wait(seconds)

    executor = Hanging(workers=1)
    schedule(store, settings, executor)
    rows = {row["id"]: row for row in store.trial_rows(sweep)}
    assert {row["state"] for id_, row in rows.items() if id_ != 3} == {"done"}
    assert (rows[3]["state"], rows[3]["reason"]) == ("failed", "timeout")
    assert len(executor.killed) == 4
    assert [attempt.trials for attempt in store.attempts_of(3)] == [12, 6, 3, 1]


def test_two_orchestrators_share_a_sweep(store: Store, settings: Settings) -> None:
    """Each trial is computed by one of them."""
    sweep = submit(store, SMALL.replace("seeds: 4", "seeds: 400").replace("episodes: 3", "episodes: 60"))
    executors = [SimulatedExecutor(workers=2, slow=0.01) for _ in range(2)]
    threads = [threading.Thread(target=schedule, args=(store, settings, e, [sweep])) for e in executors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.counts(sweep).done == 2400
    assert sum(sum(executor.batch_sizes) for executor in executors) == 2400
    assert {row["attempts"] for row in store.trial_rows(sweep)} == {1}
    assert store.sweep(sweep).state == "done"


def test_pausing_and_cancelling_from_elsewhere(store: Store, settings: Settings) -> None:
    """A running orchestrator obeys the state in the store."""
    for base, state in enumerate((SweepState.PAUSED, SweepState.CANCELLED)):
        text = SMALL.replace("name: small", f"name: {state}").replace("episodes: 3", "episodes: 60")
        sweep = submit(store, text.replace("seeds: 4", f"seeds: {{count: 4000, base: {base * 4000}}}"))
        timer = threading.Timer(0.5, store.set_sweep_state, (sweep, state))
        timer.start()
        schedule(store, settings, SimulatedExecutor(slow=0.03), [sweep])
        timer.join()
        counts = store.counts(sweep)
        assert store.sweep(sweep).state == state
        assert 0 < counts.done < counts.total
        assert counts.leased == 0
        assert (counts.cancelled > 0) == (state == SweepState.CANCELLED)


def test_commands_pause_resume_cancel_retry(slotsweep, tmp_path: Path) -> None:
    spec = str(write_small(tmp_path))
    sweep = slotsweep("submit", spec).out.strip()
    assert slotsweep("pause", sweep, "--json").json == {"sweep": sweep, "state": "paused"}
    ran = slotsweep("resume", sweep, "--executor", "inline", "--json")
    assert (ran.code, ran.json["done"]) == (0, 24), ran.err
    ran = slotsweep("pause", sweep)
    assert (ran.code, "is done: only a queued or running sweep can be paused" in ran.err) == (2, True)
    ran = slotsweep("cancel", sweep)
    assert (ran.code, "is done already" in ran.err) == (2, True)

    other = slotsweep("submit", spec, "--set", "seeds=6").out.strip()
    assert slotsweep("cancel", other).out == f"{other} cancelled\n"
    [status] = slotsweep("status", other, "--json").json
    assert (status["state"], status["done"], status["cancelled"]) == ("cancelled", 24, 12)
    ran = slotsweep("resume", other, "--executor", "inline", "--json", "--as-submitted")
    assert (ran.code, ran.json["done"]) == (0, 36), ran.err
    ran = slotsweep("resume")
    assert (ran.code, "nothing to resume" in ran.err) == (0, True)
    assert slotsweep("retry", sweep).code == 2
    assert "no trial" in slotsweep("retry", sweep, "--failed").err


def test_failed_trials_are_retried_and_keep_their_history(slotsweep, store: Store, tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    switch.touch()
    told = f'config.fault == "raise" and Path({str(switch)!r}).exists()'
    (tmp_path / "faulty_memory.py").write_text(
        FAILING_PLUGIN.replace('config.fault == "raise"', told).replace(
            "import numpy", "from pathlib import Path\nimport numpy"
        )
    )
    (tmp_path / "spec.yaml").write_text(
        SMALL.replace("seeds: 4", "seeds: 2\nplugins: [faulty_memory.py]").replace(
            "  - {name: full_attention}", "  - {name: faulty, fault: raise}"
        )
    )
    first = slotsweep("run", "spec.yaml", "--executor", "inline", "--json")
    assert (first.code, first.json["failed"]) == (1, 2), first.err
    switch.unlink()
    again = slotsweep("retry", first.json["sweep"], "--failed", "--executor", "inline", "--json")
    assert (again.code, again.json["done"], again.json["failed"]) == (0, 12, 0), again.err
    rows = [row for row in store.trial_rows(first.json["sweep"]) if row["mechanism"]["name"] == "faulty"]
    assert {row["generation"] for row in rows} == {2}


def test_an_edited_spec_resumes_with_only_its_new_cells(slotsweep, tmp_path: Path) -> None:
    """Scenario 13: added values are added; a changed meaning is refused with a diff."""
    spec = write_small(tmp_path)
    first = slotsweep("run", str(spec), "--executor", "inline", "--json").json
    spec.write_text(SMALL.replace("[4, 8, 16]", "[4, 8, 16, 12]").replace("seeds: 4", "seeds: 5"))
    ran = slotsweep("resume", first["sweep"], "--executor", "inline", "--json")
    assert (ran.code, ran.json["trials"], ran.json["done"]) == (0, 35, 35), ran.err
    assert "11 trials added" in ran.err
    rows = json.loads(slotsweep("results", first["sweep"], "--format", "json").out)
    assert {row["attempts"] for row in rows} == {1}

    spec.write_text(SMALL.replace("noise: 0.3", "noise: 0.4"))
    ran = slotsweep("resume", first["sweep"])
    assert ran.code == 2
    assert "35 of the sweep's 35 trials are no longer in it" in ran.err
    assert "-workload: {name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16, noise: 0.3}" in ran.err
    assert "+workload: {name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16, noise: 0.4}" in ran.err
    ran = slotsweep("resume", first["sweep"], "--as-submitted", "--executor", "inline", "--json")
    assert (ran.code, ran.json["done"]) == (0, 35)


@pytest.mark.alone
def test_resume_finishes_what_a_killed_driver_left(slotsweep, store: Store, tmp_path: Path) -> None:
    """Its leases are taken back at once, since its process is known to be dead."""
    spec = tmp_path / "long.yaml"
    spec.write_text(SMALL.replace("seeds: 4", "seeds: 150").replace("episodes: 3", "episodes: 60"))
    process = subprocess.Popen(
        [*SLOTSWEEP, "run", str(spec), "--executor", "inline"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if " of 900 trials" in line:
            break
    process.kill()
    process.wait()
    [left] = store.sweeps()
    assert left.state == "running"
    assert 0 < left.counts.done < 900
    began = time.monotonic()
    ran = slotsweep("resume", "--executor", "inline", "--json")
    assert (ran.code, ran.json["done"]) == (0, 900), ran.err
    assert time.monotonic() - began < LEASE_SECONDS
    attempts = [row["attempts"] for row in store.trial_rows(left.id)]
    assert set(attempts) <= {1, 2}


def test_a_stopped_sweep_goes_on_when_it_is_told_to(store: Store, settings: Settings) -> None:
    """What was cancelled by `on_failure: stop` is computed by a retry, whose failures count anew."""
    text = SMALL.replace("seeds: 4", "seeds: 500\non_failure: stop").replace("episodes: 3", "episodes: 300")
    sweep = submit(store, text)
    schedule(store, settings, SimulatedExecutor(workers=1, broken=["dp_cache"]))
    assert store.counts(sweep).cancelled > 1000
    store.retry(sweep, [TrialState.FAILED, TrialState.CANCELLED])
    assert store.sweep(sweep).state == "queued"
    schedule(store, settings, SimulatedExecutor())
    assert store.counts(sweep).done == 3000
    assert store.sweep(sweep).state == "done"


def test_a_sweep_that_is_extended_while_it_runs_takes_its_new_cells_on(store: Store, settings: Settings) -> None:
    text = SMALL.replace("episodes: 3", "episodes: 60").replace("seeds: 4", "seeds: 600")
    sweep = submit(store, text)
    more = [t for t in Plan(read_spec(text.replace("16]", "16, 12]"))).trials() if t[0].mechanism.get("budget") == 12]
    extend = threading.Timer(0.3, store.extend, (sweep, {"spec_text": text}, more))
    extend.start()
    schedule(store, settings, SimulatedExecutor(slow=0.05), [sweep])
    extend.join()
    assert store.counts(sweep).done == 4200
    assert store.sweep(sweep).state == "done"


def test_a_cancelled_sweep_resumes_though_another_waits_for_its_trials(slotsweep, tmp_path: Path) -> None:
    spec = str(write_small(tmp_path))
    slotsweep("submit", spec)
    other = slotsweep("submit", spec).out.strip()
    slotsweep("cancel", other)
    ran = slotsweep("resume", other, "--executor", "inline", "--json")
    assert (ran.code, ran.json["done"]) == (0, 24), ran.err


def test_resume_uses_the_plug_in_as_it_was_submitted(slotsweep, tmp_path: Path) -> None:
    """The file may be gone; another sweep with a plug-in of that name may be there."""
    (tmp_path / "faulty_memory.py").write_text(FAILING_PLUGIN)
    (tmp_path / "spec.yaml").write_text(
        SMALL.replace("seeds: 4", "seeds: 2\nplugins: [faulty_memory.py]").replace("full_attention", "faulty")
    )
    sweep = slotsweep("submit", "spec.yaml").out.strip()
    (tmp_path / "faulty_memory.py").unlink()
    ran = slotsweep("resume", sweep, "--as-submitted", "--executor", "inline", "--json")
    assert (ran.code, ran.json["done"]) == (0, 12), ran.err


def test_a_spec_of_the_same_name_elsewhere_is_another_spec(slotsweep, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        write_small(tmp_path / folder)
    sweep = slotsweep("submit", "small.yaml", cwd=tmp_path / "one").out.strip()
    (tmp_path / "two" / "small.yaml").write_text(SMALL.replace("16]", "16, 12]"))
    ran = slotsweep("resume", sweep, "--executor", "inline", "--json", cwd=tmp_path / "two")
    assert (ran.code, ran.json["trials"]) == (0, 24), ran.err
    (tmp_path / "one" / "small.yaml").write_text(SMALL.replace("name: small", "name: other"))
    ran = slotsweep("resume", sweep)
    assert (ran.code, "now describes another sweep, `other`" in ran.err) == (2, True)


def test_resume_delivers_what_the_tracker_still_owes(slotsweep, store: Store, tmp_path: Path) -> None:
    """Also of sweeps that have ended, and draws reports that are missing."""
    spec = str(write_small(tmp_path))
    away = {"SLOTSWEEP_TRACKING_URI": "http://127.0.0.1:1", "SLOTSWEEP_TRACKING_GRACE": "1"}
    sweep = slotsweep("run", spec, "--executor", "inline", "--json", **away).json["sweep"]
    assert store.undelivered(sweep) > 24
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE sweeps SET report = NULL")
    ran = slotsweep("resume")
    assert (ran.code, "nothing to resume" in ran.err) == (0, True)
    assert store.undelivered(sweep) == 0
    assert store.sweep(sweep).report is not None


class Unwanted(SimulatedExecutor):
    """Gets ready for as long as anybody waits; meanwhile the user changes their mind."""

    def __init__(self, change: Callable[[], object]) -> None:
        super().__init__()
        self._change = change

    def start(self, wants: AbstractSet[Want], given_up: Callable[[], bool]) -> Sequence[WorkerCard]:
        assert not given_up()
        self._change()
        until = time.monotonic() + 30.0
        while not given_up():
            assert time.monotonic() < until, "nobody waits, and it goes on"
            time.sleep(0.05)
        return []


@pytest.mark.parametrize("state", [SweepState.PAUSED, SweepState.CANCELLED])
def test_workers_that_get_ready_are_given_up_once_nobody_waits_for_them(
    store: Store, settings: Settings, state: SweepState
) -> None:
    sweep = submit(store, SMALL)
    schedule(store, settings, Unwanted(lambda: store.set_sweep_state(sweep, state)), [sweep])
    row = store.sweep(sweep)
    assert row.state == state
    assert (row.counts.pending, row.counts.cancelled) == ((24, 0) if state == SweepState.PAUSED else (0, 24))


def test_progress_is_told_for_each_sweep(store: Store, settings: Settings) -> None:
    seen: list[Progress] = []
    sweep = submit(store, SMALL)
    queue = SweepQueue(store, settings, store.sweep(sweep), [sweep])
    Scheduler(store, SimulatedExecutor(), queue, seen.append, StopRequest()).run()
    queue.close()
    assert (seen[0].done, seen[0].total, seen[0].seconds) == (0, 24, 0.0)
    assert (seen[-1].done, seen[-1].computed) == (24, 24)


@pytest.mark.alone
def test_a_thousand_trials_that_do_nothing_cost_little_each(
    store: Store, settings: Settings, record_property: Callable[[str, object], None], pace: float
) -> None:
    """Scenario 8: scheduling and storage, without arithmetic, in milliseconds a trial."""
    sweep = submit(store, ONE_MECHANISM.format("no-op", 0, "knn", 1000))
    queue = SweepQueue(store, settings, store.sweep(sweep), [sweep])
    began = time.perf_counter()
    Scheduler(store, SimulatedExecutor(), queue, lambda _: None, StopRequest()).run()
    milliseconds = time.perf_counter() - began
    queue.close()
    record_property("milliseconds_a_trial", milliseconds)
    assert store.counts(sweep).done == 1000
    assert milliseconds < 10 * pace, f"{milliseconds:.2f} ms a trial"


@pytest.mark.alone
def test_tracking_costs_a_sweep_of_seconds_next_to_nothing(slotsweep, tmp_path: Path) -> None:
    """Scenario 26: runs are written beside the sweep; its trials do not wait for them."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(SMALL.replace("seeds: 4", "seeds: 40").replace("episodes: 3", "episodes: 300"))
    ran = slotsweep("run", str(spec), "--executor", "inline", "--json")
    assert ran.code == 0, ran.err
    rows = json.loads(slotsweep("results", "last", "--format", "json").out)
    elapsed = max(row["finished"] for row in rows) - min(row["started"] for row in rows)
    computing = sum(row["wall_seconds"] for row in rows)
    assert computing > 0.8 * elapsed


READ = """\
name: read
kind: training
workload: {name: text_file, path: a.txt, length: 8}
mechanisms: [{name: transformer, width: 8, layers: 1, steps: 1, batch: 2}]
seeds: 1
episodes: 4
"""


def test_a_sweep_whose_data_are_gone_keeps_no_other_from_running(slotsweep, store: Store, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("some words and more of them\n" * 40)
    (tmp_path / "read.yaml").write_text(READ)
    done = slotsweep("run", "read.yaml", "--executor", "inline", "--json")
    assert done.code == 0, done.err
    broken = slotsweep("submit", "read.yaml", "--set", "seeds=2").out.strip()
    other = slotsweep("submit", str(write_small(tmp_path))).out.strip()
    text.unlink()
    for _ in range(2):
        ran = slotsweep("resume", "--executor", "inline", "--json")
        assert f"sweep {broken} (read)" in ran.err
        assert "a.txt: No such file" in ran.err
        assert "Traceback" not in ran.err
        assert {row.id: row.state for row in store.sweeps()} == {
            done.json["sweep"]: "done", broken: "paused", other: "done",
        }  # fmt: skip
        assert ran.code == (1 if other in ran.out else 2)
    assert [json.loads(line)["sweep"] for line in ran.out.splitlines()] == []
    text.write_text("some words and more of them\n" * 40)
    assert slotsweep("resume", "--executor", "inline").code == 0


def test_what_cannot_be_loaded_is_refused_before_it_is_a_sweep(slotsweep, store: Store, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    (tmp_path / "read.yaml").write_text(READ)
    text.write_text("too short")
    ran = slotsweep("run", "read.yaml", "--executor", "inline")
    assert ran.code == 2
    assert "has 1 ids" in ran.err
    assert store.sweeps() == []
    text.write_text("some words and more of them\n" * 40)
    sha256 = hashlib.sha256(text.read_bytes()).hexdigest()
    pinned = ("--set", f"workload.path_sha256={sha256}", "--executor", "inline", "--json")
    assert slotsweep("run", "read.yaml", *pinned).code == 0
    text.write_text("other words\n" * 40)
    again = slotsweep("run", "read.yaml", *pinned)
    assert (again.code, again.json["reused"]) == (0, 1), again.err  # what is there needs no data
    assert slotsweep("run", "read.yaml", *pinned, "--no-cache").code == 2
    assert len(store.sweeps()) == 2
