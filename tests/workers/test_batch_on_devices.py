"""A batch gives every trial the same result on a CPU and by the code for accelerators, which torch's CPU runs here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workers.batch import BatchTask, run_batch
from workers.host import Preparation, WorkerHost

WORKLOAD = {"name": "associative_recall", "items": 8, "repeats": 2, "classes": 4, "dim": 16, "noise": 0.3}
MECHANISMS = ({"name": "full_attention"}, {"name": "recency", "budget": 4}, {"name": "recency", "budget": 8})

# Not every seed has every mechanism: some of a sweep's trials may be done already.
TRIALS = ((10, 0, 0), (11, 0, 1), (12, 0, 2), (20, 1, 0), (21, 1, 1), (22, 1, 2), (31, 2, 1), (32, 2, 0))

TASK = BatchTask(1, "frontier", WORKLOAD, MECHANISMS, TRIALS, episodes=5, dtype="float32")


def test_the_same_trials_have_the_same_metrics() -> None:
    on_cpu = {report.trial: report for report in run_batch(TASK).trials}
    on_device = {report.trial: report for report in run_batch(replace(TASK, device="cuda"), stand_in="cpu").trials}
    assert on_cpu.keys() == on_device.keys() == {trial for trial, _, _ in TRIALS}
    for trial, report in on_device.items():
        expected = on_cpu[trial].outcome.metrics
        found = report.outcome.metrics
        assert expected is not None
        assert found is not None
        for name in ("recall", "recall_all", "slots", "slots_peak", "bytes", "chance"):
            assert found[name] == pytest.approx(expected[name], abs=1e-3), (trial, name)
        assert report.wall_seconds > 0


def test_what_no_device_can_run_fails_with_a_reason() -> None:
    task = replace(TASK, workload={**WORKLOAD, "items": 0}, device="cuda")
    reports = run_batch(task, stand_in="cpu").trials
    assert len(reports) == len(TRIALS)
    assert {report.outcome.reason for report in reports} == {"user_error"}


def test_a_worker_takes_batches_of_its_own_class_only() -> None:
    host = WorkerHost(Preparation((WORKLOAD,), MECHANISMS, "float32"), "mps", "M3", stand_in="cpu")
    assert (host.card.device, host.card.accelerator, host.card.record["device"]) == ("mps", "M3", "mps")
    for device in ("cpu", "cuda"):
        with pytest.raises(ValueError, match=f"a batch for {device} was handed to a worker on mps"):
            host.run(replace(TASK, device=device))
    assert len(host.run(replace(TASK, device="mps")).trials) == len(TRIALS)
