"""Sections in a real browser: charts answer to pointing, keys and legend, tables sort; quiet and within their width."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from dashboards.report import render_page, render_report

if TYPE_CHECKING:
    from tests.browser.conftest import Window

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

SIZES = [(1366, 768), (1920, 1080), (800, 900)]


@pytest.fixture(scope="module")
def report(sample: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render_report(sample.cost(), tmp_path_factory.mktemp("cost"))


@pytest.fixture
def page(window: Window, report: Path) -> Window:
    window.open(report)
    return window


def test_pointing_at_a_chart_tells_x_y_and_interval(page: Window) -> None:
    page.point_at(page.one("#section-cost [data-key='0-8']"))
    tip = page.one("#tip")
    assert tip.text.splitlines()[:2] == ["dp_cache", "stream length (tokens): 131,072"]
    assert tip.text.splitlines()[2].startswith("microseconds a token 0.38")
    page.point_at(page.one("#section-cost h2"))
    assert not tip.is_displayed()


def test_points_of_a_dense_line_answer_without_a_mark(page: Window) -> None:
    unseen = page.one("#section-training .mark.unseen")
    assert page.run("return getComputedStyle(arguments[0]).opacity", unseen) == "0"
    page.point_at(unseen)
    assert page.one("#tip").text.splitlines()[1].startswith("step: ")
    assert page.one("#section-training .ring.on").is_displayed()


def test_arrow_keys_walk_through_a_chart(page: Window) -> None:
    page.run("arguments[0].focus()", page.one("#section-cost figure.plot"))
    keys = (Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    for key in keys:
        ActionChains(page.browser).send_keys(key).perform()
    assert page.one("#tip").text.splitlines()[:2] == ["full_attention", "stream length (tokens): 1,024"]
    spoken = page.run("return document.getElementById('spoken').textContent")
    assert spoken.startswith("full_attention, stream length (tokens): 1,024: microseconds a token 3.")
    assert not spoken.endswith(", ")


def test_a_legend_hides_lines_of_its_own_chart_alone(page: Window) -> None:
    page.one("#section-cost .key[data-curve='0']").click()
    assert page.shown("#section-cost figure [data-curve='0']") == []
    assert page.shown("#section-cost figure [data-curve='1']")
    assert page.shown("#section-training figure [data-curve='0']")


def test_the_numbers_of_a_chart_open_from_the_keyboard(page: Window) -> None:
    numbers = page.one("#section-cost .numbers")
    page.run("arguments[0].focus()", numbers.find_element(By.CSS_SELECTOR, "summary"))
    ActionChains(page.browser).send_keys(Keys.ENTER).perform()
    assert len(page.shown("#section-cost .numbers tbody tr")) == 18


def test_the_table_sorts_by_its_numbers_and_leaves_dashes_last(page: Window) -> None:
    button = next(found for found in page.all("#section-cost > .table-block thead button") if found.text == "exponent")

    def order() -> list[str]:
        return [found.text for found in page.all("#section-cost > .table-block tbody th")]

    button.click()
    assert order() == ["dp_cache", "full_attention", "kanerva"]
    button.click()
    assert order() == ["full_attention", "dp_cache", "kanerva"]


def test_charts_and_tables_stand_without_scripts(window: Window, report: Path) -> None:
    window.scripts(on=False)
    try:
        window.open(report)
        assert len(window.shown("figure.plot svg")) == 3
        assert window.shown("#section-cost .mark")
        window.one("#section-cost .numbers summary").click()
        assert len(window.shown("#section-cost .numbers tbody tr")) == 18
    finally:
        window.scripts(on=True)


def test_everything_that_acts_is_reached_and_shows_focus(page: Window) -> None:
    seen = page.tab_through()
    acting = page.run(
        "return [...document.querySelectorAll('a, button, summary, [tabindex=\"0\"]')]"
        ".filter(e => e.checkVisibility()).length"
    )
    assert len(seen) == acting
    assert {"skip", "plot", "key", "section-cost-chart-1-numbers"} <= set(seen)


@pytest.mark.parametrize("case", ["sections alone", "sections beside a panel", "hostile sections", "odd sections"])
def test_nothing_is_wider_than_the_window(case: str, window: Window, sample: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(render_page(sample.cases()[case], []), encoding="utf-8")
    window.open(page)
    for size in SIZES:
        window.resize(*size)
        assert window.fits(), size


def test_charts_follow_both_colour_schemes_and_print_light(page: Window) -> None:
    colour = "return getComputedStyle(document.querySelector('#section-cost .curve')).color"
    light = page.run(colour)
    page.emulate("dark")
    assert page.run(colour) != light
    page.emulate("dark", medium="print")
    assert page.run(colour) == light
