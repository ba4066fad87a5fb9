"""A certificate in a real browser: filters and opening with and without scripts, finding, links into it; quiet."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.action_chains import ActionChains

from dashboards.certificate import render_certificate

if TYPE_CHECKING:
    from tests.browser.conftest import Window

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

SIZES = [(1366, 768), (1920, 1080), (800, 900), (320, 800)]


@pytest.fixture(scope="module")
def certificate(sample: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render_certificate(sample.certificate(), tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def page(window: Window, certificate: Path) -> Window:
    window.open(certificate)
    return window


def claims(page: Window) -> list[str | None]:
    return [row.get_attribute("id") for row in page.shown(".claim")]


def places(page: Window) -> list[str]:
    return [heading.text for heading in page.shown(".place h3")]


def choose(page: Window, verdict: str) -> None:
    page.one(f"label[for='show-{verdict}']").click()


HOLDING = ["claim-table-1/dp-recall", "claim-table-1/dp-slots", "claim-figure-9/counts"]


def test_a_verdict_shows_its_claims_and_their_places_alone(page: Window) -> None:
    assert len(claims(page)) == 7
    choose(page, "holds")
    assert claims(page) == HOLDING
    assert places(page) == ["Table 1", "Figure 9"]
    choose(page, "not-measurable-here")
    assert claims(page) == ["claim-prose/gpu"]
    choose(page, "all")
    assert len(claims(page)) == 7


def test_filters_and_claims_open_without_scripts(window: Window, certificate: Path) -> None:
    window.scripts(on=False)
    try:
        window.open(certificate)
        assert window.shown(".find") == []
        choose(window, "holds")
        assert claims(window) == HOLDING
        choose(window, "holds-only-if")
        window.one("#claim-figure-9\\/bgl summary").click()
        assert window.shown("#claim-figure-9\\/bgl .condition")
    finally:
        window.scripts(on=True)


def test_the_filters_work_from_the_keyboard(page: Window) -> None:
    page.one("#show-all").send_keys(Keys.ARROW_RIGHT)
    assert page.browser.switch_to.active_element.get_attribute("id") == "show-holds"
    assert claims(page) == HOLDING


def test_a_claim_opens_to_what_stands_behind_it(page: Window) -> None:
    assert page.shown(".claims .facts") == []
    page.one("#claim-table-1\\/dp-recall summary").click()
    facts = page.shown(".claims .facts")[0].text
    for text in ("interval: 95% of both, ±0.005", "10 seeds", "Student t over 10 seeds", "dpcache/table-1"):
        assert text in facts


def test_words_find_claims_and_say_when_there_are_none(page: Window) -> None:
    page.one("#find").send_keys("gamma fixed")
    assert claims(page) == ["claim-figure-9/bgl"]
    assert places(page) == ["Figure 9"]
    choose(page, "differs")
    assert claims(page) == []
    assert page.one("#none").is_displayed()
    page.one("#find").clear()
    page.one("#find").send_keys("a", Keys.BACKSPACE)
    assert claims(page) == ["claim-table-1/ssm"]
    assert not page.one("#none").is_displayed()


def test_open_all_opens_what_is_shown(page: Window) -> None:
    choose(page, "holds")
    page.one("[data-open='true']").click()
    choose(page, "all")
    assert len(page.all("details[open]")) == 3
    page.one("[data-open='false']").click()
    assert page.all("details[open]") == []


def test_a_link_into_the_page_opens_the_claim_or_the_verdict(window: Window, certificate: Path) -> None:
    window.open(certificate, "#claim-table-1/ssm")
    assert [found.get_attribute("open") for found in window.all("details[open]")] == ["true"]
    assert "why table-1/ssm differs" in window.shown(".claims .facts")[0].text
    window.open(certificate, "#show-differs")
    assert claims(window) == ["claim-table-1/ssm"]
    choose(window, "holds")
    assert window.browser.current_url.endswith("#show-holds")


def test_everything_that_acts_is_reached_and_shows_focus(page: Window) -> None:
    ActionChains(page.browser).move_by_offset(0, 0).perform()
    seen = page.tab_through()
    acting = page.run(
        "const acting = 'a, button, input:checked, input[type=search], summary, [tabindex=\"0\"]';"
        "return [...document.querySelectorAll(acting)].filter(e => e.checkVisibility()).length"
    )
    assert len(seen) == acting
    assert {"skip", "find", "show-all"} <= set(seen)


def test_nothing_is_wider_than_the_window(window: Window, sample: ModuleType, tmp_path: Path) -> None:
    for certificate in (sample.certificate(), sample.hostile_certificate()):
        window.open(render_certificate(certificate, tmp_path))
        for size in SIZES:
            window.resize(*size)
            assert window.fits(), size


def test_both_colour_schemes_are_followed(page: Window) -> None:
    colours = "return ['.stamp.holds', '.stamp.differs'].map(s => getComputedStyle(document.querySelector(s)).color)"
    light = page.run(colours)
    page.emulate("dark")
    dark = page.run(colours)
    assert len({*light, *dark}) == 4


def test_markup_of_claims_does_not_run(window: Window, sample: ModuleType, tmp_path: Path) -> None:
    window.open(render_certificate(sample.hostile_certificate(), tmp_path))
    assert window.browser.title == f"{sample.HOSTILE} · slotsweep certificate"
    assert window.run("return document.querySelectorAll('img').length") == 0
