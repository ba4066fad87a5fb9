"""The terminal table: whole at 80 columns, without colour, with every number beside its interval and n."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from types import ModuleType

import pytest
from rich.console import Console

from dashboards.terminal import summary_tables
from dashboards.text import byte_count, count, estimate, fraction
from tasks.summary import Summary


def printed(summary: Summary, width: int = 80) -> str:
    """What a terminal of `width` columns that knows no colour shows."""
    console = Console(file=StringIO(), width=width, color_system=None)
    console.print(summary_tables(summary))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_every_cell_is_whole_at_80_columns(sample: ModuleType) -> None:
    summary = sample.report(sample.panel(failed=2)).summary
    lines = printed(summary).splitlines()
    assert max(map(len, lines)) <= 80
    for curve in summary.panels[0].curves:
        assert any(line.split()[:1] == [curve.label] for line in lines)
        for point in curve.points:
            mean = {name: point.metrics[name].mean for name in ("slots", "bytes")}
            wanted = [estimate(point.metrics["recall"], fraction), count(mean["slots"]), byte_count(mean["bytes"])]
            wanted.append("10" if point.done == 10 else "8/10")
            wanted.append("sb" if point.on_frontier["slots"] else "–")
            assert any(" ".join(line.split()).endswith(" ".join(wanted)) for line in lines), wanted


def test_scores_have_intervals_and_say_what_they_are_relative_to(sample: ModuleType) -> None:
    text = " ".join(printed(sample.report().summary).split())
    assert "dp_cache slots 0.802 [0.798, 0.806] 0.802 [0.798, 0.806] bytes 0.802 [0.798, 0.806]" in text
    assert "reference size 256 slots" in text
    assert "Area over slots: from 16 to 256 slots" in text


def test_a_curve_of_one_point_takes_one_line(sample: ModuleType) -> None:
    lines = [line for line in printed(sample.report().summary).splitlines() if "full_attention" in line]
    assert len(lines) == 2
    assert "1.000 [1.000, 1.000]" in lines[0]


def test_warnings_follow_the_table(sample: ModuleType) -> None:
    text = printed(sample.report(warnings=("2 CPU models took part",)).summary)
    assert "warning: 2 CPU models took part" in text


def test_one_seed_is_undefined(sample: ModuleType) -> None:
    assert "1.000 [undefined]" in printed(sample.report(sample.panel(seeds=1)).summary)


def test_unfinished_cells_stay_visible(sample: ModuleType) -> None:
    text = printed(sample.unfinished().summary)
    assert text.count("0/10") == 45
    assert text.count("undefined") == 24
    assert "no cells" in printed(Summary(()))


@pytest.mark.parametrize("width", [80, 200])
def test_markup_and_long_names_are_text(width: int, sample: ModuleType) -> None:
    panel = sample.panel()
    labels = ["[red]not markup[/red]", *("x" * 120 for _ in panel.curves[1:])]
    curves = tuple(replace(curve, label=label) for curve, label in zip(panel.curves, labels, strict=True))
    text = printed(Summary((replace(panel, curves=curves, title="[bold]t"),), ("[/]",)), width)
    assert max(map(len, text.splitlines())) <= width
    assert "[red]not markup[/red]" in "".join(text.split("\n")).replace("  ", " ")
    assert "[bold]t" in text
    assert "warning: [/]" in text
    for point in panel.curves[1].points:
        assert estimate(point.metrics["recall"], fraction) in text
