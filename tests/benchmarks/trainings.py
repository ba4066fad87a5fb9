"""Training sequence models: rates beside the Transformer's, and many seeds on a core each beside one by one.

    python -P tests/benchmarks/trainings.py [steps]

All figures are ratios measured in one run, rounds of all contestants one after another, the best of each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

RECALL = {
    "transformer, as published": "transformer {}",
    "transformer, fused attention": 'transformer {"attention_dropout": 0.0}',
    "triple_latent": "triple_latent {}",
    "triple_slot": "triple_slot {}",
    "triple_hybrid, state 8": 'triple_hybrid {"state": 8}',
    "triple_memory (gated hybrid)": "triple_memory {}",
}
ROUNDS = 3
SEEDS = 10

STEPS = """\
import json, sys, time, torch
from models.mechanism import MECHANISMS
from tasks.training import Lane, LaneTraining, TrainingRun, without_denormals
from tasks.workloads.token_recall import TokenRecall, TokenRecallConfig
name, fields = sys.argv[1].split(" ", 1)
config = MECHANISMS.config_class(name)(**json.loads(fields), steps=10**6)
with without_denormals():
    training = LaneTraining(
        TrainingRun("cpu", TokenRecall(TokenRecallConfig()), 0, "float32", None, None), [Lane(config, 0)]
    )
    training.advance(5)
    began = time.perf_counter()
    training.advance(5 + int(sys.argv[2]))
    print((time.perf_counter() - began) / int(sys.argv[2]))
"""

WHOLE = """\
import sys
from models.mechanism import MECHANISMS
from tasks.training import Lane, TrainingRun, train
from tasks.workloads.token_recall import TokenRecall, TokenRecallConfig
config = MECHANISMS.config_class("triple_memory")(steps=int(sys.argv[1]))
lanes = [Lane(config, int(seed)) for seed in sys.argv[2:]]
outcomes = train(TrainingRun("cpu", TokenRecall(TokenRecallConfig()), 2048, "float32"), lanes)
for lane, outcome in zip(lanes, outcomes, strict=True):
    print(lane.seed, outcome.metrics["loss"], outcome.metrics["recall"])
"""


def start(code: str, threads: int, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)},
        stdout=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"a run failed with {process.returncode}")
    return out


def rates(threads: int, steps: int) -> None:
    """Steps a second of each model, over those of the Transformer as published and with fused attention."""
    best = dict.fromkeys(RECALL, float("inf"))
    for _ in range(ROUNDS):
        for label, model in RECALL.items():
            best[label] = min(best[label], float(output(start(STEPS, threads, model, str(steps)))))
    published, fused = (best[label] for label in list(RECALL)[:2])
    print(f"recall training step, batch 32, T = 128, {threads} threads: rate over the Transformer's")
    print(f"{'model':<32}{'as published':>14}{'fused':>10}{'ms':>10}")
    for label, seconds in best.items():
        print(f"{label:<32}{published / seconds:>14.2f}{fused / seconds:>10.2f}{1e3 * seconds:>10.1f}")


def seeds(cores: int, steps: int) -> None:
    """Ten trainings one after another on all cores, and the same shared out to one worker a core."""
    numbers = [str(seed) for seed in range(SEEDS)]

    def timed(parts: Sequence[Sequence[str]], threads: int) -> tuple[float, list[str]]:
        began = time.perf_counter()
        running = [start(WHOLE, threads, str(steps), *part) for part in parts]
        lines = [line for process in running for line in output(process).splitlines()]
        return time.perf_counter() - began, sorted(lines)

    alone, apart = [], []
    results: list[list[str]] = []
    for _ in range(ROUNDS - 1):
        for times, parts, threads in (
            (alone, [numbers], cores),
            (apart, [numbers[core::cores] for core in range(cores)], 1),
        ):
            seconds, lines = timed(parts, threads)
            times.append(seconds)
            results.append(lines)
    losses = [{line.split()[0]: float(line.split()[1]) for line in lines} for lines in results]
    worst = max(abs(losses[0][seed] - other[seed]) for other in losses for seed in numbers)
    print(f"\n{SEEDS} seeds of the gated hybrid, {steps} steps and an evaluation each")
    print(f"one worker a core over one run after another on {cores} threads: {min(apart) / min(alone):.2f} of the time")
    print(f"largest difference of a seed's loss: {worst:.1e}")


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    cores = os.cpu_count() or 1
    for threads in sorted({1, cores}):
        rates(threads, count)
    seeds(cores, 5 * count)
