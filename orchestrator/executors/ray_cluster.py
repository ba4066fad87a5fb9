"""Batches on Ray: one persistent worker a core, on a local cluster or on the one RAY_ADDRESS names."""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from orchestrator.code_snapshot import CodeSnapshot, unpack_code
from orchestrator.errors import ExecutorError, PreparationError
from orchestrator.executors.base import Event, Finished, Lost
from orchestrator.executors.ray_orphans import end_orphans_after_this_process
from orchestrator.settings import Settings
from workers.batch import BatchTask
from workers.host import Preparation, WorkerCard
from workers.log_capture import worker_log_tail

OBJECT_STORE_BYTES = 128 * 2**20
"""Batches and reports are small; a large store would only slow the start."""

REACH_SECONDS = 5.0

GCS_SECONDS = "5"
"""How long the processes of a local Ray look for its control process before they end. It never comes back: Ray's
default of a minute would only keep orphans alive for as long, after a kill."""

KERNEL_SECONDS = 120.0
KERNEL_SECONDS_EACH = 8.0
ONE_KERNEL_SECONDS = 20.0
"""How long kernels may take to compile: all of a sweep's at least, a mechanism's share where these are many, and those
of one mechanism alone."""

PREPARE = """
import json, os, sys, threading
sys.path.insert(0, sys.argv[1])
wanted = json.loads(sys.stdin.readline())

def end_with_the_driver():
    os.read(0, 1)
    os._exit(1)

threading.Thread(target=end_with_the_driver, daemon=True).start()
from models.plugins import load_plugin
from workers.threads import pin_threads
from workers.warmup import compile_kernels, load_data
pin_threads(1)
try:
    for plugin in wanted["plugins"]:
        load_plugin(plugin)
    load_data(wanted["workloads"])
    print(flush=True)
    compile_kernels(wanted["mechanisms"], wanted["dtype"])
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


class RayExecutor:
    """Starts (or joins) Ray while the kernels compile in a process beside it, then one worker a core.

    With `alone` there is one worker a node, which takes all of its cores: nothing disturbs what it measures.
    """

    name = "ray"
    depth = 2

    def __init__(self, preparation: Preparation, code: CodeSnapshot, settings: Settings, *, alone: bool) -> None:
        self._alone = alone
        self._cores: dict[str, int] = {}
        self._preparation = preparation
        self._code = code
        self._settings = settings
        self._actors: dict[str, Any] = {}
        self._held: dict[Any, tuple[str, int]] = {}
        self._nodes: dict[str, str] = {}
        self._pids: dict[str, int] = {}

    def start(self, given_up: Callable[[], bool]) -> Sequence[WorkerCard]:
        code, said = self._prepare(self._preparation, given_up, self._kernel_seconds, meanwhile=self._start_ray)
        if code > 0:
            raise PreparationError(said or f"preparing the sweep failed with exit code {code}")
        if code < 0 and not given_up():
            # A mechanism killed the process, or hung: it is left to its own trials, the others are prepared.
            alone = [replace(self._preparation, mechanisms=(tree,)) for tree in self._preparation.mechanisms]
            sound = [one for one in alone if self._prepare(one, given_up, ONE_KERNEL_SECONDS)[0] == 0]
            self._preparation = replace(self._preparation, mechanisms=tuple(one.mechanisms[0] for one in sound))
        if given_up():
            return []
        import ray

        self._archive = ray.put(self._code.archive)
        self._cores = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]}
        starting = [
            (node, self._start_actor(node))
            for node, cores in self._cores.items()
            for _ in range(min(cores, 1) if self._alone else cores)
        ]
        if not starting:
            raise ExecutorError("the Ray cluster has no node with a CPU to run trials on")
        cards: list[WorkerCard] = []
        for node, actor in starting:
            hello = actor.card.remote()
            while not ray.wait([hello], timeout=0.25)[0]:
                if given_up():
                    return cards
            cards.append(self._welcome_at_last(node, actor))
        return cards

    @property
    def _kernel_seconds(self) -> float:
        return max(KERNEL_SECONDS, KERNEL_SECONDS_EACH * len(self._preparation.mechanisms))

    def _prepare(
        self,
        preparation: Preparation,
        given_up: Callable[[], bool],
        seconds: float,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> tuple[int, str]:
        """Load data and compile kernels in a process of its own: its exit code (negative if it was killed, as it is
        when kernels take more than `seconds`) and what it said."""
        with tempfile.TemporaryFile("w+") as errors:
            process = self._start_preparing(preparation, errors)
            try:
                meanwhile()
                _await_kernels(process, given_up, seconds)
            finally:
                process.kill()
                process.wait()
            errors.seek(0)
            return process.returncode, errors.read().strip()

    def _start_preparing(self, preparation: Preparation, errors: IO[str]) -> subprocess.Popen[str]:
        """Start that process; it fills the cache that local workers will read."""
        root = self._code.unpack(self._settings.home / "code")
        self._settings.kernels.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", PREPARE, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(self._settings.kernels), "OPENBLAS_NUM_THREADS": "1"},
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(asdict(preparation)) + "\n")
        process.stdin.flush()
        return process

    def _start_ray(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if not self._settings.ray_address:
            os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", GCS_SECONDS)
            end_orphans_after_this_process()
        import ray

        # That the cluster asks for a token is as it should be, and no news for whoever runs a sweep.
        logging.getLogger("ray._private.authentication.authentication_token_setup").setLevel(logging.ERROR)
        common: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "namespace": "slotsweep"}
        try:
            if self._settings.ray_address:
                _reach(self._settings.ray_address)
                ray.init(address=self._settings.ray_address, **common)
            else:
                ray.init(
                    address="local",
                    num_cpus=os.cpu_count(),
                    include_dashboard=False,
                    object_store_memory=OBJECT_STORE_BYTES,
                    **common,
                )
        except Exception as error:
            place = self._settings.ray_address or "this machine"
            raise ExecutorError(f"Ray could not be started on {place}: {error}") from error

    def _start_actor(self, node: str) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        cores = self._cores[node] if self._alone else 1
        remote = ray.remote(num_cpus=cores, max_restarts=0, max_task_retries=0)(_worker_class())
        return remote.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
            self._archive,
            self._code.digest,
            str(self._settings.home),
            unpack_code,
            asdict(self._preparation),
            ("", os.getcwd(), os.path.dirname(os.path.realpath(sys.argv[0]))),
        )

    def _welcome_at_last(self, node: str, actor: Any) -> WorkerCard:
        """Welcome `actor`, or another one if it was killed while it started and Ray is well."""
        try:
            return self._welcome(node, actor)
        except ExecutorError:
            if _dead_local_processes():
                raise
            return self._welcome(node, self._start_actor(node))

    def _welcome(self, node: str, actor: Any) -> WorkerCard:
        import ray

        hello = actor.card.remote()
        try:
            while not ray.wait([hello], timeout=0.25)[0]:
                if dead := _dead_local_processes():
                    raise ExecutorError(f"Ray's process `{dead[0]}` died while a worker was started")
            card = WorkerCard(**ray.get(hello))
        except ray.exceptions.RayError as error:
            raise ExecutorError(f"a worker could not be started: {_short(error)}") from error
        self._actors[card.id] = actor
        self._nodes[card.id] = node
        self._pids[card.id] = card.pid
        return card

    def submit(self, worker: str, task: BatchTask) -> None:
        self._held[self._actors[worker].run.remote(task)] = (worker, task.attempt)

    def wait(self, seconds: float) -> list[Event]:
        import ray

        if not self._held:
            return []
        if dead := _dead_local_processes():
            message = f"Ray's process `{dead[0]}` died"
            return [Lost(worker, self._drop(worker), message) for worker in list(self._actors)]
        ready, _ = ray.wait(list(self._held), num_returns=1, timeout=seconds)
        if ready and len(self._held) > 1:
            ready, _ = ray.wait(list(self._held), num_returns=len(self._held), timeout=0)
        events: list[Event] = []
        for reference in ready:
            if reference not in self._held:  # its worker was lost with an earlier reference
                continue
            worker, _ = self._held[reference]
            try:
                report = ray.get(reference)
            except ray.exceptions.RayError as error:
                events.append(self._lost(worker, error))
            else:
                del self._held[reference]
                events.append(Finished(worker, report))
        return events

    def _lost(self, worker: str, error: Exception) -> Lost:
        import ray

        out_of_memory = isinstance(error, ray.exceptions.OutOfMemoryError)
        log = worker_log_tail(self._pids.get(worker, -1), self._session_logs())
        return Lost(
            worker,
            self._drop(worker),
            _short(error),
            "out_of_memory" if out_of_memory else "worker_lost",
            tuple(log),
        )

    def _session_logs(self) -> str:
        """Ray's folder of log files on this machine."""
        import ray

        try:
            return str(Path(ray.get_runtime_context().worker.node.get_session_dir_path()) / "logs")
        except AttributeError:  # joined a cluster whose head is elsewhere
            return "/tmp/ray/session_latest/logs"

    def _drop(self, worker: str) -> tuple[int, ...]:
        """Forget a worker; the attempts it held, in the order in which it was handed them."""
        held = [reference for reference, (holder, _) in self._held.items() if holder == worker]
        self._actors.pop(worker, None)
        return tuple(self._held.pop(reference)[1] for reference in held)

    def kill(self, worker: str) -> Lost:
        log = worker_log_tail(self._pids.get(worker, -1), self._session_logs())
        return Lost(worker, self.dismiss(worker), "killed", log=tuple(log))

    def dismiss(self, worker: str) -> tuple[int, ...]:
        import ray

        ray.kill(self._actors[worker], no_restart=True)
        return self._drop(worker)

    def replace(self, worker: str) -> WorkerCard | None:
        node = self._nodes.pop(worker)
        if _dead_local_processes():
            return None
        try:
            return self._welcome(node, self._start_actor(node))
        except ExecutorError:
            return None

    def stop(self) -> None:
        import ray

        self._actors.clear()
        self._held.clear()
        if ray.is_initialized():
            ray.shutdown()


def _await_kernels(process: subprocess.Popen[str], given_up: Callable[[], bool], seconds: float) -> None:
    """Wait until everything is prepared: as long as data sets take, then `seconds` for kernels."""
    assert process.stdout is not None
    loaded = threading.Event()
    threading.Thread(target=_watch, args=(process.stdout, loaded), daemon=True).start()
    deadline = math.inf
    while process.poll() is None and not given_up() and time.monotonic() < deadline:
        if deadline == math.inf and loaded.is_set():
            deadline = time.monotonic() + seconds
        time.sleep(0.02)


def _watch(lines: IO[str], first: threading.Event) -> None:
    """Set `first` at the first line, and read on, so that the writer never waits."""
    for _ in lines:
        first.set()


def _worker_class() -> type:
    """The actor's class. It is local, hence sent by value: nothing of ours is imported before our path stands first."""

    class BatchWorker:
        def __init__(
            self,
            archive: bytes,
            digest: str,
            home: str,
            unpack: Any,
            preparation: dict[str, Any],
            driver_folders: tuple[str, ...],
        ) -> None:
            import os
            import sys

            os.environ["NUMBA_CACHE_DIR"] = f"{home}/kernels"
            # Ray puts these first, but a numpy.py in somebody's working directory is not numpy.
            sys.path.sort(key=lambda path: path in driver_folders)
            sys.path.insert(0, str(unpack(archive, digest, f"{home}/code")))
            from workers.host import Preparation, WorkerHost

            self.host = WorkerHost(Preparation(**preparation))

        def card(self) -> dict[str, Any]:
            from dataclasses import asdict

            return asdict(self.host.card)

        def run(self, task: Any) -> Any:
            return self.host.run(task)

    return BatchWorker


def _dead_local_processes() -> list[str]:
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


def _reach(address: str) -> None:
    """Raise OSError if nothing listens at `address` (host:port, or a ray:// URL): Ray itself would wait for minutes."""
    place = urlsplit(address if "://" in address else f"ray://{address}")
    if place.hostname and place.port:
        socket.create_connection((place.hostname, place.port), REACH_SECONDS).close()


def _short(error: Exception) -> str:
    """The last line of an error: Ray's messages run over many."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
