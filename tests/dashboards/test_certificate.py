"""Certificates: every claim with its verdict and what stands behind it, in every form; inert and whole."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from dashboards.certificate import as_json, as_markdown, certificate_table, render_certificate, render_page
from dashboards.claim_words import by_place, counted, in_a_sentence, measured_text, published_text
from dashboards.rendering import TEMPLATES, content_hash
from tasks.certificate import VERDICTS, Certificate, claim_record

PROMISED = {"id", "where", "published", "measured", "interval", "n", "test", "verdict", "reason", "sweep"}


class Page(HTMLParser):
    """Elements with their attributes, and the text of each claim's row by anchor; tags must nest."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: dict[str, str] = {}
        self.open: list[str] = []
        self.row = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag not in {"meta", "link", "input"}:
            self.open.append(tag)
        if "claim" in (attributes.get("class") or "").split():
            self.row = attributes["id"] or ""
            self.rows[self.row] = ""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "tbody" and self.open.count("table") == 1:
            self.row = ""

    def handle_data(self, data: str) -> None:
        if self.row:
            self.rows[self.row] += f" {data}"

    def attributes(self, name: str) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get(name)) is not None]


@pytest.fixture(scope="module")
def html(sample: ModuleType) -> str:
    return render_page(sample.certificate())


@pytest.fixture(scope="module")
def rows(html: str) -> dict[str, str]:
    return {anchor: " ".join(text.split()) for anchor, text in Page(html).rows.items()}


def nothing(sample: ModuleType) -> Certificate:
    made: Certificate = sample.certificate(judgements=(), machines=(), software={}, reports={}, seconds=None)
    return made


@pytest.mark.parametrize("case", ["certificate", "hostile_certificate", "nothing"])
def test_a_page_is_well_formed_and_asks_for_nothing(case: str, sample: ModuleType) -> None:
    certificate = nothing(sample) if case == "nothing" else getattr(sample, case)()
    text = render_page(certificate)
    page = Page(text)
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert not any(re.search(r"\s", name) for name in ids)
    assert not {"img", "iframe", "object", "form", "base"} & {tag for tag, _ in page.elements}
    assert not page.attributes("src")
    assert not page.attributes("style")
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
        link = attributes.get("href")
        if tag != "link" and link is not None:
            assert link.startswith("#") or ":" not in link
            assert not link.startswith("#") or link[1:] in ids
    for name in ("aria-labelledby", "for"):
        assert {part for value in page.attributes(name) for part in value.split()} <= set(ids)
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<(style|script).*?</\1>", "", text, flags=re.S))


def test_only_our_own_style_and_script_may_run(html: str) -> None:
    style, script = (re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S) for tag in ("style", "script"))
    assert len(style) == len(script) == 1
    assert (
        f"default-src 'none'; img-src data:; style-src '{content_hash(style[0])}'; "
        f"script-src '{content_hash(script[0])}'"
    ) in html
    assert not re.search(r"url\(|@import|\bfetch\(|XMLHttpRequest|https?://", style[0] + script[0])


def test_every_claim_stands_under_its_place_with_its_verdict(
    html: str, rows: dict[str, str], sample: ModuleType
) -> None:
    judgements = sample.certificate().judgements
    assert len(rows) == len(judgements)
    for judgement in judgements:
        row = rows[f"claim-{judgement.id}"]
        for text in (judgement.says, judgement.where, judgement.test, judgement.reason, judgement.id):
            assert text in row
        assert row.endswith(judgement.verdict)
        assert published_text(judgement.published) in row
        assert measured_text(judgement) in row
        assert (f"n {judgement.n} seeds" in row) == bool(judgement.measured)
    assert re.findall(r'<h3 id="place-\d+">(.*?)</h3>', html) == ["Table 1", "Figure 9", "§3.1.9"]


def test_counts_come_first_and_are_said_in_words(html: str, sample: ModuleType) -> None:
    sentence = in_a_sentence(sample.certificate())
    assert sentence == (
        "Of 7 published numbers and statements, 3 hold, 1 holds only under a condition, 1 differs, "
        "1 cannot be measured here and 1 was not measured."
    )
    assert html.index(sentence) < html.index('class="place"')
    tiles = re.findall(r'<div class="tile [^"]+"><dt>.*?</span> (.*?)</dt><dd>(\d+)</dd>', html)
    assert [(verdict, int(number)) for verdict, number in tiles] == list(counted(sample.certificate()).items())
    assert in_a_sentence(nothing(sample)) == "The paper has no claims."
    one = sample.certificate(judgements=sample.certificate().judgements[:1])
    assert in_a_sentence(one) == "Of 1 published number or statement, 1 holds."


def test_each_verdict_has_its_filter_in_the_style_sheet(html: str) -> None:
    css = (TEMPLATES / "certificate.css").read_text(encoding="utf-8")
    for verdict in VERDICTS:
        name = verdict.replace(" ", "-")
        assert f'id="show-{name}"' in html
        assert f"body:has(#show-{name}:checked) .claim:not(.{name})" in css
        assert f"body:has(#show-{name}:checked) .place:not(:has(.claim.{name}))" in css


def test_a_verdict_of_one_kind_needs_no_filter(sample: ModuleType) -> None:
    page = render_page(sample.certificate(judgements=sample.certificate().judgements[:1]))
    assert 'name="verdict"' not in page.partition("<script>")[0]


def test_intervals_and_methods_are_told(rows: dict[str, str]) -> None:
    row = rows["claim-table-1/dp-recall"]
    assert row.endswith("0.9896 0.9996 [0.9796, 1.02] ✓ holds")
    assert "interval Student t over 10 seeds" in row


def test_several_numbers_stand_side_by_side_when_opened(rows: dict[str, str]) -> None:
    row = rows["claim-figure-9/counts"]
    assert "35.99 … 900 (25 numbers) 36 … 900 (25 numbers) ✓ holds" in row
    assert "2 71.99 72 [71.98, 72.02] 3 108 108" in row


def test_the_ablation_shows_its_condition_and_numbers(rows: dict[str, str]) -> None:
    row = rows["claim-figure-9/bgl"]
    assert "With gamma 0.999 : ✗ differs . A cache of fixed size does as well." in row
    assert "compared with 0.5 measured 0.71 [0.69, 0.73] reason above at 0 of 3 sizes" in row
    assert "n 5 seeds" in row
    assert "sweep dpcache/ablation-gamma" in row


def test_sweeps_with_a_report_are_links_to_it(html: str) -> None:
    assert '<a href="../../reports/swp-7f3a9c/report.html">dpcache/table-1</a>' in html
    assert not re.search(r"<a[^>]*>dpcache/figure-2</a>", html)


def test_what_a_claim_says_stays_text(sample: ModuleType) -> None:
    page = render_page(sample.hostile_certificate())
    assert "<script>alert" not in page
    assert "javascript:" not in page
    markdown = as_markdown(sample.hostile_certificate())
    assert not re.search(r"(?<!\\)<", markdown)
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {3, 9}


def test_json_keeps_the_contract_and_every_number(sample: ModuleType) -> None:
    certificate = sample.certificate()
    found = json.loads(as_json(certificate))
    assert found["counts"] == {verdict: counted(certificate)[verdict] for verdict in VERDICTS}
    assert [claim["id"] for claim in found["claims"]] == [judgement.id for judgement in certificate.judgements]
    for claim in found["claims"]:
        assert set(claim) > PROMISED
    recall, bgl, *_, counts, _, scaling = found["claims"]
    assert (recall["published"], recall["measured"]) == (0.9996 - 0.01, 0.9996)
    assert recall["interval"] == [0.9996 - 0.02, 0.9996 + 0.02]
    assert bgl["ablation"]["verdict"] == "differs"
    assert bgl["ablation"]["under"] == "gamma 0.999"
    assert len(counts["published"]) == len(counts["measured"]) == len(counts["interval"]) == 25
    assert scaling["measured"] is scaling["interval"] is scaling["method"] is None
    assert found["machines"] == [sample.HARDWARE]


def test_an_undefined_interval_is_null(sample: ModuleType) -> None:
    judgement = sample.claim("a", "b", "holds", 1.0, intervals=(sample.interval(sample.np.ones(1)),))
    assert claim_record(judgement)["interval"] is None


def test_markdown_has_every_claim_under_its_place(sample: ModuleType) -> None:
    text = as_markdown(sample.certificate()).replace("\\", "")
    for judgement in sample.certificate().judgements:
        line = next(line for line in text.splitlines() if f"({judgement.id})" in line)
        assert judgement.verdict in line
        assert judgement.reason in line
        assert judgement.test in line
        assert line.count("|") == 9
    assert "Measured in 12 min 34 s. 2026-07-14 09:12:03 UTC." in text
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Table 1", "## Figure 9", "## §3.1.9"]


def test_places_keep_the_order_of_the_paper(sample: ModuleType) -> None:
    found = by_place(sample.certificate().judgements)
    assert [judgement.id for judgement in found["Table 1"]] == ["table-1/dp-recall", "table-1/dp-slots", "table-1/ssm"]


def test_files(sample: ModuleType, tmp_path: Path) -> None:
    page = render_certificate(sample.certificate(), tmp_path / "new" / "folder")
    assert page.name == "certificate.html"
    assert {path.name for path in page.parent.iterdir()} == {f"certificate.{kind}" for kind in ("html", "md", "json")}
    assert render_page(sample.certificate()) == page.read_text(encoding="utf-8")


def printed(certificate: Certificate, width: int = 80) -> str:
    console = Console(file=StringIO(), width=width, color_system=None)
    console.print(certificate_table(certificate))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_numbers_of_models_that_look_ahead_are_marked_in_every_form(sample: ModuleType) -> None:
    honest = sample.certificate()
    assert "leaks future" not in render_page(honest) + as_markdown(honest) + printed(honest)
    ahead = sample.claim("leak/a", "Table 1", "differs", 4.75, leaks=True)
    certificate = replace(honest, judgements=(ahead, *honest.judgements[:1]))
    marked, other = json.loads(as_json(certificate))["claims"]
    assert (marked["leaks_future"], other["leaks_future"]) == (True, False)
    for text in (render_page(certificate), as_markdown(certificate), " ".join(printed(certificate, 160).split())):
        assert "4.75 (leaks future)" in text
        assert "no scores of predictions" in text


@pytest.mark.parametrize("width", [80, 160])
def test_the_terminal_shows_every_claim_with_its_whole_verdict(width: int, sample: ModuleType) -> None:
    certificate = sample.certificate()
    lines = printed(certificate, width).splitlines()
    assert max(map(len, lines)) <= width
    for judgement in certificate.judgements:
        line = next(line for line in lines if line.strip().startswith(judgement.id))
        assert judgement.verdict in line
    text = "\n".join(lines)
    assert "[0.9796, 1.02]" in text
    assert "table-1/ssm differs: why table-1/ssm differs" in text
    assert re.search(r"3 ✓ holds\n +1 ◐ holds only if\n +1 ✗ differs\n", text)


def test_text_of_a_claim_is_no_markup_in_a_terminal(sample: ModuleType) -> None:
    assert "[red]" in printed(sample.hostile_certificate())
