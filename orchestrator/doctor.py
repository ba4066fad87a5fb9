"""Checks of everything a first run needs."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.settings import Settings
from orchestrator.software import LIBRARIES, library_version

LOWEST_PYTHON = (3, 11)
LEAST_DISK_BYTES = 2 * 10**9


@dataclass(frozen=True)
class Finding:
    """One check: whether it passed, what was seen, and what to do if it did not."""

    check: str
    ok: bool
    detail: str
    cure: str = ""

    def as_json(self) -> dict[str, Any]:
        """The finding as `doctor --json` prints it."""
        return asdict(self)


def examine(settings: Settings) -> list[Finding]:
    """Run every check; none raises."""
    checks: list[Callable[[Settings], Finding]] = [
        _python,
        _libraries,
        _home,
        _disk,
        _database,
        _tracking,
        _kernels,
        _hardware,
        _gpu,
        _cluster,
        _ray,
        _data,
    ]
    findings = []
    for check in checks:
        try:
            findings.append(check(settings))
        except Exception as error:
            findings.append(
                Finding(check.__name__.lstrip("_"), False, f"{type(error).__name__}: {error}", CURES[check])
            )
    return findings


def _python(_: Settings) -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info[:2] >= LOWEST_PYTHON
    return Finding("python", ok, f"{version} at {sys.executable}", "slotsweep needs Python 3.11 or newer")


def _libraries(_: Settings) -> Finding:
    versions = {name: library_version(name) for name in LIBRARIES}
    missing = [name for name, version in versions.items() if version == "not installed"]
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    return Finding("libraries", not missing, shown, f"install {', '.join(missing)}: pip install -c constraints.txt .")


def _home(settings: Settings) -> Finding:
    settings.home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=settings.home):
        return Finding("home", True, f"{settings.home} can be written")


def _disk(settings: Settings) -> Finding:
    free = shutil.disk_usage(settings.home).free
    cure = "free some space, or set SLOTSWEEP_HOME to a larger disk"
    return Finding("disk", free >= LEAST_DISK_BYTES, f"{free / 1e9:.1f} GB free", cure)


def _database(settings: Settings) -> Finding:
    from orchestrator.store.engine import shown
    from orchestrator.store.store import Store

    store = Store.open(settings.database_url)
    count = len(store.sweeps())
    return Finding("database", True, f"{shown(store.engine)}, {count} sweeps")


def _tracking(settings: Settings) -> Finding:
    from orchestrator.tracker.opening import open_tracker

    tracker = open_tracker(settings.tracking_uri, str(settings.artifacts))
    tracker.prepare()
    return Finding("mlflow", True, settings.tracking_uri)


def _kernels(settings: Settings) -> Finding:
    from models.mechanism import MECHANISMS
    from orchestrator.kernel_cache import use_kernel_cache
    from workers.warmup import compile_kernels

    use_kernel_cache(settings.kernels)
    config = MECHANISMS.config_class("dp_cache").model_validate({})
    compile_kernels([config.identity()], "float32")
    return Finding("kernels", True, f"numba compiles into {settings.kernels}")


def _hardware(_: Settings) -> Finding:
    from workers.hardware import read_hardware

    record = read_hardware().flat()
    gigabytes = int(record["ram_bytes"] or 0) / 1e9
    return Finding(
        "hardware", True, f"{record['cpu_model']}, {os.cpu_count()} cores, {gigabytes:.0f} GB RAM, GPU: {record['gpu']}"
    )


def _gpu(_: Settings) -> Finding:
    """Whether torch can compute on the GPU that is there: a build for other drivers, or for none, is found here."""
    from models.devices.device import available_devices, capabilities
    from workers.devices import nvidia_gpus, this_machine_offers, torch_without_cuda

    names, _gibibytes = nvidia_gpus()
    if names and (why := torch_without_cuda()) is not None:
        cure = "install a torch built for CUDA: see https://pytorch.org/get-started/locally"
        return Finding("gpu", False, f"{', '.join(names)}, but {why}", cure)
    expected = [device for device in this_machine_offers().devices if device != "cpu"]
    if missing := [device for device in expected if device not in available_devices()]:
        cure = (
            "update the GPU's driver, or install a torch built for an older one: `nvidia-smi` names the CUDA it knows"
        )
        return Finding("gpu", False, f"torch finds no {' or '.join(missing)} though the driver shows a GPU", cure)
    chips = [chip for device in expected for chip in capabilities(device)]
    return Finding("gpu", True, ", ".join(f"{chip.device}: {chip.name}" for chip in chips) or "none; trials run on cpu")


def _cluster(settings: Settings) -> Finding:
    """Whether the cluster can be reached, takes the token, and runs our versions."""
    if settings.ray_address is None:
        return Finding("cluster", True, "none: RAY_ADDRESS is not set, and Ray starts on this machine")
    from workers.gcs import Cluster, ClusterError
    from workers.join import NECESSARY, NUMERIC, differences, not_told, our_versions

    try:
        cluster = Cluster(settings.ray_address)
    except ClusterError as error:
        return Finding("cluster", False, str(error), CURES[_cluster])
    ours, theirs = our_versions(), cluster.versions()
    nodes = sum(1 for node in cluster.nodes() if node["Alive"])
    cluster.close()
    if wrong := differences(ours, theirs, NECESSARY):
        return Finding("cluster", False, "; ".join(wrong), "install the head's versions here")
    odd = differences(ours, theirs, NUMERIC)
    if untold := not_told(theirs):
        odd.append(f"its version of {untold} is not told before a first sweep")
    return Finding("cluster", True, "; ".join([f"{nodes} nodes at {settings.ray_address}", *odd]))


def _ray(settings: Settings) -> Finding:
    if settings.ray_address:
        from orchestrator.fleet import cluster_nodes

        nodes = [node for node in cluster_nodes(settings.ray_address) if node.usable]
        cure = "join a machine: slotsweep worker --join " + settings.ray_address
        return Finding("ray", any(node.cpus for node in nodes), "; ".join(map(str, nodes)) or "no node", cure)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    ray.init(address="local", num_cpus=1, include_dashboard=False, object_store_memory=128 * 2**20, **quiet)
    try:
        return Finding("ray", bool(ray.nodes()), "starts on this machine")
    finally:
        ray.shutdown()


def _data(settings: Settings) -> Finding:
    folder = os.environ.get("SLOTSWEEP_DATA")
    if folder is None:
        return Finding("data", True, f"fetched when needed into {settings.home / 'data'} (or set SLOTSWEEP_DATA)")
    return Finding("data", os.path.isdir(folder), folder, "SLOTSWEEP_DATA names a folder that does not exist")


CURES: dict[Callable[[Settings], Finding], str] = {
    _python: "install Python 3.11 or newer",
    _libraries: "install again: pip install -c constraints.txt .",
    _home: "set SLOTSWEEP_HOME to a folder that can be written",
    _disk: "set SLOTSWEEP_HOME to a folder that can be written",
    _database: "correct SLOTSWEEP_DATABASE_URL, or unset it to use SQLite",
    _tracking: "correct SLOTSWEEP_TRACKING_URI, or unset it to use SQLite",
    _kernels: "set SLOTSWEEP_HOME to a folder that can be written, and see that numba works: python -c 'import numba'",
    _hardware: "this should always work: please report it",
    _gpu: "see that torch works: python -c 'import torch; torch.cuda.is_available()'",
    _cluster: "correct RAY_ADDRESS (HOST:PORT of the head), or unset it to use Ray on this machine",
    _ray: "correct RAY_ADDRESS, or unset it to start a local Ray, which `python -c 'import ray; ray.init()'` tries",
    _data: "correct SLOTSWEEP_DATA, or unset it to fetch data sets when they are needed",
}
"""What to do about a check that cannot even be made."""
