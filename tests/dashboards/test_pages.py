"""The service's pages: what stands on them, and that nothing a user wrote is markup."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from types import ModuleType

import pytest

from dashboards.pages.assets import script, style
from dashboards.pages.claims import PaperLine, certificate_part, paper_page, papers_page
from dashboards.pages.comparison import ComparisonView, comparison_page, comparison_part
from dashboards.pages.frame import Link, Live, Visitor, headline
from dashboards.pages.live_chart import live_chart
from dashboards.pages.log import LogLine, LogView, log_page
from dashboards.pages.notices import error_page, login_page
from dashboards.pages.sweep import (
    Drawing,
    Fact,
    Failure,
    SweepState,
    SweepView,
    cancel_page,
    drawing_part,
    grouped,
    state_part,
    sweep_page,
)
from dashboards.pages.sweeps import Filters, Progress, SweepLine, SweepsView, sweeps_page
from dashboards.pages.workers import FleetView, NodeLine, WorkerLine, workers_page
from tasks.summary import Grid, Section

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
ADA = Visitor("ada", "submitter", "the csrf token")
LINE = SweepLine(
    "0123456789", "recall", "frontier", "ada", "running", Progress(100, 40, 2, 8, 0), "2026-07-14T09:12:03Z"
)
LIVE = Live("/parts/x", 2.0)
STATE = SweepState(LINE, (Fact("trials", "100"),), (), 0, (), LIVE)
NOTHING_DRAWN = Drawing(None, None, "", LIVE)
VIEW = SweepView(
    STATE, "What it is.", "name: recall", (Fact("trials", "100"),), NOTHING_DRAWN, (), "slotsweep dashboard 0"
)


class Page(HTMLParser):
    """A page as a browser would read it, and what may not stand in one."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of every such tag."""
        return [attributes for name, attributes in self.tags if name == tag]


def hostile_pages(sample: ModuleType) -> dict[str, str]:
    """Every page, with markup wherever a user can write."""
    words = HOSTILE
    visitor = Visitor(words, words, words)
    line = replace(LINE, id=words, name=words, kind=words, user=words, state=words, waiting=words, growth=words)
    failure = Failure(words, words, 2, 3, 2, words)
    live = Live(words, 1.0)
    state = SweepState(line, (Fact(words, words),), (failure,), 1, ("pause", "resume", "cancel", "retry"), live)
    drawing = Drawing(None, words, words, live)
    link = Link(words, words, words)
    filters = Filters(words, words, words)
    worker = WorkerLine(words, words, words, words, 1, 2, words, 3.0)
    entry = LogLine(words, words, words, words, ((words, words),), words, words)
    hostile_certificate = sample.hostile_certificate()
    return {
        "sweeps": sweeps_page(SweepsView((line,), filters, 2, 3, 60, live), visitor),
        "sweep": sweep_page(SweepView(state, words, words, (Fact(words, words),), drawing, (link,), words), visitor),
        "cancel": cancel_page(line, visitor),
        "log": log_page(LogView(line, (entry,), True, live), visitor),
        "workers": workers_page(
            FleetView((NodeLine(words, 1, 2, 3, words, words),), words, (worker,), True, live), visitor
        ),
        "compare": comparison_page(ComparisonView(words, words, words, ((words, words),), (link,), drawing), visitor),
        "papers": papers_page((PaperLine(words, words, 3),), visitor),
        "paper": paper_page(PaperLine(words, words, 3), drawing, visitor),
        "error": error_page(404, words, words, visitor),
        "login": login_page(words, words, leads_on=True),
        "chart": live_chart(sample.hostile().summary),
        "sections": live_chart(sample.cost(sample.hostile_section()).summary),
        "comparison": comparison_part((sample.hostile_section(),), words),
        "certificate": certificate_part(hostile_certificate, {words: words}),
    }


def test_nothing_that_a_user_wrote_is_markup(sample: ModuleType) -> None:
    for name, text in hostile_pages(sample).items():
        page = Page(text)
        assert page.all("img") == [], name
        assert [attributes for _, attributes in page.tags if any(key.startswith("on") for key in attributes)] == [], (
            name
        )
        scripts = page.all("script")
        assert all((one.get("src") or "").startswith("/static/") for one in scripts), name
        assert "<script>alert(1)</script>" in page.words, name


def test_pages_hold_nothing_inline_that_their_policy_forbids(sample: ModuleType) -> None:
    for name, text in hostile_pages(sample).items():
        page = Page(text)
        assert page.all("style") == [], name
        assert not any("style" in attributes for _, attributes in page.tags), name
        assert "http://" not in re.sub(r"&\w+;", "", "".join(one.get("href") or "" for one in page.all("link"))), name


def test_every_control_has_a_name_and_every_table_a_caption(sample: ModuleType) -> None:
    for name, text in hostile_pages(sample).items():
        page = Page(text)
        labelled = {one.get("for") for one in page.all("label")}
        controls = [*page.all("input"), *page.all("select")]
        shown = [one for one in controls if one.get("type") != "hidden" and "hidden" not in one]
        assert all(one.get("id") in labelled for one in shown), name
        assert all(one.get("scope") for one in page.all("th")), name
        regions = [one for one in page.all("div") if one.get("role") == "region"]
        assert all(one.get("aria-label") or one.get("aria-labelledby") for one in regions), name
        ids = [one["id"] for _, one in page.tags if one.get("id")]
        assert len(ids) == len(set(ids)), name


def buttons(text: str) -> list[str]:
    """Where the forms of a page that change something lead."""
    return [one["action"] or "" for one in Page(text).all("form") if one.get("method") == "post"]


def test_only_what_may_be_done_has_a_button() -> None:
    assert buttons(state_part(STATE, ADA)) == []
    state = replace(STATE, actions=("pause", "cancel", "retry"))
    text = state_part(state, ADA)
    assert buttons(text) == ["/sweeps/0123456789/pause", "/sweeps/0123456789/retry"]
    assert {"href": "/sweeps/0123456789/cancel"}.items() <= next(
        one for one in Page(text).all("a") if one.get("data-key") == "cancel"
    ).items()
    tokens = [one.get("value") for one in Page(text).all("input") if one.get("name") == "csrf"]
    assert tokens == ["the csrf token"] * 2


def test_a_line_says_when_it_ends_or_why_that_cannot_be_told() -> None:
    changes: dict[str, dict[str, object]] = {
        "1 h 2 min left": {"seconds_left": 3720.0},
        "waits: no cuda": {"waiting": "no cuda", "seconds_left": 9.0},
        "not known yet": {},
        "waits for its turn": {"state": "queued"},
        "": {"state": "done"},
    }
    for told, change in changes.items():
        assert replace(LINE, **change).expects == told  # type: ignore[arg-type]
    assert LINE.progress.words == "40 of 100 trials done, 2 failed"
    bar = Page(state_part(STATE, ADA)).all("rect")
    assert [(one.get("x", "0"), one["width"]) for one in bar] == [("0", "40.0"), ("40.0", "2.0"), ("42.0", "8.0")]
    empty = replace(LINE, progress=Progress(0, 0, 0, 0, 0))
    assert [one["width"] for one in Page(state_part(replace(STATE, line=empty), ADA)).all("rect")] == ["0.0"] * 3


def test_failures_that_differ_in_numbers_only_stand_together() -> None:
    told = [("user_error", f"slot {n} at 0x7f{n}: 1.{n}e-05", 1, n) for n in range(5)]
    failures = [Failure(*one) for one in [*told, ("timeout", "slot 1", 9, 7), ("user_error", "other", 1, 9)]]
    groups = grouped(failures)
    assert [(one.reason, one.trials, one.messages, one.first) for one in groups] == [
        ("timeout", 9, 1, 7),
        ("user_error", 5, 5, 0),
        ("user_error", 1, 1, 9),
    ]


def test_a_traceback_is_named_by_its_exception() -> None:
    told = (
        'Traceback (most recent call last):\n  File "x", line 1, in f\n    f()\nMemoryError: 3 GB\npeak memory 257 MiB'
    )
    assert headline(told) == "MemoryError: 3 GB"
    assert headline("Traceback (most recent call last):\n  File x\nValueError: no\n") == "ValueError: no"
    assert headline("first\nsecond") == "first"
    assert headline("") == ""


@pytest.mark.parametrize(("number", "links"), [(1, ["next"]), (2, ["prev", "next"]), (3, ["prev"])])
def test_pages_of_the_list_keep_its_filters(number: int, links: list[str]) -> None:
    filters = Filters("running", "ada lovelace", "100%&x")
    page = Page(sweeps_page(SweepsView((LINE,), filters, number, 3, 60, LIVE), ADA))
    found = {one["rel"]: one["href"] for one in page.all("a") if one.get("rel")}
    assert list(found) == links
    for rel, address in found.items():
        other = number + (1 if rel == "next" else -1)
        query = "state=running&user=ada+lovelace&q=100%25%26x"
        assert address == f"/?{query}" + (f"&page={other}" if other > 1 else "")


def test_an_ended_part_is_not_fetched_again() -> None:
    assert 'data-live="/parts/x" data-every="2.0"' in state_part(STATE, ADA)
    assert "data-live" not in state_part(replace(STATE, live=Live("/parts/x", 0)), ADA)


def test_a_drawing_stands_as_it_was_drawn_and_an_error_as_text() -> None:
    assert "<b>drawn</b>" in drawing_part(replace(NOTHING_DRAWN, html="<b>drawn</b>"))
    assert "Being drawn" in drawing_part(NOTHING_DRAWN)
    assert "&lt;b&gt;" in drawing_part(replace(NOTHING_DRAWN, error="<b>"))


def test_the_live_chart_is_the_reports_frontier_and_stays_small(sample: ModuleType) -> None:
    page = Page(live_chart(sample.report().summary))
    marks = [one for one in page.all("use") if "mark" in (one.get("class") or "")]
    assert len(marks) == 45
    assert len(live_chart(sample.report(sample.crowd()).summary)) < 300_000
    assert page.all("button") == []
    assert "A mean recall of 0.99" in page.words
    several = live_chart(sample.report(*[sample.panel(title=f"p{n}") for n in range(6)]).summary)
    assert len(Page(several).all("article")) == 4
    assert "2 more panels" in several


def test_the_live_chart_of_a_sweep_without_frontiers_is_its_first_chart(sample: ModuleType) -> None:
    page = Page(live_chart(sample.cost().summary))
    assert page.all("svg")
    assert "No trial has finished" in live_chart(sample.unfinished().summary)


def test_beside_the_live_chart_stands_what_the_job_was_for(sample: ModuleType) -> None:
    best = Section("best-1", "Best: noise 0.3", ("Feasible: slots ≤ 64.",), Grid(("mechanism",), (("dp_cache",),)))
    summary = replace(sample.report().summary, sections=(best, replace(best, name="b", title="Best", leading=True)))
    page = Page(live_chart(summary))
    assert page.words.count("Feasible: slots ≤ 64.") == 1
    assert len(page.all("table")) == 2


def test_assets_are_named_by_what_they_hold() -> None:
    for asset, suffix in ((style(), "css"), (script(), "js")):
        assert re.fullmatch(rf"\w+-[0-9a-f]{{12}}\.{suffix}", asset.name)
    assert "eval(" not in script().text
    assert "url(" not in style().text


def test_verdicts_link_to_the_sweeps_that_measured(sample: ModuleType) -> None:
    page = Page(certificate_part(sample.certificate(), {"dpcache/table-1": "/sweeps/abc"}))
    assert {one["href"] for one in page.all("a") if (one["href"] or "").startswith("/")} == {"/sweeps/abc"}
    assert "3 hold" in page.words
