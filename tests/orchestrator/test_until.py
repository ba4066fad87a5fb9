"""Seeds added until an interval is narrow enough: as many as the first stage tells, the same after a kill."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from orchestrator.store.store import Store
from tasks.sequential import FixedWidth
from tests.orchestrator.conftest import Ran

Command = Callable[..., Ran]

UNTIL = """\
name: until
kind: seed_study
workload: {name: associative_recall, items: 12, repeats: 2, classes: 8, dim: 16, noise: {values: [0.3, 0.6]}}
mechanisms:
  - {name: dp_cache}
  - {name: recency, budget: 6}
seeds: {until: {metric: recall_all, half_width: 0.04, max: 40, first: 6}, base: 100}
episodes: 4
"""


def values(store: Store, sweep: str) -> dict[tuple[float, str], dict[int, float]]:
    """recall_all by noise, mechanism and seed."""
    found: dict[tuple[float, str], dict[int, float]] = {}
    for row in store.trial_rows(sweep):
        cell = (row["workload"]["noise"], row["mechanism"]["name"])
        found.setdefault(cell, {})[row["seed"]] = (row["metrics"] or {}).get("recall_all", np.nan)
    return found


def test_each_workload_has_the_seeds_that_its_neediest_cell_asks_for(
    slotsweep: Command, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "until.yaml").write_text(UNTIL)
    plan = slotsweep("plan", "until.yaml", "--json").json
    assert (plan["trials"], plan["at_first"]) == (160, 24)
    ran = slotsweep("run", "until.yaml", "--executor", "inline", "--json")
    assert ran.code == 0, ran.err
    sweep = ran.json["sweep"]
    rule = FixedWidth(half_width=0.04, most=40, first=6)
    found = values(store, sweep)
    for noise in (0.3, 0.6):
        cells = [seeds for (other, _), seeds in found.items() if other == noise]
        wanted = max(rule.seeds_needed(np.array([seeds[seed] for seed in range(100, 106)]), 4) for seeds in cells)
        assert [sorted(seeds) for seeds in cells] == [list(range(100, 100 + wanted))] * 2
    counts = {noise: len(seeds) for (noise, _), seeds in found.items()}
    assert len(set(counts.values())) > 1, "workloads need different numbers"
    report = Path(ran.json["report"]).read_text(encoding="utf-8")
    assert "Stein" in report
    again = slotsweep("run", "until.yaml", "--json").json
    assert again["reused"] == again["trials"] == ran.json["trials"]


def test_seeds_follow_after_a_first_stage_that_was_computed_alone(
    slotsweep: Command, store: Store, tmp_path: Path
) -> None:
    """As after a kill between the stages: only the first stage is there when the sweep is resumed."""
    (tmp_path / "first.yaml").write_text(
        UNTIL.replace(
            "{until: {metric: recall_all, half_width: 0.04, max: 40, first: 6}, base: 100}", "{count: 6, base: 100}"
        )
    )
    assert slotsweep("run", "first.yaml", "--executor", "inline").code == 0
    (tmp_path / "until.yaml").write_text(UNTIL)
    sweep = slotsweep("submit", "until.yaml").out.strip()
    row = store.sweep(sweep)
    assert (row.trials, row.reused) == (24, 24)
    ran = slotsweep("resume", sweep, "--executor", "inline", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["trials"] > 24
    assert ran.json["reused"] == 24
