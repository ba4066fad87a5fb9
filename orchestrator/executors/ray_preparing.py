"""Getting ready beside the start of Ray: a process of its own loads data and compiles kernels into the cache."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import IO

from orchestrator.code_snapshot import CodeSnapshot
from orchestrator.errors import PreparationError
from orchestrator.settings import Settings
from workers.host import Preparation

KERNEL_SECONDS = 120.0
KERNEL_SECONDS_EACH = 8.0
ONE_KERNEL_SECONDS = 20.0
"""How long kernels may take to compile: all of a sweep's at least, a mechanism's share where these are many, and those
of one mechanism alone."""

# What a worker will do as it joins is done here first: what a mechanism kills must not be every worker.
PREPARE = """
import json, os, sys, threading
sys.path.insert(0, sys.argv[1])
wanted = json.loads(sys.stdin.readline())

def end_with_the_driver():
    os.read(0, 1)
    os._exit(1)

threading.Thread(target=end_with_the_driver, daemon=True).start()
from models.plugins import load_plugin
from workers.agreement import probe
from workers.batch import load_mechanism
from workers.threads import pin_threads
from workers.warmup import compile_kernels, load_data
pin_threads(1)
try:
    for plugin in wanted["plugins"]:
        load_plugin(plugin)
    load_data(wanted["workloads"])
    print(flush=True)
    compile_kernels(wanted["mechanisms"], wanted["dtype"])
    probe(map(load_mechanism, wanted["mechanisms"]), "cpu", wanted["dtype"])
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


class Preparer:
    """Prepares a sweep's code, data and kernels for the workers of this machine."""

    def __init__(self, code: CodeSnapshot, settings: Settings, given_up: Callable[[], bool]) -> None:
        self._code = code
        self._settings = settings
        self._given_up = given_up

    def prepare(self, preparation: Preparation, meanwhile: Callable[[], None]) -> Preparation:
        """Prepare, and do `meanwhile`; what workers can prepare in their turn. Raises PreparationError.

        A mechanism that kills the process, or hangs, is left to its own trials, and the others are prepared.
        """
        seconds = max(KERNEL_SECONDS, KERNEL_SECONDS_EACH * len(preparation.mechanisms))
        code, said = self._run(preparation, seconds, meanwhile)
        if code > 0:
            raise PreparationError(said or f"preparing the sweep failed with exit code {code}")
        if code == 0 or self._given_up():
            return preparation
        alone = [replace(preparation, mechanisms=(tree,)) for tree in preparation.mechanisms]
        sound = [one for one in alone if self._run(one, ONE_KERNEL_SECONDS)[0] == 0]
        return replace(preparation, mechanisms=tuple(one.mechanisms[0] for one in sound))

    def _run(
        self, preparation: Preparation, seconds: float, meanwhile: Callable[[], None] = lambda: None
    ) -> tuple[int, str]:
        """Load data and compile kernels in a process of its own: its exit code (negative if it was killed, as it is
        when kernels take more than `seconds`) and what it said."""
        with tempfile.TemporaryFile("w+") as errors:
            process = self._start(preparation, errors)
            try:
                meanwhile()
                self._await(process, seconds)
            finally:
                process.kill()
                process.wait()
            errors.seek(0)
            return process.returncode, errors.read().strip()

    def _start(self, preparation: Preparation, errors: IO[str]) -> subprocess.Popen[str]:
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

    def _await(self, process: subprocess.Popen[str], seconds: float) -> None:
        """Wait until everything is prepared: as long as data sets take, then `seconds` for kernels."""
        assert process.stdout is not None
        loaded = threading.Event()
        threading.Thread(target=_watch, args=(process.stdout, loaded), daemon=True).start()
        deadline = math.inf
        while process.poll() is None and not self._given_up() and time.monotonic() < deadline:
            if deadline == math.inf and loaded.is_set():
                deadline = time.monotonic() + seconds
            time.sleep(0.02)


def _watch(lines: IO[str], first: threading.Event) -> None:
    """Set `first` at the first line, and read on, so that the writer never waits."""
    for _ in lines:
        first.set()
