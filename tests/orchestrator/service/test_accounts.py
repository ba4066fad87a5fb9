"""The service's processes are to Ray and MLflow who the service is: they have its token and its account."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from orchestrator.alike import Group
from orchestrator.service.conductor_process import ConductorProcess
from orchestrator.settings import Settings
from orchestrator.store.store import Store
from orchestrator.tracker_process import TrackerProcess
from tests.faults.place import wait_for

ACCOUNTS = {
    "RAY_AUTH_MODE": "token",
    "MLFLOW_TRACKING_USERNAME": "slotsweep",
    "MLFLOW_TRACKING_PASSWORD": "secret-of-mlflow",
}


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Variables that say who the service is; SLOTSWEEP_TOKEN beside them is of a user at a terminal."""
    token = tmp_path / "ray-token"
    token.write_text("secret-of-ray")
    wanted = {**ACCOUNTS, "RAY_AUTH_TOKEN_PATH": str(token)}
    for name, value in (wanted | {"SLOTSWEEP_TOKEN": "secret-of-a-user"}).items():
        monkeypatch.setenv(name, value)
    return wanted


def started(pid: int) -> tuple[dict[str, str], list[str]]:
    """The environment and the command line of a process, once it has them: its program may be loading still."""
    process = psutil.Process(pid)
    wait_for(lambda: bool(process.environ()), 30, "an environment")
    return process.environ(), process.cmdline()


def test_the_conductor_has_rays_token_and_mlflows_account(
    accounts: dict[str, str], settings: Settings, store: Store
) -> None:
    conductor = ConductorProcess(settings, Group("no code", (), "untimed"))
    try:
        there, line = started(conductor.pid)
    finally:
        conductor.end(0.0)
    assert {name: there.get(name) for name in accounts} == accounts
    assert "secret-of-a-user" not in there.values()
    assert not [word for word in line if "secret-of" in word]


def test_the_tracker_has_mlflows_account(accounts: dict[str, str], settings: Settings, store: Store) -> None:
    tracker = TrackerProcess(settings)
    try:
        there, line = started(tracker.pid)
    finally:
        tracker.end(0.0)
    assert {name: there.get(name) for name in accounts} == accounts
    assert not [word for word in line if "secret-of" in word]
