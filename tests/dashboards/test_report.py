"""The HTML report: self-contained, escaped, equal to its input, whole in every edge case."""

from __future__ import annotations

import base64
import csv
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest
from rich.console import Console

from dashboards.rendering import content_hash, moment
from dashboards.report import render_page, render_report
from dashboards.tables import rows_of
from dashboards.terminal import summary_tables
from dashboards.text import bounds, estimate, fraction, writer
from dashboards.words import findings
from tasks.summary import Panel, Point

VOID = {"meta", "link", "input", "br", "img", "hr"}
NEVER = {"img", "iframe", "object", "embed", "audio", "video", "base", "form"}


class Page(HTMLParser):
    """A parsed report: its elements, the text of each, and a check that tags nest."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.contents: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.contents.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.contents[tag][-1] += data

    def attributes(self, name: str) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get(name)) is not None]


def body_rows(html: str, table: str) -> list[list[tuple[str, str]]]:
    """(sort value, text) of each cell of each row of the table titled by the element with id `table`."""
    block = html[html.index(f'<h3 id="{table}">') :]
    body = block[block.index("<tbody>") : block.index("</tbody>")]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.S)
    cells = [re.findall(r"<t[hd]([^>]*)>(.*?)</t[hd]>", row, re.S) for row in rows]
    return [[(_sort(head), re.sub(r"<svg.*?</svg>|<[^>]+>", " ", text)) for head, text in row] for row in cells]


def _sort(head: str) -> str:
    found = re.search(r'data-sort="([^"]*)"', head)
    return found.group(1) if found else ""


@pytest.fixture(scope="module")
def html(sample: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    page: Path = render_report(sample.report(sample.panel(failed=2)), tmp_path_factory.mktemp("report"))
    return page.read_text(encoding="utf-8")


CASES = (
    "plain",
    "no cells",
    "nothing finished",
    "one seed",
    "all seeds of a cell failed",
    "one curve of one point",
    "no curves",
    "several panels",
    "a panel without recall",
    "not finite, and a size of 0",
    "no scale",
    "thirty curves",
    "long names",
    "hostile",
    "sections alone",
    "sections beside a panel",
    "hostile sections",
    "odd sections",
)


@pytest.fixture(scope="module")
def pages(sample: ModuleType) -> dict[str, str]:
    """The page of every case."""
    return {case: render_page(report, ["frontier.csv"]) for case, report in sample.cases().items()}


def test_every_case_is_tested(pages: dict[str, str]) -> None:
    assert set(CASES) == set(pages)


@pytest.mark.parametrize("case", CASES)
def test_a_report_is_well_formed_and_asks_for_nothing(case: str, pages: dict[str, str]) -> None:
    text = pages[case]
    page = Page(text)
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert not NEVER & {tag for tag, _ in page.elements}
    assert not page.attributes("src")
    assert not page.attributes("style")
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
        link = attributes.get("href")
        if tag == "link":
            assert link == "data:,"
        elif link is not None:
            assert link.startswith(("#", "data:text/csv;")) or not urlsplit(link).scheme
            assert not link.startswith("#") or link[1:] in ids
    for name in ("aria-labelledby", "for"):
        assert {part for value in page.attributes(name) for part in value.split()} <= set(ids)
    assert not re.search(
        r"url\(|@import|\bfetch\(|XMLHttpRequest|https?://", "".join(page.contents["script"] + page.contents["style"])
    )
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<(style|script).*?</\1>", "", text, flags=re.S))


@pytest.mark.parametrize("case", CASES)
def test_only_our_own_style_and_script_may_run(case: str, pages: dict[str, str]) -> None:
    page = Page(pages[case])
    policy = next(attributes["content"] for tag, attributes in page.elements if "http-equiv" in attributes)
    scripts = [attributes for tag, attributes in page.elements if tag == "script"]
    assert [attributes.get("type") for attributes in scripts[-1:]] == [None]
    assert {attributes.get("type") for attributes in scripts[:-1]} <= {"application/json"}
    assert policy == (
        f"default-src 'none'; img-src data:; style-src '{content_hash(page.contents['style'][0])}'; "
        f"script-src '{content_hash(page.contents['script'][-1])}'"
    )
    assert len(page.contents["style"]) == 1


def test_what_users_write_stays_text(sample: ModuleType) -> None:
    report = sample.hostile()
    text = render_page(report, [])
    page = Page(text)
    assert "<script>alert" not in text
    assert "<img" not in text
    assert page.contents["title"][0] == f"{report.name} · slotsweep report"
    assert page.contents["h1"][0] == report.name
    assert page.contents["code"][1] == report.spec
    assert report.summary.panels[0].title in page.contents["h3"]
    assert any(report.summary.panels[0].curves[0].label in name for name in page.contents["button"])
    (points,) = (json.loads(content) for content in page.contents["script"][:-1])
    assert points["0-0"]["label"] == report.summary.panels[0].curves[0].label


def test_the_table_of_cells_is_the_input(html: str, sample: ModuleType) -> None:
    panel = sample.panel(failed=2)
    rows = body_rows(html, "cells-1")
    head = re.findall(r"<button[^>]*>(.*?)</button>", html[html.index('<h3 id="cells-1">') :].partition("</thead>")[0])
    assert len(rows) == 45
    compared = 0
    for row, (curve, point) in zip(rows, rows_of(panel), strict=True):
        cells = dict(zip(head, row, strict=True))
        assert cells["mechanism"][1].strip() == curve.label
        for name, item in point.settings.items():
            assert float(cells[name][0]) == item
        for name, interval in point.metrics.items():
            if name in cells:
                assert float(cells[name][0]) == interval.mean
                assert cells[name][1].split() == [
                    writer(name)(interval.mean),
                    *bounds(interval, writer(name)).split(),
                    *cells[name][1].split()[-1:],
                ]
                compared += 1
        assert cells["seeds"][0] == str(point.done)
        assert cells["frontier"][1].strip() == (", ".join(axis for axis, on in point.on_frontier.items() if on) or "–")
    assert compared == 45 * 12


def test_constants_are_said_once(html: str) -> None:
    assert "The same in every cell: abstained 0.000, chance 0.0625, tokens 256, items 64." in html
    assert '<button type="button">tokens</button>' not in html


def test_constants_keep_their_intervals(sample: ModuleType) -> None:
    report = sample.report(sample.panel(seeds=1))
    assert "The same in every cell: abstained 0.000 [undefined], chance 0.0625 [undefined]" in render_page(report, [])


def test_hovering_tells_settings_interval_and_n(html: str, sample: ModuleType) -> None:
    panel = sample.panel(failed=2)
    points = json.loads(Page(html).contents["script"][0])
    assert len(points) == 45
    for i, curve in enumerate(panel.curves):
        for j, point in enumerate(curve.points):
            told = points[f"{i}-{j}"]
            assert told["label"] == curve.label
            assert told["seeds"] == ("n = 10" if point.done == 10 else "n = 8 of 10 seeds")
            assert " ".join(told["lines"][0][1:]) == estimate(point.metrics["recall"], fraction)
            assert all(str(round(item, 12)) in told["settings"] for item in point.settings.values())


def test_every_mark_of_every_view_has_its_point(html: str) -> None:
    keys = re.findall(r'data-key="([^"]+)"', html)
    points = json.loads(Page(html).contents["script"][0])
    assert sorted(keys) == sorted([*points] * 4)
    assert len(re.findall(r'<figure class="plot', html)) == 4


def test_filled_marks_are_the_frontier(html: str, sample: ModuleType) -> None:
    view = html[html.index('data-axis="slots" data-metric="recall"') :].partition("</figure>")[0]
    filled = set(re.findall(r'<use class="mark" [^>]*data-key="([^"]+)"', view))
    assert filled == {
        f"{i}-{j}"
        for i, curve in enumerate(sample.panel(failed=2).curves)
        for j, point in enumerate(curve.points)
        if point.on_frontier["slots"]
    }


def test_marks_stand_where_their_numbers_say(html: str, sample: ModuleType) -> None:
    """On a log axis equal ratios are equal distances; recall is linear."""
    view = html[html.index('data-axis="slots" data-metric="recall"') :].partition("</figure>")[0]
    place = {
        key: (float(x), float(y)) for x, y, key in re.findall(r'x="([\d.]+)" y="([\d.]+)" data-key="([^"]+)"', view)
    }
    recency = sample.panel(failed=2).curves[3]
    x = [place[f"3-{j}"][0] for j in range(9)]
    assert x[2] - x[0] == pytest.approx(x[4] - x[2], abs=0.2)
    assert x[8] - x[4] == pytest.approx(2 * (x[4] - x[2]), abs=0.2)
    recalls = [point.metrics["recall"].mean for point in recency.points]
    y = [place[f"3-{j}"][1] for j in range(9)]
    scale = (y[0] - y[8]) / (recalls[8] - recalls[0])
    for recall, height in zip(recalls, y, strict=True):
        assert y[0] - height == pytest.approx(scale * (recall - recalls[0]), abs=0.2)


def test_the_best_of_each_matched_size_is_marked(html: str) -> None:
    rows = {row[0][1].strip(): row for row in body_rows(html, "matched-1-1")}
    for column in range(1, len(rows["dp_cache"])):
        values = {label: float(row[column][0]) for label, row in rows.items() if row[column][0]}
        best = {label for label, row in rows.items() if "▲" in row[column][1]}
        assert best == {label for label, value in values.items() if value == max(values.values())}
    assert rows["full_attention"][1] == ("", "–")


def test_problems_are_told_first(html: str) -> None:
    told = html[html.index("Read this first") : html.index('id="frontier"')]
    assert "<b>h2o</b> (budget 48): 2 failed of 10 seeds" in told
    assert "<b>out_of_memory</b> 2" in told
    assert html.index("Read this first") < html.index("<figure")


def test_nothing_is_wrong_in_a_good_report(sample: ModuleType) -> None:
    assert "Read this first" not in render_page(sample.report(), [])


def test_null_facts_give_their_reason_and_never_0(html: str) -> None:
    rows = {row[0][1].strip(): " ".join(row[1][1].split()) for row in body_rows(html, "hardware")}
    assert rows["gpu_driver"] == "not measured no GPU"
    assert rows["energy_joules"] == "not measured RAPL counters are not readable by this user"
    assert rows["ram_bytes"] == "15.6 GiB 16,777,216,000 bytes"
    assert rows["git_dirty"] == "no"
    assert not [name for name in rows if name.endswith("_reason")]


def test_machines_stand_side_by_side(sample: ModuleType) -> None:
    machines = (sample.HARDWARE, {"cpu_model": "Apple M4", "ram_bytes": None})
    rows = {row[0][1].strip(): row for row in body_rows(render_page(sample.report(hardware=machines), []), "hardware")}
    assert rows["cpu_model"][2][1].strip() == "Apple M4"
    assert rows["ram_bytes"][2][1].split() == ["not", "measured", "no", "reason", "recorded"]
    assert rows["os"][2][1].strip() == "not recorded"


def test_scores_state_reference_and_range(html: str) -> None:
    rows = {row[0][1].strip(): row for row in body_rows(html, "scores-1")}
    assert rows["dp_cache"][1][1].split() == ["0.802", "[0.798,", "0.806]"]
    assert "Hypervolume over slots: reference size 256 slots, recall 0. Area over slots: from 16 to 256 slots." in html


def test_undefined_scores_say_why(sample: ModuleType) -> None:
    rows = body_rows(render_page(sample.unfinished(), []), "scores-1")
    assert rows[0][1][1].split() == ["undefined", "too", "few", "points", "finished"]


def test_the_csv_inside_is_the_csv_beside(html: str, sample: ModuleType, tmp_path: Path) -> None:
    link = next(value for value in Page(html).attributes("href") if value.startswith("data:text/csv"))
    inside = base64.b64decode(link.split("base64,")[1]).decode()
    render_report(sample.report(sample.panel(failed=2)), tmp_path)
    assert inside == (tmp_path / "frontier.csv").read_bytes().decode()
    assert len(list(csv.reader(StringIO(inside)))) == 46


def test_the_folder_can_be_moved(sample: ModuleType, tmp_path: Path) -> None:
    page = render_report(sample.report(), tmp_path / "new" / "folder")
    moved = page.parent.rename(tmp_path / "moved")
    links = [link for link in Page((moved / "report.html").read_text()).attributes("href") if ":" not in link]
    files = [link for link in links if not link.startswith("#")]
    assert len(files) == 9
    assert all((moved / file).is_file() for file in files)
    assert str(tmp_path) not in (moved / "report.html").read_text()


def test_equal_input_gives_equal_pages(sample: ModuleType) -> None:
    assert render_page(sample.report(), []) == render_page(sample.report(), [])


def test_spec_and_commands_are_given_whole(html: str, sample: ModuleType) -> None:
    codes = Page(html).contents["code"]
    assert sample.SPEC in codes
    assert "\n".join(sample.report().reproduce) in codes


def test_mechanisms_are_described_by_their_own_documentation(html: str) -> None:
    assert "Dirichlet-process cache, Method I" in html


def test_moments() -> None:
    assert moment("2026-07-14T11:12:03+02:00") == "2026-07-14 09:12:03 UTC"
    assert moment("2026-07-14T09:12:03") == "2026-07-14 09:12:03 UTC"
    assert moment("soon") == "soon"


def test_heavy_imports_wait_until_something_is_drawn() -> None:
    code = (
        "import sys, dashboards.report, dashboards.terminal\n"
        "print(sorted({'matplotlib', 'jinja2', 'rich', 'pandas', 'plotly', 'numba', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_five_curves_of_ten_points_take_under_a_second_and_a_half(
    sample: ModuleType, tmp_path: Path, pace: float
) -> None:
    report = sample.report(sample.crowd(curves=5, points=10, seeds=10))
    render_report(report, tmp_path)
    began = time.process_time()
    render_report(report, tmp_path)
    assert time.process_time() - began < 1.5 * pace


def without_slots(panel: Panel) -> Panel:
    """The panel as it would be of networks: their sizes are bytes alone."""

    def bare(point: Point) -> Point:
        return replace(point, metrics={k: one for k, one in point.metrics.items() if not k.startswith("slots")})

    curves = (replace(curve, points=tuple(map(bare, curve.points))) for curve in panel.curves)
    return replace(panel, curves=tuple(curves), reference={}, size_range={})


def test_where_nothing_has_slots_none_are_spoken_of(sample: ModuleType, tmp_path: Path) -> None:
    report = sample.report()
    panels = tuple(map(without_slots, report.summary.panels))
    assert replace(report.summary, panels=panels).axes == ("bytes",)
    for panel in panels:
        assert "slots" not in findings(panel)
        assert "KiB" in findings(panel)
    summary = replace(report.summary, panels=panels, sections=())
    html = render_page(replace(report, summary=summary), [])
    assert 'id="axis-bytes"' in html
    assert 'id="axis-slots"' not in html
    assert "hypervolume, slots" not in html
    console = Console(file=StringIO(), width=80, color_system=None)
    console.print(summary_tables(summary))
    assert " slots " not in console.file.getvalue().split("on: frontier")[0]
