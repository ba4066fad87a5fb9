"""A headless Chromium, and reports for it to show."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver import Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

SAMPLE = Path(__file__).parents[1] / "dashboards" / "sample.py"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def sample() -> ModuleType:
    """The module that makes sample reports."""
    spec = importlib.util.spec_from_file_location("browser_sample", SAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Window:
    """The browser showing one page, with what tests ask of it."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser

    def open(self, page: Path, fragment: str = "") -> None:
        """Open `page` from disk in light colours at 1366x768."""
        self.browser.get_log("browser")
        self.resize(1366, 768)
        self.emulate("light")
        self.browser.get("about:blank")
        self.browser.get(page.as_uri() + fragment)

    def resize(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def emulate(self, scheme: str, medium: str = "") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": features})

    def scripts(self, on: bool) -> None:
        self.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not on})

    def one(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def shown(self, selector: str) -> list[WebElement]:
        return [found for found in self.all(selector) if found.is_displayed()]

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)  # type: ignore[no-untyped-call]

    def fits(self) -> bool:
        """Whether nothing is wider than the window."""
        return bool(self.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth"))

    def point_at(self, found: WebElement) -> None:
        self.run("arguments[0].scrollIntoView({block: 'center'})", found)
        ActionChains(self.browser).move_to_element(found).perform()

    def tab_through(self) -> list[str]:
        """Everything the tabulator key reaches, by id, class or text; each must show that it has the focus."""
        self.run("document.activeElement.blur(); window.scrollTo(0, 0)")
        seen: list[str] = []
        for _ in range(300):
            ActionChains(self.browser).send_keys(Keys.TAB).perform()
            outline, label = self.run(
                "const e = document.activeElement, n = e.matches('[type=radio]') ? e.nextElementSibling : e;"
                "return [getComputedStyle(n).outlineStyle,"
                " e === document.body ? null : e.id || e.className || e.textContent]"
            )
            if label is None:
                break
            assert outline != "none", label
            seen.append(label)
        return seen


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures of pages are kept: SLOTSWEEP_SCREENSHOTS, or beside what pytest keeps of its last runs."""
    folder = Path(os.environ.get("SLOTSWEEP_SCREENSHOTS") or tmp_path_factory.getbasetemp() / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def window(chromium: webdriver.Chrome) -> Iterator[Window]:
    """The browser; afterwards its console must be empty."""
    made = Window(chromium)
    yield made
    made.emulate("light")
    assert chromium.get_log("browser") == []


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """One browser for all tests, which logs its console and every request."""
    binary, driver = next(filter(None, map(shutil.which, BROWSERS)), None), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium with chromedriver is installed")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    yield browser
    browser.quit()
