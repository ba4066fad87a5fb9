"""Proposals a second, end to end, of studies on associative recall, beside Optuna alone in memory, measured in one run.

    python tests/benchmarks/tuning.py

A proposal is made, stored, evaluated on Ray on one seed, told, and tracked in MLflow meanwhile. The time counts from
the start of the first trial to the end of the last.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import func, select

SPEC = """\
name: tuning-throughput
kind: tuning
workload: {name: associative_recall, items: 16, repeats: 4, classes: 16, dim: 32, noise: 0.3}
mechanisms: [{name: adaptive_dp_cache}]
search:
  adaptive_dp_cache.tau: {low: 0.05, high: 0.95}
  adaptive_dp_cache.eta: {low: 0.01, high: 0.5, log: true}
  adaptive_dp_cache.beta: {low: 5, high: 200, log: true}
  adaptive_dp_cache.m0: {low: 1, high: 20}
objectives: {recall: maximize}
trials: 500
seeds: 1
held_out: 0
episodes: 1
"""
SLOTSWEEP = [sys.executable, "-P", "-c", "from orchestrator.cli import main; main()"]
STUDIES = (("random", 2_000, 300.0), ("tpe", 500, 150.0), ("tpe", 2_000, 70.0))
"""Samplers, proposals, and proposals a second that there should be on two cores that do nothing else."""


def proposals_a_second(home: Path, sampler: str, trials: int) -> float:
    """Of one study, run as a user would."""
    from orchestrator.store import schema
    from orchestrator.store.engine import open_engine, reading

    spec = home.parent / "tuning.yaml"
    spec.write_text(SPEC)
    command = ["run", str(spec), "--set", f"sampler={sampler}", "--set", f"trials={trials}", "--no-cache", "--json"]
    done = subprocess.run(
        [*SLOTSWEEP, *command],
        env={**os.environ, "SLOTSWEEP_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["done"] == trials
    links, results = schema.sweep_trials.c, schema.results.c
    mine = select(links.trial).where(links.sweep == answer["sweep"])
    with reading(open_engine(f"sqlite:///{home / 'slotsweep.db'}")) as connection:
        query = select(func.min(results.started), func.max(results.finished)).where(results.trial.in_(mine))
        first, last = connection.execute(query).one()
    return trials / float(last - first)


def optuna_alone(sampler: str, trials: int) -> float:
    """Proposals a second of Optuna asked and told in memory, four parameters, in batches of twenty."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    made = optuna.samplers.TPESampler(seed=0) if sampler == "tpe" else optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(direction="maximize", sampler=made)
    space = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in "abcd"}
    began = time.perf_counter()
    for _ in range(trials // 20):
        asked = [study.ask(space) for _ in range(20)]
        for one in asked:
            study.tell(one, -sum((value - 0.3) ** 2 for value in one.params.values()))
    return trials / (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="slotsweep-bench-") as name:
        home = Path(name) / "home"
        proposals_a_second(home, "random", 100)  # compiles the kernel
        for sampler, trials, aim in STUDIES:
            ours, alone = proposals_a_second(home, sampler, trials), optuna_alone(sampler, trials)
            print(
                f"{sampler:<7} {trials:>5} proposals  {ours:7.0f} a second end to end (aim {aim:.0f}); "
                f"Optuna alone, in memory {alone:7.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
