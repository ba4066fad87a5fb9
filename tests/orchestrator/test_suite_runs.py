"""Running a suite: its sweeps share workers and results, those that measure times go alone, and totals are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.orchestrator.specs import SMALL

pytestmark = pytest.mark.xdist_group("ray")

COSTS = """\
name: costs
kind: cost_scaling
workload: {name: associative_recall, items: 4, repeats: {values: [2, 4, 8]}, dim: 8}
mechanisms: [{name: full_attention}, {name: dp_cache, similarity: 0.6}, {name: superposition}]
seeds: 2
episodes: 3
"""


def write_suite(folder: Path) -> None:
    (folder / "small.yaml").write_text(SMALL, encoding="utf-8")
    again = SMALL.replace("name: small", "name: again").replace("kind: frontier", "kind: seed_study")
    (folder / "again.yaml").write_text(again, encoding="utf-8")
    (folder / "costs.yaml").write_text(COSTS, encoding="utf-8")
    (folder / "suite.yaml").write_text("name: all three\nsuite: [small.yaml, costs.yaml, again.yaml]\n", "utf-8")


def test_a_suite_runs_all_of_its_sweeps_and_computes_what_they_share_once(slotsweep, tmp_path: Path) -> None:
    write_suite(tmp_path)
    planned = slotsweep("plan", "suite.yaml", "--json").json
    assert (planned["trials"], list(planned["sweeps"])) == (66, ["small.yaml", "costs.yaml", "again.yaml"])
    ran = slotsweep("run", "suite.yaml", "--json")
    assert ran.code == 0, ran.err
    *sweeps, total = [json.loads(line) for line in ran.out.splitlines()]
    assert [one["done"] for one in sweeps] == [24, 18, 24]
    assert {name: total[name] for name in ("sweeps", "trials", "done", "failed")} == {
        "sweeps": 3, "trials": 66, "done": 66, "failed": 0,
    }  # fmt: skip
    assert total["left_out"] == {}
    assert all(Path(one["report"]).is_file() for one in sweeps)

    small, costs, again = (slotsweep("results", one["sweep"], "--json").json for one in sweeps)
    assert [row["key"] for row in small] == [row["key"] for row in again]
    assert {row["started"] for row in small} == {row["started"] for row in again}
    assert [row["kind"] for row in (small[0], costs[0], again[0])] == ["frontier", "cost_scaling", "seed_study"]
    for row in costs:
        assert row["metrics.build_us_per_token"] > 0
        assert row["metrics.read_us_per_query"] > 0
    assert {row["worker"] for row in costs}.isdisjoint(row["worker"] for row in small)
    assert len({row["worker"] for row in costs}) == 1

    again = slotsweep("run", "suite.yaml", "--json").json
    assert (again["reused"], again["done"]) == (66, 66)


def test_submitting_a_suite_queues_every_sweep(slotsweep, tmp_path: Path) -> None:
    write_suite(tmp_path)
    submitted = slotsweep("submit", "suite.yaml")
    assert submitted.code == 0
    assert len(submitted.out.split()) == 3
    validated = slotsweep("validate", "suite.yaml")
    assert "3 sweeps, 66 trials" in validated.out
