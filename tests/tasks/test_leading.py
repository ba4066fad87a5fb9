"""Which trials lie on a frontier of all mechanisms together."""

from __future__ import annotations

from typing import Any

from tasks.leading import leading_trials


def rows(**cells: tuple[float | None, float | None, float | None]) -> list[dict[str, Any]]:
    """Two trials of each mechanism, with mean (recall, slots, bytes)."""
    return [
        {
            "trial": 2 * place + seed,
            "state": "done",
            "device": "cpu",
            "seed": seed,
            "workload.name": "associative_recall",
            "mechanism.name": name,
            "metrics.recall": None if recall is None else recall + (seed - 0.5) / 5,
            "metrics.slots": slots,
            "metrics.bytes": size,
        }
        for place, (name, (recall, slots, size)) in enumerate(cells.items())
        for seed in (0, 1)
    ]


def test_a_cell_leads_that_no_other_beats() -> None:
    found = leading_trials(
        rows(
            small=(0.5, 8, 900),
            light=(0.5, 9, 800),
            beaten=(0.5, 9, 950),
            large=(0.8, 16, 1600),
            larger=(0.8, 17, 1700),
        )
    )
    assert found == {2, 3, 6, 7}


def test_equal_cells_all_lead() -> None:
    assert leading_trials(rows(a=(0.5, 8, 800), b=(0.5, 8, 800))) == {0, 1, 2, 3}


def test_workloads_and_devices_have_frontiers_of_their_own() -> None:
    table = rows(good=(0.9, 8, 800), poor=(0.1, 8, 800))
    assert leading_trials(table) == {0, 1}
    assert leading_trials([row | {"device": row["mechanism.name"]} for row in table]) == {0, 1, 2, 3}
    assert leading_trials([row | {"workload.name": row["mechanism.name"]} for row in table]) == {0, 1, 2, 3}


def test_a_trial_without_a_result_leads_nowhere() -> None:
    table = rows(good=(0.9, 8, 800), bare=(None, None, None), failed=(0.95, 4, 400))
    for row in table[4:]:
        row["state"] = "failed"
    assert leading_trials(table) == {0, 1}


def test_where_nothing_is_asked_for_nothing_leads() -> None:
    assert leading_trials(rows(a=(None, 8, 800), b=(None, 9, 700))) == set()
    assert leading_trials([]) == set()


def test_networks_which_have_no_slots_are_compared_with_memories() -> None:
    assert leading_trials(rows(network=(0.9, None, 500), slotted=(0.8, 8, 800))) == {0, 1}
