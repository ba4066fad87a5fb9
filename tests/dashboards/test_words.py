"""The summary in words says what the numbers say, and no more."""

from __future__ import annotations

import re
from dataclasses import replace
from types import ModuleType

from dashboards.words import findings, overview, scale_notes
from tasks.summary import Interval, Panel, Point, Summary


def exact(number: float) -> Interval:
    return Interval(number, number, number, 10, "test")


def by_hand(sample: ModuleType, **curves: list[tuple[float, Interval]]) -> Panel:
    """A panel of curves named by keyword, of points (slots, recall)."""

    def cell(size: float, recall: Interval) -> Point:
        return Point({}, {"slots": exact(size), "bytes": exact(132 * size), "recall": recall}, {}, 10, 10, 0)

    drawn = tuple(
        sample.curve(name, [cell(size, recall) for size, recall in points]) for name, points in curves.items()
    )
    return replace(sample.panel(), curves=drawn)


def test_who_reaches_the_target_at_what_size(sample: ModuleType) -> None:
    panel = by_hand(
        sample,
        whole=[(256, exact(1.0))],
        cache=[(32, exact(0.5)), (64, Interval(0.995, 0.985, 1.0, 10, "t"))],
        window=[(64, exact(0.706)), (128, exact(0.942))],
    )
    assert findings(panel) == (
        "A mean recall of 0.99 or more is reached by cache at 64 slots (8.25 KiB; 0.995 [0.985, 1.000]) and "
        "whole at 256 slots (33 KiB; 1.000 [1.000, 1.000]). Intervals that begin below 0.99: cache. "
        "0.99 is not reached by window (best 0.942 [0.942, 0.942] at 128 slots). "
        "Best in the mean: at or under 64 slots cache (0.995 [0.985, 1.000]). "
        "Chance is 0.0625. Numbers are means over 10 seeds with 95% intervals."
    )


def test_equals_are_named_together(sample: ModuleType) -> None:
    text = findings(by_hand(sample, one=[(64, exact(1.0))], two=[(64, exact(1.0))]))
    assert "is reached by one and two at 64 slots" in text
    assert "at or under 64 slots one and two (1.000" in text


def test_nobody_reaches_the_target(sample: ModuleType) -> None:
    text = findings(by_hand(sample, low=[(64, exact(0.2))], high=[(64, exact(0.4))]))
    assert "No mechanism reaches 0.99: high (best 0.400 [0.400, 0.400] at 64 slots) and low" in text
    assert "is reached by" not in text


def test_many_curves_are_counted_not_listed(sample: ModuleType) -> None:
    text = findings(sample.crowd())
    assert re.search(r"and \d+ more\.", text)
    assert len(text) < 1500


def test_one_seed_has_no_interval(sample: ModuleType) -> None:
    text = findings(sample.panel(seeds=1))
    assert "Numbers are means over 1 seed, so that no interval is defined." in text
    assert "[" not in text


def test_nothing_finished(sample: ModuleType) -> None:
    report = sample.unfinished()
    assert findings(report.summary.panels[0]) == "No trial has finished, so there is nothing to compare yet."
    assert overview(report) == (
        "6 mechanisms in 45 cells on 1 workload: 0 of 450 trials finished. "
        "The sweep is running: the numbers below are partial."
    )


def test_overview_counts(sample: ModuleType) -> None:
    report = sample.report(sample.panel(failed=2), counts={"trials": 450, "done": 448, "failed": 2, "reused": 24})
    assert overview(report) == (
        "6 mechanisms in 45 cells on 1 workload: 448 of 450 trials finished, computed in 28 s; "
        "24 of 450 were reused from earlier sweeps. 2 trials failed."
    )
    assert overview(sample.report(summary=Summary(()))) == "450 of 450 trials finished, computed in 28 s."


def test_scores_state_what_they_are_relative_to(sample: ModuleType) -> None:
    assert scale_notes(sample.panel()) == (
        "Hypervolume over slots: reference size 256 slots, recall 0.",
        "Area over slots: from 16 to 256 slots.",
        "Hypervolume over bytes: reference size 33 KiB, recall 0.",
        "Area over bytes: from 2.06 KiB to 34 KiB.",
        "Intervals: paired bootstrap over seeds, 95%.",
    )
