"""Charts as shapes and as figures: points, whiskers and bands where the numbers say, breaks where there are none."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf, nan
from types import ModuleType

import pytest
from matplotlib.collections import PolyCollection

from dashboards.chart_figures import chart_figure
from dashboards.charts import BOTTOM, RIGHT, SPARSE, TOP, ChartView, draw_chart
from dashboards.style import LIGHT_COLOURS, styles
from tasks.summary import Chart, Line


def drawn(chart: Chart) -> ChartView:
    return draw_chart(chart, styles((), [chart]))


def corners(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)]


def test_points_stand_where_their_numbers_say() -> None:
    chart = Chart("x", "y", (Line("a", (0.0, 5.0, 10.0), (0.0, 1.0, 0.5)),))
    view = drawn(chart)
    (line,) = view.lines
    x, y = zip(*((dot.x, dot.y) for dot in line.dots), strict=True)
    assert x[0] == view.left
    assert x[2] - x[1] == pytest.approx(x[1] - x[0])
    assert y[0] == BOTTOM
    assert y[0] - y[1] == pytest.approx(2 * (y[0] - y[2]))
    assert corners(line.path) == [pytest.approx((dot.x, dot.y), abs=0.06) for dot in line.dots]
    assert TOP <= min(y) < max(x) <= RIGHT


def test_ticks_share_the_scale_of_points() -> None:
    view = drawn(Chart("x", "y", (Line("a", (1.0, 10.0, 100.0, 1000.0), (1.0, 2.0, 3.0, 4.0)),), log_x=True))
    place = {tick.text: tick.place for tick in view.x_ticks}
    assert [place[text] for text in ("1", "10", "100", "1,000")] == [dot.x for dot in view.lines[0].dots]


def test_few_points_have_whiskers_and_many_a_band() -> None:
    def line(points: int) -> Line:
        x = tuple(float(i) for i in range(points))
        return Line("a", x, x, tuple(i - 1 for i in x), tuple(i + 1 for i in x))

    few, many = (drawn(Chart("x", "y", (line(points),))).lines[0] for points in (SPARSE, SPARSE + 1))
    assert not few.band
    assert all(dot.bars and dot.seen for dot in few.dots)
    assert len(corners(many.band)) == 2 * (SPARSE + 1)
    assert not any(dot.bars for dot in many.dots)
    assert [dot.seen for dot in many.dots].count(True) < 12
    assert many.dots[-1].seen


def test_points_that_nothing_joins_are_each_a_mark_however_many() -> None:
    x = tuple(float(i) for i in range(4 * SPARSE))
    line = Line("a", x, x, tuple(i - 1 for i in x), tuple(i + 1 for i in x), joined=False)
    chart = Chart("x", "y", (line,))
    shapes = drawn(chart).lines[0]
    assert shapes.path == shapes.band == ""
    assert len(shapes.dots) == len(x)
    assert all(dot.seen and dot.bars for dot in shapes.dots)
    axes = chart_figure(chart, styles((), [chart])).axes[0]
    (marks,) = [one for one in axes.get_lines() if len(one.get_xdata()) == len(x)]
    assert marks.get_linestyle() == "None"
    assert not [shape for shape in axes.collections if isinstance(shape, PolyCollection)]


def test_a_line_follows_its_fitted_law_and_marks_stay_where_they_were_measured() -> None:
    line = Line("a", (1.0, 10.0, 100.0), (1.2, 9.0, 110.0), fit=(1.0, 10.0, 100.0))
    chart = Chart("x", "y", (line,), log_x=True, log_y=True)
    view = drawn(chart)
    (shapes,) = view.lines
    place = {tick.text: tick.place for tick in view.y_ticks}
    assert [y for _, y in corners(shapes.path)] == [pytest.approx(place[text], abs=0.06) for text in ("1", "10", "100")]
    assert shapes.dots[0].y < place["1"]
    assert view.notes == ("Lines are fitted laws, marks what was measured.",)
    law, marks = [
        one for one in chart_figure(chart, styles((), [chart])).axes[0].get_lines() if len(one.get_xdata()) == 3
    ]
    assert list(law.get_ydata()) == [1.0, 10.0, 100.0]
    assert list(marks.get_ydata()) == [1.2, 9.0, 110.0]


def test_whiskers_end_at_the_ends_of_the_interval() -> None:
    chart = Chart("x", "y", (Line("a", (0.0, 1.0, 2.0), (5.0, 5.0, 5.0), (2.0, None, 5.0), (10.0, 6.0, 5.0)),))
    view = drawn(chart)
    whiskered, undefined, exact = view.lines[0].dots
    place = {tick.text: tick.place for tick in view.y_ticks}
    low, high = re.findall(r"M[\d.]+ ([\d.]+)h6m-3 0V([\d.]+)", whiskered.bars)[0]
    assert (float(low), float(high)) == pytest.approx((place["2"], place["10"]), abs=0.06)
    assert undefined.bars == exact.bars == ""


def test_a_missing_point_breaks_the_line_and_is_told() -> None:
    view = drawn(Chart("x", "y", (Line("a", (0.0, 1.0, 2.0, 3.0, 4.0), (1.0, 2.0, nan, 3.0, 4.0)),)))
    assert view.lines[0].path.count("M") == 2
    assert [dot.key for dot in view.lines[0].dots] == ["0-0", "0-1", "0-3", "0-4"]
    assert view.notes == ("1 point without a number, where a line breaks.",)


def test_what_has_no_logarithm_is_told() -> None:
    view = drawn(Chart("x", "y", (Line("a", (0.0, 1.0, 2.0), (1.0, -1.0, 1.0)),), log_x=True, log_y=True))
    assert len(view.lines[0].dots) == 1
    assert view.notes == ("2 points not above 0 cannot stand on a log axis.",)
    assert view.x_title == "x (log scale)"


def test_intervals_below_0_end_at_the_edge_of_a_log_axis() -> None:
    chart = Chart("x", "y", (Line("a", (1.0,), (1.0,), (-3.0,), (4.0,)),), log_y=True)
    assert re.search(rf"M[\d.]+ {BOTTOM}h6", drawn(chart).lines[0].dots[0].bars)


def test_pointing_tells_x_y_and_interval(sample: ModuleType) -> None:
    view = drawn(sample.cost_section().charts[0])
    assert view.title == "microseconds a token against stream length (tokens)"
    told = view.points["1-8"]
    assert told["label"] == "full_attention"
    assert told["settings"] == "stream length (tokens): 131,072"
    assert told["lines"] == [["microseconds a token", "414.2", "[372.8, 455.6]"]]
    assert set(view.points) == {dot.key for line in view.lines for dot in line.dots}


def test_long_ticks_have_room() -> None:
    narrow, wide = (drawn(Chart("x", "y", (Line("a", (0.0, 1.0), (0.0, top)),))) for top in (1.0, 9e8))
    assert narrow.left == 66
    assert wide.left > 36 + 8 * len("800,000,000")


def test_columns_of_a_line_have_one_length() -> None:
    with pytest.raises(ValueError, match="zip"):
        drawn(Chart("x", "y", (Line("a", (0.0, 1.0), (0.0,)),)))


def test_a_label_has_one_style_in_curves_and_charts(sample: ModuleType) -> None:
    panel, chart = sample.panel(), sample.cost_section().charts[0]
    both = styles([panel], [chart])
    assert {label: both[label] for label in styles([panel])} == styles([panel])
    assert set(both) == {curve.label for curve in panel.curves}


def test_a_figure_shows_the_same_points_and_bands(sample: ModuleType) -> None:
    chart = sample.training_section().charts[0]
    axes = chart_figure(chart, styles((), [chart])).axes[0]
    first = next(line for line in axes.get_lines() if line.get_color() == LIGHT_COLOURS[0])
    assert list(first.get_xdata()) == list(chart.lines[0].x)
    assert list(first.get_ydata()) == list(chart.lines[0].y)
    (band,) = [shape for shape in axes.collections if isinstance(shape, PolyCollection)]
    heights = set(band.get_paths()[0].vertices[:, 1])
    assert set(chart.lines[0].low) | set(chart.lines[0].high) <= heights
    second = [line for line in axes.get_lines() if line.get_color() == LIGHT_COLOURS[1]]
    broken = [line for line in second if line.get_linestyle() != "None"]
    assert [len(line.get_xdata()) for line in broken] == [30, 60]


def test_a_figure_has_the_ticks_and_titles_of_the_page(sample: ModuleType) -> None:
    chart = sample.cost_section().charts[0]
    axes = chart_figure(chart, styles((), [chart])).axes[0]
    view = drawn(chart)
    assert [text.get_text() for text in axes.get_xticklabels()] == [tick.text for tick in view.x_ticks]
    assert [text.get_text() for text in axes.get_yticklabels()] == [tick.text for tick in view.y_ticks]
    assert (axes.get_xlabel(), axes.get_ylabel()) == (view.x_title, view.y_title)
    whiskers = axes.collections[0].get_segments()
    line = chart.lines[0]
    assert [segment[0][1] for segment in whiskers] == pytest.approx(line.low)
    assert [segment[1][1] for segment in whiskers] == pytest.approx(line.high)


@pytest.mark.parametrize("lines", [(), (Line("a", (), ()),), (Line("a", (nan, 1.0), (1.0, inf)),)])
def test_nothing_to_show_is_said(lines: tuple[Line, ...], sample: ModuleType) -> None:
    chart = replace(sample.cost_section().charts[0], lines=lines)
    assert drawn(chart).points == {}
    texts = [text.get_text() for text in chart_figure(chart, styles((), [chart])).axes[0].texts]
    assert "nothing measured yet" in texts
