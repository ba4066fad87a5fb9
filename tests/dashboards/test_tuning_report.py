"""Reports of sweeps that tune, drawn: what a reader finds on the page, in files and in a terminal."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from rich.console import Console

from dashboards.report import render_report
from dashboards.terminal import summary_tables
from tasks.summary import Summary
from tests.tasks import test_tuning_sections as tuning


@pytest.fixture(scope="module")
def bounded() -> Summary:
    """One study under a constraint, its best measured on held-out seeds beside two references."""
    return tuning.summary_of(tuning.BOUNDED, [tuning.study()], tuning.HISTORY, tuning.own_rows())


@pytest.fixture(scope="module")
def two_objectives() -> Summary:
    """Two samplers, three repeats of 40 proposals each, recall against slots."""
    rng = np.random.default_rng(0)
    labels, made = [], []
    for sampler in ("tpe", "random"):
        for repeat in range(3):
            number = len(labels)
            labels.append(tuning.study(number, sampler=sampler, repeat=repeat))
            for place in range(40):
                tau = float(rng.uniform(0.05, 0.95))
                recall = 1 - tau**2 + 0.05 * float(rng.normal())
                made.append(tuning.proposal(place, tau, study=number, recall=recall, slots=40 * (1 - tau) + 2))
    return tuning.summary_of(tuning.BOTH, labels, made)


def drawn(summary: Summary, sample: ModuleType, folder: Path) -> str:
    report = replace(sample.cost(), kind="tuning", summary=summary)
    return render_report(report, folder).read_text(encoding="utf-8")


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", re.sub(r"<(style|script).*?</\1>", " ", html, flags=re.S)).split())


def part(html: str, name: str) -> str:
    start = html.index(f'<section id="section-{name}"')
    return html[start : html.index("</section>", start)]


def test_the_page_tells_optimistic_numbers_from_the_one_to_quote(
    bounded: Summary, sample: ModuleType, tmp_path: Path
) -> None:
    html = drawn(bounded, sample, tmp_path)
    best = words(part(html, "best-1"))
    assert "optimistic" in best
    assert "theirs is the number to quote" in best
    assert "0.600 [0.589, 0.611]" in best.replace("0.600  ", "0.600 ")
    assert "tau 0.5" in best
    assert "broken" in best
    assert "Entries held, averaged over tokens." in words(html), "columns of a table are defined by their metric"
    table = list(csv.DictReader(StringIO((tmp_path / "best-1.csv").read_text(encoding="utf-8"))))
    assert [row["mechanism"] for row in table] == ["dp_cache tpe", "item_lru", "full_attention"]
    assert float(table[0]["recall, held-out seeds"]) == pytest.approx(0.6)
    assert float(table[0]["slots_mean, held-out seeds"]) == 26.5
    assert float(table[0]["slots_phase_end, held-out seeds"]) == 17.0


def test_every_part_of_a_tuning_report_is_drawn(two_objectives: Summary, sample: ModuleType, tmp_path: Path) -> None:
    html = drawn(two_objectives, sample, tmp_path)
    for name, charts in (("front-1", 1), ("history-1", 1), ("importances-1", 0), ("slices-1", 2), ("proposals-1", 0)):
        assert part(html, name).count('<article class="panel chart"') == charts
    slices, history = part(html, "slices-1"), part(html, "history-1")
    assert slices.count('<use class="mark"') == 2 * 2 * 40, "both samplers' first studies, for both objectives"
    assert not re.search(r'<g class="curve[^>]*>\s*<path class="line"', slices), "nothing joins proposals"
    assert re.search(r'<g class="curve[^>]*>\s*<path class="line"', history)
    assert history.count('<path class="band') == 2
    assert "reference point (recall" in words(history)
    images = {path.name for path in tmp_path.iterdir()}
    assert {"history-1.svg", "front-1.png", "slices-1-1.pdf", "slices-1-2.pdf", "importances-1.tex"} <= images


@pytest.mark.parametrize("width", [60, 120])
def test_a_terminal_shows_the_tables(width: int, bounded: Summary, two_objectives: Summary) -> None:
    for summary, title in ((bounded, "Best: phased_recall"), (two_objectives, "Pareto front: phased_recall")):
        console = Console(file=StringIO(), width=width, color_system=None)
        console.print(summary_tables(summary))
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert title in text
        assert max(map(len, text.splitlines())) <= width
