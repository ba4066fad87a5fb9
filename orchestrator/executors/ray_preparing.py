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
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from models.mechanism import MECHANISMS
from orchestrator.code_snapshot import CodeSnapshot
from orchestrator.errors import PreparationError
from orchestrator.job import GETTING_READY
from orchestrator.settings import Settings
from workers.host import Preparation

KERNEL_SECONDS = 120.0
KERNEL_SECONDS_EACH = 8.0
ONE_KERNEL_SECONDS = 20.0
"""How long kernels may take to compile: all of a sweep's at least, a mechanism's share where these are many, and those
of one mechanism alone."""

PLUGIN_SECONDS = 60.0
"""How long mechanisms of plug-ins may be tried at most, all together."""

TELL_SECONDS = 5.0
"""What takes longer is told of."""

Mechanism = dict[str, Any]

# What a worker will do as it joins is done here first: what a mechanism kills must not be every worker.
PREPARE = """
import json, os, sys, threading
sys.path.insert(0, sys.argv[1])
wanted = json.loads(sys.stdin.readline())
marks = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what code prints is no mark

def mark(number):
    print(number, file=marks, flush=True)

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

def attempt(mechanisms):
    compile_kernels(mechanisms, wanted["dtype"])
    probe(map(load_mechanism, mechanisms), "cpu", wanted["dtype"])

try:
    for plugin in wanted["plugins"]:
        load_plugin(plugin)
    load_data(wanted["workloads"])
    mark(-1)
    attempt(wanted["mechanisms"])
    for number, mechanism in enumerate(wanted["foreign"]):
        mark(number)
        attempt([mechanism])
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


@dataclass(frozen=True)
class _Attempt:
    """What became of a process that prepared.

    code    its exit code, negative if it was killed, as it is when it takes too long; said: what it said
    trying  which mechanism of a plug-in it was at; None: it was not that far
    seconds for how long it was at those of plug-ins
    """

    code: int
    said: str
    trying: int | None
    seconds: float


class Preparer:
    """Prepares a sweep's code, data and kernels for the workers of this machine.

    given_up        whether nobody wants it any more
    tell            is told what takes long
    plugin_seconds  how long mechanisms of plug-ins may be tried, all together
    """

    def __init__(
        self,
        code: CodeSnapshot,
        settings: Settings,
        given_up: Callable[[], bool],
        tell: Callable[[str], None] = lambda _: None,
        plugin_seconds: float = PLUGIN_SECONDS,
    ) -> None:
        self._code = code
        self._settings = settings
        self._given_up = given_up
        self._tell = tell
        self._plugin_seconds = plugin_seconds

    def prepare(self, preparation: Preparation, meanwhile: Callable[[], None]) -> Preparation:
        """Prepare, and do `meanwhile`; what workers can prepare in their turn. Raises PreparationError.

        A mechanism that kills the process, or hangs, is left to its own trials, and the others are prepared. One of a
        plug-in is not tried again with this code.
        """
        own = [tree for tree in preparation.mechanisms if not _is_foreign(tree)]
        unfit = self._unfit()
        left = [tree for tree in preparation.mechanisms if _is_foreign(tree) and _text(tree) not in unfit]
        found = self._attempt(replace(preparation, mechanisms=tuple(own)), left, self._plugin_seconds, meanwhile)
        if found.code < 0 and found.trying is None and not self._given_up():
            alone = [replace(preparation, mechanisms=(tree,)) for tree in own]
            own = [one.mechanisms[0] for one in alone if self._attempt(one, [], 0.0).code == 0]
            found = self._attempt(replace(preparation, mechanisms=()), left, self._plugin_seconds)
        if found.code < 0 and found.trying is None:  # what the plug-ins do as they are loaded is enough
            left = []
        sound: list[Mechanism] = []
        seconds = self._plugin_seconds
        while found.code < 0 and found.trying is not None and not self._given_up():
            sound += left[: found.trying]
            self._leave_out(left[found.trying])
            left = left[found.trying + 1 :]
            seconds -= found.seconds
            if seconds <= 0.0 or not left:
                left = []
                break
            found = self._attempt(replace(preparation, mechanisms=()), left, seconds)
        if self._given_up():
            return preparation
        kept = {_text(tree) for tree in (*own, *sound, *left)}
        return replace(preparation, mechanisms=tuple(tree for tree in preparation.mechanisms if _text(tree) in kept))

    # -- mechanisms of plug-ins that cannot be tried ------------------------------------------------------------------

    @property
    def _unfit_file(self) -> Path:
        return self._settings.kernels / f"unfit-{self._code.digest}.json"

    def _unfit(self) -> set[str]:
        """Mechanisms that this code has found to hang, or to kill their process."""
        try:
            return set(json.loads(self._unfit_file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return set()

    def _leave_out(self, mechanism: Mechanism) -> None:
        self._tell(f"{GETTING_READY}: mechanism {mechanism['name']} hangs or dies, and is left to its own trials")
        self._unfit_file.write_text(json.dumps(sorted({*self._unfit(), _text(mechanism)})), encoding="utf-8")

    # -- a process that prepares --------------------------------------------------------------------------------------

    def _attempt(
        self,
        preparation: Preparation,
        foreign: Sequence[Mechanism],
        plugin_seconds: float,
        meanwhile: Callable[[], None] | None = None,
    ) -> _Attempt:
        """Load data, compile kernels and try `foreign` mechanisms in a process of its own.

        Raises PreparationError if that says that it cannot.
        """
        alone = meanwhile is None and len(preparation.mechanisms) == 1
        least = ONE_KERNEL_SECONDS if alone else KERNEL_SECONDS
        seconds = max(least, KERNEL_SECONDS_EACH * len(preparation.mechanisms))
        with tempfile.TemporaryFile("w+") as errors:
            process = self._start(preparation, foreign, errors)
            marks = _Marks(process)
            try:
                if meanwhile is not None:
                    meanwhile()
                self._await(process, marks, seconds, plugin_seconds, [str(tree["name"]) for tree in foreign])
            finally:
                process.kill()
                process.wait()
                marks.read_on()
            errors.seek(0)
            code, said = process.returncode, errors.read().strip()
        if code > 0 and not (alone and not foreign):
            raise PreparationError(said or f"preparing the sweep failed with exit code {code}")
        return _Attempt(code, said, marks.trying, marks.plugin_seconds)

    def _start(self, preparation: Preparation, foreign: Sequence[Mechanism], errors: IO[str]) -> subprocess.Popen[str]:
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
        process.stdin.write(json.dumps({**asdict(preparation), "foreign": list(foreign)}) + "\n")
        process.stdin.flush()
        return process

    def _await(
        self,
        process: subprocess.Popen[str],
        marks: _Marks,
        seconds: float,
        plugin_seconds: float,
        foreign: Sequence[str],
    ) -> None:
        """Wait until everything is prepared: as long as data sets take, then `seconds` for kernels, then
        `plugin_seconds` for the mechanisms called `foreign`."""
        told: int | None = None
        while process.poll() is None and not self._given_up():
            now = time.monotonic()
            if now > marks.loaded + seconds and marks.trying is None:
                return
            if marks.plugin_seconds > plugin_seconds:
                return
            stage = -2 if marks.loaded == math.inf else -1 if marks.trying is None else marks.trying
            if now - marks.since > TELL_SECONDS and stage != told:
                told = stage
                what = {-2: "data are loaded", -1: "kernels are compiled"}.get(stage)
                self._tell(f"{GETTING_READY}: {what or f'trying mechanism {foreign[stage]}'}")
            time.sleep(0.02)


class _Marks:
    """How far the process is, as it says itself. Times are on the monotonic clock.

    loaded  when it had loaded its data (inf: it has not); trying: which mechanism of a plug-in it is at
    since   when it came to where it is
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.loaded = self._first = math.inf
        self.trying: int | None = None
        self.since = time.monotonic()
        assert process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    def read_on(self) -> None:
        """Read what the process has left; somebody whom it started may still hold the pipe."""
        self._reader.join(1.0)

    @property
    def plugin_seconds(self) -> float:
        """For how long it has tried mechanisms of plug-ins."""
        return max(0.0, time.monotonic() - self._first)

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            number, now = int(line), time.monotonic()
            if number < 0:
                self.loaded = now
            else:
                self._first = min(self._first, now)
                self.trying = number
            self.since = now


def _is_foreign(mechanism: Mechanism) -> bool:
    """Whether a plug-in, or another package, brings a mechanism."""
    return not MECHANISMS.implementation(mechanism["name"]).__module__.startswith("models.")


def _text(mechanism: Mechanism) -> str:
    return json.dumps(mechanism, sort_keys=True)
