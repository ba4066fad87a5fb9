"""`slotsweep dashboard` serves MLflow's pages on the runs of a sweep."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from orchestrator.settings import Settings
from tests.orchestrator.conftest import SLOTSWEEP
from tests.orchestrator.specs import write_small


def test_the_dashboard_shows_the_sweep(slotsweep, settings: Settings, tmp_path: Path) -> None:
    ran = slotsweep("run", str(write_small(tmp_path)), "--executor", "inline", "--json")
    assert ran.code == 0, ran.err
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [*SLOTSWEEP, "dashboard", "--port", str(port)],
        env=os.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        body = json.dumps({"max_results": 10}).encode()
        found = _post(f"http://127.0.0.1:{port}/api/2.0/mlflow/experiments/search", body, server)
        names = {experiment["name"]: experiment["experiment_id"] for experiment in found["experiments"]}
        body = json.dumps({"experiment_ids": [names["small"]], "max_results": 100}).encode()
        runs = _post(f"http://127.0.0.1:{port}/api/2.0/mlflow/runs/search", body, server)["runs"]
        assert len(runs) == 25
        assert {run["info"]["status"] for run in runs} == {"FINISHED"}
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(120)


def _post(url: str, body: bytes, server: subprocess.Popen[bytes]) -> dict:
    deadline = time.monotonic() + 180
    while True:
        assert server.poll() is None, "the server ended"
        try:
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)
