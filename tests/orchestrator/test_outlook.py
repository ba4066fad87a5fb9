"""What is handed out first, and how long the rest will take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pytest

from orchestrator.outlook import Outlook
from orchestrator.plan import Plan
from orchestrator.spec import read_spec
from orchestrator.store.records import CellCost, CellRow, CrewSeen, RunCost, StreamCost, WaitingCell

SPEC = """
name: mixed
kind: frontier
workload: {name: associative_recall, items: {values: [8, 2000, 16]}}
mechanisms: [{name: full_attention}, {name: recency, budget: 4}, {name: novelty_gate, budget: 4}]
seeds: 5
episodes: 10
"""


class Known:
    """A store that knows what it is told of."""

    def __init__(self, costs: list[CellCost] | None = None) -> None:
        self._costs = costs or []

    def done_keys(self, keys: Iterable[str]) -> set[str]:
        return set()

    def cell_costs(self, mechanisms: Collection[str], most: int) -> list[CellCost]:
        return [cost for cost in self._costs if cost.cell.mechanism["name"] in mechanisms][:most]

    def stream_costs(self, most: int) -> list[StreamCost]:
        return []

    def runs(self, most: int) -> list[RunCost]:
        return []

    def crew_seen(self) -> list[CrewSeen]:
        return []


def cells_of(text: str) -> tuple[dict[int, CellRow], list[WaitingCell]]:
    """Cells by row, and what waits of them, as if all of the plan were submitted."""
    cells: dict[int, CellRow] = {}
    numbers: dict[str, int] = {}
    places: dict[int, list[int]] = {}
    for position, (cell, _, _) in enumerate(Plan(read_spec(text)).trials()):
        number = numbers.setdefault(cell.digest, len(numbers))
        cells[number] = cell
        places.setdefault(number, []).append(position)
    return cells, [WaitingCell(number, min(at), max(at), len(at)) for number, at in places.items()]


def warm_up(outlook: Outlook, cells: Mapping[int, CellRow], waiting: list[WaitingCell]) -> None:
    """Let worker `w` have run each mechanism once, in cells of another sweep."""
    before = Outlook(Known(), cells, [])
    before.note("w", [(one.cell, 0.0) for one in waiting])
    outlook.carry(before)


def test_what_a_workers_first_batch_took_is_not_what_the_others_will_take() -> None:
    """It held the time in which kernels were compiled."""
    text = SPEC.replace("[8, 2000, 16]", "[8, 16]").replace(", {name: novelty_gate, budget: 4}", "")
    cells, waiting = cells_of(text)
    costs = [CellCost(row, "cpu", 5, 5, 2.0, 2.0, 1) for row in cells.values()]
    outlook = Outlook(Known(costs), cells, waiting)
    attention, recency, *_ = cells
    outlook.note("w", [(attention, 12.0), (recency, 12.0)])
    outlook.note("v", [(attention, 10.0)])
    assert (outlook.settled, outlook.measured) == (False, 34.0)
    outlook.note("w", [(attention, 2.0)])
    assert outlook.settled
    assert outlook.left() == pytest.approx((20 - 4) * 2.0, rel=0.01)
    again = Outlook(Known(costs), cells, waiting)
    again.carry(outlook)
    assert (again.settled, again.measured) == (True, 36.0)


def test_a_first_trial_that_is_long_tells_until_there_is_a_later_one() -> None:
    text = SPEC.replace("[8, 2000, 16]", "[8]").replace(", {name: novelty_gate, budget: 4}", "")
    cells, waiting = cells_of(text)
    costs = [CellCost(row, "cpu", 5, 5, 2.0, 2.0, 1) for row in cells.values()]
    outlook = Outlook(Known(costs), cells, waiting)
    attention, recency = cells
    outlook.note("w", [(attention, 120.0)])
    assert outlook.settled
    assert outlook.left() == pytest.approx((4 + 5) * 120.0, rel=0.01)
    outlook.note("v", [(attention, 140.0), (recency, 60.0)])
    assert outlook.left() == pytest.approx(3 * 130.0 + 4 * 60.0, rel=0.01)
    again = Outlook(Known(costs), cells, waiting)
    again.carry(outlook)
    again.note("w", [(attention, 2.0)])
    assert again.left() == pytest.approx(4 * 2.0 + 5 * 60.0, rel=0.01)


def test_long_batches_go_first_and_the_others_in_plan_order() -> None:
    cells, waiting = cells_of(SPEC)
    slow = next(row for row in cells.values() if row.mechanism["name"] == "novelty_gate")
    outlook = Outlook(Known([CellCost(slow, "cpu", 5, 1, 100.0, 100.0, 1)]), cells, waiting)
    order = [{(cells[c].workload["items"], cells[c].mechanism["name"]) for c in span.cells} for span in outlook.spans]
    gates = [{(items, "novelty_gate")} for items in (2000, 16, 8)]
    pairs = [{(items, "full_attention"), (items, "recency")} for items in (2000, 8, 16)]
    assert order == [*gates, *pairs]
    assert sum(len(span.cells) for span in outlook.spans) == len(cells)


def test_short_batches_keep_plan_order() -> None:
    cells, waiting = cells_of(SPEC.replace("2000", "12").replace(", {name: novelty_gate, budget: 4}", ""))
    spans = Outlook(Known(), cells, waiting).spans
    assert [span.first for span in spans] == sorted(span.first for span in spans)
    assert [(span.first, span.last) for span in spans] == [(0, 9), (10, 19), (20, 29)]


def test_what_is_left_follows_what_was_measured() -> None:
    text = SPEC.replace("[8, 2000, 16]", "[8, 16]").replace(", {name: novelty_gate, budget: 4}", "")
    cells, waiting = cells_of(text)
    costs = [CellCost(row, "cpu", 5, 5, 2.0, 2.0, 1) for row in cells.values()]
    outlook = Outlook(Known(costs), cells, waiting)
    assert outlook.left() == pytest.approx(20 * 2.0, rel=0.01)
    attention, recency, *_ = cells
    warm_up(outlook, cells, waiting)
    outlook.note("w", [(attention, 6.0)] * 5)
    other = next(c for c in cells if c != attention and cells[c].mechanism["name"] == "full_attention")
    assert outlook.left() == pytest.approx(5 * 6.0 + 10 * 6.0, rel=0.01), (
        "attention takes three times as long: so may the others"
    )
    outlook.note("w", [(recency, 2.0)])
    assert outlook.left() == pytest.approx(4 * 2.0 + 5 * 2.0 + 5 * 6.0, rel=0.01)
    outlook.note("w", [(other, 10.0)])
    assert outlook.left() == pytest.approx(4 * 2.0 + 5 * 2.0 + 4 * 10.0, rel=0.01)
    assert outlook.measured == pytest.approx(42.0)


def test_without_history_sizes_are_weighed_by_a_guess() -> None:
    """Long streams at the end are not taken for as short as the first ones."""
    text = SPEC.replace("[8, 2000, 16]", "[8, 800]").replace(", {name: novelty_gate, budget: 4}", "")
    cells, waiting = cells_of(text)
    outlook = Outlook(Known(), cells, waiting)
    warm_up(outlook, cells, waiting)
    small = [c for c in cells if cells[c].workload["items"] == 8]
    outlook.note("w", [(cell, 0.01) for cell in small] * 5)
    assert outlook.left() > 10 * 10 * 0.01
