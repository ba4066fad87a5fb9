"""What runs took beside computing: what is usual at first, then what was measured."""

from __future__ import annotations

import pytest

from orchestrator.overheads import COMPILED, ENDS, RECENT_RUNS, START_SECONDS, TRIAL, overheads
from orchestrator.store.records import RunCost


def test_before_any_run_overheads_are_the_usual_ones() -> None:
    found = overheads([])
    assert (found.start, found.ends, found.trial, found.runs) == (START_SECONDS, ENDS[0], TRIAL[0], 0)
    assert found.seconds(1000) == pytest.approx(START_SECONDS + ENDS[0] + 1000 * TRIAL[0])


def test_the_first_start_compiled_kernels_which_later_ones_find() -> None:
    assert overheads([RunCost(30.0, 84, 3.0)]).start == pytest.approx(COMPILED * 30.0)
    assert overheads([RunCost(4.0, 84, 3.0)]).start == 4.0, "it was quick because they had been compiled"
    assert overheads([RunCost(6.0, 84, 3.0), RunCost(7.0, 84, 3.0), RunCost(40.0, 84, 3.0)]).start == 7.0
    assert overheads([RunCost(20.0, 84, 3.0)] * RECENT_RUNS).start == 20.0, "the first is long ago"


def test_a_constant_and_a_part_for_each_trial_are_told_apart() -> None:
    runs = [RunCost(5.0, trials, 6.0 + 2e-3 * trials) for trials in (100, 400, 2000, 8000, 10_000)]
    found = overheads(runs)
    assert found.ends == pytest.approx(6.0, abs=0.6)
    assert found.trial == pytest.approx(2e-3, rel=0.1)


def test_runs_that_waited_or_cannot_be_told_do_not_count() -> None:
    assert overheads([RunCost(5.0, 100, None), RunCost(5.0, 100, 600.0)]).runs == 0
