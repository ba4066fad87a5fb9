"""Sections of a report: on the page, in files beside it and in a terminal, with or without panels."""

from __future__ import annotations

import base64
import csv
import re
from dataclasses import replace
from io import StringIO
from math import isnan
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from dashboards.figures import write_figures
from dashboards.grids import grid_csv, grid_latex, grid_markdown, numeric_columns
from dashboards.report import render_page, render_report
from dashboards.tables import mark_methods
from dashboards.terminal import summary_tables
from tasks.summary import Grid, Interval, Section, Summary
from tests.quiet import warnings_fail


@pytest.fixture(scope="module")
def folder(sample: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cost")
    render_report(sample.cost(), folder)
    return folder


@pytest.fixture(scope="module")
def html(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def text_of(html: str) -> str:
    """What a reader sees, on one line."""
    seen = re.sub(r"<(style|script|title).*?</\1>", " ", html, flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", seen).split())


def test_files_stand_beside_the_page_under_the_name_of_the_section(folder: Path) -> None:
    images = {f"{stem}.{suffix}" for stem in ("cost", "training-1", "training-2") for suffix in ("png", "svg", "pdf")}
    assert {path.name for path in folder.iterdir()} == images | {"cost.csv", "cost.md", "cost.tex", "report.html"}


def test_where_there_is_no_frontier_none_is_spoken_of(html: str, folder: Path) -> None:
    assert "frontier" not in text_of(html).lower()
    assert "ypervolume" not in text_of(html)
    assert not re.search(r'id="(frontier|cells|scores)"', html)
    for path in (folder / "cost.md", folder / "cost.tex"):
        assert "frontier" not in path.read_text()
    assert "42 of 42 trials finished, computed in 28 s." in text_of(html)
    assert "slotsweep report · cost_scaling" in text_of(html)
    assert 'href="#section-cost">Skip to the results' in html


def test_an_empty_sweep_says_so(sample: ModuleType) -> None:
    page = render_page(sample.report(summary=Summary(())), [])
    assert "This sweep has no cells yet." in text_of(page)
    assert "In the folder of this page" not in page


def test_headings_and_sentences_come_in_their_order(html: str) -> None:
    text = text_of(html)
    wanted = ["What a token costs", "The build exponent of dp_cache is 1.00.", "full_attention is extrapolated"]
    places = [text.rindex(part) for part in wanted]
    assert places == sorted(places)
    contents = html[html.index("<nav") : html.index("</nav>")]
    assert re.findall(r'href="#([^"]+)"', contents)[:2] == ["section-cost", "section-training"]


def test_panels_come_first_and_keep_their_headings(sample: ModuleType) -> None:
    page = render_page(sample.cases()["sections beside a panel"], [])
    ids = re.findall(r'<section id="([^"]+)"', page)
    assert ids[:5] == ["frontier", "section-cost", "section-training", "cells", "scores"]


def table_rows(html: str, section: str) -> list[list[str]]:
    block = html[html.index(f'<section id="section-{section}"') :]
    block = block[block.rindex('<table class="sortable"', 0, block.index("</section>")) :]
    body = block[block.index("<tbody>") : block.index("</tbody>")]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.S)
    cells = [re.findall(r"<t[hd].*?</t[hd]>", row, re.S) for row in rows]
    return [[" ".join(re.sub(r"<svg.*?</svg>|<[^>]+>", " ", cell).split()) for cell in row] for row in cells]


def test_the_table_holds_means_intervals_letters_and_dashes(html: str) -> None:
    assert table_rows(html, "cost") == [
        ["dp_cache", "1.003 [0.983, 1.023], n = 7 a", "0.9996 [0.999, 0.9998], n = 7 b", "131,072", "0.9", "yes"],
        ["full_attention", "1.98 [1.88, 2.08], n = 7 a", "1.000 [1.000, 1.000], n = 7 b", "8,192", "12,346", "no"],
        ["kanerva", "–", "0.310 [undefined], n = 1 c", "–", "–", "–"],
    ]
    text = text_of(html)
    assert "( a bootstrap over repeats, 95%; b Student t over 7 seeds; c undefined: one seed); n = 1 to 7." in text


def test_numbers_that_share_their_n_say_it_once(sample: ModuleType) -> None:
    table = Grid(("mechanism", "recall"), (("a", sample.estimate(0.5)), ("b", sample.estimate(0.7))))
    page = render_page(sample.cost(Section("one", "One", table=table)), [])
    assert table_rows(page, "one") == [["a", "0.500 [0.480, 0.520]"], ["b", "0.700 [0.680, 0.720]"]]
    assert "Below each mean its 95% interval (Student t over 7 seeds); n = 7." in text_of(page)


def test_letters_go_on_from_the_panels(sample: ModuleType) -> None:
    summary = sample.cases()["sections beside a panel"].summary
    alone = mark_methods(replace(summary, sections=()))
    both = mark_methods(summary)
    assert list(both)[: len(alone)] == list(alone)
    assert set(both.values()) - set(alone.values()) == {
        "bootstrap over repeats, 95%",
        "Student t over 7 seeds",
        "undefined: one seed",
    }


def test_a_table_says_only_its_own_methods(sample: ModuleType) -> None:
    page = render_page(sample.cases()["sections beside a panel"], [])
    cells = text_of(page[page.index('<section id="cells"') :])
    assert "bootstrap over repeats" not in cells[: cells.index("Save as CSV")]


def test_sorting_uses_the_unrounded_numbers(html: str) -> None:
    assert 'data-sort="12345.678"' in html
    assert 'data-sort="0.9996"' in html
    assert 'data-sort="None"' not in html


def test_what_is_saved_is_the_csv_beside(html: str, folder: Path) -> None:
    link = re.search(r'download="swp-7f3a9c-cost.csv" href="data:text/csv;charset=utf-8;base64,([^"]+)"', html)
    assert link is not None
    assert base64.b64decode(link.group(1)) == (folder / "cost.csv").read_bytes()


def test_csv_has_every_number_unrounded(sample: ModuleType) -> None:
    grid = sample.cost_section().table
    rows = list(csv.DictReader(StringIO(grid_csv(grid))))
    assert len(rows) == 3
    for row, (mechanism, exponent, recall, tokens, share, warm) in zip(rows, grid.rows, strict=True):
        assert row["mechanism"] == mechanism
        assert row["warm"] == ("" if warm is None else str(warm))
        assert row["tokens"] == ("" if tokens is None else str(tokens))
        assert row["of it measured"] == ("" if isnan(share) else repr(share))
        for name, found in (("exponent", exponent), ("recall", recall)):
            ends = (None,) * 5 if found is None else (found.mean, found.low, found.high, found.n, found.method)
            fields = [row[name], *(row[f"{name}.{part}"] for part in ("low", "high", "n", "method"))]
            assert fields == ["" if end is None else str(end) for end in ends]


def test_markdown_and_latex_are_rectangular_and_inert(sample: ModuleType) -> None:
    section = sample.hostile_section()
    markdown = grid_markdown(section, section.table)
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 3
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {7}
    assert not re.search(r"(?<!\\)<", markdown)
    latex = grid_latex(section, section.table)
    rows = [line for line in latex.splitlines() if line.endswith(r" \\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {5}
    for row in rows:
        bare = re.sub(r"\\text[a-z]+\{\}|\\[{}$&#%_]|\\\\$", "", row)
        assert not re.search(r"[\\{}$#%_^~<>|\"]", bare), row


def test_markup_stays_text_on_the_page(sample: ModuleType, tmp_path: Path) -> None:
    with warnings_fail():
        page = render_report(sample.cost(sample.hostile_section()), tmp_path).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; | $x$" in page


def test_columns_of_numbers_are_told_apart_from_text() -> None:
    estimate = Interval(1.0, 0.9, 1.1, 3, "t")
    grid = Grid(("a", "b", "c", "d", "e"), ((1, estimate, "x", None, True), (2.5, None, 3, None, False)))
    assert numeric_columns(grid) == [True, True, False, False, False]


@pytest.mark.parametrize("name", ["frontier", "report", "frontier-slots", "a/b", "..", "Big", "", "a b"])
def test_a_name_that_cannot_name_files_is_refused(name: str, sample: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fit for a file's name"):
        render_report(sample.cost(Section(name, "t")), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_name_used_twice_is_refused(sample: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got 'one'"):
        render_report(sample.cost(Section("one", "t"), Section("one", "u")), tmp_path)


def test_equal_numbers_give_equal_figures(sample: ModuleType, tmp_path: Path) -> None:
    summary = sample.cost().summary
    (tmp_path / "again").mkdir()
    for one, other in zip(write_figures(summary, tmp_path), write_figures(summary, tmp_path / "again"), strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_mechanisms_and_metrics_of_a_table_are_defined(html: str) -> None:
    definitions = text_of(html[html.index('<section id="definitions"') :])
    assert "Dirichlet-process cache, Method I" in definitions
    assert "Share of right answers to the queries" in definitions
    assert "not installed here" not in definitions


def printed(summary: Summary, width: int) -> str:
    console = Console(file=StringIO(), width=width, color_system=None)
    console.print(summary_tables(summary))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_every_number_is_whole_in_a_terminal_of_any_width(width: int, sample: ModuleType) -> None:
    text = printed(sample.cost().summary, width)
    assert max(map(len, text.splitlines())) <= width
    for number in ("[0.983, 1.023]", "[0.999, 0.9998]", "0.9996", "131,072", "12,346", "[undefined]"):
        assert number in text
    together = " ".join(text.split())
    assert "The build exponent of dp_cache is 1.00." in together
    assert "n = 1 to 7" in together
    assert "frontier" not in together
    assert "Training" not in together


def test_a_table_too_wide_goes_on_below_with_its_first_column(sample: ModuleType) -> None:
    assert printed(sample.cost().summary, 120).count("kanerva") == 1
    assert printed(sample.cost().summary, 60).count("kanerva") == 2


def test_every_part_names_its_rows(sample: ModuleType) -> None:
    rows = tuple(("a", f"repeats {i}", *(sample.estimate(float(i)) for _ in range(6))) for i in range(3))
    grid = Grid(("mechanism", "workload", *(f"measured {i}" for i in range(6))), rows)
    text = printed(Summary((), (), (Section("one", "One", table=grid),)), 80)
    parts = text.count("mechanism")
    assert parts > 1
    assert text.count("repeats 2") == parts
    assert all(text.count(f"measured {i}") == 1 for i in range(6))


def test_sections_follow_panels_in_a_terminal(sample: ModuleType) -> None:
    text = printed(sample.cases()["sections beside a panel"].summary, 80)
    assert text.index("on: frontier over slots") < text.index("What a token costs")


def test_text_of_a_section_is_no_markup_in_a_terminal() -> None:
    section = Section("one", "[red]title", ("[/]",), Grid(("[b]a",), (("[red]x",),)))
    text = printed(Summary((), (), (section,)), 80)
    for part in ("[red]title", "[/]", "[b]a", "[red]x"):
        assert part in text


def test_a_table_without_rows_says_so(sample: ModuleType) -> None:
    assert "Nothing measured yet." in printed(Summary((), (), sample.odd_sections()), 80)
