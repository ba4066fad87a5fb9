"""What rendered files run, run: a cluster that grows from nothing by Ray's own autoscaler, and a SkyPilot task."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cluster.options import HOME, ClusterOptions
from orchestrator.cluster.ray_up import PASSWD, USER_HOME
from orchestrator.cluster.rendering import render
from orchestrator.store.store import Store
from tests.cluster.place import Machine
from tests.cluster.rendered import one, rendered
from tests.docker.compose_file import COMPOSE, read
from tests.faults.place import wait_for
from tests.orchestrator.conftest import SLOTSWEEP

SPEC = """\
name: in-a-cloud
kind: frontier
workload: {name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16, noise: 0.3}
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, similarity: {values: [0.5, 0.6]}}
seeds: 4
episodes: 3
"""

PATIENT_PLUGIN = '''\
"""A mechanism that waits until a log says that a machine has joined."""

import time
from pathlib import Path
from typing import Literal

from models.config import SlotConfig
from models.mechanism import MECHANISMS, mechanism

FullAttention = MECHANISMS.implementation("full_attention")


class PatientConfig(SlotConfig):
    """Full attention that waits."""

    name: Literal["patient"] = "patient"


@mechanism(PatientConfig)
class Patient(FullAttention):
    def start(self, stream, rng):
        until = time.monotonic() + 120.0
        while "joined" not in Path({log!r}).read_text() and time.monotonic() < until:
            time.sleep(0.1)
        super().start(stream, rng)
'''


@pytest.fixture
def machine(stock: Path) -> Iterator[Machine]:
    folder = Path(tempfile.mkdtemp(prefix="cl-", dir="/tmp"))  # Ray's sockets need a short path
    machine = Machine(folder, stock)
    try:
        yield machine
    finally:
        machine.end()
        shutil.rmtree(folder, ignore_errors=True)


def as_user(machine: Machine, token: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`slotsweep` at the end of `ray attach -p 8440`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLOTSWEEP_", "RAY_", "MLFLOW_"))}
    told = {"SLOTSWEEP_SERVER": f"http://127.0.0.1:{machine.service_port}", "SLOTSWEEP_TOKEN": token}
    return subprocess.run(
        [*SLOTSWEEP, *arguments],
        cwd=machine.folder,
        env={**kept, **told},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_a_sweep_starts_the_machines_that_it_needs(machine: Machine) -> None:
    tree = one("aws", "aws.yaml")
    machine.bootstrap(machine.pretended_cloud(tree, **{"c7i-2xlarge": {"CPU": 2, "cpu_node": 1}}))
    environment = {**machine.container_environment(tree), **machine.launcher_environment()}
    for text in tree["head_start_ray_commands"]:
        if text != "ray stop":
            done = machine.run(machine.here(text), environment)
            assert done.returncode == 0, done.stdout
    health = machine.run("slotsweep-health raylet", environment)
    assert health.returncode == 0, health.stdout
    database = f"sqlite:///{machine.folder / 'user' / 'elsewhere & more.db'}"
    machine.bring(f"SLOTSWEEP_DATABASE_URL={database}\nSLOTSWEEP_PUBLIC_URL=http://sweeps.example.org/?a=1&b=2\n")
    creates = re.search(r"(?m)^# +ray exec aws\.yaml '(.*)'$", render("aws", ClusterOptions())["aws.yaml"])
    assert creates is not None
    created = machine.run(creates[1], environment)
    token = created.stdout.strip().splitlines()[-1]
    (machine.folder / "sweep.yaml").write_text(SPEC)
    wait_for(lambda: as_user(machine, token, "status").returncode == 0, 60, "the service")
    nodes = json.loads(as_user(machine, token, "workers", "--json").stdout)["nodes"]
    assert [node["cpus"] for node in nodes] == [0], "nothing but the head is there"
    submitted = as_user(machine, token, "submit", "sweep.yaml")
    assert submitted.returncode == 0, submitted.stderr
    sweep = submitted.stdout.strip()
    store = Store.open(database)
    try:
        wait_for(lambda: store.sweep(sweep).state == "done", 240, "machines that compute the sweep")
    finally:
        store.close()
    nodes = json.loads(as_user(machine, token, "workers", "--json").stdout)["nodes"]
    assert {node["cpus"] for node in nodes} == {0, 2}, "CPU machines came, and none with GPUs"
    assert not any(node["cuda"] for node in nodes)
    joins = next(text for text in tree["worker_start_ray_commands"] if "ray start" in text)
    gpu = json.dumps(tree["available_node_types"]["g4dn-xlarge"]["resources"])
    joined = machine.run(
        machine.here(joins),
        {**machine.container_environment(tree), "RAY_HEAD_IP": machine.ip, "RAY_OVERRIDE_RESOURCES": gpu},
    )
    assert joined.returncode == 0, joined.stdout

    def with_gpus() -> list[Any]:
        nodes = json.loads(as_user(machine, token, "workers", "--json").stdout)["nodes"]
        return [node for node in nodes if node["cuda"]]

    wait_for(lambda: bool(with_gpus()), 60, "the machine with a GPU among the nodes")
    [node] = with_gpus()
    assert (node["cpus"], node["cuda"], node["accelerator"]) == (4, 1, "T4")


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_the_skypilot_task_runs_its_sweep_and_ends(machine: Machine) -> None:
    """On two machines, of which the second only works; the sweep lasts until it has joined."""
    tree = one("skypilot", "skypilot.yaml", max_workers=2)
    log = machine.folder / "second.log"
    log.touch()
    (machine.folder / "patient_memory.py").write_text(PATIENT_PLUGIN.format(log=str(log)))
    spec = SPEC.replace("mechanisms:", "plugins: [patient_memory.py]\nmechanisms:").replace("full_attention", "patient")
    (machine.folder / "sweep.yaml").write_text(spec)
    venv = machine.folder / "user" / "slotsweep-venv"
    venv.mkdir()
    (venv / "bin").symlink_to(Path(SLOTSWEEP[0]).parent)
    told = {name: value for name, value in {**tree["envs"], **tree["secrets"]}.items() if value is not None}
    told |= {"SPEC": "sweep.yaml", "RAY_PORT": str(machine.ray_port), "RAY_AUTH_TOKEN": machine.token}
    told |= {"SKYPILOT_NODE_IPS": f"{machine.ip}\n{machine.ip}", "SLOTSWEEP_HOME": machine.paths[HOME]}
    with log.open("w") as output:
        second = subprocess.Popen(
            ["bash", "-c", tree["run"]],
            cwd=machine.folder,
            env=machine.environment(**told, SKYPILOT_NODE_RANK="1"),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    done = machine.run(tree["run"], machine.environment(**told, SKYPILOT_NODE_RANK="0"), 300)
    assert done.returncode == 0, done.stdout
    assert "done: 12 of 12 trials done" in done.stdout
    assert second.wait(60) == 0
    assert "joined" in log.read_text()
    assert subprocess.run(["bash", "-n", "-c", tree["setup"]]).returncode == 0
    wait_for(lambda: machine.living() == [], 30, "the end of what it started")


def test_machines_are_prepared_as_told(machine: Machine) -> None:
    tree = one("gcp", "gcp.yaml", storage="10.0.0.7:/share")
    first, second, *_, last = tree["initialization_commands"]
    shim = 'sudo() { "$@"; }; '
    folders = [machine.folder / "home2", machine.folder / "home2-user"]
    for text in (first, second, last):
        done = machine.run(shim + text.replace(HOME, str(folders[0])), machine.environment())
        assert done.returncode == 0, done.stdout
    assert all(folder.is_dir() and folder.stat().st_uid == os.getuid() for folder in folders)
    named = machine.folder / PASSWD.replace(HOME, "home2")
    assert f"slotsweep:x:{os.getuid()}:{os.getgid()}::{USER_HOME}:/bin/bash" in named.read_text().splitlines()
    assert f"--volume={PASSWD}:/etc/passwd:ro" in tree["docker"]["run_options"]
    for text in tree["initialization_commands"] + tree["head_start_ray_commands"]:
        assert subprocess.run(["bash", "-n", "-c", text]).returncode == 0, text


@pytest.mark.skipif(
    os.getuid() != 0, reason="only root puts a file in the place of /etc/passwd, or becomes another user"
)
def test_the_autoscaler_can_use_ssh_as_the_machines_user(machine: Machine) -> None:
    """As in a container of a user that the image does not know: ssh asks for the user's name before all else."""
    names = next(text for text in one("aws", "aws.yaml")["initialization_commands"] if PASSWD in text)
    named = machine.folder / "names"
    as_user = 'id() { echo 12345; }; sudo() { "$@"; }; '
    assert machine.run(as_user + names.replace(PASSWD, str(named)), machine.environment()).returncode == 0
    ssh = "exec setpriv --reuid=12345 --regid=12345 --clear-groups ssh -o BatchMode=yes -p 1 127.0.0.1 true"
    there = f"mount --bind {named} /etc/passwd && {ssh}"
    done = machine.run(f"unshare --mount bash -c {shlex.quote(there)}", machine.environment())
    assert "No user exists" not in done.stdout
    assert "port 1" in done.stdout, "nobody listens there"


def test_mlflow_starts_as_under_compose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.server.auth.config import read_auth_config

    trees = rendered("kuberay", "kuberay/service.yaml")
    [users] = [tree["data"]["users.ini"] for tree in trees if tree["kind"] == "ConfigMap"]
    [container] = [
        tree["spec"]["template"]["spec"]["containers"][0]
        for tree in trees
        if tree["kind"] == "Deployment" and tree["metadata"]["name"].endswith("mlflow")
    ]
    *_, script = container["command"]
    fills, _, starts = script.partition(" && exec ")
    assert shlex.split(starts) == read(COMPOSE)["services"]["mlflow"]["command"]
    (tmp_path / "users.ini").write_text(users)
    fills = fills.replace("/etc/mlflow", str(tmp_path)).replace("/tmp/users.ini", str(tmp_path / "filled.ini"))
    address = "postgresql://mlflow:a%2Fb|c\\1@db:5432/mlflow_users?sslmode=require&application_name=mlflow"
    subprocess.run(["bash", "-c", fills], env={**os.environ, "MLFLOW_AUTH_DATABASE_URI": address}, check=True)
    (tmp_path / "compose.ini").write_text(read(COMPOSE)["configs"]["mlflow_users"]["content"])
    read_by_mlflow = []
    for name in ("filled", "compose"):
        monkeypatch.setenv("MLFLOW_AUTH_CONFIG_PATH", str(tmp_path / f"{name}.ini"))
        read_by_mlflow.append(read_auth_config())
    filled, compose = read_by_mlflow
    assert filled == compose._replace(database_uri=address)
