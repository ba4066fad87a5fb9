"""Tables to work with: every number as it came in, every text safe in its format."""

from __future__ import annotations

import csv
import re
from io import StringIO
from pathlib import Path
from types import ModuleType

from dashboards.tables import as_csv, as_latex, as_markdown, mark_methods, metric_names, rows_of, write_tables
from tasks.summary import Summary


def number(text: str) -> float | None:
    return float(text) if text else None


def test_csv_holds_every_number_unrounded(sample: ModuleType) -> None:
    summary = sample.report(sample.panel(failed=2), sample.panel(seed=5, title="other")).summary
    cells = [(panel, curve, point) for panel in summary.panels for curve, point in rows_of(panel)]
    rows = list(csv.DictReader(StringIO(as_csv(summary))))
    assert len(rows) == len(cells) == 90
    for row, (panel, curve, point) in zip(rows, cells, strict=True):
        assert (row["panel"], row["mechanism"], row["curve"]) == (panel.title, curve.mechanism, curve.label)
        for name, item in point.settings.items():
            assert float(row[f"setting.{name}"]) == item
        for name, interval in point.metrics.items():
            assert number(row[name]) == interval.mean
            assert (number(row[f"{name}.low"]), number(row[f"{name}.high"])) == (interval.low, interval.high)
            assert (row[f"{name}.n"], row[f"{name}.method"]) == (str(interval.n), interval.method)
        assert [row["frontier.slots"], row["frontier.bytes"]] == [str(int(on)) for on in point.on_frontier.values()]
        assert [int(row[name]) for name in ("seeds", "done", "failed")] == [point.seeds, point.done, point.failed]


def test_what_does_not_exist_is_empty_in_csv(sample: ModuleType) -> None:
    one = next(csv.DictReader(StringIO(as_csv(sample.report(sample.panel(seeds=1)).summary))))
    assert one["recall"] == "1.0"
    assert one["recall.low"] == one["recall.high"] == ""
    waiting = next(csv.DictReader(StringIO(as_csv(sample.unfinished().summary))))
    assert "recall" not in waiting
    assert waiting["done"] == "0"


def test_markdown_tables_are_rectangular_and_inert(sample: ModuleType) -> None:
    text = as_markdown(sample.hostile().summary)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 45
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {9}
    assert "&lt;script&gt;" in text
    assert "<" not in text


def test_latex_rows_match_their_columns_and_specials_are_escaped(sample: ModuleType) -> None:
    text = as_latex(sample.hostile().summary)
    body = text[text.index(r"\toprule") :]
    rows = [line for line in body.splitlines() if line.endswith(r" \\")]
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)
    assert columns is not None
    assert len(rows) == 1 + 45
    assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(columns.group(1))}
    for row in rows:
        bare = re.sub(r"\\text[a-z]+\{\}|\\[{}$&#%_]|\\\\$", "", row)
        assert not re.search(r"[\\{}$#%_^~<>|\"]", bare), row
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1


def test_printed_numbers_carry_intervals_n_and_method(sample: ModuleType) -> None:
    summary = sample.report().summary
    point = summary.panels[0].curves[1].points[0]
    recall = point.metrics["recall"]
    shown = f"{recall.mean:.3f} [{recall.low:.3f}, {recall.high:.3f}]"
    for text in (as_markdown(summary).replace("\\", ""), as_latex(summary)):
        assert shown in text
        assert "10/10" in text
        assert "Student t over seeds, 95" in text


def test_metrics_come_in_the_order_of_the_glossary(sample: ModuleType) -> None:
    points = [point for _, point in rows_of(sample.panel())]
    assert metric_names(points)[:4] == ["recall", "recall_all", "recall_credited", "abstained"]
    points[0].metrics["zeta"] = points[0].metrics["alpha"] = points[0].metrics["recall"]
    assert metric_names(points)[-2:] == ["alpha", "zeta"]


def test_each_method_has_a_letter(sample: ModuleType) -> None:
    assert mark_methods(sample.report().summary) == {"a": "all seeds equal", "b": "Student t over seeds, 95%"}


def test_files(sample: ModuleType, tmp_path: Path) -> None:
    written = write_tables(sample.report().summary, tmp_path)
    assert [path.name for path in written] == ["frontier.csv", "frontier.md", "frontier.tex"]
    assert all(path.stat().st_size for path in written)
    assert as_csv(Summary(())).count("\n") == 1
