"""What a sweep that tunes says, from trials computed here and from proposals made up by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from tasks.kind import KINDS, Asked
from tasks.kinds.tuning import TuningConfig
from tasks.search import Began, Parameter, Proposal, StudyLabel, best_of
from tasks.summary import Interval, Section, Summary

TAU = Parameter("mechanism.tau", "float", 0.05, 0.95)
ETA = Parameter("mechanism.eta", "float", 0.01, 1.0, log=True)
SEEDS, HELD_OUT = range(4), range(4, 10)
WORKLOAD = {"name": "phased_recall", "noise": 0.3}

Metrics = dict[str, dict[int, float]]


def options(objectives: dict[str, str], **more: Any) -> TuningConfig:
    tree = {"search": {"mechanism.tau": {"low": 0.05, "high": 0.95}}, "objectives": objectives, "trials": 4, **more}
    return TuningConfig(**tree)


def study(number: int = 0, *, name: str = "dp_cache", repeat: int = 0, sampler: str = "tpe", **more: Any) -> StudyLabel:
    group = f"{name} {sampler}"
    label = StudyLabel(number, f"{group} repeat {repeat}", group, sampler, repeat, WORKLOAD, {"name": name}, (TAU,))
    return replace(label, **more)


def spread(mean: float, seeds: Sequence[int]) -> dict[int, float]:
    """Values around a mean, which is theirs exactly: as many above as below."""
    return {seed: mean + (0.01 if place % 2 else -0.01) for place, seed in enumerate(seeds)}


def proposal(
    number: int,
    tau: float,
    *,
    study: int = 0,
    state: Literal["open", "complete", "stopped", "failed"] = "complete",
    seeds: Sequence[int] = SEEDS,
    held_out: dict[str, float] | None = None,
    same_as: int | None = None,
    error: str | None = None,
    **means: float,
) -> Proposal:
    metrics = {name: spread(mean, seeds) for name, mean in means.items()}
    best = {name: spread(mean, HELD_OUT) for name, mean in (held_out or {}).items()}
    params = {"mechanism.tau": tau}
    return Proposal(study, number, params, state, metrics, best, same_as, error, key=f"{tau}:{SEEDS[0]}")


def trial(mechanism: dict[str, Any], seed: int, **metrics: float) -> dict[str, Any]:
    return {
        "state": "done",
        "key": f"{mechanism.get('tau')}:{seed}",
        "seed": seed,
        "episodes": 1,
        **{f"workload.{key}": value for key, value in WORKLOAD.items()},
        **{f"mechanism.{key}": value for key, value in mechanism.items()},
        **{f"metrics.{key}": value for key, value in metrics.items()},
    }


def summary_of(
    config: TuningConfig,
    studies: Sequence[StudyLabel],
    proposals: Sequence[Proposal],
    rows: Sequence[dict[str, Any]] = (),
) -> Summary:
    asked = Asked(options=config, studies=tuple(studies), proposals=tuple(proposals))
    return KINDS.implementation("tuning").summarise(rows, asked)


def section(summary: Summary, name: str) -> Section:
    return next(one for one in summary.sections if one.name == name)


def table(summary: Summary, name: str) -> list[dict[str, Any]]:
    grid = section(summary, name).table
    assert grid is not None
    return [dict(zip(grid.columns, row, strict=True)) for row in grid.rows]


BOUNDED = options({"recall": "maximize"}, constraints={"slots": {"at_most": 18}})

HISTORY = [
    proposal(0, 0.2, recall=0.5, slots=10),
    proposal(1, 0.4, recall=0.9, slots=30),  # too large
    proposal(2, 0.5, recall=0.7, slots=17, held_out={"recall": 0.6, "slots": 18.5}),
    proposal(3, 0.8, recall=0.3, slots=5, state="stopped", seeds=range(2)),
    proposal(4, 0.2, recall=0.5, slots=10, same_as=0),
    proposal(5, 0.9, state="failed", error="no_result"),
    proposal(6, 0.6, recall=0.6, slots=12),
]


def own_rows() -> list[dict[str, Any]]:
    """The trials of the best proposal, and of two references on held-out seeds."""
    best = HISTORY[2]
    rows = [
        trial(
            {"name": "dp_cache", "tau": 0.5, "keep": "first"},
            seed,
            **{name: side[name][seed] for name in side},
            slots_mean=20.0 + seed,
            slots_phase_end=17.0,
        )
        for side in (best.metrics, best.held_out)
        for seed in side["recall"]
    ]
    for name, recall, slots in (("item_lru", 0.55, 18.0), ("full_attention", 0.9, 60.0)):
        values = spread(recall, HELD_OUT)
        rows += [trial({"name": name}, seed, recall=values[seed], slots=slots, slots_mean=slots) for seed in HELD_OUT]
    return rows


def test_the_best_is_feasible_and_quoted_from_seeds_that_did_not_choose_it() -> None:
    summary = summary_of(BOUNDED, [study()], HISTORY, own_rows())
    best, lru, full = table(summary, "best-1")
    assert (best["mechanism"], best["proposal"], best["parameters"]) == ("dp_cache tpe", 2, "tau 0.5")
    assert (best["recall, tuning seeds"].mean, best["recall, tuning seeds"].n) == (pytest.approx(0.7), 4)
    quoted = best["recall, held-out seeds"]
    half = 2.5706 * np.std([0.59, 0.61] * 3, ddof=1) / np.sqrt(6)
    assert (quoted.mean, quoted.n) == (pytest.approx(0.6), 6)
    assert (quoted.low, quoted.high) == pytest.approx((0.6 - half, 0.6 + half), abs=1e-5)
    assert best["slots, tuning seeds"].mean == pytest.approx(17)
    assert best["slots, held-out seeds"].mean == pytest.approx(18.5)
    assert best["bounds on held-out seeds"] == "broken"
    assert best["slots_mean, held-out seeds"].mean == np.mean([20.0 + seed for seed in HELD_OUT])
    assert best["slots_phase_end, held-out seeds"].mean == 17.0
    assert (lru["bounds on held-out seeds"], full["bounds on held-out seeds"]) == ("kept", "broken")
    assert lru["recall, tuning seeds"] is None
    assert [one["parameters"] for one in (lru, full)] == ["reference"] * 2
    assert "up to 7 proposals" in section(summary, "best-1").text[0]
    assert "slots ≤ 18" in section(summary, "best-1").text[1]


def test_the_best_is_compared_with_the_best_reference_that_keeps_the_bounds() -> None:
    summary = summary_of(BOUNDED, [study()], HISTORY, own_rows())
    (line,) = table(summary, "differences-1")
    assert (line["mechanism"], line["less"]) == ("dp_cache tpe", "item_lru")
    assert line["difference"].mean == pytest.approx(0.05)
    assert line["verdict"] == "differ"
    assert "among those that keep the bounds" in section(summary, "differences-1").text[1]


@pytest.mark.parametrize(
    ("slots", "verdict"),
    [
        ({4: 16.98, 5: 17.02}, "kept"),
        ({4: 17.0, 5: 18.5}, "kept on average"),
        ({4: 17.6, 5: 18.5}, "broken on average"),
        ({4: 18.48, 5: 18.52}, "broken"),
        ({4: 18.0}, "kept on average"),
        ({4: 18.5}, "broken on average"),
    ],
)
def test_bounds_are_kept_or_broken_surely_or_on_average(slots: dict[int, float], verdict: str) -> None:
    """Of two values, the interval is their mean ± 12.7 half differences."""
    held_out = {"recall": dict.fromkeys(slots, 0.5), "slots": slots}
    made = [replace(proposal(0, 0.5, recall=0.5, slots=17), held_out=held_out)]
    (line,) = table(summary_of(BOUNDED, [study()], made), "best-1")
    assert line["bounds on held-out seeds"] == verdict


def test_an_objective_that_is_no_share_has_a_margin_of_its_own_size() -> None:
    made = [
        proposal(0, 0.5, study=number, slots=slots, held_out={"slots": slots})
        for number, slots in enumerate((200, 201))
    ]
    labels = [study(0), study(1, name="item_lru")]
    summary = summary_of(options({"slots": "minimize"}), labels, made)
    assert "Equal: to within 2.01" in section(summary, "differences-1").text[1]
    (line,) = table(summary, "differences-1")
    assert (line["mechanism"], line["less"]) == ("item_lru tpe", "dp_cache tpe")
    assert line["verdict"] == "differ by less than 2.01"


def test_panels_show_the_bests_and_the_references_on_held_out_seeds_alone() -> None:
    rows = own_rows()
    (panel,) = summary_of(BOUNDED, [study()], HISTORY, [*rows, trial({"name": "dp_cache", "tau": 0.2}, 0)]).panels
    points = {curve.label: curve.points for curve in panel.curves}
    assert {label: [one.done for one in found] for label, found in points.items()} == {
        "dp_cache": [6],
        "item_lru": [6],
        "full_attention": [6],
    }


def test_the_history_leaves_out_what_is_not_feasible_or_not_complete() -> None:
    (line,) = section(summary_of(BOUNDED, [study()], HISTORY), "history-1").charts[0].lines
    assert line.x == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    assert line.y == pytest.approx((0.5, 0.5, 0.7, 0.7, 0.7, 0.7, 0.7))
    assert set(line.low or ()) == {None}


def test_what_became_of_proposals_is_counted() -> None:
    summary = summary_of(BOUNDED, [study()], HISTORY)
    (line,) = table(summary, "proposals-1")
    counts = {key: value for key, value in line.items() if key != "mechanism"}
    assert counts == {
        "studies": 1,
        "proposals": 7,
        "complete": 5,
        "feasible": 4,
        "stopped early": 1,
        "failed": 1,
        "open": 0,
        "duplicates": 1,
        "seeds spent": 4 * 4 + 2,
        "seeds saved": 2,
    }
    assert "no_result (1)" in section(summary, "proposals-1").text[1]
    assert "dp_cache tpe: 1 of 7 proposals failed" in summary.warnings


def test_what_studies_began_with_is_said_of_each_and_so_is_that_it_was_nothing() -> None:
    began = [Began("abc", 24), Began("abc", 20), Began("abc", 0), None]
    labels = [
        study(0, began=began[0]),
        study(1, repeat=1, began=began[1]),
        study(2, name="h2o", began=began[2]),
        study(3, name="other", began=began[3]),
    ]
    text = section(summary_of(BOUNDED, labels, HISTORY), "proposals-1").text
    assert "dp_cache tpe: began with 20 to 24 results a study of sweep abc." in text
    assert "h2o tpe: began with 0 results of sweep abc." in text
    assert not any("other" in sentence for sentence in text)


def test_a_minimized_objective_falls() -> None:
    made = [proposal(number, 0.5, slots=slots) for number, slots in enumerate((20, 25, 12))]
    (line,) = section(summary_of(options({"slots": "minimize"}), [study()], made), "history-1").charts[0].lines
    assert line.y == pytest.approx((20, 20, 12))


def repeated(values: Sequence[Sequence[float]]) -> tuple[list[StudyLabel], list[Proposal]]:
    """A study for each row, the last proposal of which is also measured on held-out seeds."""
    labels = [study(number, repeat=number) for number in range(len(values))]
    made = [
        proposal(
            place,
            0.5,
            study=number,
            recall=recall,
            held_out={"recall": recall - 0.1} if place + 1 == len(row) else None,
        )
        for number, row in enumerate(values)
        for place, recall in enumerate(row)
    ]
    return labels, made


def test_repeats_give_medians_of_the_best_and_means_of_histories() -> None:
    finals = [0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9]
    summary = summary_of(options({"recall": "maximize"}), *repeated([[0.3, final] for final in finals]))
    (best,) = table(summary, "best-1")
    assert best["recall, tuning seeds"].mean == pytest.approx(0.75)
    assert best["recall, held-out seeds"].mean == pytest.approx(0.65)
    assert best["recall, held-out seeds"].n == 7
    assert 0.5 < best["recall, held-out seeds"].low < 0.65 < best["recall, held-out seeds"].high < 0.8
    assert best["studies"] == "7 of 7 feasible"
    assert [line["study"] for line in table(summary, "studies-1")] == [f"dp_cache tpe repeat {i}" for i in range(7)]
    (line,) = section(summary, "history-1").charts[0].lines
    assert line.y == pytest.approx((0.3, 0.75))
    assert line.low is not None
    assert line.low[1] is not None
    (row,) = table(summary, "history-1")
    assert row["recall, best so far, after 2"].method == "Student t over 7 studies"


def test_a_history_of_repeats_begins_where_each_has_something_feasible() -> None:
    labels = [study(0), study(1, repeat=1)]
    made = [
        proposal(0, 0.5, recall=0.5, slots=30),
        proposal(1, 0.5, recall=0.6, slots=10),
        proposal(0, 0.5, study=1, recall=0.2, slots=10),
        proposal(1, 0.5, study=1, recall=0.4, slots=10),
    ]
    (line,) = section(summary_of(BOUNDED, labels, made), "history-1").charts[0].lines
    assert (line.x, line.y) == ((2.0,), pytest.approx((0.5,)))


FRONT = [
    proposal(0, 0.1, recall=0.4, slots=4),
    proposal(1, 0.2, recall=0.8, slots=8),
    proposal(2, 0.3, recall=0.7, slots=9),  # dominated by 1
    proposal(3, 0.4, recall=0.9, slots=64),
    proposal(4, 0.5, recall=0.8, slots=8),  # ties with 1
]
BOTH = options({"recall": "maximize", "slots": "minimize"})


def test_a_pareto_front_excludes_dominated_proposals_keeps_ties_and_names_its_knee() -> None:
    summary = summary_of(BOTH, [study()], FRONT)
    lines = table(summary, "front-1")
    assert [(line["proposal"], line["knee"]) for line in lines] == [
        ("3", None),
        ("1", "knee"),
        ("4", None),
        ("0", None),
    ]
    (chart,) = section(summary, "front-1").charts
    (line,) = chart.lines
    assert not line.joined
    assert line.x == pytest.approx((4, 8, 8, 64))
    assert line.y == pytest.approx((0.4, 0.8, 0.8, 0.9))


def test_hypervolume_histories_have_one_stated_reference_point() -> None:
    """Worst 0.4 and 64, best 0.9 and 4: scaled losses (1, 0), (0.2, 4/60), (0.4, 5/60), (0, 1)."""
    other = [proposal(0, 0.1, study=1, recall=0.65, slots=34)]
    summary = summary_of(BOTH, [study(), study(1, sampler="random")], [*FRONT, *other])
    one, two = section(summary, "history-1").charts[0].lines
    assert one.y == pytest.approx((0.0, *[0.8 * 56 / 60] * 4))
    assert two.y == pytest.approx((0.25,))
    told = section(summary, "history-1").text[1]
    assert "reference point (recall 0.4, slots 64)" in told
    assert "ideal one (recall 0.9, slots 4)" in told


def test_hypervolumes_of_repeats_have_intervals() -> None:
    labels = [study(number, repeat=number) for number in range(3)]
    made = [
        replace(one, study=number, number=place)
        for number, order in enumerate(([0, 1, 3], [1, 0, 3], [0, 3, 1]))
        for place, one in enumerate(FRONT[index] for index in order)
    ]
    summary = summary_of(BOTH, labels, made)
    assert {line["proposal"] for line in table(summary, "front-1")} >= {
        "0 of repeat 1",
        "1 of repeat 1",
        "0 of repeat 2",
    }
    (line,) = section(summary, "history-1").charts[0].lines
    full = 0.8 * 56 / 60
    assert line.y == pytest.approx((full / 3, 2 * full / 3, full))
    assert line.low is not None
    assert line.high is not None
    assert line.low[0] is not None
    assert line.high[0] is not None
    assert 0.0 <= line.low[0] < full / 3 < line.high[0]


def test_a_parameter_that_decides_is_told_from_one_that_does_not() -> None:
    rng = np.random.default_rng(0)
    label = study(parameters=(TAU, ETA))
    made = []
    for number in range(200):
        tau, eta = float(rng.uniform(0.05, 0.95)), float(np.exp(rng.uniform(np.log(0.01), 0)))
        one = proposal(number, tau, recall=1 - (tau - 0.5) ** 2)
        made.append(replace(one, params={"mechanism.tau": tau, "mechanism.eta": eta}))
    summary = summary_of(options({"recall": "maximize"}), [label], made)
    found = {line["parameter"]: line["importance"] for line in table(summary, "importances-1")}
    assert found["tau"].mean > 0.8
    assert found["tau"].mean + found["eta"].mean == pytest.approx(1.0)
    tau, eta = section(summary, "slices-1").charts
    assert (tau.x_label, tau.log_x, eta.x_label, eta.log_x) == ("tau", False, "eta", True)
    assert len(tau.lines[0].x) == 200
    assert list(tau.lines[0].x) == sorted(tau.lines[0].x)
    assert tau.lines[0].y == pytest.approx([1 - (x - 0.5) ** 2 for x in tau.lines[0].x])


def test_few_proposals_tell_no_importances() -> None:
    assert [line["importance"] for line in table(summary_of(BOUNDED, [study()], HISTORY), "importances-1")] == [None]


def test_choices_are_numbered_in_slices_and_conditional_parameters_shown_where_they_are() -> None:
    keep = Parameter("mechanism.keep", "categorical", choices=("first", "last"))
    label = study(parameters=(keep, replace(TAU, when=(("mechanism.keep", ("last",)),))))
    made = [
        replace(proposal(0, 0.0, recall=0.5), params={"mechanism.keep": "first"}),
        replace(proposal(1, 0.0, recall=0.6), params={"mechanism.keep": "last", "mechanism.tau": 0.3}),
    ]
    first, second = section(summary_of(options({"recall": "maximize"}), [label], made), "slices-1").charts
    assert first.x_label == "keep (0: first, 1: last)"
    assert (first.lines[0].x, second.lines[0].x) == ((0.0, 1.0), (0.3,))


def test_readers_are_warned_of_edges_of_nothing_feasible_and_of_missing_results() -> None:
    made = [
        proposal(0, 0.949, recall=0.9, slots=10),
        proposal(1, 0.5, recall=0.5, slots=10, state="open"),
        proposal(0, 0.5, study=1, recall=0.9, slots=30),
    ]
    warned = summary_of(BOUNDED, [study(), study(1, name="item_lru")], made).warnings
    assert (
        "dp_cache tpe: the best tau lies at the upper end of what was searched (0.95); better ones may lie beyond"
        in warned
    )
    assert "dp_cache tpe: 1 of 2 proposals have no result yet" in warned
    assert "item_lru tpe: no feasible proposal so far" in warned
    lines = table(summary_of(BOUNDED, [study(), study(1, name="item_lru")], made), "best-1")
    assert lines[1]["parameters"] == "no feasible proposal so far"


def test_the_edge_of_a_logarithmic_range_is_in_its_logarithm() -> None:
    label = study(parameters=(ETA,))
    for eta, warned in ((0.0104, True), (0.02, False)):
        made = [replace(proposal(0, 0.0, recall=0.5), params={"mechanism.eta": eta})]
        warnings = summary_of(options({"recall": "maximize"}), [label], made).warnings
        assert any("lower end" in one for one in warnings) == warned


def test_a_study_without_a_single_result_is_told_of() -> None:
    summary = summary_of(BOUNDED, [study()], [])
    assert "dp_cache tpe: no feasible proposal" in summary.warnings
    assert section(summary, "history-1").charts == ()
    summary = summary_of(BOTH, [study()], [proposal(0, 0.5, state="open")])
    assert table(summary, "front-1") == []


def test_without_held_out_seeds_no_number_is_quoted() -> None:
    summary = summary_of(options({"recall": "maximize"}, held_out=0), [study()], [proposal(0, 0.5, recall=0.5)])
    (line,) = table(summary, "best-1")
    assert "recall, held-out seeds" not in line
    assert "no number to quote" in section(summary, "best-1").text[0]
    assert [one.name for one in summary.sections if one.name.startswith("differences")] == []


def test_as_long_as_a_sweep_runs_what_is_to_come_is_not_called_absent() -> None:
    made = [proposal(0, 0.5, recall=0.5, slots=10), proposal(0, 0.5, study=1, recall=0.9, slots=30)]
    studies = [study(), study(1, name="item_lru")]
    waiting = {**trial({"name": "dp_cache", "tau": 0.5}, 100), "state": "pending"}
    for rows, quoted, feasible in (
        ([waiting], "there is no number to quote yet.", "no feasible proposal so far"),
        ([], "there is no number to quote.", "no feasible proposal"),
    ):
        summary = summary_of(BOUNDED, studies, made, rows)
        assert section(summary, "best-1").text[0].endswith(quoted)
        assert table(summary, "best-1")[1]["parameters"] == feasible
        assert section(summary, "best-1").leading
    assert section(summary_of(BOUNDED, studies, [], [waiting]), "best-1").text[0] == "None is chosen so far."


def test_workloads_are_told_apart() -> None:
    label = study(1, workload={**WORKLOAD, "noise": 0.5})
    made = [proposal(0, 0.5, recall=0.5), proposal(0, 0.5, study=1, recall=0.4)]
    summary = summary_of(options({"recall": "maximize"}), [study(), label], made)
    assert [one.title for one in summary.sections if one.name.startswith("best")] == [
        "Best: noise 0.3",
        "Best: noise 0.5",
    ]


def test_the_best_of_thousands_are_those_that_nothing_dominates() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 8, (60, 2)).astype(float)
    made = [proposal(number, 0.5, recall=a, slots=b, seeds=[0, 1]) for number, (a, b) in enumerate(values.tolist())]
    found = {one.number for one in best_of(made, BOTH.goal)}
    for number, (recall, slots) in enumerate(values):
        beaten = ((values[:, 0] >= recall) & (values[:, 1] <= slots) & ((values != [recall, slots]).any(axis=1))).any()
        assert (number in found) != beaten


def test_a_duplicate_counts_where_the_first_of_its_kind_was_stopped() -> None:
    first = proposal(0, 0.5, recall=0.9, slots=8, state="stopped", seeds=range(2))
    again = proposal(1, 0.5, recall=0.9, slots=8, same_as=0)
    other, third = proposal(2, 0.4, recall=0.8, slots=8), proposal(3, 0.5, recall=0.9, slots=8, same_as=0)
    goal = options({"recall": "maximize"}).goal
    assert [one.number for one in best_of([first, again, other, third], goal)] == [1]
    complete = replace(first, state="complete")
    assert [one.number for one in best_of([complete, again, other], goal)] == [0]


def test_numbers_of_the_report_have_n_and_a_method() -> None:
    summary = summary_of(BOUNDED, [study()], HISTORY, own_rows())
    for part in summary.sections:
        for row in part.table.rows if part.table else ():
            assert all(value.n >= 1 and value.method for value in row if isinstance(value, Interval))


TEXT = {"name": "wikitext2", "length": 32}
SIDES = Parameter("mechanism.convolution", "categorical", choices=("causal", "two_sided"))


def leaking_study(*losses: tuple[str, float]) -> Summary:
    """A study that searched the convolution of a hybrid, of which these are proposals with their losses."""
    label = study(name="triple_hybrid", workload=TEXT, parameters=(SIDES,))
    made = [
        replace(proposal(number, 0.5, loss=loss, held_out={"loss": loss}), params={SIDES.name: sides})
        for number, (sides, loss) in enumerate(losses)
    ]
    return summary_of(options({"loss": "minimize"}), [label], made)


def test_a_best_that_looks_ahead_is_marked_wherever_it_is_named() -> None:
    summary = leaking_study(("causal", 3.0), ("two_sided", 1.0))
    for name in ("best-1", "history-1"):
        assert [row["mechanism"] for row in table(summary, name)] == ["triple_hybrid tpe (leaks future)"], name
    assert [row["leak future"] for row in table(summary, "proposals-1")] == [1]
    assert [line.label for line in section(summary, "slices-1").charts[0].lines] == [
        "triple_hybrid tpe",
        "triple_hybrid tpe (leaks future)",
    ]
    assert "did not win fairly" in " ".join(section(summary, "best-1").text)
    assert "triple_hybrid tpe: outputs of 1 of 1 best depend on later tokens (leaks future)" in summary.warnings


def test_a_leak_that_never_led_marks_no_best() -> None:
    summary = leaking_study(("causal", 1.0), ("two_sided", 3.0))
    for name in ("best-1", "history-1"):
        assert [row["mechanism"] for row in table(summary, name)] == ["triple_hybrid tpe"], name
    assert [row["leak future"] for row in table(summary, "proposals-1")] == [1]
    assert not any("later tokens" in warning for warning in summary.warnings)
    assert "leak future" not in table(leaking_study(("causal", 1.0)), "proposals-1")[0]


def test_a_front_marks_each_proposal_that_looks_ahead() -> None:
    label = study(name="triple_hybrid", workload=TEXT, parameters=(SIDES,))
    made = [
        replace(proposal(0, 0.5, loss=1.0, bytes=20.0), params={SIDES.name: "two_sided"}),
        replace(proposal(1, 0.5, loss=2.0, bytes=10.0), params={SIDES.name: "causal"}),
    ]
    summary = summary_of(options({"loss": "minimize", "bytes": "minimize"}), [label], made)
    assert {row["mechanism"] for row in table(summary, "front-1")} == {
        "triple_hybrid tpe",
        "triple_hybrid tpe (leaks future)",
    }


def test_where_nothing_is_asked_for_there_is_no_frontier_of_recall() -> None:
    model = {"name": "transformer"}
    rows = [trial(model, seed, bits_per_byte=5.0, bytes=100.0) for seed in HELD_OUT]
    summary = summary_of(options({"bits_per_byte": "minimize"}), [study(name="triple_latent")], [], rows)
    assert not summary.panels
    asked = [trial(model, seed, recall=0.5, bytes=100.0) for seed in HELD_OUT]
    [panel] = summary_of(options({"recall": "maximize"}), [study(name="triple_latent")], [], asked).panels
    assert panel.axes == ("bytes",)
