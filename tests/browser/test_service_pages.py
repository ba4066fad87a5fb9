"""The service's pages in a real browser, over a service that runs what is submitted to it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.accessibility import problems, reached_by_keyboard
from tests.browser.conftest import Window
from tests.browser.serving import SLOW_PLUGIN, Served, follow, log_in, serving

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("ray")]

PATIENCE = 300.0
SCREENS = {"wide": (1366, 768), "narrow": (400, 800)}

TRIALS = 224

SPEC = """\
name: slow-frontier
description: A frontier that fills in while somebody looks.
kind: frontier
workload: {name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16, noise: 0.3}
mechanisms:
  - {name: slow, seconds: {values: [1.0e-5, 1.1e-5, 1.2e-5, 1.3e-5]}}
  - {name: recency, budget: {values: [4, 8, 16]}}
seeds: 32
episodes: 1000
plugins: [slow_mechanism.py]
"""


@pytest.fixture(scope="module")
def served(chromium: webdriver.Chrome, stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that runs sweeps."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "slow.yaml").write_text(SPEC, encoding="utf-8")
    (folder / "slow_mechanism.py").write_text(SLOW_PLUGIN, encoding="utf-8")
    with serving(folder, stock, "--allow-plugins") as served:
        yield served


@pytest.fixture
def page(chromium: webdriver.Chrome, served: Served) -> Iterator[Window]:
    """The browser, logged in; afterwards its console must be empty."""
    window = Window(chromium)
    window.resize(*SCREENS["wide"])
    window.emulate("light")
    log_in(window, served)
    chromium.get_log("browser")
    yield window
    assert chromium.get_log("browser") == []


@pytest.fixture(scope="module")
def sweep(served: Served) -> str:
    """A sweep submitted from a terminal."""
    return served.command("submit", "slow.yaml").splitlines()[-1]


@pytest.fixture(scope="module")
def finished(served: Served, sweep: str) -> str:
    """That sweep, once it has ended."""
    end = time.monotonic() + PATIENCE
    while json.loads(served.command("status", sweep, "--json"))[0]["state"] != "done":
        assert time.monotonic() < end
        time.sleep(1.0)
    return sweep


def until(window: Window, script: str, seconds: float = PATIENCE) -> None:
    """Wait until `script` is true of the page."""
    end = time.monotonic() + seconds
    while not window.run(f"return Boolean({script})"):
        assert time.monotonic() < end, f"never so: {script}\n{window.one('main').text}"
        time.sleep(0.1)


def keep(window: Window, folder: Path, name: str) -> None:
    """Pictures of the whole page, in both colour schemes and two widths."""
    for screen, (width, height) in SCREENS.items():
        for scheme in ("light", "dark"):
            window.emulate(scheme)
            window.resize(width, height)
            whole = min(int(window.run("return document.documentElement.scrollHeight")), 3000)
            window.resize(width, max(whole, height))
            window.browser.save_screenshot(str(folder / f"service-{name}-{screen}-{scheme}.png"))
    window.emulate("light")
    window.resize(*SCREENS["wide"])


def check(window: Window) -> None:
    """Nobody is shut out, whatever the colours and the width."""
    for scheme in ("light", "dark"):
        window.emulate(scheme)
        assert problems(window) == {}, (window.browser.current_url, scheme)
    window.emulate("light")
    reached, there = reached_by_keyboard(window)
    assert reached == there, window.browser.current_url
    window.resize(*SCREENS["narrow"])
    assert window.fits(), window.browser.current_url
    window.resize(*SCREENS["wide"])


def done(window: Window) -> int:
    """How many trials the page says are done."""
    return int(window.run("return document.querySelector('.now .bar').getAttribute('aria-valuenow')"))


def state(window: Window) -> str:
    return window.one(".standing .state").text.split()[-1]


def test_a_sweep_is_watched_paused_and_resumed(page: Window, served: Served, sweep: str, screenshots: Path) -> None:
    page.browser.get(f"{served.url}/")
    follow(page, f"a[href='/sweeps/{sweep}']")
    page.run("window.untouched = true")
    until(page, "document.querySelector('.now .bar').getAttribute('aria-valuenow') > 0")
    follow(page, "[data-key=pause] button")
    until(page, "document.querySelector('.state-paused')")
    until(page, "!document.querySelector('.now .tiles').textContent.includes('running')")
    before = done(page)
    assert 0 < before < TRIALS
    time.sleep(3.0)
    assert done(page) == before
    until(page, "document.querySelector('#drawing .mark')")
    keep(page, screenshots, "paused")
    follow(page, "[data-key=resume] button")
    page.run("window.untouched = true")
    until(page, "document.querySelector('.state-done')")
    assert page.run("return window.untouched") is True  # it filled in without being loaded again
    assert done(page) == TRIALS
    until(page, "document.querySelectorAll('#drawing .mark').length === 7")
    keep(page, screenshots, "sweep")
    check(page)


def test_the_list_fills_in_and_keeps_focus_and_place(page: Window, served: Served, finished: str) -> None:
    page.browser.get(f"{served.url}/?q=slow-frontier")
    page.one(f"a[href='/sweeps/{finished}']")
    page.run("window.untouched = true; document.querySelector('th a').focus()")
    other = served.command("submit", "slow.yaml", "--set", "name=slow-frontier-again", "--set", "seeds=1").splitlines()[
        -1
    ]
    until(page, f"document.querySelector(\"a[href='/sweeps/{other}']\")")
    assert page.run("return window.untouched") is True
    assert page.run("return document.activeElement.getAttribute('href')") == f"/sweeps/{finished}"
    names = page.run("return [...document.querySelectorAll('tbody th a')].map(link => link.textContent)")
    assert names == ["slow-frontier-again", "slow-frontier"]


def test_what_does_not_change_stays_the_same_element(page: Window, served: Served, finished: str) -> None:
    page.browser.get(f"{served.url}/?q={finished}")
    page.run("window.rows = [...document.querySelectorAll('#sweeps tr')]")
    until(page, "performance.getEntriesByType('resource').filter(one => one.name.includes('/parts/sweeps')).length > 1")
    assert page.run("return window.rows.length === 2 && window.rows.every(row => row.isConnected)") is True


def test_the_report_opens_with_its_files_and_may_do_nothing_else(page: Window, served: Served, finished: str) -> None:
    page.browser.get(f"{served.url}/sweeps/{finished}")
    follow(page, "a[href$='/report/']")
    assert page.one("h1").text == "slow-frontier"
    page.one("label[for='axis-bytes']").click()
    assert [one.get_attribute("data-axis") for one in page.shown("figure.plot")] == ["bytes"]  # its script runs
    page.run(
        "window.said = [];"
        "fetch('/').catch(error => window.said.push('fetch'));"
        "try { if (window.open('/') === null) window.said.push('open') } catch { window.said.push('open') }"
        "const form = document.createElement('form'); form.action = '/logout'; form.method = 'post';"
        "document.body.append(form); form.submit()"
    )
    time.sleep(1.0)
    assert page.browser.current_url.endswith("/report/")
    assert set(page.run("return window.said")) == {"fetch", "open"}
    assert {"Content Security Policy" in one["message"] or "sandbox" in one["message"]
            for one in page.browser.get_log("browser")} == {True}  # fmt: skip
    page.browser.get(page.browser.current_url)
    page.run("arguments[0].scrollIntoView()", page.one("#reproduce"))
    follow(page, "#reproduce a[href='frontier-slots.png']")
    assert page.run("return document.images[0].naturalWidth") > 100
    page.browser.get_log("browser")


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/workers?all=1",
        "/compare",
        "/compare?a={finished}&by=device",
        "/claims",
        "/claims/dpcache",
        "/sweeps/{finished}/log",
    ],
)
def test_everybody_can_use_every_page(
    address: str, page: Window, served: Served, finished: str, screenshots: Path
) -> None:
    page.browser.get(served.url + address.replace("{finished}", finished))
    until(page, "!document.body.textContent.includes('Being drawn')")
    keep(
        page,
        screenshots,
        address.strip("/").partition("?")[0].replace("{finished}", "sweep").replace("/", "-") or "sweeps",
    )
    check(page)


def test_a_sweep_is_cancelled_only_after_a_question(page: Window, served: Served, screenshots: Path) -> None:
    sweep = served.command("submit", "slow.yaml", "--no-cache", "--set", "name=wrong").splitlines()[-1]
    page.browser.get(f"{served.url}/sweeps/{sweep}")
    follow(page, "[data-key=cancel]")
    assert page.one("h1").text == "Cancel wrong?"
    keep(page, screenshots, "cancel")
    check(page)
    follow(page, "button.danger")
    until(page, "document.querySelector('.state-cancelled')")


def test_whoever_is_not_logged_in_is_sent_to_the_form_and_back(
    page: Window, served: Served, finished: str, screenshots: Path
) -> None:
    page.browser.delete_all_cookies()
    page.browser.get(f"{served.url}/sweeps/{finished}")
    assert page.one("h1").text == "Log in"
    page.one("#token").send_keys("guess")
    follow(page, "main button")
    assert page.one("[role=alert]").text.startswith("No such token holds")
    keep(page, screenshots, "login")
    check(page)
    page.one("#token").send_keys(served.token)
    follow(page, "main button")
    assert page.one("h1").text == "slow-frontier"
    follow(page, ".who button")
    assert page.one("h1").text == "Log in"
    page.browser.get(f"{served.url}/nothing")
    keep(page, screenshots, "error")
    check(page)
    answers = [one["message"] for one in page.browser.get_log("browser")]
    assert all("403" in answer or "404" in answer for answer in answers), answers


def test_pages_work_without_scripts(page: Window, served: Served, finished: str) -> None:
    page.scripts(on=False)
    try:
        page.browser.get(f"{served.url}/sweeps/{finished}")
        assert page.one(".standing .state").text.endswith("done")
        assert len(page.all("#drawing .mark")) == 7
        page.one("#panel-1-details summary").click()
        assert page.one("#panel-1-details table").is_displayed()
        page.browser.get(f"{served.url}/")
        page.one("#q").send_keys("nothing like it")
        page.one("main button").click()
        patience = WebDriverWait(page.browser, PATIENCE, ignored_exceptions=[StaleElementReferenceException])
        patience.until(lambda _: "No sweep is like that." in page.one("main").text)
    finally:
        page.scripts(on=True)
