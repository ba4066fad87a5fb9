"""Run ids and the text that MLflow is given."""

from __future__ import annotations

import re

from orchestrator.tracker.entries import clean_key, parent_entry, shorten, trial_entry
from orchestrator.tracker.records import parent_run_id_for, run_id_for


def test_run_ids_are_fixed_distinct_and_rise_with_the_position() -> None:
    ids = [run_id_for("s1", "key", 0, position) for position in (0, 1, 255, 256, 70_000)]
    assert ids == sorted(ids)
    others = [run_id_for("s2", "key", 0), run_id_for("s1", "yek", 0), run_id_for("s1", "key", 1)]
    everything = [*ids, *others, parent_run_id_for("s1"), parent_run_id_for("s2")]
    assert len(set(everything)) == len(everything)
    assert all(re.fullmatch("[0-9a-f]{32}", run_id) for run_id in everything)
    assert run_id_for("s1", "key", 0, 1) == "e8bc163c00000001" + run_id_for("s1", "key", 0, 1)[16:]


def test_text_is_cut_only_beyond_the_limit_and_says_how_long_it_was() -> None:
    assert shorten("abc", 3) == "abc"
    assert shorten("x" * 101, 100) == "x" * 81 + " … [101 characters]"
    assert len(shorten("x" * 101, 100)) == 100


def test_allowed_keys_stay_and_others_become_allowed() -> None:
    for key in ("recall", "mechanism.tau", "system/cpu", "a b:c-d_e"):
        assert clean_key(key) == key
    for key in ("a@b", "", ".", "..", "../../etc", "/root", "a/../b", "a//b", "k" * 251, "line\nbreak"):
        cleaned = clean_key(key)
        assert cleaned != key
        assert re.fullmatch(r"[\w\- :][/\w.\- :]{0,249}", cleaned), (key, cleaned)


def test_what_a_run_is_recognised_by_cannot_be_overwritten_by_its_tags(trial, parent) -> None:
    forged = {"slotsweep.run_id": "forged", "mlflow.parentRunId": "forged", "mlflow.runName": "forged"}
    entry = trial_entry(trial(0, tags={**forged, "mlflow.user": "ada"}), "the parent")
    assert entry.tags["slotsweep.run_id"] == entry.run_id
    assert entry.tags["mlflow.parentRunId"] == "the parent"
    assert entry.tags["mlflow.runName"] == entry.name == "dp_cache 0"
    assert entry.user == entry.tags["mlflow.user"] == "ada"


def test_a_note_that_is_empty_is_no_tag(parent) -> None:
    assert "mlflow.note.content" not in parent_entry(parent(note="")).tags


def test_a_series_stands_at_its_steps_or_where_it_has_none_at_0_1_2(trial) -> None:
    series = {"loss": [2.0, None, 0.5], "phase_slots": [3.0, 4.0]}
    entry = trial_entry(trial(0, series=series, steps={"loss": [1, 250, 500]}), "the parent")
    assert entry.series == {"loss": {1: 2.0, 500: 0.5}, "phase_slots": {0: 3.0, 1: 4.0}}


def test_metrics_carry_the_end_or_while_running_the_start(trial) -> None:
    assert trial_entry(trial(1), "p").metrics_ms == trial(1).end_ms
    assert trial_entry(trial(1, status="RUNNING", end_ms=None), "p").metrics_ms == trial(1).start_ms
