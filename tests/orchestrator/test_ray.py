"""Sweeps on a real Ray: same results as in one process, whatever the working directory holds, whoever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.software import software_record
from tests.orchestrator.conftest import SLOTSWEEP, Ran
from tests.orchestrator.specs import SMALL, write_small

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

DEADLY_PLUGIN = '''\
"""A mechanism whose first run in a folder kills its worker."""

import os
import signal
from pathlib import Path
from typing import Literal

from models.config import SlotConfig
from models.mechanism import MECHANISMS, mechanism

FullAttention = MECHANISMS.implementation("full_attention")


class DeadlyConfig(SlotConfig):
    """Kills its worker unless the marker is there."""

    name: Literal["deadly"] = "deadly"
    marker: str


@mechanism(DeadlyConfig)
class Deadly(FullAttention):
    def start(self, stream, rng):
        marker = Path(self.config.marker)
        if len(stream) == 16 and not marker.exists():  # a stream of the sweep
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        super().start(stream, rng)
'''


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for the module, so that kernels compile once."""
    return tmp_path_factory.mktemp("ray") / "home"


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SLOTSWEEP_") and k != "RAY_ADDRESS"}
    return {**kept, "SLOTSWEEP_HOME": str(home), **more}


def run(home: Path, cwd: Path, *arguments: str, **more: str) -> Ran:
    done = subprocess.run(
        [*SLOTSWEEP, *arguments], cwd=cwd, env=environment(home, **more), capture_output=True, text=True, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def start_2400_trials(home: Path, spec: Path, **more: str) -> subprocess.Popen[str]:
    """A run of `spec`, some of whose trials are done."""
    process = subprocess.Popen(
        [*SLOTSWEEP, "run", str(spec), "--json"],
        cwd=spec.parent,
        env=environment(home, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if " of 2400 trials" in line:
            break
    return process


def metrics(home: Path, cwd: Path, sweep: str) -> dict[str, dict[str, Any]]:
    rows = json.loads(run(home, cwd, "results", sweep, "--format", "json").out)
    timed = ("metrics.build_us_per_token", "metrics.read_us_per_query")
    return {row["key"]: {k: v for k, v in row.items() if k.startswith("metrics.") and k not in timed} for row in rows}


def commits(home: Path, cwd: Path, sweep: str) -> set[str | None]:
    rows = json.loads(run(home, cwd, "results", sweep, "--format", "json").out)
    return {row["hw.git_commit"] for row in rows}


def test_ray_gives_bit_for_bit_what_one_process_gives_from_any_directory(home: Path, tmp_path: Path) -> None:
    """The working directory holds packages with our names, which fail when imported."""
    for name in ("models", "tasks", "workers", "dashboards"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the wrong package')")
    write_small(tmp_path)
    on_ray = run(home, tmp_path, "run", "small.yaml", "--json", PYTHONPATH=".")
    assert on_ray.code == 0, on_ray.err
    inline = run(home, tmp_path, "run", "small.yaml", "--no-cache", "--executor", "inline", "--json")
    assert inline.code == 0, inline.err
    assert on_ray.json["done"] == inline.json["done"] == 24
    assert metrics(home, tmp_path, on_ray.json["sweep"]) == metrics(home, tmp_path, inline.json["sweep"])
    [commit] = commits(home, tmp_path, on_ray.json["sweep"])
    assert (commit is not None) == ("git_commit" in software_record())  # which may be another one by now


def test_a_killed_worker_is_replaced_and_its_trials_are_computed_once(home: Path, tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('this is not numpy')")
    (tmp_path / "deadly_memory.py").write_text(DEADLY_PLUGIN)
    marker = tmp_path / "marker"
    (tmp_path / "spec.yaml").write_text(
        SMALL.replace("seeds: 4", "seeds: 3\nplugins: [deadly_memory.py]").replace(
            "  - {name: full_attention}", f"  - {{name: deadly, marker: {marker}}}"
        )
    )
    ran = run(home, tmp_path, "run", "spec.yaml", "--json")
    assert marker.exists()
    assert (ran.code, ran.json["done"], ran.json["failed"]) == (0, 18, 0), ran.err
    assert len(ran.out.splitlines()) == 1, "nothing but the answer is on stdout"
    rows = json.loads(run(home, tmp_path, "results", ran.json["sweep"], "--format", "json").out)
    deadly = [row for row in rows if row["mechanism.name"] == "deadly"]
    assert {row["attempts"] for row in deadly} == {2}
    assert len({row["key"] for row in rows}) == len(rows) == 18


def test_interrupting_once_pauses_and_running_again_finishes(home: Path, tmp_path: Path) -> None:
    spec = tmp_path / "long.yaml"
    spec.write_text(SMALL.replace("seeds: 4", "seeds: 400").replace("episodes: 3", "episodes: 40"))
    process = start_2400_trials(home, spec)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=240)
    answer = json.loads(out.splitlines()[-1])
    assert process.returncode == 1
    assert 0 < answer["done"] < 2400
    assert run(home, tmp_path, "status", answer["sweep"], "--json").json[0]["state"] == "paused"
    again = run(home, tmp_path, "run", answer["sweep"], "--json")
    assert (again.code, again.json["done"]) == (0, 2400), again.err
    rows = json.loads(run(home, tmp_path, "results", answer["sweep"], "--format", "json").out)
    assert {row["attempts"] for row in rows} == {1}


def test_interrupting_twice_cancels_and_leaves_no_process(home: Path, tmp_path: Path, pace: float) -> None:
    spec = tmp_path / "long.yaml"
    spec.write_text(SMALL.replace("seeds: 4", "{count: 400, base: 1000}").replace("episodes: 3", "episodes: 60"))
    spec.write_text(spec.read_text().replace("{count", "seeds: {count"))
    process = start_2400_trials(home, spec, SLOTSWEEP_TEST_MARK=str(tmp_path))
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=240)
    answer = json.loads(out.splitlines()[-1])
    assert process.returncode == 1
    assert run(home, tmp_path, "status", answer["sweep"], "--json").json[0]["state"] == "cancelled"
    deadline = time.monotonic() + 10 * pace
    while time.monotonic() < deadline and _marked(str(tmp_path)):
        time.sleep(0.2)
    assert _marked(str(tmp_path)) == []


def _marked(mark: str) -> list[str]:
    """Command lines of living processes that were started with SLOTSWEEP_TEST_MARK=mark in their environment."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("SLOTSWEEP_TEST_MARK") == mark:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def test_a_cluster_that_is_not_there_is_one_clear_error(home: Path, tmp_path: Path) -> None:
    write_small(tmp_path)
    ran = run(home, tmp_path, "run", "small.yaml", "--no-cache", RAY_ADDRESS="127.0.0.1:1")
    assert ran.code == 3
    assert "RAY_ADDRESS: nothing answers at 127.0.0.1:1" in ran.err
    assert "Traceback" not in ran.err


FAULTY_PLUGIN = '''\
"""A mechanism that fails in each way there is."""

import os
import sys
import time
from typing import Literal

import numpy as np

from models.config import SlotConfig
from models.mechanism import MECHANISMS, mechanism

FullAttention = MECHANISMS.implementation("full_attention")


class FaultyConfig(SlotConfig):
    """Fails as told on the streams of the sweep, but not on those of a warm-up or a probe."""

    name: Literal["faulty"] = "faulty"
    fault: str = "none"


@mechanism(FaultyConfig)
class Faulty(FullAttention):
    def start(self, stream, rng):
        super().start(stream, rng)
        fault = self.config.fault if len(stream) == 16 else "none"
        if fault == "raise":
            print("about to raise")
            raise ValueError("told to fail")
        if fault == "killed":
            os._exit(1)
        if fault == "silent":
            sys.exit(0)
        if fault == "hang":
            time.sleep(1000)
        if fault == "memory":
            raise MemoryError

    def answer(self, block, phase):
        return super().answer(block, phase) * (np.inf if self.config.fault == "nan" else 1.0)
'''

REASONS = {
    "raise": "user_error",
    "killed": "worker_lost",
    "silent": "no_result",
    "nan": "not_a_number",
    "hang": "timeout",
    "memory": "out_of_memory",
    "none": None,
}


@pytest.mark.slow
def test_six_ways_to_fail_have_six_reasons_and_the_others_carry_on(home: Path, tmp_path: Path) -> None:
    """Scenario 16: exception, hard exit, exit without a result, NaN, hang, memory; the last log lines are kept."""
    (tmp_path / "faulty_memory.py").write_text(FAULTY_PLUGIN)
    (tmp_path / "spec.yaml").write_text(
        SMALL.replace(
            "seeds: 4", "seeds: 1\ntimeout: 3\nretries: {infrastructure: 0}\nplugins: [faulty_memory.py]"
        ).replace("  - {name: full_attention}", f"  - {{name: faulty, fault: {{values: {list(REASONS)}}}}}")
    )
    ran = run(home, tmp_path, "run", "spec.yaml", "--json")
    assert (ran.code, ran.json["done"], ran.json["failed"]) == (1, 6, 6), ran.err
    rows = json.loads(run(home, tmp_path, "results", ran.json["sweep"], "--format", "json").out)
    found = {row["mechanism.fault"]: row["reason"] for row in rows if row["mechanism.name"] == "faulty"}
    assert found == REASONS
    log = run(home, tmp_path, "logs", ran.json["sweep"])
    assert "about to raise" in log.out
    assert "told to fail" in log.out


WHEREABOUTS = """\
import models, tasks, workers
from models.mechanism import MECHANISMS, mechanism
from models.config import SlotConfig
from typing import Literal

FullAttention = MECHANISMS.implementation("full_attention")


class WhereConfig(SlotConfig):
    name: Literal["where"] = "where"


@mechanism(WhereConfig)
class Where(FullAttention):
    def __init__(self, configs):
        super().__init__(configs)
        with open(PLACE, "a") as file:
            file.writelines(f"{package.__file__}\\n" for package in (models, tasks, workers))
"""


def test_workers_run_our_code_as_it_was_pinned_too(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "places"
    (tmp_path / "whereabouts.py").write_text(WHEREABOUTS.replace("PLACE", repr(str(place))))
    text = SMALL.replace("seeds: 4", "seeds: 1\nplugins: [whereabouts.py]")
    (tmp_path / "spec.yaml").write_text(text.replace("{name: full_attention}", "{name: where}"))
    ran = run(home, tmp_path, "run", "spec.yaml", "--json")
    assert ran.code == 0, ran.err
    folders = {Path(file).parent.parent.parent for file in place.read_text().splitlines()}
    assert folders == {home / "code"}


def test_editing_code_changes_no_sweep_that_is_running(home: Path, tmp_path: Path) -> None:
    """Scenario 15: workers run what was pinned at submission, also those that start after the edit."""
    plugin = tmp_path / "faulty_memory.py"
    plugin.write_text(FAULTY_PLUGIN)
    (tmp_path / "spec.yaml").write_text(
        SMALL.replace("seeds: 4", "seeds: 40\nplugins: [faulty_memory.py]").replace(
            "  - {name: full_attention}", "  - {name: faulty}"
        )
    )
    sweep = run(home, tmp_path, "submit", "spec.yaml").out.strip()
    plugin.write_text(FAULTY_PLUGIN.replace('fault == "raise"', "len(stream) > 12"))
    ran = run(home, tmp_path, "run", sweep, "--json")
    assert (ran.code, ran.json["done"]) == (0, 240), ran.err
    again = run(home, tmp_path, "run", "spec.yaml", "--json", "--set", "seeds=2")
    assert (again.code, again.json["reused"], again.json["failed"]) == (1, 10, 2), again.err
