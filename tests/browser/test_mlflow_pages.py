"""A sweep in MLflow's own pages, as `slotsweep dashboard` serves them: its description, nested trials, the figure."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from dashboards.mlflow_views import sweep_views
from orchestrator.mlflow_links import run_link
from orchestrator.mlflow_pages import free_port, mlflow_pages
from orchestrator.settings import Settings
from orchestrator.tracker.opening import open_tracker
from tests.orchestrator.conftest import HEEDING_INTERRUPTS, SLOTSWEEP, make_home
from tests.orchestrator.specs import SMALL
from tests.orchestrator.tracker.conftest import START_MS, make_parent, make_trial

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

PATIENCE = 120.0


@pytest.fixture(scope="module")
def links(chromium: webdriver.Chrome, stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What `slotsweep dashboard` prints: addresses of the sweep's run, of its trials, and of everything."""
    folder = tmp_path_factory.mktemp("mlflow")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLOTSWEEP_")}
    environment["SLOTSWEEP_HOME"] = str(make_home(folder, stock))
    (folder / "small.yaml").write_text(SMALL, encoding="utf-8")
    run = [*SLOTSWEEP, "run", "small.yaml", "--executor", "inline"]
    subprocess.run(run, cwd=folder, env=environment, capture_output=True, check=True)
    dashboard = subprocess.Popen(
        [*HEEDING_INTERRUPTS, "dashboard", "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert dashboard.stdout is not None
    yield [dashboard.stdout.readline().split()[-1] for _ in range(3)]
    dashboard.send_signal(signal.SIGINT)
    dashboard.wait(60)


@pytest.fixture
def show(chromium: webdriver.Chrome, screenshots: Path) -> Callable[[str, str, str], WebElement]:
    """Opens an address, waits until the page says something, and keeps a picture under a name; the page's body."""

    def opened(address: str, said: str, name: str) -> WebElement:
        chromium.get("about:blank")
        chromium.set_window_size(1600, 1000)
        chromium.get(address)
        body = waited(chromium, said)
        chromium.save_screenshot(str(screenshots / f"mlflow-{name}.png"))
        return body

    return opened


def waited(browser: webdriver.Chrome, said: str) -> WebElement:
    """The page's body once it says `said`."""

    def found(browser: webdriver.Chrome) -> WebElement | None:
        body = browser.find_element(By.TAG_NAME, "body")
        return body if said in body.text else None

    return WebDriverWait(browser, PATIENCE, ignored_exceptions=[Exception]).until(
        found, f"the page never says {said!r}"
    )


def test_the_sweep_says_what_it_found(links: list[str], show: Callable[..., WebElement]) -> None:
    body = show(links[0], "trials_done", "sweep")
    assert "3 mechanisms in 6 cells on 1 workload: 24 of 24 trials finished" in body.text
    assert "A mean recall of 0.99 or more is reached by" in body.text


def test_the_figure_is_shown(chromium: webdriver.Chrome, links: list[str], show: Callable[..., WebElement]) -> None:
    run, query = links[0].split("?")
    show(f"{run}/artifacts/report/frontier-slots.png?{query}", "frontier-slots.png", "figure")

    def drawn(browser: webdriver.Chrome) -> bool:
        script = "return Math.max(0, ...[...document.images].map(image => image.naturalWidth))"
        return int(browser.execute_script(script)) > 400  # type: ignore[no-untyped-call]

    WebDriverWait(chromium, PATIENCE).until(drawn, "the figure is not drawn")


def test_trials_are_nested_under_their_sweep(
    chromium: webdriver.Chrome, links: list[str], show: Callable[..., WebElement], screenshots: Path
) -> None:
    table = links[0].partition("/runs/")[0] + "/runs?workflowType=machine_learning"
    body = show(table, "25 matching runs", "experiment")
    assert "Sweeps called small, run by slotsweep" in body.text
    rows = chromium.find_elements(By.CSS_SELECTOR, ".ag-row a[href*='/runs/']")
    assert [row.text.split()[0] for row in rows] == ["small"]
    chromium.find_element(By.CSS_SELECTOR, ".ag-row button").click()
    waited(chromium, "dp_cache similarity 0.5, seed 0")
    chromium.save_screenshot(str(screenshots / "mlflow-nested.png"))


def test_trials_are_grouped_by_mechanism_beside_their_hardware(
    links: list[str], show: Callable[..., WebElement]
) -> None:
    body = show(links[1], "Group: full_attention", "trials")
    assert "Group by: mechanism.name" in body.text
    for shown in ("Group: dp_cache", "recall", "bytes"):
        assert shown in body.text


@pytest.mark.slow
@pytest.mark.alone
def test_a_sweep_of_five_thousand_trials_opens_in_seconds(
    chromium: webdriver.Chrome, show: Callable[..., WebElement], stock: Path, tmp_path: Path, pace: float
) -> None:
    """Measured on two cores: its run in 2.2 s, its trials by mechanism in 4 to 5 s."""
    settings = Settings.read({"SLOTSWEEP_HOME": str(make_home(tmp_path, stock))})
    tracker = open_tracker(settings.tracking_uri, str(settings.artifacts))
    tracker.write_parent(make_parent(note="What was **found**.", views=sweep_views("s1", START_MS, ["mechanism.tau"])))
    metrics = {f"metric_{number}": number / 7 for number in range(16)} | {"recall": 0.5, "bytes": 1024.0}
    for first in range(0, 5000, 500):
        tracker.write_trials([make_trial(first + number, metrics=metrics) for number in range(500)])
    tracker.close()
    with mlflow_pages(settings, "127.0.0.1", free_port("127.0.0.1", 0)) as pages:
        pages.wait_until_served()
        link = run_link(settings, "recall-frontier", "s1", pages.address)
        assert link is not None
        show(link.run, "trials", "of-5000")  # the first page of a server also loads its code
        seconds = {}
        for said, address in (("What was found.", link.run), ("Group: dp_cache", link.trials)):
            began = time.perf_counter()
            show(address, said, "of-5000")
            seconds[said] = time.perf_counter() - began
    assert max(seconds.values()) < 10 * pace, seconds
