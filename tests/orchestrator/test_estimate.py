"""Estimates: near what is measured afterwards, with an interval, honest about what is not known, and fast."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.estimate import Estimate
from orchestrator.executors.inline import InlineExecutor
from orchestrator.plan import Plan
from orchestrator.plan_summary import describe
from orchestrator.runner import SweepQueue, preparation, submit_plan
from orchestrator.scheduler import Scheduler, StopRequest
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from orchestrator.store.store import Store
from tests.orchestrator.conftest import Ran

WARM_UP = """
name: warm-up
kind: frontier
workload: {name: associative_recall, items: {values: [16, 64]}, repeats: {values: [3, 6]}, classes: 8, dim: 24}
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, similarity: {values: [0.45, 0.65]}}
  - {name: recency, budget: {values: [8, 64]}}
  - {name: h2o, budget: {values: [8, 64]}}
seeds: 3
episodes: 20
"""

MIXED = """
name: mixed
kind: frontier
workload: {name: associative_recall, items: {values: [24, 48, 96]}, repeats: {values: [4, 5]}, classes: 8, dim: 24}
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, similarity: {values: [0.4, 0.55, 0.65]}}
  - {name: recency, budget: {values: [8, 24, 48]}}
  - {name: h2o, budget: {values: [8, 24, 48, 96]}}
seeds: 8
episodes: 10
"""


def compute(store: Store, settings: Settings, text: str) -> float:
    """Run a sweep in this process; seconds that its trials had a processor."""
    sweep = submit_plan(store, Plan(read_spec(text))).sweep
    queue = SweepQueue(store, settings, store.sweep(sweep), [sweep])
    executor = InlineExecutor(preparation(store.cells(sweep).values(), []), settings.kernels)
    Scheduler(store, executor, queue, lambda _: None, StopRequest()).run()
    queue.close()
    return float(sum(min(row["wall_seconds"], row["cpu_seconds"]) for row in store.trial_rows(sweep)))


def estimated(settings: Settings, text: str) -> Estimate:
    return describe(Plan(read_spec(text)), settings).estimate


BROAD = """
name: broad
kind: frontier
workload: {name: associative_recall, items: {values: [24, 48, 96]}, repeats: {values: [4, 16]}, classes: 8, dim: 24}
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, similarity: {values: [0.4, 0.55, 0.65]}}
  - {name: recency, budget: {values: [8, 24, 48]}}
  - {name: h2o, budget: {values: [8, 24, 48, 96]}}
seeds: 8
episodes: 30
"""


def taken_by_others() -> float:
    """The share of this machine's processors that is at work while nothing of ours is, over a second (Linux)."""
    before = _ticks()
    time.sleep(1.0)
    worked, all_of_them = (after - earlier for after, earlier in zip(_ticks(), before, strict=True))
    return worked / all_of_them


def _ticks() -> tuple[int, int]:
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


@pytest.mark.alone
@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="load is read from Linux's counters")
def test_after_one_warm_up_a_mixed_sweep_of_500_trials_takes_the_hours_that_plan_prints(
    slotsweep: Callable[..., Ran], tmp_path: Path
) -> None:
    """On the embedded Ray, within a factor of 1.5 beside what other programs take, which comes and goes."""
    for name, text in (("warm-up", WARM_UP), ("broad", BROAD)):
        (tmp_path / f"{name}.yaml").write_text(text)
    assert slotsweep("plan", "broad.yaml", "--json").json["estimate"]["hours"] is None
    assert slotsweep("run", "warm-up.yaml", "--json", timeout=900).code == 0
    predicted = slotsweep("plan", "broad.yaml", "--json").json
    before = taken_by_others()
    ran = slotsweep("run", "broad.yaml", "--json", timeout=900).json
    left = 1.0 - min(0.8, max(before, taken_by_others()))
    assert predicted["trials"] == ran["done"] == 528
    estimate = predicted["estimate"]
    assert ran["seconds"] * left / 1.5 < 3600 * estimate["hours"] < 1.5 * ran["seconds"] / left
    assert estimate["low_hours"] < estimate["hours"] < estimate["high_hours"]


def test_what_is_there_already_costs_nothing(store: Store, settings: Settings) -> None:
    compute(store, settings, WARM_UP)
    predicted = estimated(settings, MIXED)
    assert "from 84 trials of these mechanisms here, extrapolated in budget, items, tau, tokens" in predicted.basis
    compute(store, settings, MIXED)
    again = estimated(settings, MIXED)
    assert (again.worker_hours, again.basis, again.disk_bytes) == (0.0, "everything is there already", 0)


def test_what_is_not_known_is_said_with_what_would_make_it_known(store: Store, settings: Settings) -> None:
    compute(store, settings, WARM_UP)
    found = estimated(settings, MIXED)
    assert found.hours is not None
    strange = MIXED.replace("h2o", "tova")
    unknown = estimated(settings, strange)
    assert (unknown.hours, unknown.low_hours, unknown.high_hours) == (None, None, None)
    assert unknown.basis == ("unknown: no finished trial here yet of tova; a run with `--set seeds=1` would tell")
    assert unknown.worker_hours > 0


def test_costs_measured_alone_feed_estimates_of_other_sweeps(store: Store, settings: Settings) -> None:
    costs = (
        "name: c\nkind: cost_scaling\nworkload: {name: associative_recall, items: 8, repeats: {values: [2, 4, 8]}}\n"
    )
    compute(store, settings, costs + "mechanisms: [{name: recency, budget: 8}]\nseeds: 2\nepisodes: 2\n")
    other = costs.replace("cost_scaling", "frontier") + "mechanisms: [{name: recency, budget: 8}]\nseeds: 2\n"
    found = estimated(settings, other)
    assert found.hours is not None
    assert "extrapolated in measured=beside others" in found.basis


def test_mechanisms_that_train_are_estimated_by_what_all_seeds_took_together(store: Store, settings: Settings) -> None:
    text = (
        "name: t\nkind: frontier\nworkload: {name: associative_recall, items: 8, repeats: 2, dim: 8}\n"
        "mechanisms: [{name: novelty_gate, budget: 4, steps: 20}]\nseeds: 3\nepisodes: 2\n"
    )
    took = compute(store, settings, text)
    longer = estimated(settings, text.replace("steps: 20", "steps: 40"))
    assert longer.hours is not None
    assert took < 3600 * longer.worker_hours < 4 * took


def test_a_plan_of_ten_thousand_trials_is_estimated_in_under_two_seconds(
    store: Store, settings: Settings, pace: float
) -> None:
    compute(store, settings, WARM_UP)
    text = MIXED.replace("seeds: 8", "seeds: 160")
    began = time.process_time()
    summary = describe(Plan(read_spec(text)), settings)
    assert summary.trials == 10_560
    assert time.process_time() - began < 2 * pace


def test_estimates_start_nothing(store: Store, settings: Settings) -> None:
    compute(store, settings, WARM_UP)
    script = (
        "import sys; from orchestrator.settings import Settings; from orchestrator.plan import Plan;"
        "from orchestrator.spec import read_spec; from orchestrator.plan_summary import describe;"
        f"describe(Plan(read_spec({MIXED!r})), Settings.read());"
        "print(sorted({'torch', 'numba', 'ray', 'mlflow', 'scipy', 'sqlalchemy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"
