"""Checks of everything a first run needs."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.errors import ExecutorError, RequestError, ServiceError
from orchestrator.secrecy import HIDDEN, without_secrets
from orchestrator.settings import Settings, private_folder
from orchestrator.software import LIBRARIES, library_version

LEAST_DISK_BYTES = 2 * 10**9

PAGES_PORT = 5000
"""Where `slotsweep dashboard` listens, unless it is told otherwise."""


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
    """Run every check; none raises. Whoever works with a service needs that, and no store of their own."""
    stores = [_database, _mlflow, _optuna] if settings.server is None else [_service]
    checks: list[Callable[[Settings], Finding]] = [
        _python,
        _libraries,
        _torch,
        _home,
        _disk,
        *stores,
        _kernels,
        _hardware,
        _gpu,
        _tokens,
        _cluster,
        _ray,
        _ports,
        _data,
    ]
    findings = []
    for check in checks:
        try:
            finding = check(settings)
        except (RequestError, ExecutorError, ServiceError) as error:
            finding = Finding(check.__name__.lstrip("_"), False, str(error), CURES[check])
        except Exception as error:
            finding = Finding(check.__name__.lstrip("_"), False, f"{type(error).__name__}: {error}", CURES[check])
        findings.append(replace(finding, detail=_without_passwords(finding.detail, settings)))
    return findings


def _without_passwords(text: str, settings: Settings) -> str:
    """`text` without secrets, nor the passwords of the addresses that `settings` name."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    for address in (settings.database_url, settings.tracking_uri, settings.optuna_url):
        try:
            password = make_url(address).password
        except (ArgumentError, ValueError):  # no address: the check of it says so, and may quote it
            text = text.replace(address, HIDDEN)
            continue
        if password:
            text = text.replace(str(password), HIDDEN)
    return without_secrets(text)


def _python(_: Settings) -> Finding:
    from packaging.specifiers import SpecifierSet

    version = ".".join(map(str, sys.version_info[:3]))
    asked = importlib.metadata.metadata("slotsweep")["Requires-Python"]
    ok = SpecifierSet(asked).contains(version)
    return Finding("python", ok, f"{version} at {sys.executable}", f"slotsweep needs Python {asked}")


def _libraries(_: Settings) -> Finding:
    wrong = list(_unmet())
    shown = ", ".join(f"{name} {library_version(name)}" for name in LIBRARIES)
    return Finding("libraries", not wrong, "; ".join(wrong) or shown, CURES[_libraries])


def _unmet() -> Iterator[str]:
    """What slotsweep requires and has not got."""
    from packaging.requirements import Requirement

    for line in importlib.metadata.requires("slotsweep") or ():
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        found = library_version(wanted.name)
        if found == "not installed":
            yield f"{wanted.name} is not installed"
        elif not wanted.specifier.contains(found, prereleases=True):
            yield f"{wanted.name} is {found}, and {wanted.specifier} is needed"


def _torch(_: Settings) -> Finding:
    import torch

    total = float((torch.ones(2, 2) @ torch.ones(2, 2)).sum())
    return Finding("torch", total == 8.0, f"{torch.__version__} computes", CURES[_torch])


def _home(settings: Settings) -> Finding:
    private_folder(settings.home)
    with tempfile.TemporaryFile(dir=settings.home):
        return Finding("home", True, f"{settings.home} can be written")


def _disk(settings: Settings) -> Finding:
    """Results and data sets lie under the home, and Ray's sessions in a folder of its own."""
    places = {
        settings.home: "SLOTSWEEP_HOME",
        Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()): "RAY_TMPDIR",
    }
    free = {place: shutil.disk_usage(place).free for place in places}
    short = [name for place, name in places.items() if free[place] < LEAST_DISK_BYTES]
    shown = ", ".join(f"{size / 1e9:.1f} GB free for {place}" for place, size in free.items())
    return Finding(
        "disk", not short, shown, f"free some space, or set {' and '.join(short)} to a folder on a larger disk"
    )


def _database(settings: Settings) -> Finding:
    from orchestrator.store.engine import shown
    from orchestrator.store.store import Store

    store = Store.open(settings.database_url)
    count = len(store.sweeps())
    return Finding("database", True, f"{shown(store.engine)}, {count} sweeps")


def _mlflow(settings: Settings) -> Finding:
    from orchestrator.tracker.opening import open_tracker

    tracker = open_tracker(settings.tracking_uri, str(settings.artifacts))
    tracker.prepare()
    credentials = [name for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_TOKEN") if os.environ.get(name)]
    given = f", with {' and '.join(credentials)}" if credentials else ""
    return Finding("mlflow", True, f"{settings.tracking_uri}{given}")


def _optuna(settings: Settings) -> Finding:
    """Whether studies can go to Optuna's own store, which is made if it is not there."""
    from orchestrator.tuner.optuna_store import open_store

    engine = open_store(settings.optuna_url)
    engine.dispose()
    return Finding("optuna", True, str(engine.url))


def _service(settings: Settings) -> Finding:
    """Whether the service answers, and takes the token."""
    from orchestrator.client.http import Connection

    connection = Connection(settings)
    me = connection.tree(connection.get("/me"))
    return Finding("service", True, f"{connection.url} knows the token: of {me['user']}, {me['role']}")


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
    chips = [f"{chip.device}: {chip.name}" for device in expected for chip in capabilities(device)]
    if "cuda" in expected:
        from models.devices.fused import works

        kernels = works("cuda")
        chips.append(
            "Triton kernels run" if kernels else "Triton kernels do not run, and slower loops take their place"
        )
    return Finding("gpu", True, ", ".join(chips) or "none; trials run on cpu")


def _tokens(_: Settings) -> Finding:
    """Whether the cluster's token is where the environment says. It is not shown."""
    from workers.gcs import TOKEN_FILE, ClusterTokenError, check_token_file

    mode, direct = os.environ.get("RAY_AUTH_MODE"), os.environ.get("RAY_AUTH_TOKEN")
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    file = Path(named) if named else Path.home() / TOKEN_FILE
    if mode == "disabled" or direct:
        told = "Ray's is not used: RAY_AUTH_MODE=disabled" if mode == "disabled" else "Ray's is in RAY_AUTH_TOKEN"
        return Finding("tokens", True, told)
    if not file.exists() and not named:
        cure = "put the head's token (`ray get-auth-token`) into a file, and set RAY_AUTH_TOKEN_PATH to it"
        return Finding(
            "tokens", mode != "token", f"none{', though RAY_AUTH_MODE=token' if mode == 'token' else ''}", cure
        )
    try:
        check_token_file(file)
    except ClusterTokenError as error:
        return Finding("tokens", False, str(error), CURES[_tokens])
    open_to_all = bool(file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
    warning = f"; others on this machine may read it, until `chmod 600 {file}`" if open_to_all else ""
    return Finding("tokens", True, f"Ray's is in {file}{warning}")


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
    carried = ("slotsweep",)  # by each sweep, from the machine that submits it
    if wrong := differences(ours, theirs, tuple(name for name in NECESSARY if name not in carried)):
        return Finding("cluster", False, "; ".join(wrong), "install the head's versions here")
    odd = [f"{one}, where the last sweep left it" for one in differences(ours, theirs, carried)]
    odd += differences(ours, theirs, NUMERIC)
    if untold := not_told(theirs):
        odd.append(f"its version of {untold} is not told before a first sweep")
    return Finding("cluster", True, "; ".join([f"{nodes} nodes at {settings.ray_address}", *odd]))


def _ray(settings: Settings) -> Finding:
    if settings.ray_address:
        from orchestrator.fleet import cluster_nodes

        nodes = [node for node in cluster_nodes(settings.ray_address) if node.usable]
        cure = "join a machine: slotsweep worker --join " + settings.ray_address
        return Finding("ray", any(node.cpus for node in nodes), "; ".join(map(str, nodes)) or "no node", cure)
    from orchestrator.fleet import check_local

    check_local()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    ray.init(address="local", num_cpus=1, include_dashboard=False, object_store_memory=128 * 2**20, **quiet)
    try:
        return Finding("ray", bool(ray.nodes()), "starts on this machine")
    finally:
        ray.shutdown()


def _ports(_: Settings) -> Finding:
    """Whether processes here can listen for one another; a taken port for pages is only worth a word."""
    with socket.create_server(("127.0.0.1", 0)):
        pass
    try:
        with socket.create_server(("127.0.0.1", PAGES_PORT)):
            return Finding("ports", True, f"{PAGES_PORT} is free for `slotsweep dashboard`")
    except OSError:
        return Finding("ports", True, f"{PAGES_PORT} is taken: give `slotsweep dashboard --port` another")


def _data(_: Settings) -> Finding:
    from tasks.catalogue import CORPORA
    from tasks.corpora import data_cache, folder_at_hand

    given = os.environ.get("SLOTSWEEP_DATA")
    if given and not os.path.isdir(given):
        return Finding("data", False, f"SLOTSWEEP_DATA={given} is no folder", CURES[_data])
    folders = [folder for corpus in CORPORA.values() if (folder := folder_at_hand(corpus)) is not None]
    counts = {
        place: sum(folder.is_relative_to(place) for folder in folders)
        for place in (*([Path(given)] if given else []), data_cache())
    }
    shown = ", ".join(f"{count} of {len(CORPORA)} data sets in {place}" for place, count in counts.items())
    if given and not counts[Path(given)]:
        example = next(iter(CORPORA.values()))
        cure = (
            f"set SLOTSWEEP_DATA to the folder in which {example.folder}/{next(iter(example.files))} lies, or unset it"
        )
        return Finding("data", False, shown, cure)
    return Finding("data", True, f"{shown}; others are fetched when a workload needs them")


CURES: dict[Callable[[Settings], Finding], str] = {
    _python: "install slotsweep again: pip install -c constraints.txt .",
    _libraries: "install slotsweep again: pip install -c constraints.txt .",
    _torch: "install torch again, or see https://pytorch.org/get-started/locally: python -c 'import torch'",
    _home: "set SLOTSWEEP_HOME to a folder that can be written",
    _disk: "set SLOTSWEEP_HOME to a folder that can be written",
    _database: "if it does not say what to do: correct SLOTSWEEP_DATABASE_URL, or unset it to use SQLite",
    _mlflow: "correct SLOTSWEEP_TRACKING_URI, or unset it to use SQLite",
    _optuna: "correct SLOTSWEEP_OPTUNA_URL, or unset it to use SQLite",
    _service: "correct SLOTSWEEP_SERVER and SLOTSWEEP_TOKEN, or unset both to work with a store of your own",
    _kernels: "set SLOTSWEEP_HOME to a folder that can be written, and see that numba works: python -c 'import numba'",
    _hardware: "this should always work: please report it",
    _gpu: "see that torch works: python -c 'import torch; torch.cuda.is_available()'",
    _tokens: "where no cluster wants a token, unset RAY_AUTH_TOKEN_PATH and RAY_AUTH_MODE",
    _cluster: "correct RAY_ADDRESS (HOST:PORT of the head), or unset it to use Ray on this machine",
    _ray: "correct RAY_ADDRESS, or unset it to start a local Ray, which `python -c 'import ray; ray.init()'` tries",
    _ports: "let processes on this machine listen on 127.0.0.1, which a sandbox or firewall may forbid",
    _data: "correct SLOTSWEEP_DATA, or unset it to fetch data sets when they are needed",
}
"""What to do about a check that cannot even be made."""
