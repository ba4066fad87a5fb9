"""Joining a cluster: this machine becomes a node of it, until it is told to leave.

The token of the cluster travels in a file or in the environment, which Ray reads; it is never on a command line, and
nothing here reads or prints it.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType

from workers.devices import Offer, this_machine_offers
from workers.gcs import Cluster, ClusterError, Versions, check_token_file
from workers.hardware import this_machine

NECESSARY = ("python", "ray", "slotsweep")
"""What must be the same on every node, for processes to understand one another."""

NUMERIC = ("numpy", "numba", "torch")
"""What may differ, with results that may differ in their last digits."""

MEMBER = "slotsweep.member"
"""Label of a node that says by which start of this command it came."""

LOOK_SECONDS = 0.5
JOIN_SECONDS = 60.0
STOP_SECONDS = 10.0

GRACE_SECONDS = 25.0
"""How long batches may take to finish once the machine is told to go: spot machines give 30 s and more."""


def our_versions() -> Versions:
    """Versions here, of what `NECESSARY` and `NUMERIC` name."""
    found = {"python": platform.python_version()}
    for name in (*NECESSARY[1:], *NUMERIC):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def differences(ours: Mapping[str, str], theirs: Mapping[str, str], names: tuple[str, ...]) -> list[str]:
    """What of `names` has another version here than on the head, which may not tell all of its own."""
    return [
        f"{name} is {ours[name]} here and {theirs[name]} on the head"
        for name in names
        if name in theirs and ours[name] != theirs[name]
    ]


def not_told(theirs: Mapping[str, str]) -> str:
    """What of `NECESSARY` the head has told no version of; empty if it told all."""
    return " and ".join(name for name in NECESSARY if name not in theirs)


def use_token_file(path: Path) -> None:
    """Let Ray take the cluster's token from the file at `path`. Raises ClusterTokenError if there is none in it."""
    check_token_file(path)
    os.environ.pop("RAY_AUTH_TOKEN", None)  # which Ray would prefer
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(path.absolute())


def join(head: str, cpus: int | None, token_file: Path | None, tell: Callable[[str], None]) -> int:
    """Make this machine a node of the cluster whose head is at `head` (host:port), and stay until it ends.

    SIGTERM and Ctrl-C tell the cluster that the machine is about to go: batches finish, or go back freely, for
    `GRACE_SECONDS` at most. Returns the exit code.

    Raises ClusterError, before anything starts, where the head is out of reach, refuses the token, or has other
    versions.
    """
    if token_file is not None:
        use_token_file(token_file)
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    cluster = Cluster(head)
    ours, theirs = our_versions(), cluster.versions()
    if wrong := differences(ours, theirs, NECESSARY):
        raise ClusterError(f"this machine cannot join {head}: {'; '.join(wrong)}. Install the head's versions here")
    if untold := not_told(theirs):
        tell(f"warning: {head} has not told its version of {untold} yet (its first sweep will): nobody compared it")
    for odd in differences(ours, theirs, NUMERIC):
        tell(f"warning: {odd}; results may differ in their last digits")
    offer = this_machine_offers(cpus)
    if offer.unusable is not None:
        tell(f"warning: the GPU of this machine is not offered: {offer.unusable}")
    member = uuid.uuid4().hex
    process = subprocess.Popen(start_command(cluster, offer, member), env=ray_environment(), stdout=subprocess.DEVNULL)
    try:
        return _Member(cluster, process, member, tell).stay(offer)
    finally:
        _end(process)
        cluster.close()


def start_command(cluster: Cluster, offer: Offer, member: str) -> list[str]:
    """The command that makes this machine a node, known by `member`: several may be one host's.

    Apple's GPUs are no `GPU`, which Ray would take for NVIDIA's.
    """
    return [
        *(sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block"),
        f"--address={cluster.address}",
        f"--node-ip-address={cluster.own_ip}",
        f"--num-cpus={offer.cpus}",
        f"--num-gpus={offer.cuda}",
        f"--resources={json.dumps(offer.resources())}",
        f"--labels={MEMBER}={member}",
    ]


def ray_environment() -> dict[str, str]:
    """The environment of that command. On macOS Ray joins clusters only if it is told to."""
    more = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"} if sys.platform in ("darwin", "win32") else {}
    return {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", **more}


class _Member:
    """This machine while it is a node."""

    def __init__(
        self, cluster: Cluster, process: subprocess.Popen[bytes], member: str, tell: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._process = process
        self._member = member
        self._tell = tell
        self._told_to_go = False

    def stay(self, offer: Offer) -> int:
        """Be a node until the process ends or a signal comes, then leave in order. Returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._go)
        node = self._await_node()
        if node is None:
            self._tell(f"this machine could not become a node of {self._cluster.address}; what Ray says is above")
            return 3
        for device in offer.devices:
            self._cluster.tell_machine(node, device, this_machine(device))
        devices = ", ".join(offer.devices) + (f" ({offer.accelerator})" if offer.accelerator else "")
        self._tell(f"joined {self._cluster.address} with {offer.cpus} cores; devices: {devices}")
        while self._process.poll() is None and not self._told_to_go:
            time.sleep(LOOK_SECONDS)
            if not self._is_there(node):
                self._tell("the cluster let this machine go")
                return 0
        if self._told_to_go:
            self._leave(node)
            return 0
        self._tell("Ray ended on this machine")
        return 3

    def _go(self, _signal: int, _frame: FrameType | None) -> None:
        self._told_to_go = True

    def _await_node(self) -> str | None:
        """The id of this machine's node, once it is there."""
        deadline = time.monotonic() + JOIN_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline and not self._told_to_go:
            for node in self._cluster.nodes():
                if node["Alive"] and node["Labels"].get(MEMBER) == self._member:
                    return str(node["NodeID"])
            time.sleep(LOOK_SECONDS)
        return None

    def _is_there(self, node: str) -> bool:
        return any(one["NodeID"] == node and one["Alive"] for one in self._cluster.nodes())

    def _leave(self, node: str) -> None:
        """Tell the cluster, and wait until batches here are finished or given back: Ray then ends the node itself."""
        self._tell("leaving: batches finish, or go back to the queue")
        self._cluster.drain(node, "the machine was told to go", GRACE_SECONDS)
        deadline = time.monotonic() + GRACE_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline and self._is_there(node):
            time.sleep(LOOK_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the node's processes: Ray's command ends those that it started."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
