"""Claims are well formed, their measures find what they ask for, and verdicts follow from rows alone."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from ruamel.yaml import YAML

import tasks
from models.config import canonical_json
from models.mechanism import MECHANISMS
from orchestrator.spec import read_spec
from tasks.certificate import Judgement, claim_record
from tasks.claims import PAPERS, judge, read_claims, sweeps_of
from tasks.claims.claim import (
    Ablation,
    Best,
    BoundTest,
    Claim,
    Curve,
    Dominance,
    ExactTest,
    IntervalTest,
    Measure,
    Paper,
    Statement,
)
from tasks.claims.measure import LackingError, take
from tasks.evaluate import evaluate
from tasks.workload import WORKLOADS

SPECS = Path(tasks.__file__).parent / "specs"
CLAIMS = {f"{paper} {claim.id}": claim for paper in PAPERS for claim in read_claims(paper).claims}
STATEMENTS = {
    **{name: claim.statement for name, claim in CLAIMS.items() if claim.statement is not None},
    **{f"{name} (ablation)": claim.ablation for name, claim in CLAIMS.items() if claim.ablation is not None},
}
PLACES = {
    "dpcache": [f"Table {n}" for n in range(1, 8)] + [f"Figure {n}" for n in (2, 3, 5, 6, 7, 8, 9)],
    "triple-latent": [f"Table {n}" for n in range(1, 4)]
    + ["Parameters", "FLOP table", "Throughput", "RULER", "MiniMind", "The leak", "The gate", "Sister paper"],
}


# --- claims as they are written ---


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_has_claims(paper: str) -> None:
    claims = read_claims(paper).claims
    assert len(claims) >= 60
    for place in PLACES[paper]:
        assert [claim for claim in claims if claim.where.startswith(place)], place


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_claim_is_measured_or_says_what_is_missing(claim: Claim) -> None:
    assert claim.statement is not None or claim.missing
    assert claim.says.endswith(".")
    assert claim.published != ""
    if claim.missing:
        assert claim.missing.startswith(("needs ", "nothing to run: "))


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_claim_names_a_spec_that_exists(name: str) -> None:
    statement = STATEMENTS[name]
    assert (SPECS / f"{statement.sweep}.yaml").exists()
    assert statement.under


def test_specs_that_lack_data_are_named_by_claims_that_say_so() -> None:
    for claim in CLAIMS.values():
        lacking = claim.sweep is not None and "/needs-data/" in claim.sweep
        assert not lacking or claim.missing, claim.id
        assert claim.ablation is None or "needs-data" not in claim.ablation.sweep


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_test_that_compares_numbers_has_them(name: str) -> None:
    statement = STATEMENTS[name]
    claim = CLAIMS[name.removesuffix(" (ablation)")]
    published = statement.published if isinstance(statement, Ablation) and statement.published else claim.published
    if isinstance(statement.test, IntervalTest | ExactTest):
        assert not isinstance(published, str)
    if isinstance(statement.measure, Curve) and not isinstance(published, str):
        assert isinstance(published, tuple)
        assert len(published) == len(statement.measure.points)


def printed_digits(published: Any) -> int:
    """Digits behind the point of the numbers as the file has them: of several the most."""
    numbers = published if isinstance(published, list) else [published]
    return max(len(str(number).partition(".")[2]) for number in numbers)


def test_tolerances_follow_the_rule_or_say_why_not() -> None:
    """Half of the last printed digit, 0.005 where it is a share of hundredths, and a line width for figures."""
    for paper in PAPERS:
        text = files("tasks.claims").joinpath(f"{paper}.yaml").read_text(encoding="utf-8")
        for written in YAML(typ="safe", pure=True).load(text)["claims"]:
            claim = CLAIMS[f"{paper} {written['id']}"]
            for statement in (claim.statement, claim.ablation):
                if statement is None or not isinstance(statement.test, IntervalTest):
                    continue
                half = 0.5 * 10.0 ** -printed_digits(written["published"])
                allowed = max(half, 0.02 if claim.where.startswith("Figure") else 0.005)
                assert statement.test.within <= allowed or statement.test.because, claim.id
                if claim.where.startswith("Table"):
                    assert statement.test.within <= max(half, 0.005) or statement.test.because, claim.id


def test_limits_that_were_chosen_here_are_not_put_into_the_papers_mouth() -> None:
    for claim in CLAIMS.values():
        if isinstance(claim.test, BoundTest) and not claim.test.stated and isinstance(claim.published, str):
            limits = (claim.test.at_least, claim.test.at_most)
            assert not [limit for limit in limits if limit and f"{limit:g}" in claim.published], claim.id


class Plausible(Mapping[str, Any]):
    """A row of a finished trial that has every metric and series, small numbers that differ from row to row."""

    def __init__(self, fields: dict[str, Any], number: int) -> None:
        self.fields, self.number = fields, number

    def __getitem__(self, column: str) -> Any:
        if column == "metrics.tokens" and "workload.length" in self.fields:
            return float(self.fields["workload.length"])
        if column.startswith("metrics."):
            return 0.001 * (self.number + 1)
        if column.startswith("series."):
            return [1000.0 * (self.number + k) for k in range(1, 26)]
        return self.fields[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def get(self, column: str, default: Any = None) -> Any:
        return self[column] if column.startswith(("metrics.", "series.")) else self.fields.get(column, default)


def planned_rows(sweep: str) -> list[Plausible]:
    """A row for each trial of a ready-made spec, as `slotsweep results` shows its configs."""
    spec = read_spec(SPECS / f"{sweep}.yaml")
    rows = []
    for workload in spec.workloads():
        for mechanism in spec.mechanism_configs():
            fields = {"workload.name": workload.name, "mechanism.name": mechanism.name, "state": "done", "episodes": 2}
            for part, config in (("workload", workload), ("mechanism", mechanism)):
                fields |= {f"{part}.{name}": value for name, value in config.flat().items()}
            rows += [Plausible(fields | {"seed": seed}, len(rows) + seed) for seed in spec.seeds]
    return rows


@pytest.mark.parametrize("sweep", sweeps_of(list(CLAIMS.values()), everywhere=False))
def test_every_measure_finds_its_cells_in_its_spec(sweep: str) -> None:
    rows = planned_rows(sweep)
    for name, statement in STATEMENTS.items():
        if statement.sweep == sweep:
            assert take(statement.measure, rows).samples, name


def parts(measure: Measure) -> Iterator[Measure]:
    yield measure
    for part in getattr(measure, "difference", ()) or getattr(measure, "ratio", ()):
        yield from parts(part)


SIZED = {
    name: part
    for name, statement in STATEMENTS.items()
    if "needs-data" not in statement.sweep
    for part in parts(statement.measure)
    if isinstance(part, Best | Dominance)
}


@pytest.mark.parametrize("name", SIZED)
def test_a_frontier_reaches_the_sizes_it_is_measured_at(name: str) -> None:
    """Sizes of cells are known only once streams were read: two seeds of one stream tell."""
    measure = SIZED[name]
    sides = (measure.over, measure.under) if isinstance(measure, Dominance) else (measure,)
    names = {part for side in sides for part in _several(side.mechanism["name"])}
    spec = read_spec(SPECS / f"{STATEMENTS[name].sweep}.yaml")
    configs = [config for config in spec.mechanism_configs() if config.name in names]
    rows = []
    for config in spec.workloads():
        workload = WORKLOADS.implementation(config.name)(config)
        for seed in range(2):
            outcomes = evaluate(workload, configs, seed, 1, "float32", None)
            for mechanism, outcome in zip(configs, outcomes, strict=True):
                assert outcome.metrics is not None, outcome.message
                fields = {"workload.name": config.name, "mechanism.name": mechanism.name}
                fields |= {f"workload.{field}": value for field, value in config.flat().items()}
                fields |= {f"mechanism.{field}": value for field, value in mechanism.flat().items()}
                fields |= {f"metrics.{metric}": value for metric, value in outcome.metrics.items()}
                rows.append(fields | {"state": "done", "seed": seed, "episodes": 1})
    assert take(measure, rows).samples


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_measure_names_fields_that_exist(name: str) -> None:
    for selection in selections(STATEMENTS[name].measure):
        for fields, registry in ((selection.mechanism, MECHANISMS), (selection.workload, WORKLOADS)):
            if isinstance(fields.get("name"), str):
                known = registry.config_class(fields["name"]).model_fields  # type: ignore[attr-defined]
                assert set(fields) <= set(known), name


def selections(measure: Measure) -> Iterator[Any]:
    for part in getattr(measure, "difference", ()) or getattr(measure, "ratio", ()):
        yield from selections(part)
    if hasattr(measure, "mechanism"):
        yield measure
    if hasattr(measure, "over"):
        yield from (measure.over, measure.under)


def test_sweeps_are_named_once_and_those_that_lack_data_on_request() -> None:
    claims = list(CLAIMS.values())
    ready, every = sweeps_of(claims), sweeps_of(claims, everywhere=False)
    assert len(set(every)) == len(every)
    assert not [name for name in ready if "needs-data" in name]
    assert [name for name in every if "needs-data" in name]


def test_an_unknown_paper_is_named_with_those_known() -> None:
    with pytest.raises(ValueError, match="no claims are known of a paper `nothing`; papers: dpcache, triple-latent"):
        read_claims("nothing")


def test_judging_loads_no_mechanism_and_nothing_heavy() -> None:
    code = (
        "import sys; from tasks.claims import judge, read_claims; judge(read_claims('dpcache').claims, {});"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in {'torch', 'numba', 'ray', 'mlflow'}"
        " or name.startswith(('models.mechanisms', 'tasks.workloads.'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- verdicts on rows made by hand ---

Rows = list[dict[str, Any]]


def trials(values: Sequence[float], **columns: Any) -> Rows:
    """A row a seed with recall `values`; `budget=8` and the like go to the mechanism."""
    fields = {f"mechanism.{name}": value for name, value in columns.items()}
    fields = {"mechanism.name": "memory", "workload.name": "stream"} | fields
    return [
        {**fields, "state": "done", "seed": seed, "episodes": 1} | {f"metrics.{name}": x for name, x in metrics.items()}
        for seed, value in enumerate(values)
        for metrics in [{"recall": value, "slots": 8.0, "chance": 0.1}]
    ]


def claim_of(test: dict[str, Any], published: Any = 0.5, measure: Any = None, **fields: Any) -> Claim:
    measure = measure or {"metric": "recall", "mechanism": "memory"}
    given = {"id": "table-1/x", "where": "Table 1", "says": "It recalls half.", "published": published}
    return Claim.model_validate({**given, "sweep": "spec", "measure": measure, "test": test, **fields})


def verdict(claim: Claim, rows: Rows | None) -> Judgement:
    (judgement,) = judge([claim], {} if rows is None else {"spec": rows})
    return judgement


INTERVAL = {"name": "interval"}
BOUND = {"name": "bound", "at_least": 0.0}
SIDES = [*trials([0.5, 0.6]), *trials([0.7, 0.8], name="ahead")]


def test_an_interval_agrees_within_both_errors() -> None:
    near, far = trials([0.49, 0.51, 0.50, 0.50]), trials([0.59, 0.61, 0.60, 0.60])
    assert verdict(claim_of(INTERVAL), near).verdict == "holds"
    assert verdict(claim_of(INTERVAL), far).verdict == "differs"
    assert verdict(claim_of({**INTERVAL, "within": 0.1}), far).verdict == "holds"
    assert verdict(claim_of({**INTERVAL, "outcomes": 100}), far).verdict == "holds"
    assert verdict(claim_of({**INTERVAL, "sd": 0.15}), far).verdict == "holds"


def test_what_models_that_look_ahead_measure_is_marked() -> None:
    rows = [{**row, "metrics.leaks_future": float(row["mechanism.name"] == "ahead")} for row in SIDES]
    sides = [{"metric": "recall", "mechanism": name} for name in ("memory", "ahead")]
    apart = {"difference": sides}
    assert [verdict(claim_of(BOUND, measure=one), rows).leaks for one in (*sides, apart)] == [False, True, True]
    assert verdict(claim_of(BOUND, published="a word", measure=apart), None).leaks is False


def test_a_number_of_one_run_may_lie_as_far_off_as_single_seeds() -> None:
    rows = trials([0.50, 0.56, 0.53, 0.59, 0.53, 0.57, 0.52, 0.56])
    assert verdict(claim_of(INTERVAL, published=0.50), rows).verdict == "differs"
    assert verdict(claim_of({**INTERVAL, "runs": 1}, published=0.50), rows).verdict == "holds"
    assert verdict(claim_of({**INTERVAL, "runs": 1}, published=0.40), rows).verdict == "differs"


def test_a_test_that_would_agree_with_the_opposite_shows_no_agreement() -> None:
    judgement = verdict(claim_of(INTERVAL), trials([0.1, 0.9]))
    assert (judgement.verdict, judgement.n) == ("not measured", 2)
    assert "is allowed, more than half of the 0.4 to 0.1: too wide to tell" in judgement.reason
    assert verdict(claim_of(INTERVAL, published=20.0), trials([0.1, 0.9])).verdict == "differs"
    rows = trials([0.49, 0.51, 0.50, 0.50])
    assert verdict(claim_of({**INTERVAL, "within": 0.1}), rows).verdict == "holds"
    assert verdict(claim_of({**INTERVAL, "within": 0.3}), rows).verdict == "not measured"
    assert verdict(claim_of({**INTERVAL, "within": 0.1, "against": 0.4}), rows).verdict == "not measured"
    assert verdict(claim_of({**INTERVAL, "runs": 1, "against": 0.52}), rows).verdict == "not measured"


def test_the_opposite_of_a_recall_is_chance_and_of_a_size_nothing() -> None:
    near_chance = {**INTERVAL, "within": 0.08}
    assert verdict(claim_of(near_chance, published=0.24), trials([0.24] * 3)).verdict == "not measured"
    size = {"metric": "slots", "mechanism": "memory"}
    assert (
        verdict(claim_of({**INTERVAL, "within": 3.9}, published=8, measure=size), trials([0.5] * 3)).verdict == "holds"
    )
    wide = claim_of({**INTERVAL, "within": 4.1}, published=8, measure=size)
    assert verdict(wide, trials([0.5] * 3)).verdict == "not measured"


def test_recall_may_be_counted_as_the_share_of_what_chance_leaves() -> None:
    measure = measure_of({"metric": "recall", "excess": True, "mechanism": "memory"})
    (sample,) = take(measure, trials([0.55, 0.1])).samples
    assert sample == pytest.approx({0: 0.5, 1: 0.0})


@given(
    values=st.lists(st.floats(0.0, 1.0), min_size=3, max_size=8),
    within=st.floats(0.0, 0.1),
    shift=st.floats(-0.5, 0.5),
)
def test_an_interval_test_is_a_distance(values: list[float], within: float, shift: float) -> None:
    rows, mean = trials(values), math.fsum(values) / len(values)
    test = {**INTERVAL, "within": within, "against": 100.0}
    assert verdict(claim_of(test, published=mean), rows).verdict == "holds"
    judgement = verdict(claim_of(test, published=mean + shift), rows)
    (interval,) = judgement.intervals
    assert interval.low is not None
    allowed = within + interval.mean - interval.low
    if abs(abs(shift) - allowed) > 1e-6:
        assert judgement.verdict == ("holds" if abs(shift) < allowed else "differs")


def test_an_exact_test_wants_every_seed() -> None:
    slots = {"metric": "slots", "mechanism": "memory"}
    rows = trials([0.5, 0.5])
    assert verdict(claim_of({"name": "exact"}, published=8, measure=slots), rows).verdict == "holds"
    rows[1]["metrics.slots"] = 8.2
    judgement = verdict(claim_of({"name": "exact"}, published=8, measure=slots), rows)
    assert (judgement.verdict, judgement.reason) == ("differs", "8.2 for 8 with seed 1")
    assert verdict(claim_of({"name": "exact", "digits": 0}, published=8, measure=slots), rows).verdict == "holds"


def test_a_series_is_compared_point_by_point() -> None:
    measure = {"metric": "series.phase_slots", "mechanism": "memory"}
    rows = [{**row, "series.phase_slots": [3, 5, 7]} for row in trials([0.5, 0.5])]
    assert verdict(claim_of({"name": "exact"}, published=[3, 5, 7], measure=measure), rows).verdict == "holds"
    assert verdict(claim_of({"name": "exact"}, published=[3, 5, 8], measure=measure), rows).verdict == "differs"
    short = verdict(claim_of({"name": "exact"}, published=[3, 5], measure=measure), rows)
    assert (short.verdict, short.reason) == ("not measured", "3 points were measured, 2 are published")
    last = {**measure, "at": -1}
    assert verdict(claim_of({"name": "exact"}, published=7, measure=last), rows).verdict == "holds"
    mean = {**measure, "fold": "mean"}
    assert verdict(claim_of({"name": "exact"}, published=5, measure=mean), rows).verdict == "holds"


def test_a_bound_needs_the_whole_interval_inside() -> None:
    above = {"name": "bound", "at_least": 0.5}
    assert verdict(claim_of(above, published="at least half"), trials([0.70, 0.71, 0.72])).verdict == "holds"
    assert verdict(claim_of(above, published="at least half"), trials([0.40, 0.41, 0.42])).verdict == "differs"
    unsure = verdict(claim_of(above, published="at least half"), trials([0.4, 0.8, 0.5]))
    assert unsure.verdict == "not measured"
    assert "is not all ≥ 0.5; run more seeds" in unsure.reason
    outside = verdict(claim_of(above, published="at least half"), trials([0.3, 0.6, 0.5]))
    assert outside.measured[0] < 0.5
    assert outside.verdict == "not measured"
    inside = {"name": "bound", "at_least": 0.5, "at_most": 0.6}
    assert verdict(claim_of(inside, published="between"), trials([0.70, 0.71, 0.72])).verdict == "differs"


DIFFERENCE = {
    "difference": [
        {"metric": "recall", "mechanism": {"name": "memory", "kind": "a"}},
        {"metric": "recall", "mechanism": {"name": "memory", "kind": "b"}},
    ]
}


def test_equivalence_is_shown_or_refuted_and_otherwise_open() -> None:
    def against(b: Sequence[float]) -> str:
        rows = trials([0.5, 0.6, 0.7, 0.8], kind="a") + trials(b, kind="b")
        claim = claim_of({"name": "equivalence", "margin": 0.01}, published="equal", measure=DIFFERENCE)
        return verdict(claim, rows).verdict

    assert against([0.501, 0.599, 0.701, 0.799]) == "holds"
    assert against([0.401, 0.499, 0.601, 0.699]) == "differs"
    assert against([0.55, 0.55, 0.75, 0.75]) == "not measured"


def test_differences_and_ratios_are_paired_by_seed() -> None:
    rows = trials([0.5, 0.6], kind="a") + trials([0.25, 0.3], kind="b")
    ratio = take(measure_of({"ratio": DIFFERENCE["difference"]}), rows)
    assert ratio.samples == ({0: 2.0, 1: 2.0},)
    rows = trials([0.5, 0.6], kind="a") + trials([0.25], kind="b")
    with pytest.raises(LackingError, match="not measured with the same seeds"):
        take(measure_of(DIFFERENCE), rows)


def test_seeds_may_be_told_by_name_and_be_points_of_a_curve() -> None:
    rows = trials([0.1, 0.2, 0.3])
    alone = {"metric": "recall", "mechanism": "memory", "seeds": [1]}
    assert take(measure_of(alone), rows).samples == ({1: 0.2},)
    assert verdict(claim_of({"name": "exact"}, published=0.2, measure=alone), rows).verdict == "holds"
    curve = {"metric": "recall", "mechanism": "memory", "along": "seed", "points": [2, 0]}
    assert take(measure_of(curve), rows).samples == ({2: 0.3}, {0: 0.1})
    assert verdict(claim_of({"name": "exact"}, published=[0.3, 0.1], measure=curve), rows).verdict == "holds"
    with pytest.raises(LackingError, match=r"has no trial of mechanism\.name memory, seed 1, 7"):
        take(measure_of({**alone, "seeds": [1, 7]}), rows)


def test_what_seeds_reach_is_a_share_of_seeds() -> None:
    reaching = {"metric": "recall", "mechanism": "memory", "reaches": 0.9}
    rows = trials([0.9, 0.1, 1.0, 0.2])
    assert take(measure_of(reaching), rows).samples == ({0: 1.0, 1: 0.0, 2: 1.0, 3: 0.0},)
    never = claim_of({"name": "bound", "at_most": 0}, published="never", measure=reaching)
    judgement = verdict(never, rows)
    (interval,) = judgement.intervals
    assert (judgement.verdict, judgement.measured) == ("differs", (0.5,))
    assert interval.method == "Wilson score over 4 seeds"
    assert verdict(never, trials([0.9] + [0.1] * 9)).verdict == "differs"
    assert verdict(never, trials([0.1] * 10)).verdict == "not measured"
    mostly = claim_of({"name": "bound", "at_least": 0.7}, published="mostly", measure=reaching)
    assert verdict(mostly, trials([1.0] * 10)).verdict == "holds"


def test_cells_may_be_pooled_seed_by_seed() -> None:
    rows = trials([0.2, 0.4], kind="a") + trials([0.6, 1.0], kind="b")
    pooled = {"metric": "recall", "mechanism": "memory", "pooled": True}
    (sample,) = take(measure_of(pooled), rows).samples
    assert sample == pytest.approx({0: 0.4, 1: 0.7})
    (sample,) = take(measure_of({**pooled, "reaches": 0.5}), rows).samples
    assert sample == {0: 0.5, 1: 0.5}
    with pytest.raises(LackingError, match="not measured with the same seeds"):
        take(measure_of(pooled), rows[:3])


def test_the_mean_of_several_runs_may_lie_less_far_off_than_one() -> None:
    rows = trials([0.50, 0.56, 0.53, 0.59, 0.53, 0.57, 0.52, 0.56])
    assert verdict(claim_of({**INTERVAL, "runs": 1}, published=0.48), rows).verdict == "holds"
    judgement = verdict(claim_of({**INTERVAL, "runs": 4}, published=0.48), rows)
    assert judgement.verdict == "differs"
    assert judgement.test.endswith(", published from 4 runs")


def test_an_exact_test_may_round_to_thousands() -> None:
    rows = [{**row, "metrics.flops": 54_575_104.0} for row in trials([0.5, 0.5])]
    measure = {"metric": "flops", "mechanism": "memory"}
    judgement = verdict(claim_of({"name": "exact", "digits": -3}, published=54_575_000, measure=measure), rows)
    assert (judgement.verdict, judgement.test) == ("holds", "exact to 1,000")
    assert verdict(claim_of({"name": "exact"}, published=54_575_000, measure=measure), rows).verdict == "differs"
    off = claim_of({"name": "exact", "digits": -3}, published=54_574_000, measure=measure)
    assert verdict(off, rows).verdict == "differs"


def measure_of(tree: dict[str, Any]) -> Measure:
    statement = Statement.model_validate({"sweep": "spec", "under": "", "measure": tree, "test": INTERVAL})
    return statement.measure


def frontier_rows(name: str, recalls: dict[int, float]) -> Rows:
    rows = []
    for size, recall in recalls.items():
        cell = trials([recall - 0.01, recall, recall + 0.01], name=name, budget=size)
        rows += [{**row, "metrics.slots": float(size)} for row in cell]
    return rows


def test_dominance_is_over_a_range_of_sizes() -> None:
    rows = frontier_rows("good", {8: 0.3, 16: 0.7, 32: 1.0}) + frontier_rows("bad", {8: 0.4, 16: 0.5, 32: 1.0})

    def dominates(low: float, high: float, margin: float = 0.0) -> str:
        measure = {"over": {"mechanism": "good"}, "under": {"mechanism": "bad"}, "low": low, "high": high}
        test = {"name": "dominance", "margin": margin}
        return verdict(claim_of(test, published="dominates", measure=measure), rows).verdict

    assert dominates(16, 32) == "holds"
    assert dominates(8, 32) == "differs"
    assert dominates(8, 32, margin=0.2) == "holds"
    assert dominates(32, 32) == "differs"
    assert dominates(4, 32) == "not measured"


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        ([0.50, 0.51, 0.49], "differs"),
        ([0.60, 0.61, 0.59], "holds"),
        ([0.40, 0.41, 0.39], "differs"),
        ([0.50, 0.90, 0.20], "not measured"),
        ([0.30, 0.70, 0.40], "not measured"),
    ],
)
def test_dominance_is_open_where_intervals_are_wide(over: list[float], expected: str) -> None:
    rows = trials(over, name="good") + trials([0.50, 0.51, 0.49], name="bad")
    measure = {"over": {"mechanism": "good"}, "under": {"mechanism": "bad"}, "low": 8, "high": 8}
    assert verdict(claim_of({"name": "dominance"}, published="dominates", measure=measure), rows).verdict == expected


def test_the_frontier_at_a_size_is_the_best_cell_that_fits() -> None:
    rows = frontier_rows("good", {8: 0.9, 16: 0.7, 32: 1.0})
    best = take(measure_of({"best": "recall", "size": 16, "mechanism": "good"}), rows)
    assert best.samples[0] == pytest.approx({0: 0.89, 1: 0.9, 2: 0.91})
    with pytest.raises(LackingError, match="has at most 4 slots"):
        take(measure_of({"best": "recall", "size": 4, "mechanism": "good"}), rows)


@pytest.mark.parametrize(
    ("law", "scale", "slope"),
    [(lambda n: 3.0 * n**1.5, "log_log", 1.5), (lambda n: 4.0 + 10.0 * math.log(n), "log_x", 10.0)],
)
def test_a_slope_is_that_of_the_law_behind_it(law: Callable[[float], float], scale: str, slope: float) -> None:
    rows = []
    for tokens in (1, 100, 200, 400):
        for row in trials([0.5, 0.5], tokens=tokens):
            cost = law(tokens) if tokens > 1 else 1e6
            rows.append({**row, "metrics.tokens": float(tokens), "metrics.cost": cost / tokens})
    measure = {"slope": "cost", "times": "tokens", "against": "tokens", "scale": scale, "least": 100}
    samples = take(measure_of({**measure, "mechanism": "memory"}), rows).samples
    assert samples[0] == pytest.approx({0: slope, 1: slope})
    with pytest.raises(LackingError, match="a slope needs three sizes"):
        take(measure_of({**measure, "least": 200}), rows)


def test_a_curve_takes_its_points_in_order() -> None:
    rows = frontier_rows("good", {8: 0.3, 16: 0.7, 32: 1.0})
    measure = {
        "metric": "recall",
        "per": "slots",
        "mechanism": "good",
        "along": "mechanism.budget",
        "points": [32, 8],
    }
    samples = take(measure_of(measure), rows).samples
    assert [sample[1] for sample in samples] == pytest.approx([1.0 / 32, 0.3 / 8])


# --- what rows lack ---


def test_rows_that_lack_something_give_no_verdict() -> None:
    claim = claim_of(INTERVAL)
    without: tuple[Rows | None, ...] = (None, [])
    for rows in without:
        assert verdict(claim, rows).reason == "`spec` has not been run with this code and these settings"
    assert "has no trial of mechanism.name memory" in verdict(claim, trials([0.5], name="other")).reason
    two = trials([0.5, 0.5], budget=8) + trials([0.5, 0.5], budget=16)
    assert "are 2 cells, not one" in verdict(claim, two).reason
    failed = trials([0.5, 0.5, 0.5])
    failed[2] |= {"state": "failed", "reason": "timeout"}
    assert "1 of 3 trials of mechanism.name memory have no result: timeout" in verdict(claim, failed).reason
    nothing = [{key: value for key, value in row.items() if key != "metrics.recall"} for row in trials([0.5, 0.5])]
    assert "`memory` has no metric `recall`" in verdict(claim, nothing).reason
    for rows in (None, [], two, failed, nothing):
        assert verdict(claim, rows).verdict == "not measured"


def test_missing_data_is_named_unless_its_rows_are_there() -> None:
    claim = claim_of(INTERVAL, missing="needs a recording")
    assert verdict(claim, None).verdict == "not measurable here"
    assert verdict(claim, None).reason == "needs a recording"
    assert verdict(claim, trials([0.5, 0.5, 0.5])).verdict == "holds"
    failed = [{**row, "state": "failed", "reason": "user_error"} for row in trials([0.5])]
    assert verdict(claim, failed).verdict == "not measured"


# --- ablations ---


@pytest.mark.parametrize(
    ("recall", "ablated", "expected"),
    [(0.5, 0.5, "holds"), (0.9, 0.9, "differs"), (0.5, 0.9, "holds only if"), (0.9, 0.5, "holds only if")],
)
@pytest.mark.parametrize("expects", ["holds", "differs"])
def test_a_claim_and_its_ablation(recall: float, ablated: float, expected: str, expects: str) -> None:
    ablation = {
        "says": "as foreseen",
        "expects": expects,
        "under": "the other kind",
        "sweep": "spec",
        "measure": {"metric": "recall", "mechanism": {"name": "memory", "kind": "b"}},
        "test": INTERVAL,
    }
    measure = {"metric": "recall", "mechanism": {"name": "memory", "kind": "a"}}
    claim = claim_of(INTERVAL, measure=measure, under="this kind", ablation=ablation)
    judgement = verdict(claim, trials([recall] * 3, kind="a") + trials([ablated] * 3, kind="b"))
    assert judgement.verdict == expected
    assert judgement.ablation is not None
    assert judgement.ablation.verdict == ("holds" if ablated == 0.5 else "differs")
    foreseen = judgement.ablation.verdict == expects
    assert judgement.ablation.says == ("as foreseen" if foreseen else "")
    if expected == "holds only if":
        yes, no = ("this kind", "the other kind") if recall == 0.5 else ("the other kind", "this kind")
        assert judgement.reason.startswith(f"holds ({yes}: off by +0, allowed ")
        assert f"; does not ({no}: off by +0.4, allowed " in judgement.reason
        assert judgement.reason.endswith(": as foreseen") == foreseen
    alone = verdict(claim, trials([recall] * 3, kind="a"))
    assert alone.verdict == ("holds" if recall == 0.5 else "differs")


# --- the machine-readable form, and what is refused ---


def test_the_record_has_the_fields_of_the_contract() -> None:
    record = claim_record(verdict(claim_of(INTERVAL), trials([0.49, 0.51, 0.50])))
    contract = {"id", "where", "published", "measured", "interval", "n", "test", "verdict", "reason", "sweep"}
    assert contract <= set(record)
    assert record["measured"] == pytest.approx(0.5)
    assert record["n"] == 3
    assert canonical_json(record)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test": None}, "stand together or not at all"),
        ({"sweep": None, "measure": None, "test": None}, "or `missing`: why there are none"),
        ({"test": {"name": "bound"}}, "a bound needs `at_least`, `at_most` or both"),
        ({"measure": {"mettric": "recall"}}, "measure"),
        ({"id": "Table 1"}, "pattern"),
    ],
)
def test_a_claim_that_says_too_little_is_refused(change: dict[str, Any], message: str) -> None:
    given = {"id": "table-1/x", "where": "Table 1", "says": "It.", "published": 1, "sweep": "spec", "test": INTERVAL}
    with pytest.raises(ValidationError, match=message):
        Claim.model_validate({**given, "measure": {"metric": "recall"}, **change})


def test_a_repeated_id_is_refused() -> None:
    claim = claim_of(INTERVAL)
    with pytest.raises(ValidationError, match="ids of claims must differ; repeated: table-1/x"):
        Paper(name="paper", title="A paper", source="here", claims=(claim, claim))
