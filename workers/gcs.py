"""A Ray cluster's own records, read from its control service (GCS) in milliseconds, without joining the cluster.

All use of Ray's unstable interfaces for it stands here.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

REACH_SECONDS = 5.0
ANSWER_SECONDS = 5.0
CONNECT_SECONDS = "8"
"""How long Ray's client tries to get a first answer from what speaks HTTP/2; half a minute by itself."""

FRAME_HEADER_BYTES = 9
SETTINGS_FRAME = 4
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, SETTINGS_FRAME, 0, 0, 0, 0, 0])
"""What an HTTP/2 client says first: its preface, and settings without a change (RFC 9113, 3.4 and 6.5)."""

AUTO = "auto"
"""Ray's word for the cluster that runs on this machine."""

VERSIONS_KEY, NAMESPACE = b"versions", b"slotsweep"
MACHINE_PREFIX = "machine:"
"""Begins the keys under which the kinds of machines are kept: `machine:NODE:DEVICE`."""

RAY_KEY, RAY_NAMESPACE = b"CLUSTER_METADATA", b"cluster"

TOKEN_FILE = Path(".ray") / "auth_token"
"""Where Ray looks for a cluster's token in the home folder, unless it is told otherwise."""

PREEMPTED = "preempted"
DEATHS = {1: "terminated", 2: "crashed", 3: PREEMPTED, 4: "drained"}
"""Why a node is gone, by Ray's number: ended in order (by SIGTERM, or `ray stop`), lost, or drained."""

Versions = dict[str, str]


class ClusterError(Exception):
    """A cluster that cannot be read; the message says why and what to do."""


class ClusterRequestError(ClusterError):
    """What was given to find or enter a cluster (its address, a file) is wrong in itself."""


class ClusterTokenError(ClusterRequestError):
    """The file that should hold the cluster's token cannot be read, or is empty."""


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`. Raises ClusterRequestError."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or "://" in address:
        raise ClusterRequestError(
            f"`{address}` is no address of a Ray cluster: expected HOST:PORT, such as 10.0.0.1:6379"
        )
    return host, port


def reach(host: str, port: int) -> str:
    """This machine's address on the way to `host`:`port`.

    Raises ClusterError if nothing listens there, or something that cannot be Ray: Ray's own client would wait for most
    of a minute to find that out.
    """
    try:
        with socket.create_connection((host, port), REACH_SECONDS) as connection:
            if not os.environ.get("RAY_USE_TLS") and not speaks_http2(connection):
                raise ClusterError(f"what listens at {host}:{port} is no Ray cluster: is it the port of the head?")
            return str(connection.getsockname()[0])
    except OSError as error:
        raise ClusterError(
            f"nothing answers at {host}:{port} ({error.strerror or error}): is the head running (`ray start --head "
            f"--port={port}`), and does the network let this machine through?"
        ) from error


def speaks_http2(connection: socket.socket) -> bool:
    """Whether a server greets within `REACH_SECONDS` as gRPC's do: HTTP/2 begins with settings (RFC 9113, 3.4)."""
    greeting = b""
    deadline = time.monotonic() + REACH_SECONDS
    try:
        connection.sendall(HTTP2_PREFACE)
        while len(greeting) < FRAME_HEADER_BYTES:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            received = connection.recv(FRAME_HEADER_BYTES - len(greeting))
            if not received:
                return False
            greeting += received
    except OSError:
        return False
    return greeting[3] == SETTINGS_FRAME


class Cluster:
    """The records of the cluster whose head is at `address` (host:port, or `auto`: one that runs on this machine).

    Raises ClusterError if it cannot be read.
    """

    def __init__(self, address: str) -> None:
        self.address = address = running_here() if address == AUTO else address
        self.host, self.port = split_address(address)
        check_token()
        self.own_ip = reach(self.host, self.port)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_py_gcs_connect_timeout_s", CONNECT_SECONDS)
        from ray._private.state import GlobalState
        from ray._raylet import GcsClient, GcsClientOptions  # type: ignore[attr-defined]
        from ray.exceptions import AuthenticationError, RpcError

        try:
            self._client = GcsClient(address=address)
            options = GcsClientOptions.create(address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=True)
        except AuthenticationError as error:
            raise ClusterError(token_refused(address)) from error
        except RpcError as error:
            raise ClusterError(f"what answers at {address} is no Ray cluster: {error}") from error
        self._state = GlobalState()
        self._state._initialize_global_state(options)

    def close(self) -> None:
        """Give back the connection."""
        self._state.disconnect()

    def versions(self) -> Versions:
        """Versions of the head's Python and Ray, and of the slotsweep and libraries that last ran a sweep with it."""
        found: Versions = {}
        if (ours := self._get(VERSIONS_KEY, NAMESPACE)) is not None:
            found |= json.loads(ours)
        if (rays := self._get(RAY_KEY, RAY_NAMESPACE)) is not None:
            tree = json.loads(rays)
            found |= {"ray": tree["ray_version"], "python": tree["python_version"]}
        return found

    def _get(self, key: bytes, namespace: bytes) -> bytes | None:
        value: bytes | None = self._client.internal_kv_get(key, namespace, timeout=ANSWER_SECONDS)
        return value

    def machines(self) -> dict[str, dict[str, str]]:
        """What was told of the nodes' kinds of machine (`workers.hardware.machine_id`): by node and device class."""
        keys = self._client.internal_kv_keys(MACHINE_PREFIX.encode(), NAMESPACE, timeout=ANSWER_SECONDS)
        told = self._client.internal_kv_multi_get(keys, NAMESPACE, timeout=ANSWER_SECONDS) if keys else {}
        return machines_told(told)

    def tell_machine(self, node: str, device: str, machine: str) -> None:
        """Keep with the cluster what kind of machine `node` (an id) is to workers of a device class."""
        key = machine_key(node, device)
        self._client.internal_kv_put(key, machine.encode(), True, NAMESPACE, timeout=ANSWER_SECONDS)

    def nodes(self) -> list[dict[str, Any]]:
        """Ray's records of all nodes, those that are gone included; as `ray.nodes`."""
        return list(self._state.node_table())

    def draining(self) -> dict[str, int]:
        """Ids of nodes that are told to leave, with the deadline in ms since the epoch (0: none)."""
        return dict(self._state.get_draining_nodes())

    def drain(self, node: str, why: str, seconds: float) -> bool:
        """Tell the cluster that `node` (an id) will be gone in `seconds`; whether it took note."""
        from ray.core.generated import autoscaler_pb2

        accepted, _ = self._client.drain_node(
            node, autoscaler_pb2.DRAIN_NODE_REASON_PREEMPTION, why, int(1000 * (time.time() + seconds))
        )
        return bool(accepted)


def machine_key(node: str, device: str) -> bytes:
    """Where the kind of machine is kept that `node` (an id) is to workers of `device`."""
    return f"{MACHINE_PREFIX}{node}:{device}".encode()


def machines_told(told: Mapping[bytes, bytes]) -> dict[str, dict[str, str]]:
    """Kinds of machines by node and device class, from what is kept under their keys."""
    machines: dict[str, dict[str, str]] = {}
    for key, machine in told.items():
        _, node, device = key.decode().split(":")
        machines.setdefault(node, {})[device] = machine.decode()
    return machines


def running_here() -> str:
    """Address (host:port) of the cluster that runs on this machine, as Ray finds it. Raises ClusterError."""
    from ray._private.services import canonicalize_bootstrap_address

    try:
        found = canonicalize_bootstrap_address(AUTO)
    except ConnectionError:
        found = None
    if found is None:
        raise ClusterError(
            "`auto` names the Ray cluster that runs on this machine, and there is none: start one (`ray start --head`) "
            "or give the head's HOST:PORT"
        )
    return str(found)


def check_token(*, local: bool = False) -> None:
    """Raise ClusterTokenError where Ray is to use a token and would find none: its own client then ends the process.

    local: for a Ray on this machine, which makes itself a token unless a file is named
    """
    mode, named = os.environ.get("RAY_AUTH_MODE", "").lower(), os.environ.get("RAY_AUTH_TOKEN_PATH")
    if mode == "disabled" or os.environ.get("RAY_AUTH_TOKEN"):
        return
    if named:
        check_token_file(Path(named))
    elif mode == "token" and not local:
        check_token_file(Path.home() / TOKEN_FILE)


def check_token_file(path: Path) -> None:
    """Raise ClusterTokenError if there is no token in the file at `path`."""
    cure = (
        "copy the head's token (there, `ray get-auth-token` prints it) into a file, and set RAY_AUTH_TOKEN_PATH to it"
    )
    try:
        empty = not path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise ClusterTokenError(f"the token file {path} cannot be read ({why}): {cure}") from error
    if empty:
        raise ClusterTokenError(f"the token file {path} is empty: {cure}")


def token_refused(address: str) -> str:
    """What to do where a cluster does not take the token, or the lack of one."""
    given = next((name for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH") if os.environ.get(name)), None)
    wrong = "wants a token" if given is None else f"does not take the token that {given} gives"
    return (
        f"the cluster at {address} {wrong}: give the head's token with --token-file FILE, or set RAY_AUTH_MODE=token "
        "and RAY_AUTH_TOKEN_PATH=FILE (on the head, `ray get-auth-token` prints it)"
    )
