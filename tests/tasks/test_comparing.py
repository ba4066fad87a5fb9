"""Comparing two sides: what is matched, what counts as a difference, what a ratio is, and what else is pointed out."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.by_device import summarise
from tasks.comparing import EXACT, NEARLY, Comparison, NothingInCommonError, Side, compare_sides
from tasks.comparing_sections import comparison_record, comparison_rows, comparison_sections
from tasks.kind import KINDS

SIZES = {"metrics.bytes": 64.0, "metrics.chance": 0.1, "metrics.tokens": 16.0, "metrics.items": 8.0}
MACHINE = {"hw.cpu_model": "EPYC", "hw.threads": 1, "hw.torch": "2.9", "hw.gpu": "none", "hw.device": "cpu"}


def row(seed: int, budget: int = 8, recall: float = 0.5, **fields: Any) -> dict[str, Any]:
    return {
        "state": "done",
        "seed": seed,
        "device": "cpu",
        "workload.name": "associative_recall",
        "workload.items": 8,
        "mechanism.name": "recency",
        "mechanism.budget": budget,
        "metrics.recall": recall,
        "metrics.slots": float(budget),
        "metrics.build_us_per_token": 4.0,
        "wall_seconds": 2.0,
        "peak_memory_bytes": 1000,
        "device_memory_bytes": None,
        "energy_joules": None,
        "fingerprint": "code",
        "episodes": 3,
        "dtype": "float32",
        "batch": 16,
        **MACHINE,
        **fields,
    }


def compared(a: list[dict[str, Any]], b: list[dict[str, Any]], **options: Any) -> Comparison:
    device = options.pop("device", "cpu")
    prices = options.pop("prices", (None, None))
    return compare_sides(Side("one", "cpu", a, prices[0]), Side("two", device, b, prices[1]), **options)


CPU_CODE = {"models.rule": "1", "tasks.evaluate": "1"}


@pytest.mark.parametrize(
    ("device", "modules", "same"),
    [
        ("cuda", {"models.rule": "1", "tasks.evaluate_device": "1"}, True),
        ("cuda", {"models.rule": "2", "tasks.evaluate_device": "1"}, False),
        ("cuda", None, None),
        ("cpu", {**CPU_CODE, "tasks.evaluate": "2"}, False),
        ("cpu", None, False),
    ],
)
def test_code_differs_where_modules_do_that_both_devices_use(
    device: str, modules: dict[str, str] | None, same: bool | None
) -> None:
    b = [row(seed, device=device, fingerprint="other") for seed in range(2)]
    code = {"code": CPU_CODE} | ({"other": modules} if modules else {})
    found = compared([row(seed) for seed in range(2)], b, device=device, code=code)
    assert [cell.same_code for cell in found.cells] == [same]
    assert [flag.group for flag in found.flags] == (["code"] if same is False else [])


def test_equal_sides_agree_exactly() -> None:
    rows = [row(seed, budget, seed / 10) for seed in range(4) for budget in (2, 4)]
    found = compared(rows, rows)
    assert (found.tolerance, len(found.cells), found.flags) == (EXACT, 2, ())
    for cell in found.cells:
        assert (cell.seeds, cell.only_a, cell.only_b, cell.exceeding, cell.same_code) == (4, 0, 0, (), True)
        assert {one.metric: (one.largest, one.equal) for one in cell.metrics} == {
            "recall": (0.0, True),
            "slots": (0.0, True),
        }
        assert cell.ratios["speed"].mean == cell.ratios["memory"].mean == 1.0


def test_between_cpus_the_smallest_difference_counts_and_on_accelerators_a_near_tie_does_not() -> None:
    a, b = ([row(seed, recall=0.5 + shift) for seed in range(4)] for shift in (0.0, 0.004))
    for device, tolerance, exceeds in (("cpu", EXACT, True), ("cuda", NEARLY, False)):
        found = compared(a, b, device=device)
        [recall] = [one for one in found.cells[0].metrics if one.metric == "recall"]
        assert (found.tolerance, recall.exceeds, recall.equal) == (tolerance, exceeds, not exceeds)
        assert recall.difference.mean == pytest.approx(0.004)


def test_the_tolerance_of_large_numbers_is_relative() -> None:
    a, b = ([row(seed, **{"metrics.slots": slots}) for seed in range(3)] for slots in (200.0, 203.0))
    [cell] = compared(a, b, tolerance=0.01).cells
    assert [one.metric for one in cell.exceeding] == ["slots"]
    assert cell.exceeding[0].allowed == 2.0
    assert compared(a, b, tolerance=0.02).cells[0].exceeding == ()


def test_differences_are_paired_by_seed_and_seeds_of_one_side_are_counted() -> None:
    a = [row(seed, recall=seed / 10) for seed in (0, 1, 2, 3)]
    b = [row(seed, recall=seed / 10 + 0.05) for seed in (2, 3, 4)]
    [cell] = compared(a, b).cells
    assert (cell.seeds, cell.only_a, cell.only_b) == (2, 2, 1)
    assert cell.metrics[0].difference.mean == pytest.approx(0.05)
    assert (cell.metrics[0].a, cell.metrics[0].b) == pytest.approx((0.25, 0.3))


def test_one_seed_has_a_difference_but_no_verdict_of_equality() -> None:
    [cell] = compared([row(0)], [row(0)]).cells
    assert (cell.metrics[0].difference.low, cell.metrics[0].equal, cell.metrics[0].exceeds) == (None, None, False)


def test_what_a_trial_cost_is_a_ratio_and_no_difference() -> None:
    a = [row(seed, wall_seconds=8.0 * (seed + 1)) for seed in range(3)]
    b = [
        row(
            seed, wall_seconds=2.0 * (seed + 1), peak_memory_bytes=3000, energy_joules=5.0,
            **{"metrics.build_us_per_token": 1.0},
        )
        for seed in range(3)
    ]  # fmt: skip
    [cell] = compared(a, b).cells
    assert [one.metric for one in cell.metrics] == ["recall", "slots"]
    assert {name: ratio.mean for name, ratio in cell.ratios.items()} == pytest.approx(
        {"speed": 4.0, "build speed": 4.0, "memory": 3.0}
    )


def test_a_trial_that_is_one_record_on_both_sides_measures_no_ratio() -> None:
    def taken(seed: int, started: float, **fields: Any) -> dict[str, Any]:
        return row(seed, key=f"key{seed}", worker="w", started=started, **fields)

    a = [taken(seed, started=1.0, wall_seconds=8.0) for seed in range(4)]
    b = [*a[:3], taken(3, started=2.0, wall_seconds=2.0)]
    found = compared(a, b, prices=(1.0, 1.0))
    [cell] = found.cells
    assert (cell.seeds, cell.one_record, cell.metrics[0].difference.n) == (4, 3, 4)
    assert (cell.ratios["speed"].mean, cell.ratios["speed"].n) == (pytest.approx(4.0), 1)
    assert cell.costs is not None
    assert cell.costs[2] == pytest.approx(0.25)
    said = "3 of 4 trials are one record on both sides: run one side with --no-cache"
    assert [flag.b for flag in found.flags] == [said]
    [same] = compared(a, a, prices=(1.0, 1.0)).cells
    assert (same.one_record, same.ratios, same.costs) == (4, {}, None)
    text = " ".join(comparison_sections(compared(a, a))[0].text)
    assert "4 of 4 trials are one record on both sides, computed once" in text
    assert "left out of ratios (none is left)" in text
    assert "times as fast" not in text


@given(st.lists(st.tuples(st.floats(0.01, 100.0), st.floats(0.01, 100.0)), min_size=2, max_size=8))
def test_a_ratio_is_the_inverse_of_the_other_way_round(times: list[tuple[float, float]]) -> None:
    a = [row(seed, wall_seconds=one) for seed, (one, _) in enumerate(times)]
    b = [row(seed, wall_seconds=other) for seed, (_, other) in enumerate(times)]
    forth, back = (compared(*pair).cells[0].ratios["speed"] for pair in ((a, b), (b, a)))
    expected = math.prod(one / other for one, other in times) ** (1 / len(times))
    assert forth.mean == pytest.approx(expected) == pytest.approx(1.0 / back.mean)
    assert forth.low == pytest.approx(1.0 / back.high)


def test_seeds_that_no_side_shares_compare_times_by_medians_and_nothing_else() -> None:
    a, b = [row(seed, wall_seconds=6.0) for seed in (0, 1)], [row(seed, wall_seconds=2.0) for seed in (2, 3)]
    [cell] = compared(a, b).cells
    assert (cell.seeds, cell.metrics) == (0, ())
    assert (cell.ratios["speed"].mean, cell.ratios["speed"].low) == (3.0, None)
    assert "no pairs" in cell.ratios["speed"].method
    assert "No seed is common" in comparison_sections(compared(a, b))[0].text[0]


def test_costs_follow_from_prices() -> None:
    a, b = [row(0, wall_seconds=3600.0)], [row(0, wall_seconds=360.0)]
    [cell] = compared(a, b, prices=(0.5, 2.5)).cells
    assert cell.costs == pytest.approx((0.5, 0.25, 0.5))
    assert compared(a, b).cells[0].costs is None


def test_what_else_differs_is_pointed_out() -> None:
    other = {"hw.gpu": "H200", "hw.threads": 2, "hw.torch": "2.8", "batch": 64, "fingerprint": "new", "episodes": 5}
    found = compared([row(0), row(1)], [row(0, **other), row(1, **{**other, "batch": 128})])
    assert {(flag.group, flag.name, flag.a, flag.b) for flag in found.flags} == {
        ("hardware", "gpu", "none", "H200"),
        ("threads", "threads", "1", "2"),
        ("versions", "torch", "2.9", "2.8"),
        ("settings", "episodes", "3", "5"),
        ("batch", "batch", "16", "64 to 128"),
        ("code", "fingerprint", "its own", "other code in 1 of 1 cells"),
    }


def test_cells_of_one_side_are_counted_and_unfinished_ones_are_not_there() -> None:
    a = [row(0, 2), row(0, 4), row(0, 8, state="failed")]
    b = [row(0, 4), row(0, 16), row(0, 32, state="pending")]
    found = compared(a, b)
    assert (len(found.cells), found.only_a, found.only_b) == (1, 1, 1)


def test_sides_agree_only_if_neither_lacks_cells_or_seeds() -> None:
    rows = [row(seed, budget) for seed in range(3) for budget in (2, 4)]
    assert compared(rows, rows).agree
    for part in (rows[:-1], [one for one in rows if one["mechanism.budget"] == 2]):
        assert not compared(rows, part).agree
        assert not compared(part, rows).agree
    text = comparison_sections(compared(rows, rows[:-1]))[0].text[-1]
    assert text == "Left out of cells that both have: 1 trials that one alone has finished, 0 that two alone has."


def test_nothing_in_common_names_what_differs() -> None:
    with pytest.raises(NothingInCommonError, match=r"differ in mechanism.budget \(2 and 4\)"):
        compared([row(0, 2), row(0, 2, **{"workload.items": 9})], [row(0, 4)])
    with pytest.raises(NothingInCommonError, match="two has no finished trial yet"):
        compared([row(0)], [row(0, state="failed")])


# --- what is shown ---


def test_the_table_says_which_cells_differ_and_by_what() -> None:
    a = [row(seed, budget) for seed in range(3) for budget in (2, 4)]
    b = [
        row(seed, budget, recall=0.5 + 0.1 * (budget == 4), wall_seconds=0.5) for seed in range(3) for budget in (2, 4)
    ]
    cells = comparison_sections(compared(a, b))[0]
    assert cells.table is not None
    shown = [dict(zip(cells.table.columns, line, strict=True)) for line in cells.table.rows]
    assert [line["mechanism"] for line in shown] == ["recency budget 2", "recency budget 4"]
    assert [line["within tolerance"] for line in shown] == ["yes", "no: recall +0.1"]
    assert all(line["speed ratio"].mean == pytest.approx(4.0) for line in shown)
    assert cells.text[0].startswith("1 of 2 cells agree")


def test_rows_and_json_carry_every_metric() -> None:
    found = compared([row(0), row(1)], [row(0), row(1, recall=0.75)])
    rows = list(comparison_rows([found]))
    assert [line["metric"] for line in rows] == ["recall", "slots"]
    assert (rows[0]["difference"], rows[0]["difference.n"], rows[0]["exceeds"]) == (0.125, 2, True)
    record = json.loads(json.dumps(comparison_record(found)))
    assert record["agree"] is False
    assert record["cells"][0]["config"]["mechanism"] == {"name": "recency", "budget": 8}


def test_a_sweep_on_several_devices_is_summarised_one_by_one_and_compared() -> None:
    kind = KINDS.implementation("frontier")
    on_cpu = [row(seed, budget, **SIZES) for seed in range(2) for budget in (2, 4)]
    on_cuda = [{**one, "device": "cuda", "hw.device": "cuda", "metrics.recall": 0.75} for one in on_cpu]
    summary = summarise(kind, [*on_cpu, *on_cuda])
    assert [panel.title.rsplit(" on ")[-1] for panel in summary.panels] == ["cpu", "cuda"]
    recalls = [point.metrics["recall"].mean for panel in summary.panels for point in panel.curves[0].points]
    assert recalls == [0.5, 0.5, 0.75, 0.75]
    assert "compare" in [section.name for section in summary.sections]
    assert len({section.name for section in summary.sections}) == len(summary.sections)
    assert summarise(kind, on_cpu) == kind.summarise(on_cpu)
    pending = [{**one, "state": "pending"} for one in on_cuda]
    assert "compare" not in [section.name for section in summarise(kind, [*on_cpu, *pending]).sections]
