"""Ray as this process uses it: a local one, started with what the machine has, or a cluster that it joins."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

from orchestrator.errors import ExecutorError
from orchestrator.executors.ray_orphans import end_orphans_after_this_process
from orchestrator.fleet import Node, check_cluster, check_local, nodes_of
from orchestrator.settings import Settings
from workers.devices import this_machine_offers
from workers.gcs import MACHINE_PREFIX, NAMESPACE, VERSIONS_KEY, machine_key, machines_told
from workers.join import our_versions

OBJECT_STORE_BYTES = 128 * 2**20
"""Batches and reports are small; a large store would only slow the start."""

GCS_SECONDS = "5"
"""How long the processes of a local Ray look for its control process before they end. It never comes back: Ray's
default of a minute would only keep orphans alive for as long, after a kill."""


def start_ray(settings: Settings) -> None:
    """Start a local Ray, or join the cluster that the settings name. Raises ExecutorError, or RequestError."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not settings.ray_address:
        os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", GCS_SECONDS)
        end_orphans_after_this_process()
    import ray

    # That the cluster asks for a token is as it should be, and no news for whoever runs a sweep.
    logging.getLogger("ray._private.authentication.authentication_token_setup").setLevel(logging.ERROR)
    check_local() if settings.ray_address is None else check_cluster(settings.ray_address)
    common: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "namespace": "slotsweep"}
    try:
        if settings.ray_address:
            ray.init(address=settings.ray_address, **common)
            _tell_versions()
        else:
            offer = this_machine_offers(os.cpu_count())
            ray.init(
                address="local",
                num_cpus=offer.cpus,
                num_gpus=offer.cuda,
                resources=offer.resources(),
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                **common,
            )
    except Exception as error:
        place = settings.ray_address or "this machine"
        raise ExecutorError(f"Ray could not be started on {place}: {error}") from error


def _tell_versions() -> None:
    """Keep our versions with the cluster: machines that join later compare theirs with whose sweeps they will run."""
    from ray.experimental.internal_kv import _internal_kv_put

    _internal_kv_put(VERSIONS_KEY, json.dumps(our_versions()).encode(), overwrite=True, namespace=NAMESPACE)


def ray_nodes(*, with_machines: bool = False) -> dict[str, Node]:
    """The cluster's nodes by id, those that are gone included; with what is known of their machines, if asked for."""
    import ray
    from ray._private.state import state

    draining = {} if ray.util.client.ray.is_connected() else state.get_draining_nodes()
    machines = _machines() if with_machines else {}
    return {node.id: node for node in nodes_of(ray.nodes(), draining, machines)}


def _machines() -> dict[str, dict[str, str]]:
    from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_list

    keys = _internal_kv_list(MACHINE_PREFIX, namespace=NAMESPACE)
    return machines_told({key: _internal_kv_get(key, namespace=NAMESPACE) for key in keys})


def tell_machine(node: str, device: str, machine: str) -> None:
    """Keep with the cluster what kind of machine `node` (an id) is to workers of a device class."""
    from ray.experimental.internal_kv import _internal_kv_put

    _internal_kv_put(machine_key(node, device), machine.encode(), overwrite=True, namespace=NAMESPACE)


def free_resources() -> dict[str, dict[str, float]]:
    """What nobody has taken yet, by node: without what is all taken. A node may be missing that only just joined."""
    import ray
    from ray._private.state import available_resources_per_node

    return {} if ray.util.client.ray.is_connected() else available_resources_per_node()


def session_logs() -> str:
    """Ray's folder of log files on this machine."""
    import ray

    try:
        return str(Path(ray.get_runtime_context().worker.node.get_session_dir_path()) / "logs")
    except AttributeError:  # joined a cluster whose head is elsewhere
        return "/tmp/ray/session_latest/logs"


def dead_local_processes() -> list[str]:
    """Those of the processes without which a Ray that was started here cannot go on that are dead.

    Ray itself notices after a while, and then ends this process with them.
    """
    import ray

    node = ray._private.worker._global_node
    started = node.all_processes if node is not None else {}
    return [
        kind
        for kind in ("gcs_server", "raylet")
        if any(info.process.poll() is not None for info in started.get(kind, ()))
    ]
