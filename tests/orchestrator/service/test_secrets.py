"""No secret is told: not in logs, reports, MLflow, `doctor`, errors, answers, nor on any command line."""

from __future__ import annotations

import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx2
import psutil
import pytest
from sqlalchemy import create_engine, make_url, text

from orchestrator.settings import Settings
from orchestrator.store.states import Role
from orchestrator.store.store import Store
from tests.orchestrator.conftest import Ran
from tests.orchestrator.service.conftest import API, Serving, bearer
from tests.orchestrator.specs import SMALL

RUN_SECONDS = 240.0


def secret(what: str) -> str:
    """One that stands nowhere else."""
    return f"s3cret-{what}-{secrets.token_hex(8)}"


@pytest.fixture
def kept(postgres_url: str, tmp_path: Path) -> dict[str, str]:
    """Secrets, by what they open."""
    return {what: secret(what) for what in ("database", "tracking", "ray", "webhook", "address", "user")}


@pytest.fixture
def environment(kept: dict[str, str], postgres_url: str) -> dict[str, str]:
    """A service that has all of them. The database asks for no password, and is told one."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    return {
        "SLOTSWEEP_DATABASE_URL": make_url(postgres_url)
        .set(password=kept["database"])
        .render_as_string(hide_password=False),
        "MLFLOW_TRACKING_USERNAME": "slotsweep",
        "MLFLOW_TRACKING_PASSWORD": kept["tracking"],
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": kept["ray"],
        "SLOTSWEEP_WEBHOOKS": f"http://127.0.0.1:{port}/{kept['address']}",
        "SLOTSWEEP_WEBHOOK_SECRET": kept["webhook"],
        "SLOTSWEEP_TOKEN": kept["user"],
    }


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_a_sweep_that_is_served_tells_no_secret(
    settings: Settings,
    kept: dict[str, str],
    environment: dict[str, str],
    slotsweep: Callable[..., Ran],
    slotsweep_serve: Callable[..., AbstractContextManager[Serving]],
) -> None:
    store = Store.open(environment["SLOTSWEEP_DATABASE_URL"])
    _, token = store.create_token("ada", Role.ADMIN)
    kept["token"] = token
    lines: set[str] = set()
    with slotsweep_serve(**environment) as serving, httpx2.Client(base_url=serving.url, timeout=120) as client:
        client.headers.update(bearer(token))
        asked = {"specs": [{"name": "small.yaml", "text": SMALL}]}
        sweep = client.post(f"{API}/sweeps", json=asked).json()["submitted"]["small.yaml"]["sweep"]
        until = time.monotonic() + RUN_SECONDS
        while client.get(f"{API}/sweeps/{sweep}").json()["state"] != "done" and time.monotonic() < until:
            lines |= set(_command_lines())
            time.sleep(0.2)
        assert client.get(f"{API}/sweeps/{sweep}").json()["state"] == "done", serving.log.read_text()
        routes = (
            "openapi.json",
            "tokens",
            "webhooks",
            "workers",
            "sweeps",
            f"sweeps/{sweep}/log",
            f"sweeps/{sweep}/report",
        )
        told = {route: client.get(f"{API}/{route}").text for route in routes}
        told["metrics"] = client.get("/metrics").text
        client.post("/login", data={"token": token})
        told |= {page: client.get(page).text for page in ("/", f"/sweeps/{sweep}", f"/sweeps/{sweep}/log", "/workers")}
        doctor = slotsweep("doctor", **environment)
        told |= {"doctor": doctor.out + doctor.err, "stderr": serving.log.read_text()}
    assert any("conductor" in line for line in lines)
    for what, value in kept.items():
        assert [name for name, shown in told.items() if value in shown] == [], what
        assert [line for line in lines if value in line] == [], what
        assert [str(path) for path in _files(settings.home) if value.encode() in path.read_bytes()] == [], what
        assert value not in _everything_in(environment["SLOTSWEEP_DATABASE_URL"]), what
    store.close()


def _command_lines() -> Iterator[str]:
    for process in psutil.process_iter(["cmdline"]):
        yield " ".join(process.info["cmdline"] or ())


def _files(home: Path) -> Iterator[Path]:
    """What is written beside the database: logs, reports, MLflow's store and artifacts."""
    for path in home.rglob("*"):
        if path.is_file() and not path.is_relative_to(home / "kernels"):
            yield path


def _everything_in(url: str) -> str:
    """All rows of all tables."""
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        tables = connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars().all()
        rows = [str(row) for table in tables for row in connection.execute(text(f'SELECT * FROM "{table}"'))]
    engine.dispose()
    assert any("ada" in row for row in rows)
    return "\n".join(rows)


WRONG_ADDRESSES = [
    ("SLOTSWEEP_DATABASE_URL", "postgresql://me:{secret}@127.0.0.1:1/db"),
    ("SLOTSWEEP_DATABASE_URL", "mysql://me:{secret}@127.0.0.1/db"),
    ("SLOTSWEEP_DATABASE_URL", "me:{secret}@127.0.0.1/db"),
    ("SLOTSWEEP_DATABASE_URL", "postgresql://me:{secret}@[127.0.0.1/db"),
    ("SLOTSWEEP_TRACKING_URI", "ftp://me:{secret}@127.0.0.1"),
    ("SLOTSWEEP_TRACKING_URI", "http://me:{secret}@127.0.0.1:1"),
    ("SLOTSWEEP_TRACKING_URI", "postgresql://me:{secret}@127.0.0.1:1/db"),
    ("SLOTSWEEP_OPTUNA_URL", "mysql://me:{secret}@127.0.0.1/db"),
    ("SLOTSWEEP_OPTUNA_URL", "postgresql://me:{secret}@127.0.0.1:1/db"),
    ("SLOTSWEEP_SERVER", "http://me:{secret}@127.0.0.1:1"),
    ("SLOTSWEEP_SERVER", "gopher://me:{secret}@127.0.0.1:1"),
]


@pytest.mark.parametrize(("variable", "address"), WRONG_ADDRESSES)
def test_errors_about_addresses_leave_their_passwords_out(
    slotsweep_here: Callable[..., Ran],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    variable: str,
    address: str,
) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    password, token = secret("address"), secret("token")
    monkeypatch.setenv(variable, address.format(secret=password))
    monkeypatch.setenv("SLOTSWEEP_TOKEN", token)
    for arguments in (("status",), ("submit", str(tmp_path / "small.yaml"))):
        ran = slotsweep_here(*arguments)
        assert password not in ran.out + ran.err, arguments
        assert token not in ran.out + ran.err, arguments
        assert "Traceback" not in ran.err, (arguments, ran.err)


def test_a_service_that_cannot_start_leaves_its_secrets_out(slotsweep: Callable[..., Ran]) -> None:
    value = secret("webhook")
    for wrong in (f"ftp://x/{value}", f"http://me:{value}@[x"):
        ran = slotsweep("serve", "--no-run", SLOTSWEEP_WEBHOOKS=wrong, SLOTSWEEP_WEBHOOK_SECRET=value)
        assert ran.code == 2
        assert value not in ran.out + ran.err


def test_secrets_are_in_no_settings_that_are_printed(settings: Settings) -> None:
    value = secret("token")
    told = Settings.read({"SLOTSWEEP_TOKEN": value, "SLOTSWEEP_DATABASE_URL": f"postgresql://me:{value}@host/db"})
    assert value not in repr(told)
    assert value not in subprocess.list2cmdline([str(told)])
