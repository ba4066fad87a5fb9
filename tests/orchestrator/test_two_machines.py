"""A cluster of two machines: network namespaces joined by a cable, or processes of one machine where those are barred.

Each has its own `slotsweep`; the second joins by `slotsweep worker`, with the cluster's token from a file.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.orchestrator.conftest import SLOTSWEEP, make_home

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

PORT = 6381
TOKEN = "a-token-that-is-shown-nowhere-0123456789"
SPEC = """\
name: two-machines
kind: frontier
workload: {name: associative_recall, items: 16, repeats: 4, dim: 16, noise: {linspace: [0.1, 0.9, 12]}}
mechanisms:
  - {name: full_attention}
  - {name: recency, budget: {values: [4, 8]}}
seeds: 10
episodes: 100
device: cpu
retries: {infrastructure: 1}
"""
RAY = [sys.executable, "-P", "-m", "ray.scripts.scripts"]


@dataclass(frozen=True)
class Machines:
    """How to run a command on the head or on the second machine, and the head's address."""

    head: list[str]
    second: list[str]
    address: str


def namespaces() -> list[list[str]] | None:
    """Commands that make two namespaces and a cable between them; None where they are not to be had."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return None
    one, two = f"slotsweep-{os.getpid()}-a", f"slotsweep-{os.getpid()}-b"
    commands = [["ip", "netns", "add", one], ["ip", "netns", "add", two]]
    commands += [
        ["ip", "link", "add", "cable-a", "netns", one, "type", "veth", "peer", "name", "cable-b", "netns", two]
    ]
    for space, end, address, other in (
        (one, "cable-a", "10.77.0.1", "10.77.0.2"),
        (two, "cable-b", "10.77.0.2", "10.77.0.1"),
    ):
        inside = ["ip", "-n", space]
        commands += [
            [*inside, "addr", "add", f"{address}/24", "dev", end],
            [*inside, "link", "set", end, "up"],
            [*inside, "link", "set", "lo", "up"],
            [*inside, "route", "add", "default", "via", other],
        ]
    return commands


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    commands = namespaces() or []
    made = bool(commands) and all(
        subprocess.run(one, capture_output=True, check=False).returncode == 0 for one in commands
    )
    names = [command[3] for command in commands[:2]]
    if made:
        enter = [["ip", "netns", "exec", name] for name in names]
        yield Machines(enter[0], enter[1], f"10.77.0.1:{PORT}")
    else:
        yield Machines([], [], f"127.0.0.1:{PORT}")
    for name in names:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, stock: Path, machines: Machines) -> dict[str, str]:
    """What both machines have; each command adds its own home. The token is in a file of the head's."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "token").write_text(TOKEN)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLOTSWEEP_", "RAY_"))}
    ours = {"RAY_USAGE_STATS_ENABLED": "0", "SLOTSWEEP_HOME": str(make_home(folder, stock)), "HOME": str(folder)}
    return {**kept, **ours, "SLOTSWEEP_TEST_MARK": str(folder)}


@pytest.fixture(scope="module")
def head(environment: dict[str, str], machines: Machines) -> Iterator[dict[str, str]]:
    """The environment of commands on the head, where Ray runs."""
    token = f"{environment['HOME']}/token"
    ours = {**environment, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": token, "RAY_ADDRESS": machines.address}
    start = ["start", "--head", f"--port={PORT}", f"--node-ip-address={machines.address.partition(':')[0]}"]
    start += ["--num-cpus=1", "--include-dashboard=false", f"--object-store-memory={80 * 2**20}"]
    starting = {name: value for name, value in ours.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        [*machines.head, *RAY, *start], env=starting, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    yield ours
    for process in psutil.process_iter():
        try:
            if process.environ().get("SLOTSWEEP_TEST_MARK") == environment["SLOTSWEEP_TEST_MARK"]:
                process.kill()
        except psutil.Error:
            continue


def joining(machines: Machines, environment: dict[str, str], *more: str) -> subprocess.Popen[str]:
    """`slotsweep worker` on the second machine."""
    command = [*machines.second, *SLOTSWEEP, "worker", "--join", machines.address, "--cpus", "1", *more]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def read_until(process: subprocess.Popen[str], text: str) -> list[str]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError("".join(lines))


def joined(machines: Machines, environment: dict[str, str]) -> tuple[subprocess.Popen[str], str]:
    """A second machine that has joined, and what it said."""
    process = joining(machines, environment, "--token-file", f"{environment['HOME']}/token")
    said = "".join(read_until(process, "joined"))
    assert TOKEN not in said
    return process, said


def slotsweep(machines: Machines, head: dict[str, str], *arguments: str) -> Any:
    done = subprocess.run(
        [*machines.head, *SLOTSWEEP, *arguments], env=head, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_without_the_token_nobody_joins(
    machines: Machines, environment: dict[str, str], head: dict[str, str], tmp_path: Path
) -> None:
    out, _ = joining(machines, environment).communicate(timeout=240)
    assert "wants a token" in out
    wrong = tmp_path / "wrong"
    wrong.write_text("another-token-altogether")
    refused = joining(machines, environment, "--token-file", str(wrong))
    out, _ = refused.communicate(timeout=240)
    assert "does not take the token that RAY_AUTH_TOKEN_PATH gives" in out
    assert refused.returncode == 3
    assert "another-token" not in out


def test_a_node_killed_in_mid_sweep_costs_only_its_running_batches(
    machines: Machines, environment: dict[str, str], head: dict[str, str], tmp_path: Path
) -> None:
    """And a machine that joins while the sweep runs, in the other's place, is used. The sweep tells its version."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    second, said = joined(machines, environment)
    assert "has not told its version of slotsweep yet" in said
    tell_version(machines, head, "0.0.0")
    refused, _ = joining(machines, environment, "--token-file", f"{environment['HOME']}/token").communicate(timeout=240)
    assert "here and 0.0.0 on the head" in refused
    nodes = slotsweep(machines, head, "workers", "--json")["nodes"]
    assert [node["cpus"] for node in nodes] == [1, 1]
    running = subprocess.Popen(
        [*machines.head, *SLOTSWEEP, "run", str(spec), "--json"],
        env=head, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    await_done(machines, head, 60)
    kill_tree(second)
    third, said = joined(machines, {**environment, "RAY_AUTH_TOKEN": "another-token-altogether"})
    assert "has not told" not in said
    out, err = running.communicate(timeout=600)
    assert running.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["done"] == 360
    rows = slotsweep(machines, head, "results", "last", "--json")
    again = [row for row in rows if row["attempts"] > 1]
    assert len({row["workload.noise"] for row in again}) <= 2
    third.send_signal(signal.SIGTERM)
    out, _ = third.communicate(timeout=240)
    assert third.returncode == 0, out
    assert "leaving" in out
    assert len(slotsweep(machines, head, "workers", "--json")["nodes"]) == 1


def tell_version(machines: Machines, head: dict[str, str], version: str) -> None:
    """Keep a version of slotsweep with the cluster, as a sweep of it did that ran before."""
    code = (
        "import json, sys; from workers.gcs import NAMESPACE, VERSIONS_KEY, Cluster; "
        "told = json.dumps({'slotsweep': sys.argv[2]}).encode(); "
        "Cluster(sys.argv[1])._client.internal_kv_put(VERSIONS_KEY, told, True, NAMESPACE, timeout=5)"
    )
    command = [*machines.head, sys.executable, "-c", code, machines.address, version]
    subprocess.run(command, env=head, check=True, capture_output=True, timeout=240)


def await_done(machines: Machines, head: dict[str, str], trials: int) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if any(row["done"] >= trials for row in slotsweep(machines, head, "status", "--json")):
            return
        time.sleep(0.2)
    raise AssertionError("the sweep did not get going")


def kill_tree(process: subprocess.Popen[str]) -> None:
    """End a machine's processes at once, as a power cut does."""
    everyone = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    for one in everyone:
        one.kill()
    process.wait()
