"""The Python interface does what the commands do."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.api import plan, results, run
from orchestrator.errors import RequestError
from orchestrator.settings import Settings
from tests.orchestrator.specs import write_small


def test_plan_run_results(settings: Settings, tmp_path: Path) -> None:
    spec = write_small(tmp_path)
    with pytest.raises(RequestError, match="no sweep yet"):
        results()
    assert plan(spec, overrides=["seeds=2"]).trials == 12
    sweep = run(spec, overrides=["seeds=2"], executor="inline")
    assert (sweep.state, sweep.done, sweep.failed, sweep.reused) == ("done", 12, 0, 0)
    assert sweep.report is not None
    assert sweep.report.exists()
    frame = results(sweep.id)
    assert len(frame) == 12
    assert frame.groupby("mechanism.name")["metrics.recall_all"].mean()["full_attention"] == 1.0
    assert plan(spec).reused == 12
    again = run(spec, overrides=["seeds=2"], executor="inline", use_cache=False)
    assert (again.reused, results().equals(results(again.id))) == (0, True)
