"""`slotsweep trial KEY`: one trial again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from orchestrator.results import result_rows
from orchestrator.settings import Settings
from orchestrator.store import schema
from orchestrator.store.store import Store
from orchestrator.tracking import trial_run

SPEC = """
name: again
kind: frontier
workload: {name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16, noise: 0.3}
mechanisms:
  - {name: dp_cache, tau: 0.4}
  - {name: linear_attention}
seeds: 1
episodes: 3
"""


@pytest.fixture
def rows(slotsweep_here: Callable[..., Any], tmp_path: Path, settings: Settings) -> list[dict[str, Any]]:
    """A finished sweep's trials."""
    (tmp_path / "again.yaml").write_text(SPEC)
    assert slotsweep_here("run", str(tmp_path / "again.yaml"), "--executor", "inline").code == 0
    store = Store.open(settings.database_url)
    [sweep] = store.sweeps()
    return list(result_rows(store, sweep))


def test_the_same_comes_back_and_every_decision_is_shown(
    rows: list[dict[str, Any]], slotsweep_here: Callable[..., Any]
) -> None:
    ran = slotsweep_here("trial", rows[0]["key"][:10], "--episode", "2", "--lines", "0")
    assert ran.code == 0, ran.err
    assert "the same came back" in ran.out
    assert "opens a slot" in ran.out
    told = slotsweep_here("trial", rows[0]["key"], "--json").json
    assert (told["key"], told["differs"], told["edited"]) == (rows[0]["key"], [], False)
    assert told["metrics"]["recall"] == told["stored"]["recall"] == rows[0]["metrics.recall"]
    assert len(told["replay"]["steps"]) == 16
    fixed = slotsweep_here("trial", rows[1]["key"])
    assert "its state is no list of slots" in fixed.out


def test_what_comes_back_otherwise_is_named(
    rows: list[dict[str, Any]], slotsweep_here: Callable[..., Any], settings: Settings
) -> None:
    store = Store.open(settings.database_url)
    with store.engine.begin() as connection:
        metrics = store.trial(rows[0]["key"]).metrics or {}
        connection.execute(update(schema.results).values(metrics={**metrics, "recall": 0.123}))
    ran = slotsweep_here("trial", rows[0]["key"])
    assert ran.code == 1
    assert "came back otherwise: recall" in ran.out


def test_what_looks_ahead_is_told(slotsweep_here: Callable[..., Any], tmp_path: Path, settings: Settings) -> None:
    fields = "width: 8, layers: 1, heads: 1, state: 4, steps: 1, batch: 1"
    (tmp_path / "ahead.yaml").write_text(
        "name: ahead\nkind: training\nworkload: {name: token_recall, pairs: 1, length: 12}\nmechanisms:\n"
        f"  - {{name: triple_hybrid, convolution: two_sided, {fields}}}\n  - {{name: triple_hybrid, {fields}}}\n"
        "seeds: 1\nepisodes: 1\n"
    )
    assert slotsweep_here("run", str(tmp_path / "ahead.yaml"), "--executor", "inline").code == 0
    store = Store.open(settings.database_url)
    [sweep] = store.sweeps()
    ahead, honest = result_rows(store, sweep)
    assert "(leaks future): its outputs depend on later tokens" in slotsweep_here("trial", ahead["key"]).out
    assert "leaks future" not in slotsweep_here("trial", honest["key"]).out
    assert [trial_run(sweep, row).name.endswith("(leaks future)") for row in (ahead, honest)] == [True, False]


def test_a_trial_that_is_not_there_is_told_in_one_line(
    rows: list[dict[str, Any]], slotsweep_here: Callable[..., Any]
) -> None:
    for arguments in (("nothing",), (rows[0]["key"], "--episode", "3")):
        ran = slotsweep_here("trial", *arguments)
        assert ran.code == 2
        assert len(ran.err.splitlines()) == 1
