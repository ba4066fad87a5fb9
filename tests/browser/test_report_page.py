"""The report in a real browser: switches, legend, hovering, keyboard, sorting; quiet, offline, and within its width."""

from __future__ import annotations

import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from dashboards.report import render_report

if TYPE_CHECKING:
    from tests.browser.conftest import Window

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

SIZES = [(1366, 768), (1920, 1080)]


@pytest.fixture(scope="module")
def folder(sample: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    render_report(sample.report(sample.panel(failed=2)), folder)
    return folder


@pytest.fixture
def page(window: Window, folder: Path) -> Window:
    window.open(folder / "report.html")
    return window


def choose(page: Window, name: str) -> None:
    page.one(f"label[for='{name}']").click()


def view(page: Window) -> tuple[str | None, str | None]:
    """The size axis and recall metric of the one figure that is shown."""
    (figure,) = page.shown("figure.plot")
    return figure.get_attribute("data-axis"), figure.get_attribute("data-metric")


def test_the_switches_choose_one_figure_and_its_table(page: Window) -> None:
    assert view(page) == ("slots", "recall")
    assert "slots" in page.shown(".matched thead")[0].text
    choose(page, "axis-bytes")
    assert view(page) == ("bytes", "recall")
    assert "KiB" in page.shown(".matched thead")[0].text
    choose(page, "metric-recall_all")
    assert view(page) == ("bytes", "recall_all")
    assert page.shown(".matched h3")[0].text == "Best recall_all at or under each size"
    choose(page, "axis-slots")
    assert view(page) == ("slots", "recall_all")
    assert len(page.shown(".matched table")) == 1


def test_the_switches_work_from_the_keyboard(page: Window) -> None:
    page.one("#axis-slots").send_keys(Keys.ARROW_RIGHT)
    assert view(page) == ("bytes", "recall")
    assert page.browser.switch_to.active_element.get_attribute("id") == "axis-bytes"


def test_the_switches_work_without_scripts(page: Window) -> None:
    page.scripts(on=False)
    try:
        page.browser.refresh()
        choose(page, "axis-bytes")
        assert view(page) == ("bytes", "recall")
        assert len(page.shown("figure.plot[data-axis='bytes'][data-metric='recall'] .mark")) == 45
    finally:
        page.scripts(on=True)


def test_the_figure_keeps_its_place_when_switched(page: Window) -> None:
    before = page.shown("figure.plot svg")[0].rect
    choose(page, "axis-bytes")
    assert page.shown("figure.plot svg")[0].rect == before


def test_the_legend_hides_and_shows_curves_in_every_view(page: Window) -> None:
    key = page.one(".key[data-curve='1']")
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    assert page.shown("figure.plot [data-curve='1']") == []
    assert page.shown("figure.plot [data-curve='2']")
    choose(page, "axis-bytes")
    assert page.shown("figure.plot [data-curve='1']") == []
    key.send_keys(Keys.SPACE)
    assert key.get_attribute("aria-pressed") == "true"
    assert page.shown("figure.plot [data-curve='1']")
    page.one("[data-all='false']").click()
    assert page.shown("figure.plot .curve") == []
    page.one("[data-all='true']").click()
    assert len(page.shown("figure.plot .curve")) == 6


def test_pointing_at_a_key_sets_its_curve_apart(page: Window) -> None:
    ActionChains(page.browser).move_to_element(page.one(".key[data-curve='2']")).perform()
    assert len(page.all("figure[data-axis='slots'][data-metric='recall'] .curve.dim")) == 5
    assert page.all(".curve.lit[data-curve='2']")


def test_hovering_tells_the_point_and_those_in_the_same_spot(page: Window) -> None:
    page.run("arguments[0].scrollIntoView({block: 'center'})", page.one("figure.plot"))
    mark = page.one("figure[data-axis='slots'][data-metric='recall'] [data-key='2-4']")
    ActionChains(page.browser).move_to_element(mark).perform()
    tip = page.one("#tip")
    assert tip.is_displayed()
    lines = tip.text.splitlines()
    assert lines[:2] == ["h2o", "budget 64 · n = 10"]
    assert lines[2].startswith("recall 0.9")
    assert "8.50 KiB" in tip.text
    same = page.one("figure[data-axis='slots'][data-metric='recall'] [data-key='5-8']")
    ActionChains(page.browser).move_to_element(same).perform()
    names = [
        line for line in tip.text.splitlines() if line in {"full_attention", "h2o", "recency", "item_lru", "optimal"}
    ]
    assert names == ["full_attention", "h2o", "recency", "item_lru"]
    assert tip.text.splitlines()[-1] == "and 1 more here"
    ActionChains(page.browser).move_to_element(page.one("#frontier-title")).perform()
    assert not tip.is_displayed()


def test_hidden_curves_are_not_told(page: Window) -> None:
    page.run("arguments[0].scrollIntoView({block: 'center'})", page.one("figure.plot"))
    for number in (1, 2, 3, 4, 5):
        page.one(f".key[data-curve='{number}']").click()
    mark = page.one("figure[data-axis='slots'][data-metric='recall'] [data-key='0-0']")
    ActionChains(page.browser).move_to_element(mark).perform()
    assert page.one("#tip").text.splitlines()[0] == "full_attention"
    assert "budget" not in page.one("#tip").text


def test_arrow_keys_walk_through_points_and_curves(page: Window) -> None:
    figure = page.shown("figure.plot")[0]
    page.run("arguments[0].focus()", figure)
    tip = page.one("#tip")

    def press(key: str) -> list[str]:
        page.browser.switch_to.active_element.send_keys(key)
        return tip.text.splitlines()[:2]

    assert press(Keys.ARROW_RIGHT) == ["full_attention", "n = 10"]
    assert press(Keys.ARROW_DOWN)[0] == "dp_cache"
    first = press(Keys.ARROW_LEFT)
    assert first != press(Keys.ARROW_LEFT)
    assert "dp_cache" in page.run("return document.getElementById('spoken').textContent")
    assert press(Keys.ARROW_UP)[0] == "full_attention"
    page.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()


def test_everything_that_acts_can_be_reached_and_shows_focus(page: Window) -> None:
    seen = page.tab_through()
    acting = page.run(
        "return [...document.querySelectorAll('a, button, input:checked, summary, [tabindex=\"0\"]')]"
        ".filter(e => e.checkVisibility()).length"
    )
    assert len(seen) == acting
    assert {"skip", "axis-slots", "metric-recall", "plot", "key"} <= set(seen)


def test_a_heading_sorts_both_ways_and_missing_values_stay_last(page: Window) -> None:
    table = page.one("#cells table")
    button = next(found for found in table.find_elements(By.CSS_SELECTOR, "thead button") if found.text == "tau")
    head = button.find_element(By.XPATH, "..")

    def column() -> list[str]:
        rows = "return [...arguments[0].tBodies[0].rows].map(row => row.cells[1].textContent)"
        found = page.run(rows, table)
        assert isinstance(found, list)
        return found

    button.click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert column()[:9] == ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "–"]
    button.send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "descending"
    assert column()[:9] == ["0.8", "0.7", "0.6", "0.5", "0.4", "0.3", "0.2", "0.1", "–"]
    assert len(column()) == 45


def test_the_head_of_the_table_stays_in_sight(page: Window) -> None:
    box = page.one("#cells .scroll")
    head = box.find_element(By.CSS_SELECTOR, "thead th")
    page.run("arguments[0].scrollIntoView(); arguments[0].scrollTop = 900", box)
    assert abs(head.rect["y"] - box.rect["y"]) <= 2


@pytest.mark.parametrize("case", ["several panels", "thirty curves", "long names", "hostile", "nothing finished"])
def test_nothing_is_wider_than_the_window(case: str, window: Window, sample: ModuleType, tmp_path: Path) -> None:
    window.open(render_page_file(sample, case, tmp_path))
    for size in SIZES:
        window.resize(*size)
        assert window.fits(), size


def render_page_file(sample: ModuleType, case: str, folder: Path) -> Path:
    """The page of `case` without the figures beside it."""
    from dashboards.report import render_page

    page = folder / "report.html"
    page.write_text(render_page(sample.cases()[case], []), encoding="utf-8")
    return page


@pytest.mark.parametrize("size", SIZES)
def test_the_whole_figure_fits_the_window(size: tuple[int, int], page: Window) -> None:
    page.resize(*size)
    assert page.shown("figure.plot svg")[0].rect["height"] <= size[1] * 0.8


def test_both_colour_schemes_are_followed(page: Window) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    curve = "return getComputedStyle(document.querySelector('.curve')).color"
    light = page.run(ground), page.run(curve)
    page.emulate(scheme="dark")
    dark = page.run(ground), page.run(curve)
    assert light[0] == "rgb(247, 247, 245)"
    assert dark[0] == "rgb(17, 19, 22)"
    assert light[1] != dark[1]


def test_print_is_light_and_shows_whole_tables(page: Window) -> None:
    page.emulate(scheme="dark", medium="print")
    assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.run("return getComputedStyle(document.querySelector('.curve')).color") == "rgb(0, 71, 186)"
    assert page.run("return getComputedStyle(document.querySelector('#cells .scroll')).maxHeight") == "none"
    assert not page.one("nav.contents").is_displayed()


def test_nothing_is_requested_but_the_page(window: Window, folder: Path) -> None:
    browser = window.browser
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            asked.append(self.path)

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.get_log("performance")
        browser.get(f"http://127.0.0.1:{server.server_port}/report.html")
        choose(window, "axis-bytes")
        window.one(".key").click()
        events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
        server.shutdown()
    sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert asked == ["/report.html"]
    assert [url for url in sent if not url.startswith("data:")] == [
        f"http://127.0.0.1:{server.server_port}/report.html"
    ]


def test_markup_of_users_does_not_run(window: Window, sample: ModuleType, tmp_path: Path) -> None:
    window.open(render_page_file(sample, "hostile", tmp_path))
    assert window.run("return document.title") == f"{sample.HOSTILE} · slotsweep report"
    assert window.run("return document.querySelectorAll('img').length") == 0
    window.run(
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)",
    )
    assert window.run("return window.ran") is None
    assert any("Content Security Policy" in entry["message"] for entry in window.browser.get_log("browser"))
