"""MLflow's pages on a store in a database, served on this machine for as long as somebody looks at them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.errors import ExecutorError, RequestError, StoreError
from orchestrator.settings import Settings

DEFAULT_PORT = 5000
PORTS_TRIED = 50
START_SECONDS = 300.0
END_SECONDS = 10.0
ANSWER_SECONDS = 5.0
LINES_TOLD = 5


def free_port(host: str, port: int | None) -> int:
    """`port`, or from 5000 on the first that is free. Raises RequestError if it is taken, or `host` is none of ours."""
    for candidate in [port] if port is not None else range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
            except socket.gaierror as error:
                raise RequestError(f"--host {host}: {error.strerror}") from error
            except OSError as error:
                problem = error
                continue
            return int(probe.getsockname()[1])
    taken = f"port {port}" if port is not None else f"ports {DEFAULT_PORT} to {DEFAULT_PORT + PORTS_TRIED - 1}"
    raise RequestError(
        f"MLflow's pages cannot be served on {host}, {taken}: {problem.strerror}; name another with --port (0: any)"
    )


class MlflowPages:
    """A running `mlflow server` with pages on the store that `settings` name."""

    def __init__(self, settings: Settings, host: str, port: int) -> None:
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._log = settings.home / "logs" / "mlflow-pages.log"
        self._process = _start(settings, host, port, self._log)

    def wait_until_served(self) -> None:
        """Wait until the pages can be opened. Raises ExecutorError if they never can."""
        until = time.monotonic() + START_SECONDS
        while not _answers(f"{self.address}/health"):
            if self._process.poll() is not None or time.monotonic() > until:
                raise ExecutorError(
                    f"MLflow's pages do not open: {_last_lines(self._log)} (all of it is in {self._log})"
                )
            time.sleep(0.1)

    def wait(self) -> None:
        """Wait until the server ends. Raises ExecutorError: by itself it should not."""
        self._process.wait()
        raise ExecutorError(f"MLflow's server has ended: {_last_lines(self._log)} (all of it is in {self._log})")

    def end(self) -> None:
        """End the server and its workers."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            except ProcessLookupError:
                return


@contextmanager
def mlflow_pages(settings: Settings, host: str, port: int) -> Iterator[MlflowPages]:
    """Pages that are served inside `with`; a termination signal ends it as Ctrl-C does, by KeyboardInterrupt."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    pages = MlflowPages(settings, host, port)
    try:
        yield pages
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pages.end()
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _start(settings: Settings, host: str, port: int, log: Path) -> subprocess.Popen[bytes]:
    """The server, in a group of its own. The store's address may hold a password: it is not on the command line."""
    from orchestrator.tracker.mlflow_store import ensure_store
    from orchestrator.tracker.tracker import TrackerRefusedError, TrackerUnavailableError

    try:
        ensure_store(settings.tracking_uri, str(settings.artifacts))
    except (TrackerUnavailableError, TrackerRefusedError) as error:
        raise StoreError(str(error)) from error
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-m", "mlflow", "server", "--host", host, "--port", str(port), "--workers", "1"]
    environment = os.environ | {
        "MLFLOW_BACKEND_STORE_URI": settings.tracking_uri,
        "MLFLOW_DEFAULT_ARTIFACT_ROOT": str(settings.artifacts),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # a second process, for jobs that nobody has here
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    with log.open("w") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )


def is_served(address: str) -> bool:
    """Whether something answers at `address`, were it only that it wants a password."""
    try:
        with urllib.request.urlopen(address, timeout=ANSWER_SECONDS):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=10):
            return True
    except OSError:
        return False


def _last_lines(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return " / ".join(lines[-LINES_TOLD:]) or "it says nothing"
