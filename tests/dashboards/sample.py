"""A realistic report to draw: recall of known policies on 64 items shown 4 times each, with noise over seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import comb, inf, nan, sqrt
from typing import Any

import numpy as np

from tasks.summary import Curve, Interval, Panel, Point, ReportInput, Summary

ITEMS, REPEATS, CLASSES, DIM = 64, 4, 16, 32
LENGTH = ITEMS * REPEATS
BYTES_PER_SLOT = DIM * 4 + 4
BUDGETS = (16, 24, 32, 48, 64, 96, 128, 192, 256)

NOVELTY = (
    (0.8, 0.633, 42.5, 1.6),
    (0.7, 0.81, 53.2, 1.2),
    (0.6, 0.945, 60.1, 0.7),
    (0.5, 0.988, 63.2, 0.3),
    (0.4, 0.9985, 64.03, 0.05),
    (0.3, 1.0, 64.4, 0.2),
    (0.2, 1.0, 88.4, 2.4),
    (0.1, 1.0, 171.0, 3.1),
)
"""(tau, recall, slots, spread of slots over seeds)"""

SPEC = """\
name: recall-frontier
kind: frontier
workload: {name: associative_recall, items: 64, repeats: 4, classes: 16, dim: 32, noise: 0.3}
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, tau: {linspace: [0.1, 0.8, 8]}}   # novelty threshold of Eq. 2
  - {name: h2o, budget: {values: [16, 24, 32, 48, 64, 96, 128, 192, 256]}}
  - {name: recency, budget: {values: [16, 24, 32, 48, 64, 96, 128, 192, 256]}}
  - {name: optimal, budget: {values: [16, 24, 32, 48, 64, 96, 128, 192, 256]}}
seeds: 10
episodes: 300
"""


def interval(values: np.ndarray) -> Interval:
    """Student's t over seeds; 2.262 is its 97.5% point at nine degrees of freedom."""
    n = len(values)
    mean = float(values.mean())
    if n < 2:
        return Interval(mean, None, None, n, "undefined: one seed")
    if np.ptp(values) == 0:
        return Interval(mean, mean, mean, n, "all seeds equal")
    half = 2.262 * float(values.std(ddof=1)) / sqrt(n)
    return Interval(mean, mean - half, mean + half, n, "Student t over seeds, 95%")


def point(
    settings: dict[str, Any],
    recall: float,
    slots: float,
    *,
    seeds: int,
    rng: np.random.Generator,
    spread: float = 0.0,
    failed: int = 0,
    extra_bytes: int = 0,
) -> Point:
    """A cell whose seeds scatter around `recall` as 300 answers do, and around `slots` by `spread`."""
    done = seeds - failed
    sd = sqrt(max(recall * (1 - recall), 0.0))
    one = np.clip(recall + rng.normal(0, sd / sqrt(300), done), 0, 1)
    every = np.clip(recall + rng.normal(0, sd / sqrt(300 * ITEMS), done), 0, 1)
    held = slots + rng.normal(0, spread, done) if spread else np.full(done, float(slots))
    metrics = (
        {}
        if not done
        else {
            "recall": interval(one),
            "recall_all": interval(every),
            "slots": interval(held),
            "slots_peak": interval(np.ceil(held)),
            "slots_mean": interval(held * 0.82),
            "slots_phase_end": interval(held),
            "recall_credited": interval(one),
            "abstained": interval(np.zeros(done)),
            "bytes": interval(held * (BYTES_PER_SLOT + extra_bytes)),
            "bytes_peak": interval(np.ceil(held) * (BYTES_PER_SLOT + extra_bytes)),
            "bytes_metadata": interval(held * extra_bytes),
            "chance": interval(np.full(done, 1 / CLASSES)),
            "tokens": interval(np.full(done, float(LENGTH))),
            "items": interval(np.full(done, float(ITEMS))),
            "build_us_per_token": interval(rng.uniform(0.45, 0.55, done)),
            "read_us_per_query": interval(rng.uniform(1.9, 2.1, done)),
        }
    )
    return Point(settings, metrics, {}, seeds, done, failed)


def mark_frontier(points: list[Point]) -> tuple[Point, ...]:
    """Points by rising size, each marked where no other has at least its recall at no larger size."""

    def beaten(one: Point, axis: str) -> bool:
        size, recall = one.metrics[axis].mean, one.metrics["recall"].mean
        return any(
            other.metrics[axis].mean <= size
            and other.metrics["recall"].mean >= recall
            and (other.metrics[axis].mean, other.metrics["recall"].mean) != (size, recall)
            for other in points
            if other.metrics
        )

    marked = [
        replace(one, on_frontier={axis: bool(one.metrics) and not beaten(one, axis) for axis in ("slots", "bytes")})
        for one in points
    ]
    return tuple(sorted(marked, key=lambda one: one.metrics["slots"].mean if one.metrics else float("inf")))


def curve(mechanism: str, points: list[Point], label: str | None = None, score: float = 0.7) -> Curve:
    """A curve whose hypervolume and area are near `score`, undefined where nothing finished."""
    finished = [one for one in points if one.metrics]
    n = finished[0].done if finished else 0
    wide = n > 1
    bootstrap = "paired bootstrap over seeds, 95%" if wide else "undefined: one seed"
    number = Interval(score, score - 0.004 if wide else None, score + 0.004 if wide else None, n, bootstrap)
    scores = dict.fromkeys(("slots", "bytes"), number if finished else None)
    return Curve(mechanism, label or mechanism, mark_frontier(points), scores, dict(scores))


def content_blind(budget: int) -> float:
    """Recall of any `budget` tokens chosen without looking at them, in closed form."""
    covered = 1 - comb(LENGTH - REPEATS, budget) / comb(LENGTH, budget) if budget <= LENGTH - REPEATS else 1.0
    return covered + (1 - covered) / CLASSES


def bound(budget: int) -> float:
    """Recall of the best possible choice of `budget` slots."""
    covered = min(budget / ITEMS, 1.0)
    return covered + (1 - covered) / CLASSES


def heavy_hitter(budget: int) -> float:
    """Recall of H2O as the paper's figure 2 shows it."""
    return float(np.interp(budget, BUDGETS, (0.22, 0.37, 0.485, 0.73, 0.915, 1, 1, 1, 1)))


def panel(seeds: int = 10, failed: int = 0, title: str = "associative_recall", seed: int = 0) -> Panel:
    """Six mechanisms; `failed` seeds of one H2O cell failed."""
    rng = np.random.default_rng(seed)

    def budgeted(recall: Callable[[int], float], **options: Any) -> list[Point]:
        return [
            point(
                {"budget": budget},
                recall(budget),
                budget,
                seeds=seeds,
                rng=rng,
                failed=failed if options and budget == 48 else 0,
                **options,
            )
            for budget in BUDGETS
        ]

    novelty = [
        point({"tau": tau, "similarity": round(1 - tau, 3)}, recall, slots, seeds=seeds, rng=rng, spread=spread)
        for tau, recall, slots, spread in NOVELTY
    ]
    return Panel(
        workload={"name": "associative_recall", "items": 64, "repeats": 4, "classes": 16, "dim": 32, "noise": 0.3},
        title=title,
        chance=1 / CLASSES,
        curves=(
            curve("full_attention", [point({}, 1.0, LENGTH, seeds=seeds, rng=rng)], score=0.0),
            curve("dp_cache", novelty, score=0.802),
            curve("h2o", budgeted(heavy_hitter, extra_bytes=4), score=0.781),
            curve("recency", budgeted(content_blind), score=0.611),
            curve("item_lru", budgeted(bound), score=0.823),
            curve("optimal", budgeted(bound), score=0.824),
        ),
        reference={"slots": float(LENGTH), "bytes": float(LENGTH * BYTES_PER_SLOT)},
        size_range={"slots": (16.0, 256.0), "bytes": (16.0 * BYTES_PER_SLOT, 256.0 * (BYTES_PER_SLOT + 4))},
    )


HARDWARE: dict[str, Any] = {
    "cpu_model": "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
    "cores": 2,
    "threads": 1,
    "ram_bytes": 16_777_216_000,
    "os": "Linux 6.8",
    "gpu": "none",
    "gpu_driver": None,
    "gpu_driver_reason": "no GPU",
    "device": "cpu",
    "python": "3.11.9",
    "torch": "2.13.0",
    "blas": "OpenBLAS 0.3.30, 1 thread",
    "git_commit": "3f7a722",
    "git_dirty": False,
    "energy_joules": None,
    "energy_joules_reason": "RAPL counters are not readable by this user",
}


def report(*panels: Panel, warnings: tuple[str, ...] = (), **changes: Any) -> ReportInput:
    """A finished sweep over `panels` (by default the one above)."""
    shown = panels or (panel(),)
    points = [one for part in shown for line in part.curves for one in line.points]
    failed = sum(one.failed for one in points)
    base = ReportInput(
        sweep="swp-7f3a9c",
        name="recall-frontier",
        kind="frontier",
        state="done",
        created="2026-07-14T09:12:03Z",
        finished="2026-07-14T09:12:31Z",
        seconds=28.4,
        counts={
            "trials": sum(one.seeds for one in points),
            "done": sum(one.done for one in points),
            "failed": failed,
            "reused": 0,
        },
        failures={"out_of_memory": failed} if failed else {},
        spec=SPEC,
        summary=Summary(shown, warnings),
        hardware=(HARDWARE,),
        reproduce=("pip install slotsweep==0.1.0", "slotsweep run recall-frontier.yaml"),
        software={"slotsweep": "0.1.0", "numpy": "2.4.1", "ray": "2.60.0", "mlflow": "3.17.0", "numba": "0.68.0"},
    )
    return replace(base, **changes)


def crowd(curves: int = 30, points: int = 10, seeds: int = 3) -> Panel:
    """A panel of many curves with growing slopes."""
    rng = np.random.default_rng(1)
    drawn = tuple(
        curve(
            f"mechanism_{k:02d}",
            [
                point({"budget": 16 + 24 * i}, min(1.0, 0.1 + i / points * (0.4 + k / curves)), 16 + 24 * i,
                      seeds=seeds, rng=rng, spread=1.0)
                for i in range(points)
            ],
        )
        for k in range(curves)
    )  # fmt: skip
    return replace(panel(), title="crowded", curves=drawn)


def unfinished() -> ReportInput:
    """A sweep of which no trial has come back."""
    full = panel()
    waiting = tuple(
        replace(
            line,
            points=tuple(replace(one, metrics={}, on_frontier={}, done=0, failed=0) for one in line.points),
            hypervolume={"slots": None, "bytes": None},
            area={"slots": None, "bytes": None},
        )
        for line in full.curves
    )
    return report(replace(full, curves=waiting), state="running", finished=None, seconds=None, hardware=())


HOSTILE = "<script>alert(1)</script>"


def hostile() -> ReportInput:
    """Markup, quotes and formulas wherever a user can write."""
    base = panel(failed=1)
    nasty = replace(
        base,
        title=f"{HOSTILE} | $x_1$ & \\co % # \"' {{{{ 7*7 }}}}",
        workload={"name": HOSTILE, "path": "</script><img src=x onerror=alert(1)>"},
        curves=tuple(
            replace(
                line,
                label=f"_{line.label} {HOSTILE} $\\frac{{1}}$",
                mechanism=HOSTILE,
                points=tuple(
                    replace(one, settings=one.settings | {"note": f"'\"><b>{HOSTILE}"}) for one in line.points
                ),
            )
            for line in base.curves
        ),
    )
    return report(
        nasty,
        warnings=(HOSTILE,),
        sweep=f'"{HOSTILE}',
        name=HOSTILE,
        spec=f"name: {HOSTILE}\n</code></pre>",
        state=HOSTILE,
        created=HOSTILE,
        failures={HOSTILE: 1},
        hardware=({HOSTILE: HOSTILE, "gpu": None, "gpu_reason": HOSTILE},),
        software={HOSTILE: HOSTILE},
        reproduce=(HOSTILE,),
    )


def cases() -> dict[str, ReportInput]:
    """Reports at the edges of what can happen, by name."""
    whole = panel()

    def only(line: Curve, *names: str) -> Curve:
        return replace(
            line,
            points=tuple(replace(one, metrics={name: one.metrics[name] for name in names}) for one in line.points),
        )

    bare = tuple(only(line, "recall_all", "slots") for line in whole.curves)
    broken, nothing = Interval(nan, nan, inf, 3, "t"), Interval(0, 0, 0, 3, "t")
    first, second, *_ = whole.curves[1].points
    odd = replace(
        whole.curves[1],
        points=(
            replace(first, metrics=dict.fromkeys(("recall", "slots", "bytes"), broken)),
            replace(second, metrics=second.metrics | {"slots": nothing}),
        ),
    )
    return {
        "plain": report(),
        "no cells": report(summary=Summary(())),
        "nothing finished": unfinished(),
        "one seed": report(panel(seeds=1)),
        "all seeds of a cell failed": report(panel(failed=10)),
        "one curve of one point": report(replace(whole, curves=whole.curves[:1])),
        "no curves": report(replace(whole, curves=())),
        "several panels": report(whole, panel(seed=2, title="noise 0.6")),
        "a panel without recall": report(replace(whole, curves=bare), whole),
        "not finite, and a size of 0": report(replace(whole, curves=(odd,))),
        "no scale": report(replace(whole, chance=None, reference={}, size_range={})),
        "thirty curves": report(crowd()),
        "long names": report(replace(whole, title="t" * 400), name="n" * 400),
        "hostile": hostile(),
    }
