"""What each job type makes of the rows of its trials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from models.mechanism import MECHANISMS
from tasks.comparisons import detectable_difference
from tasks.evaluate import Outcome
from tasks.fitting import fit_all
from tasks.kind import KINDS
from tasks.summary import Interval, Section, Summary
from tasks.workload import WORKLOADS, Workload

RECALL = {"name": "associative_recall", "items": 8, "repeats": 3, "classes": 4, "dim": 12}
PHASES = {"name": "phased_recall", "small": 3, "large": 6, "phases": 4, "repeats": 3, "classes": 4, "dim": 12}


def workload(tree: dict[str, Any]) -> Workload[Any]:
    config: Any = WORKLOADS.config_class(tree["name"])(**tree)
    return WORKLOADS.implementation(tree["name"])(config)


def rows_of(kind: str, trees: list[dict[str, Any]], mechanisms: list[dict[str, Any]], seeds: int, episodes: int) -> Any:
    """Rows as a sweep of `kind` has them, computed here."""
    configs: list[Any] = [MECHANISMS.config_class(tree["name"])(**tree) for tree in mechanisms]
    rows = []
    for made in map(workload, trees):
        fits = fit_all(made, configs, range(seeds))
        for seed in range(seeds):
            outcomes = KINDS.implementation(kind).evaluate(made, configs, seed, episodes, "float32", None, fits)
            for config, outcome in zip(configs, outcomes, strict=True):
                rows.append(row(made, config, seed, episodes, outcome))
    return rows


def row(made: Workload[Any], config: Any, seed: int, episodes: int, outcome: Outcome) -> dict[str, Any]:
    state = "failed" if outcome.metrics is None else "done"
    return {
        "state": state,
        "reason": outcome.reason,
        "seed": seed,
        "episodes": episodes,
        "workload.name": made.config.name,
        **{f"workload.{name}": value for name, value in made.config.flat().items()},
        "mechanism.name": config.name,
        **{f"mechanism.{name}": value for name, value in config.flat().items()},
        **{f"metrics.{name}": value for name, value in (outcome.metrics or {}).items()},
        **{f"series.{name}": values for name, values in outcome.series.items()},
    }


def section(summary: Summary, name: str) -> Section:
    return next(one for one in summary.sections if one.name == name)


def column(part: Section, heading: str) -> dict[str, Any]:
    """A column of the section's table, by the label in the first."""
    assert part.table is not None
    index = part.table.columns.index(heading)
    return {str(line[0]): line[index] for line in part.table.rows}


@pytest.mark.parametrize("kind", KINDS.names())
def test_every_kind_has_a_summary_of_nothing(kind: str) -> None:
    summary = KINDS.implementation(kind).summarise([])
    assert summary.panels == ()
    assert "there are no trials" in summary.warnings


def study(trees: list[dict[str, Any]], mechanisms: list[dict[str, Any]], seeds: int, episodes: int = 20) -> Summary:
    return KINDS.implementation("seed_study").summarise(rows_of("seed_study", trees, mechanisms, seeds, episodes))


COMPARED = [{"name": "full_attention"}, {"name": "knn", "k": 1000}, {"name": "recency", "budget": 6}]


def test_scenario_27_a_seed_study_tells_how_recall_is_distributed() -> None:
    rows = rows_of("seed_study", [RECALL], COMPARED, seeds=8, episodes=20)
    summary = KINDS.implementation("seed_study").summarise(rows)
    assert len(summary.panels) == 1
    spread = section(summary, "seeds-1")
    recalls = [r["metrics.recall"] for r in rows if r["mechanism.name"] == "recency"]
    (recency,) = [label for label in column(spread, "recall") if label.startswith("recency")]
    mean, resampled = column(spread, "recall")[recency], column(spread, "recall, bootstrap")[recency]
    assert (mean.mean, mean.n, mean.method) == (pytest.approx(np.mean(recalls)), 8, "Student t over 8 seeds")
    assert mean.low < np.mean(recalls) < mean.high
    assert resampled.method.startswith("BCa bootstrap over 8 seeds")
    assert 0.0 <= resampled.low < resampled.mean == mean.mean < resampled.high <= 1.0
    assert column(spread, "sd")[recency] == pytest.approx(np.std(recalls, ddof=1))
    assert (column(spread, "least")[recency], column(spread, "most")[recency]) == (min(recalls), max(recalls))
    assert column(spread, "median")[recency] == np.median(recalls)
    perfect = column(spread, "recall")["full_attention"]
    assert (perfect.mean, perfect.high) == (1.0, 1.0)
    assert perfect.method == "exact binomial over 160 episodes: all 8 seeds are equal"


def test_a_seed_study_compares_every_pair_by_seed() -> None:
    rows = rows_of("seed_study", [RECALL], COMPARED, seeds=8, episodes=20)
    differences = section(KINDS.implementation("seed_study").summarise(rows), "differences-1")
    assert differences.table is not None
    table = {
        (line[0].split()[0], line[1].split()[0]): dict(zip(differences.table.columns, line, strict=True))
        for line in differences.table.rows
        if isinstance(line[0], str) and isinstance(line[1], str)
    }
    assert list(table) == [("knn", "full_attention"), ("recency", "full_attention"), ("recency", "knn")]
    assert [line["verdict"] for line in table.values()] == ["undecided", "differ", "differ"]
    same = table["knn", "full_attention"]
    assert same["difference"].high == pytest.approx(1 - 0.025 ** (1 / 160)), "160 episodes can miss so much"
    assert same["p of inequality"] > 0.1
    recall = {
        name: np.array([r["metrics.recall"] for r in rows if r["mechanism.name"] == name])
        for name in ("recency", "full_attention")
    }
    apart = recall["recency"] - recall["full_attention"]
    line = table["recency", "full_attention"]
    theirs = stats.ttest_1samp(apart, 0.0)
    assert line["difference"].mean == pytest.approx(apart.mean())
    assert line["difference"].low == pytest.approx(theirs.confidence_interval(0.95).low)
    assert line["effect"].mean < -2
    assert line["superior"].mean == 0.0
    # Two equal p-values and one of 1, for a mechanism that is full attention by another name.
    assert line["p, Holm"] == pytest.approx(3 * theirs.pvalue)
    assert line["p, Benjamini-Hochberg"] == pytest.approx(1.5 * theirs.pvalue)
    assert table["knn", "full_attention"]["p, Holm"] == 1.0
    assert table["knn", "full_attention"]["effect"] is None
    power = differences.text[-1]
    visible = detectable_difference(apart)
    assert line["detectable"] == pytest.approx(visible)
    assert power.startswith(f"With 8 seeds you can see a difference of {visible:.2g} in 80% of studies")


def test_many_cells_are_compared_with_the_first_alone() -> None:
    mechanisms = [{"name": "recency", "budget": budget} for budget in range(2, 11)]
    differences = section(study([RECALL], mechanisms, seeds=3, episodes=2), "differences-1")
    assert differences.table is not None
    assert [line[1] for line in differences.table.rows] == ["recency budget 2"] * 8


def test_a_seed_study_of_several_workloads_aggregates_over_them() -> None:
    trees = [RECALL, {**RECALL, "noise": 0.5}, {**RECALL, "items": 6}]
    rows = rows_of("seed_study", trees, COMPARED, seeds=6, episodes=10)
    part = section(KINDS.implementation("seed_study").summarise(rows), "all-workloads")
    (recency,) = [label for label in column(part, "recall") if label.startswith("recency")]
    values = [r["metrics.recall"] for r in rows if r["mechanism.name"] == "recency"]
    found = column(part, "recall")[recency]
    assert len(values) == 18
    assert found.mean == pytest.approx(stats.trim_mean(values, 0.25))
    assert found.low < found.mean < found.high
    assert found.n == 6
    assert "interquartile mean of 3 cells" in found.method
    assert column(part, "workloads")[recency] == 3


def test_scenario_27_one_seed_is_undefined_rather_than_equal() -> None:
    summary = study([RECALL], [{"name": "full_attention"}, {"name": "recency", "budget": 6}], seeds=1, episodes=5)
    assert set(column(section(summary, "differences-1"), "verdict").values()) == {"undefined: one seed"}
    assert len(section(summary, "differences-1").text) == 2
    assert set(column(section(summary, "seeds-1"), "sd").values()) == {None}
    for heading in ("recall", "recall, bootstrap"):
        assert {one.low for one in column(section(summary, "seeds-1"), heading).values()} == {None}


def test_mechanisms_without_a_common_seed_are_listed_as_such() -> None:
    rows = rows_of("seed_study", [RECALL], COMPARED, seeds=2, episodes=3)
    for r in rows:
        if (r["mechanism.name"] == "knn") == (r["seed"] == 0):
            r["state"] = "failed"
    verdicts = column(section(KINDS.implementation("seed_study").summarise(rows), "differences-1"), "verdict")
    assert [verdict for label, verdict in verdicts.items() if label.startswith("knn")] == ["no common seed"]


def test_an_adaptive_sweep_counts_slots_both_ways_and_draws_its_phases() -> None:
    mechanisms = [{"name": "full_attention"}, {"name": "dp_cache", "similarity": 0.6}]
    rows = rows_of("adaptive", [PHASES], mechanisms, seeds=3, episodes=4)
    part = section(KINDS.implementation("adaptive").summarise(rows), "phases-1")
    assert column(part, "slots, phase ends")["full_attention"].mean == np.mean([9, 27, 36, 54])
    assert column(part, "slots, per token")["full_attention"].mean == pytest.approx(np.mean(range(1, 55)))
    assert column(part, "least to most at phase ends")["full_attention"] == "9.0 to 54.0"
    slots, recall = part.charts
    lines = {line.label: line for line in slots.lines}
    assert lines["full_attention"].y == (9.0, 27.0, 36.0, 54.0)
    assert lines["full_attention"].x == (1.0, 2.0, 3.0, 4.0)
    assert lines["distinct items so far"].y == (3.0, 9.0, 12.0, 18.0)
    assert lines["items asked for"].y == (3.0, 6.0, 3.0, 6.0)
    assert all(0 <= y <= 1 for line in recall.lines for y in line.y)


def test_an_adaptive_sweep_of_single_phases_says_so() -> None:
    rows = rows_of("adaptive", [RECALL], [{"name": "full_attention"}], seeds=2, episodes=2)
    part = section(KINDS.implementation("adaptive").summarise(rows), "phases-1")
    assert part.charts == ()
    assert "one phase" in part.text[0]


def test_a_gate_ablation_shows_what_gates_learned_and_how() -> None:
    mechanisms = [{"name": "dp_cache", "similarity": 0.6}, {"name": "novelty_gate", "budget": 8, "steps": 20}]
    rows = rows_of("gate_ablation", [RECALL], mechanisms, seeds=2, episodes=3)
    assert {r["state"] for r in rows} == {"done"}
    summary = KINDS.implementation("gate_ablation").summarise(rows)
    gates = section(summary, "gates-1")
    (gate,) = [label for label in column(gates, "b") if label.startswith("novelty_gate")]
    learned = [r["metrics.gate_b"] for r in rows if r["mechanism.name"] == "novelty_gate"]
    assert column(gates, "b")[gate].mean == pytest.approx(np.mean(learned))
    assert column(gates, "b")["dp_cache"] is None
    training = section(summary, "training-1")
    assert training.charts
    assert all(line.label == gate for chart in training.charts for line in chart.lines)


def test_cost_scaling_measures_each_mechanism_and_fits_exponents() -> None:
    trees = [{**RECALL, "repeats": repeats} for repeats in (4, 16, 64, 256)]
    rows = rows_of("cost_scaling", trees, [{"name": "full_attention"}, {"name": "dp_cache"}], seeds=2, episodes=3)
    assert {r["state"] for r in rows} == {"done"}
    assert all(r["metrics.slots"] == r["metrics.tokens"] for r in rows if r["mechanism.name"] == "full_attention")
    assert all(r["metrics.build_naive_us_per_token"] > 0 for r in rows if r["mechanism.name"] == "dp_cache")
    assert all(0 <= r["metrics.waited"] < 1 for r in rows)
    summary = KINDS.implementation("cost_scaling").summarise(rows)
    assert summary.panels == ()
    reads, builds, memory = (section(summary, f"{name}-scaling") for name in ("read", "build", "memory"))
    exponents = column(reads, "exponent")
    assert all(isinstance(exponents[name], Interval) for name in ("full_attention", "dp_cache"))
    assert {line.x for line in reads.charts[0].lines} == {(32.0, 128.0, 512.0, 2048.0)}
    assert [line.label for line in reads.charts[0].lines] == ["full_attention", "dp_cache", "dp_cache, read, 64"]
    assert {"full_attention", "dp_cache", "dp_cache, build, naive"} <= {line.label for line in builds.charts[0].lines}
    assert reads.charts[0].x_label == "tokens (by repeats)"
    assert reads.charts[0].log_x
    assert reads.charts[0].log_y
    held = {row[0]: row[3] for row in memory.table.rows if row[1] == "held"} if memory.table else {}
    assert held["full_attention"].mean == pytest.approx(1.0), "every token is kept"
    kept = next(line for line in memory.charts[0].lines if line.label.startswith("full_attention"))
    assert kept.fit == pytest.approx(kept.y)


def test_scenario_29_a_fitted_line_is_drawn_through_sizes_that_it_was_fitted_to() -> None:
    trees = [{**RECALL, "repeats": repeats} for repeats in (4, 8)]
    rows = rows_of("cost_scaling", trees, [{"name": "full_attention"}], seeds=2, episodes=2)
    part = section(KINDS.implementation("cost_scaling").summarise(rows), "read-scaling")
    assert [line.fit for line in part.charts[0].lines] == [None]


def test_scenario_29_two_lengths_give_no_exponent() -> None:
    trees = [{**RECALL, "repeats": repeats} for repeats in (4, 8)]
    rows = rows_of("cost_scaling", trees, [{"name": "full_attention"}], seeds=2, episodes=2)
    part = section(KINDS.implementation("cost_scaling").summarise(rows), "read-scaling")
    assert "at least 3 sizes" in column(part, "exponent")["full_attention"]


def test_a_mechanism_that_cannot_be_timed_fails_alone() -> None:
    trees = [{**RECALL, "repeats": 2}]
    rows = rows_of("cost_scaling", trees, [{"name": "optimal", "budget": 4}, {"name": "full_attention"}], 1, 2)
    assert [(r["state"], r["reason"]) for r in rows] == [("failed", "user_error"), ("done", None)]
