"""Fixtures for tests of the orchestrator."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import Settings
from orchestrator.store.store import Store

SLOTSWEEP = [sys.executable, "-P", "-c", "from orchestrator.cli import main; main()"]

HEED_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
HEEDING_INTERRUPTS = [*SLOTSWEEP[:-1], HEED_INTERRUPTS + SLOTSWEEP[-1]]
"""A shell lets what it starts in the background ignore interrupts, and so does all that is started there."""
OURS = (
    "SLOTSWEEP_DATABASE_URL",
    "SLOTSWEEP_TRACKING_URI",
    "SLOTSWEEP_OPTUNA_URL",
    "SLOTSWEEP_MLFLOW_URL",
    "SLOTSWEEP_SERVER",
    "SLOTSWEEP_TOKEN",
    "RAY_ADDRESS",
)


def make_home(folder: Path, stock: Path) -> Path:
    """A home that holds nothing but what takes long to make."""
    home = folder / "home"
    home.mkdir()
    (home / "kernels").symlink_to(stock / "kernels")
    shutil.copy(stock / "mlflow.db", home)
    return home


@pytest.fixture
def settings(tmp_path: Path, stock: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Embedded settings in a home of this test's own."""
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLOTSWEEP_HOME", str(make_home(tmp_path, stock)))
    return Settings.read()


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    """The store of `settings`."""
    store = Store.open(settings.database_url)
    yield store
    store.close()


@dataclass(frozen=True)
class Ran:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The last line of its output as JSON."""
        return json.loads(self.out.splitlines()[-1])


@pytest.fixture
def slotsweep(settings: Settings, tmp_path: Path) -> Callable[..., Ran]:
    """Runs the command as a user would, in `tmp_path`, with the home of `settings`."""

    def run(*arguments: str, cwd: Path = tmp_path, timeout: float = 600, **environment: str) -> Ran:
        done = subprocess.run(
            [*SLOTSWEEP, *arguments],
            cwd=cwd,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def slotsweep_here(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    """Runs the command in this process, which is faster than in one of its own."""
    from orchestrator.cli import main

    gc.enable()  # a short command does without; tests are long

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["slotsweep", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return Ran(ended.value.code, *capsys.readouterr())

    return run
