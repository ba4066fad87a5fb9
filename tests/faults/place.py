"""A user's home and working directory, commands run there, and every process that they start."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil

from orchestrator.results import result_rows
from orchestrator.settings import Settings
from orchestrator.store.store import Store
from tests.orchestrator.conftest import OURS, SLOTSWEEP, Ran

MARK = "SLOTSWEEP_TEST_MARK"
COMMAND_SECONDS = 600.0
LINGER_SECONDS = 30.0

Kind = Literal["tracker", "worker", "gcs", "raylet", "other"]

Row = dict[str, Any]
"""A line of a result table, by column."""

PLUGIN_FILE = "drowsy_memory.py"
DROWSY_PLUGIN = '''\
"""A mechanism that naps before each seed, so that sweeps last long enough to be hit, without using the processor."""

import os
import time
from typing import Literal

from models.config import SlotConfig
from models.mechanism import MECHANISMS, mechanism

FullAttention = MECHANISMS.implementation("full_attention")


class DrowsyConfig(SlotConfig):
    """Full attention that sleeps a while; how long changes no result, so it is no field."""

    name: Literal["drowsy"] = "drowsy"


@mechanism(DrowsyConfig)
class Drowsy(FullAttention):
    def __init__(self, configs):
        super().__init__(configs)
        time.sleep(float(os.environ["NAP_SECONDS"]))
'''

SPEC = """\
name: storm
kind: frontier
workload:
  {{name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16, noise: {{linspace: [0.1, 0.9, {batches}]}}}}
plugins: [drowsy_memory.py]
mechanisms:
  - {{name: drowsy}}
  - {{name: dp_cache, similarity: 0.6}}
  - {{name: recency, budget: {{values: [4, 8]}}}}
seeds: {{count: {seeds}, base: {base}}}
retries: {{infrastructure: 100}}
episodes: 3
"""


@dataclass
class Place:
    """Everything of one user.

    folder       working directory; the home lies in it
    ray          where Ray keeps its sessions
    nap          seconds that each seed of each workload takes
    services     settings for the environment: a database, a tracking server
    """

    folder: Path
    ray: Path
    nap: float = 0.1
    services: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What commands run with; every process that inherits it carries the mark."""
        kept = {name: value for name, value in os.environ.items() if name not in OURS}
        own = {"SLOTSWEEP_HOME": str(self.folder / "home"), "RAY_TMPDIR": str(self.ray), MARK: str(self.folder)}
        return {**kept, **own, "NAP_SECONDS": str(self.nap), "OPENBLAS_NUM_THREADS": "1", **self.services}

    @property
    def settings(self) -> Settings:
        """The settings that commands see."""
        return Settings.read(self.environment)

    def store(self) -> Store:
        """The database that commands use."""
        return Store.open(self.settings.database_url)

    def write_spec(self, batches: int, seeds: int = 5, base: int = 0) -> str:
        """Write a spec of `batches` times `seeds` times four trials, and its plug-in; the spec's name."""
        (self.folder / PLUGIN_FILE).write_text(DROWSY_PLUGIN)
        name = f"storm-{base}.yaml"
        (self.folder / name).write_text(SPEC.format(batches=batches, seeds=seeds, base=base))
        return name

    def start(self, *arguments: str, before: str = "") -> subprocess.Popen[str]:
        """Start a command; `before` is Python to run first in its process. Its output goes to files."""
        command = [*SLOTSWEEP[:-1], f"{before}\n{SLOTSWEEP[-1]}", *arguments]
        with (self.folder / "out.txt").open("a") as out, (self.folder / "err.txt").open("a") as err:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environment,
                stdout=out,
                stderr=err,
                text=True,
                start_new_session=True,
            )

    def errors(self) -> str:
        """What started commands said on stderr."""
        return (self.folder / "err.txt").read_text()

    def run(self, *arguments: str, before: str = "") -> Ran:
        """Run a command to its end."""
        done = subprocess.run(
            [*SLOTSWEEP[:-1], f"{before}\n{SLOTSWEEP[-1]}", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def submit(self, spec: str) -> str:
        """Queue a spec; the sweep's id."""
        submitted = self.run("submit", spec)
        assert submitted.code == 0, submitted.err
        return submitted.out.strip()

    def rows(self, sweep: str) -> list[Row]:
        """The sweep's result table, as `slotsweep results` prints it."""
        store = self.store()
        try:
            return list(result_rows(store, store.sweep(sweep)))
        finally:
            store.close()

    def processes(self) -> list[psutil.Process]:
        """Living processes that were started here: marked, or with a file of our Ray open (some wipe their mark)."""
        found = []
        for process in psutil.process_iter():
            try:
                marked = process.environ().get(MARK) == str(self.folder)
                if marked or any(file.path.startswith(str(self.ray)) for file in process.open_files()):
                    found.append(process)
            except psutil.Error:
                continue
        return [process for process in found if process.pid != os.getpid()]

    def victims(self, kind: Kind) -> list[psutil.Process]:
        """Living processes of one kind."""
        return [process for process in self.processes() if _kind(process) == kind]

    def left(self) -> list[str]:
        """Command lines of processes that are still there after LINGER_SECONDS."""
        until = time.monotonic() + LINGER_SECONDS
        while (processes := self.processes()) and time.monotonic() < until:
            time.sleep(0.2)
        return [_command_line(process) for process in processes]


def _kind(process: psutil.Process) -> Kind:
    line = _command_line(process)
    if line.startswith("ray::BatchWorker"):
        return "worker"
    if "orchestrator.tracker_process" in line:
        return "tracker"
    executable = line.split(" ", maxsplit=1)[0]
    return "gcs" if executable.endswith("gcs_server") else "raylet" if executable.endswith("raylet") else "other"


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until `condition` holds; fail with `what` if it does not within `seconds`."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)
