"""A service as its users meet it: the command that serves it, the command that submits, and a logged in browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from selenium.common.exceptions import WebDriverException
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.conftest import Window
from tests.orchestrator.conftest import OURS, SLOTSWEEP, make_home

START_SECONDS = 120
PAGE_SECONDS = 60

SLOW_PLUGIN = '''\
"""A mechanism that takes its time, without taking the processor's."""

import time
from typing import Literal

from pydantic import Field

from models.config import SlotConfig
from models.mechanism import MECHANISMS, mechanism

FullAttention = MECHANISMS.implementation("full_attention")


class SlowConfig(SlotConfig):
    """Full attention that sleeps."""

    name: Literal["slow"] = "slow"
    seconds: float = Field(1e-4, description="how long it sleeps for each episode")


@mechanism(SlowConfig)
class Slow(FullAttention):
    def answer(self, block, phase):
        time.sleep(self.configs[0].seconds * len(block))
        return super().answer(block, phase)
'''


@dataclass(frozen=True)
class Served:
    """A service: where, the environment in which commands work with it, and the token of its admin."""

    url: str
    folder: Path
    environment: dict[str, str]
    token: str

    def command(self, *arguments: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            [*SLOTSWEEP, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextmanager
def serving(folder: Path, stock: Path, *options: str) -> Iterator[Served]:
    """`slotsweep serve` with a home of its own in `folder`."""
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    environment["SLOTSWEEP_HOME"] = str(make_home(folder, stock))
    log = folder / "serve.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*SLOTSWEEP, "serve", "--port", "0", *options], cwd=folder, env=environment, stdout=output, stderr=output
        )
    try:
        url = _address(process, log)
        token = Served(url, folder, environment, "").command("token", "create", "ada", "--role", "admin")
        yield Served(url, folder, {**environment, "SLOTSWEEP_SERVER": url, "SLOTSWEEP_TOKEN": token}, token)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        if found := re.search(r"listening at (\S+)", log.read_text()):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"the service did not start: {log.read_text()}")


def follow(window: Window, selector: str) -> None:
    """Click what leads to another page, and wait for that page."""
    before = window.one("html")
    window.one(selector).click()
    # While one page gives way to the other, Chromium may say that it is in neither.
    patience = WebDriverWait(window.browser, PAGE_SECONDS, ignored_exceptions=(WebDriverException,))
    patience.until(staleness_of(before))
    patience.until(lambda browser: browser.execute_script("return document.readyState") == "complete")


def log_in(window: Window, served: Served) -> None:
    """Type the token into the form."""
    window.browser.get(f"{served.url}/login")
    window.one("#token").send_keys(served.token)
    follow(window, "main button")
    assert window.one("h1").text == "Sweeps"
