"""MLflow stores and a server to write to, each made once and then copied or shared; and runs to write."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from orchestrator.tracker.mlflow_store import ensure_store
from orchestrator.tracker.quiet import quiet_mlflow
from orchestrator.tracker.records import ParentRun, TrialRun, parent_run_id_for, run_id_for

START_MS = 1_760_000_000_000

HARDWARE_TAGS = {
    "hw.cpu_model": "AMD EPYC",
    "hw.cores": 2,
    "hw.cpus": 2,
    "hw.threads": 1,
    "hw.ram_bytes": 25_276_510_208,
    "hw.os": "Debian GNU/Linux 12 (bookworm), Linux 6.1.0 x86_64",
    "hw.gpu": "none",
    "hw.gpu_driver": "none",
    "hw.device": "cpu",
    "hw.energy": None,
    "hw.energy_reason": "not measurable here: the system shows no RAPL counter",
    "hw.python": "3.11.7",
    "hw.numpy": "2.4.6",
    "hw.torch": "2.13.0+cpu",
    "hw.ray": "2.60.0",
    "hw.blas": "openblas 0.3.31",
    "hw.git_commit": "3f7a722d4f0c1e0b7b6a4c0c8f5b9a9e1d2c3b4a",
    "hw.git_dirty": False,
}


def make_parent(sweep: str = "s1", experiment: str = "recall-frontier", **changes: Any) -> ParentRun:
    values: dict[str, Any] = {
        "run_id": parent_run_id_for(sweep),
        "sweep": sweep,
        "experiment": experiment,
        "name": experiment,
        "status": "FINISHED",
        "start_ms": START_MS,
        "end_ms": START_MS + 60_000,
        "params": {"kind": "frontier", "seeds": 10, "episodes": 300},
        "tags": {**HARDWARE_TAGS, "slotsweep.kind": "frontier"},
        "metrics": {"trials": 24.0, "failed": 0.0},
        "note": "**Recall** at each size.",
    }
    return ParentRun(**{**values, **changes})


def make_trial(position: int = 0, sweep: str = "s1", experiment: str = "recall-frontier", **changes: Any) -> TrialRun:
    key = f"{position:032x}"
    start = START_MS + 10 * position
    values: dict[str, Any] = {
        "run_id": run_id_for(sweep, key, 0, position),
        "parent_run_id": parent_run_id_for(sweep),
        "sweep": sweep,
        "trial_key": key,
        "experiment": experiment,
        "name": f"dp_cache {position}",
        "status": "FINISHED",
        "start_ms": start,
        "end_ms": start + 7,
        "params": {"workload.items": 64, "mechanism.name": "dp_cache", "mechanism.tau": 0.4, "seed": position},
        "tags": {**HARDWARE_TAGS, "slotsweep.generation": 0, "slotsweep.replaced": "false"},
        "metrics": {"recall": 0.9 + position / 1000, "slots": 64.0, "bytes": 16_384.0, "wall_seconds": 0.004},
    }
    return TrialRun(**{**values, **changes})


@pytest.fixture(scope="session")
def parent() -> Callable[..., ParentRun]:
    """Makes a sweep's run; keywords change its fields."""
    return make_parent


@pytest.fixture(scope="session")
def trial() -> Callable[..., TrialRun]:
    """Makes the run of the trial at a position of a sweep; keywords change its fields."""
    return make_trial


@pytest.fixture(scope="session", autouse=True)
def quiet() -> None:
    quiet_mlflow()


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow SQLite store without runs, to be copied."""
    file = tmp_path_factory.mktemp("template") / "mlflow.db"
    ensure_store(f"sqlite:///{file}", str(file.parent / "artifacts"))
    return file


@pytest.fixture
def sqlite_store(tmp_path: Path, empty_store: Path) -> str:
    """URI of an MLflow SQLite store of this test's own."""
    return f"sqlite:///{shutil.copy(empty_store, tmp_path / 'mlflow.db')}"


@pytest.fixture(scope="session")
def empty_postgres_store(
    postgres_database: Callable[..., AbstractContextManager[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Name of a Postgres database that holds an MLflow store without runs."""
    with postgres_database() as url:
        ensure_store(url, str(tmp_path_factory.mktemp("artifacts")))
        yield str(make_url(url).database)


@pytest.fixture
def postgres_store(
    postgres_database: Callable[..., AbstractContextManager[str]], empty_postgres_store: str
) -> Iterator[str]:
    """URI of an MLflow Postgres store of this test's own."""
    with postgres_database(empty_postgres_store) as url:
        yield url


@dataclass
class Server:
    """A real `mlflow server` on loopback over a SQLite store in `folder`, with more `options` and `environment`."""

    folder: Path
    port: int
    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        # Its job runner is a second process with nothing to do here.
        quieter = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{self.folder / 'mlflow.db'}"]
        command += ["--artifacts-destination", str(self.folder / "artifacts"), *self.options]
        with open(self.folder / "server.log", "ab") as log:
            environment = os.environ | quieter | self.environment
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        until = time.monotonic() + 300
        while not self._answers():
            assert self.process.poll() is None, (self.folder / "server.log").read_text()
            assert time.monotonic() < until, (self.folder / "server.log").read_text()
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=30):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        """End the server and its workers at once, as a power cut would."""
        assert self.process is not None
        os.killpg(self.process.pid, 9)
        self.process.wait()

    def requests(self) -> list[str]:
        """The API requests that it has answered, as method and path."""
        lines = (self.folder / "server.log").read_text().splitlines()
        return [line.split('"')[1] for line in lines if "/api/2.0/mlflow/" in line]


@pytest.fixture(scope="session")
def new_server(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Iterator[Callable[..., Server]]:
    """Starts a server of its own, with options and variables; all are killed in the end."""
    started = []

    def start(*options: str, **environment: str) -> Server:
        folder = tmp_path_factory.mktemp("server")
        shutil.copy(empty_store, folder / "mlflow.db")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = Server(folder, port, options, environment)
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="session")
def server(new_server: Callable[..., Server]) -> Server:
    """A server that tests share, each with experiments of its own."""
    return new_server()
