"""Figures for papers: drawn from the numbers given, whatever the labels, the same each time."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.collections import PolyCollection

from dashboards.figures import frontier_figure, write_figures
from dashboards.style import LIGHT_COLOURS, styles
from tasks.summary import Panel, Summary

MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("case", ["report", "hostile", "unfinished"])
def test_every_case_gives_three_whole_files_for_each_axis(case: str, sample: ModuleType, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
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
