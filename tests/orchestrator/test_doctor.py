"""What `slotsweep doctor` finds, and what it says to do about it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import doctor
from orchestrator.doctor import Finding
from orchestrator.settings import Settings
from tasks.catalogue import CORPORA
from tests.orchestrator.conftest import SLOTSWEEP
from workers import gcs
from workers.join import our_versions

SECRET = "0123456789abcdef-secret"


def settings(tmp_path: Path, **environment: str) -> Settings:
    return Settings.read({"SLOTSWEEP_HOME": str(tmp_path / "home"), **environment})


@pytest.fixture
def no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder for a user without a token."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[Settings], Finding]], None]:
    """Let one check do something else, and all others nothing."""

    def replace(name: str, check: Callable[[Settings], Finding]) -> None:
        check.__name__ = name
        for other, cure in list(doctor.CURES.items()):
            if other.__name__ == name:
                monkeypatch.setitem(doctor.CURES, check, cure)
                monkeypatch.setattr(doctor, name, check)
            else:
                monkeypatch.setattr(doctor, other.__name__, lambda _: Finding("quiet", True, ""))

    return replace


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_a_machine_that_can_run_is_told_so(tmp_path: Path, no_token: Path) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SLOTSWEEP_") and k != "RAY_ADDRESS"}
    token = tmp_path / "token"
    token.write_text(SECRET)
    token.chmod(0o600)
    environment = kept | {"SLOTSWEEP_HOME": str(tmp_path / "home"), "RAY_AUTH_TOKEN_PATH": str(token)}
    done = subprocess.run(
        [*SLOTSWEEP, "doctor", "--json"], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    told = json.loads(done.stdout)
    assert told["ok"], done.stdout
    assert done.returncode == 0
    assert [check["check"] for check in told["checks"]] == [
        *("python", "libraries", "torch", "home", "disk", "database", "mlflow", "optuna", "kernels", "hardware"),
        *("gpu", "tokens", "cluster", "ray", "ports", "data"),
    ]
    assert SECRET not in done.stdout + done.stderr


def test_a_check_that_cannot_be_made_is_a_finding_with_a_cure_and_no_password(
    tmp_path: Path, only: Callable[..., None]
) -> None:
    def broken(given: Settings) -> Finding:
        raise RuntimeError(f"nothing answers at {given.database_url}")

    only("_database", broken)
    url = f"postgresql+psycopg://me:{SECRET}@nowhere/x"
    findings = doctor.examine(settings(tmp_path, SLOTSWEEP_DATABASE_URL=url))
    [found] = [finding for finding in findings if not finding.ok]
    assert found.check == "database"
    assert found.detail == "RuntimeError: nothing answers at postgresql+psycopg://me:***@nowhere/x"
    assert "SLOTSWEEP_DATABASE_URL" in found.cure


def test_what_is_not_installed_or_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = doctor.library_version
    wrong = {"optuna": "4.6.0", "moocore": "not installed"}
    monkeypatch.setattr(doctor, "library_version", lambda name: wrong.get(name) or right(name))
    found = doctor._libraries(settings(tmp_path))
    assert not found.ok
    assert found.detail == "moocore is not installed; optuna is 4.6.0, and <6,>=5.0 is needed"
    assert "pip install" in found.cure


def test_a_full_disk_is_named_by_what_chooses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(small))
    usage = doctor.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        doctor.shutil, "disk_usage", lambda place: usage._replace(free=10**8 if place == small else 10**10)
    )
    given = settings(tmp_path)
    found = doctor._disk(given)
    assert not found.ok
    assert f"0.1 GB free for {small}" in found.detail
    assert found.cure == "free some space, or set RAY_TMPDIR to a folder on a larger disk"


# --- tokens ---


def test_no_token_is_needed_unless_ray_is_told_to_use_one(
    tmp_path: Path, no_token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert doctor._tokens(settings(tmp_path)).ok
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    found = doctor._tokens(settings(tmp_path))
    assert not found.ok
    assert "get-auth-token" in found.cure


def test_a_token_file_is_looked_at_and_not_shown(
    tmp_path: Path, no_token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / ".ray" / "auth_token"
    file.parent.mkdir()
    file.write_text(SECRET)
    file.chmod(0o600)
    assert doctor._tokens(settings(tmp_path)).detail == f"Ray's is in {file}"
    file.chmod(0o644)
    found = doctor._tokens(settings(tmp_path))
    assert found.ok
    assert f"chmod 600 {file}" in found.detail
    assert SECRET not in found.detail
    monkeypatch.setenv("RAY_AUTH_TOKEN", SECRET)
    assert doctor._tokens(settings(tmp_path)).detail == "Ray's is in RAY_AUTH_TOKEN"


def test_a_token_file_that_is_empty_or_not_there_fails(
    tmp_path: Path, no_token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(file))
    found = doctor._tokens(settings(tmp_path))
    assert not found.ok
    assert found.detail.startswith(f"the token file {file} cannot be read (No such file or directory): copy")
    file.write_text("\n")
    found = doctor._tokens(settings(tmp_path))
    assert not found.ok
    assert "is empty" in found.detail


@pytest.mark.parametrize("address", [{}, {"RAY_ADDRESS": "127.0.0.1:6379"}])
def test_a_token_file_that_is_not_there_is_said_wherever_it_is_needed(
    tmp_path: Path, no_token: Path, monkeypatch: pytest.MonkeyPatch, address: dict[str, str]
) -> None:
    """Ray's own client would end the process."""
    for name in (check.__name__ for check in doctor.CURES):
        if name not in ("_tokens", "_cluster", "_ray"):
            monkeypatch.setattr(doctor, name, lambda _: Finding("quiet", True, ""))
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    found = {one.check: one for one in doctor.examine(settings(tmp_path, **address))}
    for check in ("tokens", "ray", *(["cluster"] if address else [])):
        assert not found[check].ok
        assert found[check].detail.startswith(f"the token file {tmp_path / 'none'} cannot be read"), found[check]


# --- the cluster ---


def cluster_with(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    class Stub:
        def __init__(self, address: str) -> None:
            pass

        def versions(self) -> dict[str, str]:
            return our_versions() | versions

        def nodes(self) -> list[dict[str, Any]]:
            return [{"Alive": True}]

        def close(self) -> None:
            pass

    monkeypatch.setattr(gcs, "Cluster", Stub)


def test_another_slotsweep_in_the_last_sweep_is_worth_a_word_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sweeps carry their own code."""
    cluster_with(monkeypatch, slotsweep="0.0.7", numba="0.1")
    found = doctor._cluster(settings(tmp_path, RAY_ADDRESS="head:6379"))
    assert found.ok
    assert f"slotsweep is {our_versions()['slotsweep']} here and 0.0.7 on the head" in found.detail
    assert "numba" in found.detail


def test_another_python_or_ray_on_the_head_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster_with(monkeypatch, slotsweep="0.0.7", ray="1.0.0")
    found = doctor._cluster(settings(tmp_path, RAY_ADDRESS="head:6379"))
    assert not found.ok
    assert found.detail == f"ray is {our_versions()['ray']} here and 1.0.0 on the head"


# --- ports and data sets ---


def test_a_taken_port_is_worth_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(doctor, "PAGES_PORT", taken.getsockname()[1])
        found = doctor._ports(settings(tmp_path))
    assert found.ok
    assert "is taken: give `slotsweep dashboard --port` another" in found.detail
    assert "is free" in doctor._ports(settings(tmp_path)).detail


def test_data_sets_at_hand_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOTSWEEP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLOTSWEEP_DATA", str(tmp_path / "nowhere"))
    assert not doctor._data(settings(tmp_path)).ok
    monkeypatch.setenv("SLOTSWEEP_DATA", str(tmp_path))
    found = doctor._data(settings(tmp_path))
    assert not found.ok
    assert "movielens/ml-latest-small/ratings.csv lies" in found.cure
    for name in ("ratings.csv", "movies.csv.gz"):
        file = tmp_path / "movielens" / "ml-latest-small" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    found = doctor._data(settings(tmp_path))
    assert found.ok
    assert found.detail.startswith(f"1 of {len(CORPORA)} data sets in {tmp_path}, 0 of ")
    monkeypatch.delenv("SLOTSWEEP_DATA")
    assert doctor._data(settings(tmp_path)).ok
