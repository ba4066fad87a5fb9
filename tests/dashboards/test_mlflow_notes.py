"""What MLflow shows of a sweep in words: what was found comes first, within MLflow's limits, whatever stands in it."""

from __future__ import annotations

import json
from dataclasses import replace
from types import ModuleType

import pytest

from dashboards.mlflow_notes import (
    NOTE_LENGTH,
    VERDICT_LENGTH,
    SweepNote,
    experiment_note,
    run_note,
    verdict,
)
from dashboards.mlflow_views import sweep_views, trials_view

NOTE = SweepNote(
    sweep="7f3a9c",
    kind="frontier",
    state="done",
    description="Which memory keeps items?",
    workloads=["associative_recall"],
    mechanisms=["full_attention", "dp_cache"],
    seeds=10,
    trials=1200,
    done=1200,
    failed=0,
    reused=24,
    spec="name: recall-frontier\n",
    verdict="dp\\_cache wins.",
    over=True,
)


def test_what_was_found_comes_first() -> None:
    parts = run_note(NOTE).split("\n\n")
    assert parts[:3] == [
        "Which memory keeps items?",
        "dp\\_cache wins.",
        "A frontier sweep of 1,200 trials: full\\_attention and dp\\_cache on associative\\_recall, 10 seeds.",
    ]
    assert "`tags.slotsweep.sweep = '7f3a9c'`" in parts[3]
    assert parts[-1] == "```yaml\nname: recall-frontier\n```"


def test_a_running_sweep_says_how_far_it_is() -> None:
    running = replace(NOTE, state="running", done=1100, failed=3, verdict="", over=False, description=None)
    first = run_note(running).split("\n\n")[0]
    assert first == "**running**: 1,100 of 1,200 trials done, 3 failed; 24 were reused from earlier sweeps."
    assert "report.html" not in run_note(running)
    again = run_note(replace(running, verdict=NOTE.verdict))
    assert again.split("\n\n")[1:3] == ["As of the last report:", "dp\\_cache wins."]


def test_a_sweep_that_ended_without_a_report_says_so_much() -> None:
    assert (
        run_note(replace(NOTE, state="cancelled", verdict="", done=0)).split("\n\n")[1].startswith("**cancelled**: 0")
    )


def test_a_spec_that_does_not_fit_is_left_out_and_one_with_fences_is_fenced_wider() -> None:
    assert "```" not in run_note(replace(NOTE, spec="x" * NOTE_LENGTH))
    assert run_note(replace(NOTE, spec="a\n```\nb")).endswith("````yaml\na\n```\nb\n````")


def test_a_verdict_has_words_and_the_cells_that_no_other_beats(sample: ModuleType) -> None:
    text = verdict(sample.report())
    assert text.startswith("6 mechanisms in 45 cells on 1 workload: 450 of 450 trials finished, computed in 28 s.")
    assert "A mean recall of 0.99 or more is reached by" in text
    header, _, *rows = [line for line in text.splitlines() if line.startswith("|")]
    assert header == "| mechanism | settings | recall | slots | bytes | n |"
    recalls, sizes = ([float(row.split("|")[column].split()[0].replace(",", "")) for row in rows] for column in (3, 5))
    assert len(rows) > 2
    assert recalls == sorted(recalls)
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("case", ["plain", "several panels", "hostile", "hostile sections", "sections beside a panel"])
def test_a_verdict_is_short_enough_and_holds_no_markup_of_users(case: str, sample: ModuleType) -> None:
    text = verdict(sample.cases()[case])
    assert len(text) <= VERDICT_LENGTH + 40
    assert "<script>" not in text
    assert len(run_note(replace(NOTE, verdict=text))) <= 8000


def test_every_report_has_a_verdict(sample: ModuleType) -> None:
    for case, report in sample.cases().items():
        assert verdict(report), case


def test_what_does_not_fit_is_said_to_be_in_the_report(sample: ModuleType) -> None:
    panels = [sample.panel(title=f"noise {number}") for number in range(30)]
    text = verdict(sample.report(*panels))
    assert text.endswith("There is more in the report.")
    assert len(text) <= VERDICT_LENGTH + 40


def test_an_experiment_says_what_is_in_it() -> None:
    text = experiment_note("recall_frontier", "Which memory\nkeeps items?")
    assert text.startswith("Which memory keeps items?\n\nSweeps called recall\\_frontier, run by slotsweep.")


def test_angle_brackets_are_read_as_themselves() -> None:
    """MLflow's page shows the backslash of an escaped one."""
    text = run_note(replace(NOTE, description="a > b < c & d"))
    assert text.startswith("a &gt; b &lt; c &amp; d")


def test_views_are_saved_as_mlflow_saves_them() -> None:
    views = sweep_views("7f3a9c", 1_700_000_000_000, ["mechanism.tau", "workload.noise", "mechanism.tau"])
    assert trials_view("7f3a9c") in views
    for view in views.values():
        envelope = json.loads(view)
        assert (envelope["createdAt"], envelope["updatedAt"]) == (1_700_000_000_000,) * 2
        state = json.loads(envelope["state"])
        mine = "tags.`slotsweep.sweep` = '7f3a9c' AND tags.`slotsweep.replaced` = 'false'"
        assert state["searchFilter"].startswith(mine)
        columns = state["selectedColumns"]
        assert len(columns) == len(set(columns))
        assert {"params.`mechanism.tau`", "params.`workload.noise`", "tags.`hw.device`", "metrics.`bytes`"} <= set(
            columns
        )
