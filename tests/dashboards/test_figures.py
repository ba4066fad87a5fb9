"""Figures for papers: drawn from the numbers given, whatever the labels, the same each time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.collections import PolyCollection

from dashboards.drawing import draw
from dashboards.figures import BEHIND_PEN, frontier_figure, write_figures
from dashboards.page import panel_page
from dashboards.paper import bound_pen, paper_axes
from dashboards.style import LIGHT_COLOURS, styles
from dashboards.words import findings
from tasks.summary import Interval, Panel, Point, Summary
from tests.quiet import warnings_fail

MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("case", ["report", "hostile", "unfinished"])
def test_every_case_gives_three_whole_files_for_each_axis(case: str, sample: ModuleType, tmp_path: Path) -> None:
    with warnings_fail():
        written = write_figures(getattr(sample, case)().summary, tmp_path)
    assert [path.name for path in written] == [
        f"frontier-{axis}.{suffix}" for axis in ("slots", "bytes") for suffix in ("png", "svg", "pdf")
    ]
    for path in written:
        assert path.read_bytes().startswith(MAGIC[path.suffix])


def test_several_panels_are_numbered(sample: ModuleType, tmp_path: Path) -> None:
    small = sample.crowd(curves=2, points=2)
    names = {path.name for path in write_figures(Summary((small, small)), tmp_path)}
    assert names == {
        f"frontier-{axis}-{i}.{suffix}"
        for axis in ("slots", "bytes")
        for i in (1, 2)
        for suffix in ("png", "svg", "pdf")
    }


def test_equal_numbers_give_equal_files(sample: ModuleType, tmp_path: Path) -> None:
    summary = Summary((sample.crowd(curves=3, points=3),))
    for one, other in zip(write_figures(summary, tmp_path), write_figures(summary, tmp_path / ".."), strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("axis", ["slots", "bytes"])
def test_points_steps_and_bands_are_those_of_the_input(axis: str, sample: ModuleType) -> None:
    panel: Panel = sample.panel()
    curve = panel.curves[1]
    axes = frontier_figure(panel, axis, styles([panel])).axes[0]
    colour = LIGHT_COLOURS[1]
    expected = {(one.metrics[axis].mean, one.metrics["recall"].mean) for one in curve.points}
    lines = [line for line in axes.get_lines() if line.get_color() == colour]
    marks = [line for line in lines if line.get_marker() == "s"]
    assert {(x, y) for line in marks for x, y in zip(*line.get_data(), strict=True)} == expected
    steps = next(line for line in lines if line.get_drawstyle() == "steps-post")
    frontier = [one for one in curve.points if one.on_frontier[axis]]
    assert list(steps.get_xdata()) == [one.metrics[axis].mean for one in frontier]
    assert list(steps.get_ydata()) == [one.metrics["recall"].mean for one in frontier]
    bands = [shape for shape in axes.collections if isinstance(shape, PolyCollection)]
    band = bands[1].get_paths()[0].vertices[:, 1]
    assert {one.metrics["recall"].low for one in frontier} <= set(band)
    assert {one.metrics["recall"].high for one in frontier} <= set(band)


def test_labels_stand_in_the_legend_as_they_are(sample: ModuleType) -> None:
    panel = sample.hostile().summary.panels[0]
    legend = frontier_figure(panel, "slots", styles([panel])).axes[0].get_legend()
    texts = legend.get_texts()
    assert [text.get_text()[:10] for text in texts] == [curve.label[:10] for curve in panel.curves]
    assert not any(text.get_parse_math() for text in texts)


def with_roles(sample: ModuleType, memories: int) -> Panel:
    """Memories, then two states of fixed size and a bound; each memory's frontier lies above that of the one before."""
    panel: Panel = sample.crowd(curves=memories, points=3, seeds=3)
    template = panel.curves[0].points[0]

    def at(slots: float, recall: float) -> Point:
        sizes = {
            axis: replace(template.metrics[axis], mean=slots, low=slots, high=slots) for axis in ("slots", "bytes")
        }
        share = Interval(recall, recall - 0.01, recall + 0.01, 3, "t")
        return replace(template, metrics=sizes | {"recall": share}, on_frontier={"slots": True, "bytes": True})

    curves = [
        replace(curve, label=f"m{n}", points=(at(16, 0.01 * n), at(64, 0.3 + 0.01 * n)))
        for n, curve in enumerate(panel.curves)
    ]
    states = [replace(curves[0], label=f"state{n}", points=(at(32, 0.8 + n / 10),), role="state") for n in range(2)]
    bound = replace(
        curves[0], label="opt", points=(at(16, 0.5), at(64, 0.9)), role="bound", bounds="of one item a slot"
    )
    return replace(panel, curves=(*curves, *states, bound))


def test_bounds_states_and_memories_that_are_never_best_look_so(sample: ModuleType) -> None:
    panel = with_roles(sample, 20)
    axes = frontier_figure(panel, "slots", styles([panel])).axes[0]
    stairs = [line for line in axes.get_lines() if line.get_drawstyle() == "steps-post"]
    assert len(stairs) == 19 + 1 + 1, "none of states of fixed size"
    assert {line.get_color() for line in stairs[:19]} == {BEHIND_PEN["color"]}
    assert [line.get_color() for line in stairs[19:]] == [LIGHT_COLOURS[0], bound_pen(0)["color"]]
    assert "of one item a slot" in [text.get_text() for text in axes.texts]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "memories", "m19", "19 never best: see table", "states of fixed size", "state0", "state1", "bounds", "opt",
    ]  # fmt: skip
    of_bytes = frontier_figure(panel, "bytes", styles([panel])).axes[0]
    assert "of one item a slot" not in [text.get_text() for text in of_bytes.texts]


def test_the_page_groups_its_legend_and_draws_what_leads_before_the_rest(sample: ModuleType) -> None:
    panel = with_roles(sample, 20)
    view = draw(panel, "slots", "recall", styles([panel]))
    assert [(heading, len(curves)) for heading, curves in view.groups] == [
        ("memories", 1), ("memories never best, in grey", 19), ("states of fixed size", 2), ("bounds", 1),
    ]  # fmt: skip
    assert [curve.label for curve in view.layers[-4:]] == ["state0", "state1", "m19", "opt (of one item a slot)"]
    assert [bool(curve.line) for curve in view.layers[-4:]] == [False, False, True, True]
    assert [bool(curve.band) for curve in view.layers[-4:]] == [False, False, True, False]
    few = with_roles(sample, 3)
    assert [heading for heading, _ in draw(few, "slots", "recall", styles([few])).groups] == [
        "memories", "states of fixed size", "bounds",
    ]  # fmt: skip


def test_words_and_matched_sizes_do_not_take_a_bound_for_the_best(sample: ModuleType) -> None:
    panel = with_roles(sample, 3)
    assert "opt" not in findings(panel)
    page = panel_page(panel, ("slots",), ("recall",), styles([panel]), {})
    best = [row.cells[0].text for row in page.comparisons[0].matched.rows if any(cell.best for cell in row.cells)]
    assert best == ["m2", "state1"]
    assert any("bounds in slots" in note for note in page.notes)


def test_a_long_label_gets_room_beside_the_figure() -> None:
    """As much more as it has more letters, up to where it is cut."""
    widths = [paper_axes([label])[0].get_figwidth() for label in ("short", "x" * 28, "x" * 40, "x" * 44, "x" * 90)]
    assert widths[0] == pytest.approx(widths[1])
    assert widths[1] < widths[2] < widths[3] == widths[4]
