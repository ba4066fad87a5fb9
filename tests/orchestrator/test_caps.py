"""Sweeps that may take so much of their workers and no more: paused there, also when they are taken up again."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import scheduler
from orchestrator.caps import Caps
from orchestrator.errors import RequestError
from orchestrator.job import Progress
from orchestrator.plan import Plan
from orchestrator.runner import SweepQueue, policy_of, submit_plan
from orchestrator.scheduler import Scheduler, StopRequest
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from orchestrator.store.store import Store
from tests.orchestrator.conftest import Ran
from tests.orchestrator.specs import SMALL
from tests.orchestrator.test_control import SimulatedExecutor


def scheduled(store: Store, settings: Settings, sweep: str) -> list[Progress]:
    """What is said while a worker that takes 0.2 s for a batch is at `sweep`."""
    queue = SweepQueue(store, settings, store.sweep(sweep), [sweep])
    said: list[Progress] = []
    try:
        Scheduler(store, SimulatedExecutor(1, slow=0.2), queue, said.append, StopRequest()).run()
    finally:
        queue.close()
    return said


@pytest.mark.parametrize(
    ("caps", "told"),
    [
        (Caps(hours=1 / 3600), "hours, and --max-hours is 0.000277778"),
        (Caps(cost=1.0, prices={"cpu": 3600.0}), "cost 1.*, and --max-cost is 1"),
    ],
)
def test_a_sweep_is_paused_when_its_cap_is_used_up(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch, caps: Caps, told: str
) -> None:
    monkeypatch.setattr(scheduler, "CONTROL_SECONDS", 0.1)
    spec = read_spec(SMALL, overrides=["seeds=40", "episodes=20000"])
    sweep = submit_plan(store, Plan(replace(spec, policy=replace(spec.policy, caps=caps)))).sweep
    assert policy_of(store.sweep(sweep)).caps == caps, "it is stored with the sweep"
    said = scheduled(store, settings, sweep)
    row = store.sweep(sweep)
    assert row.state == "paused"
    assert row.counts.leased == 0
    assert 0 < row.counts.done < row.trials
    assert any(re.search(told, one.waiting or "") for one in said)
    used = store.worker_seconds(sweep)["cpu"]
    assert used >= 1.0
    assert scheduled(store, settings, sweep)
    again = store.sweep(sweep)
    assert again.state == "paused", "what was used before a restart counts"
    assert again.counts.done - row.counts.done < row.counts.done


def test_without_caps_all_is_computed(store: Store, settings: Settings) -> None:
    sweep = submit_plan(store, Plan(read_spec(SMALL))).sweep
    scheduled(store, settings, sweep)
    assert store.sweep(sweep).state == "done"


def test_caps_that_cannot_be_kept_are_refused() -> None:
    for caps, told in [
        (Caps(hours=0), "--max-hours 0: a cap is a number above 0"),
        (Caps(cost=float("inf"), prices={"cpu": 1}), "--max-cost inf"),
        (Caps(cost=1.0), "--max-cost needs prices"),
    ]:
        with pytest.raises(RequestError, match=told):
            caps.check()
    assert Caps(cost=2.0, prices={"cpu": 1.0, "cuda": 4.0}).cost_of({"cpu": 3600, "mps": 1800}) == 3.0


def test_the_command_line_tells_before_and_pauses(slotsweep: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SMALL)
    assert slotsweep("run", "s.yaml", "--executor", "inline", "--set", "seeds=1").code == 0
    told = slotsweep("plan", "s.yaml", "--on", "aws:g4dn.xlarge")
    assert "cost      " in told.out
    assert "list price 0.526 USD an hour, us-east-1, SkyPilot's catalog, spring 2025; check yours" in told.out
    limits = ("--max-cost", "1e-9", "--on", "aws:c7i.2xlarge")
    done = slotsweep("run", "s.yaml", "--executor", "inline", "--set", "episodes=400", "--set", "seeds=40", *limits)
    assert "expected to cost" in done.err, done.err
    assert "--max-cost is 1e-09: it will be paused there" in done.err
    assert done.code == 1
    assert "paused" in done.out
    assert "go on     run its spec again with another cap" in done.out
    assert "go on     slotsweep resume" not in done.out
    refused = slotsweep("run", "s.yaml", "--max-cost", "1")
    assert (refused.code, "--max-cost needs prices" in refused.err) == (2, True)
    for wrong, cure in [
        ("aws:x9", "known are c7i.2xlarge"),
        ("moon:x", "expected CLOUD:TYPE"),
        ("gcp:g2-standard-4:spot", "no spot price"),
    ]:
        refused = slotsweep("plan", "s.yaml", "--on", wrong)
        assert (refused.code, cure in refused.err) == (2, True), refused.err
    refused = slotsweep("plan", "s.yaml", "--price", "cpu=1", "--price", "cpu=2")
    assert (refused.code, "--price cpu=2: cpu has a price already, 1" in refused.err) == (2, True), refused.err
