"""What a trial costs: slotsweep's frontier of 2,000 trials beside no-op trials of Ray Tune, measured in one run.

    make bench

Then, from `building.py`, how near the blocked build comes to the machine's matrix product, from `recurrences.py` what a
layer of a sequence model costs by the form of its recurrences, from `trainings.py` what training costs beside the
Transformer, from `tuning.py` how many proposals a second studies make, and from `scheduling.py` what a trial costs that
computes nothing.

Times on a shared machine are noisy; the ratios, taken in the same run, are what to quote.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select

SPEC = Path(__file__).with_name("frontier-2000.yaml")
SLOTSWEEP = [sys.executable, "-P", "-c", "from orchestrator.cli import main; main()"]

RAY_TUNE = """
import os, sys, time
os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)

class NoOp(tune.Trainable):
    def setup(self, config):
        pass
    def step(self):
        return {"recall": 0.0, "done": True}
    def reset_config(self, new_config):
        return True
    def save_checkpoint(self, folder):
        pass

trials, reuse = int(sys.argv[1]), sys.argv[2] == "reuse"
began = time.perf_counter()
tune.run(NoOp, num_samples=trials, reuse_actors=reuse, verbose=0, storage_path=sys.argv[3],
         resources_per_trial={"cpu": 1}, checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False))
print("SECONDS", time.perf_counter() - began)
"""


@dataclass(frozen=True)
class Measured:
    """Seconds of a whole command, milliseconds a trial once workers run (MLflow included), and trials."""

    command_seconds: float
    trial_ms: float
    trials: int


def run_sweep(home: Path, *extra: str) -> Measured:
    """Run the 2,000-trial frontier in `home`."""
    began = time.time()
    done = subprocess.run(
        [*SLOTSWEEP, "run", str(SPEC), "--json", *extra],
        env={**os.environ, "SLOTSWEEP_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds = time.time() - began
    answer = json.loads(done.stdout.splitlines()[-1])
    return Measured(seconds, 1000 * busy_seconds(home, answer["sweep"]) / answer["trials"], answer["trials"])


def busy_seconds(home: Path, sweep: str) -> float:
    """From the start of the first trial until the last trial is done and its run is in MLflow."""
    from orchestrator.store import schema
    from orchestrator.store.engine import open_engine, reading

    links, results, outbox = schema.sweep_trials.c, schema.results.c, schema.outbox.c
    mine = select(links.trial).where(links.sweep == sweep)
    with reading(open_engine(f"sqlite:///{home / 'slotsweep.db'}")) as connection:
        first, last = connection.execute(
            select(func.min(results.started), func.max(results.finished)).where(results.trial.in_(mine))
        ).one()
        delivered = connection.execute(
            select(func.max(outbox.delivered)).where(outbox.sweep == sweep, outbox.trial.is_not(None))
        ).scalar_one()
    return float(max(last, delivered) - first)


def ray_tune_ms(trials: int, *, reuse: bool, folder: Path) -> float:
    """Milliseconds of a no-op trial of Ray Tune."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", RAY_TUNE, str(trials), "reuse" if reuse else "fresh", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("SECONDS")]
    if not lines:
        raise SystemExit(f"Ray Tune did not run:\n{done.stderr[-2000:]}")
    return 1000 * float(lines[0].split()[1]) / trials


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="slotsweep-bench-") as name:
        folder = Path(name)
        cold = run_sweep(folder / "home")
        warm = run_sweep(folder / "home", "--no-cache")
        reused = run_sweep_again(folder / "home")
        tune_reuse = ray_tune_ms(60, reuse=True, folder=folder / "tune")
        tune_fresh = ray_tune_ms(8, reuse=False, folder=folder / "tune")
    print(f"frontier of {cold.trials} trials, from an empty store   {cold.command_seconds:7.1f} s the whole command")
    print(f"                        with warm kernels     {warm.command_seconds:7.1f} s")
    print(f"                        all reused            {reused:7.1f} s")
    print(f"a trial, once workers run, MLflow included    {cold.trial_ms:7.2f} ms cold {warm.trial_ms:7.2f} ms warm")
    for kind, ms in (("reuse_actors=True", tune_reuse), ("defaults", tune_fresh)):
        print(f"a no-op trial of Ray Tune, {kind:<18} {ms:7.1f} ms  = {ms / warm.trial_ms:6.0f} of ours")
    print(flush=True)
    for script in ("building.py", "recurrences.py", "trainings.py", "scheduling.py", "tuning.py"):
        subprocess.run([sys.executable, "-P", str(Path(__file__).with_name(script))], check=True)
        print(flush=True)


def run_sweep_again(home: Path) -> float:
    """Seconds of a run that has nothing to compute."""
    began = time.time()
    command = [*SLOTSWEEP, "run", str(SPEC), "--json"]
    done = subprocess.run(
        command, env={**os.environ, "SLOTSWEEP_HOME": str(home)}, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1])["reused"] == 2000
    return time.time() - began


if __name__ == "__main__":
    main()
