"""A realistic report to draw: recall of known policies on 64 items shown 4 times each, with noise over seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import comb, inf, nan, sqrt
from typing import Any

import numpy as np

from tasks.certificate import AblationJudgement, Certificate, Judgement, Verdict
from tasks.summary import Chart, Curve, Grid, Interval, Line, Panel, Point, ReportInput, Section, Summary

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


LENGTHS = tuple(2**power for power in range(9, 18))

COST_SPEC = """\
name: cost
kind: cost_scaling
workload: {name: associative_recall, items: 128, repeats: {values: [4, 64, 1024]}}
mechanisms: [{name: full_attention}, {name: dp_cache}]
"""


def estimate(mean: float, half: float = 0.02, n: int = 7, method: str = "Student t over 7 seeds") -> Interval:
    """A number with a symmetric interval."""
    return Interval(mean, mean - half, mean + half, n, method)


def cost_section() -> Section:
    """Exponents of what building costs, with a chart of microseconds a token over the length of the stream."""
    slope = "bootstrap over repeats, 95%"
    lines = []
    for label, scale, power in (("dp_cache", 0.34, 0.01), ("full_attention", 0.004, 0.98)):
        y = tuple(scale * length**power for length in LENGTHS)
        low, high = tuple(0.9 * cost for cost in y), tuple(1.1 * cost for cost in y)
        lines.append(Line(label, tuple(map(float, LENGTHS)), y, low, high))
    return Section(
        name="cost",
        title="What a token costs",
        text=("The build exponent of dp_cache is 1.00.", "full_attention is extrapolated beyond 131,072 tokens."),
        table=Grid(
            ("mechanism", "exponent", "recall", "tokens", "of it measured", "warm"),
            (
                ("dp_cache", estimate(1.003, method=slope), estimate(0.9996, 0.0002), 131072, 0.9, True),
                ("full_attention", estimate(1.98, 0.1, method=slope), estimate(1.0, 0.0), 8192, 12345.678, False),
                ("kanerva", None, Interval(0.31, None, None, 1, "undefined: one seed"), None, nan, None),
            ),
        ),
        charts=(Chart("stream length (tokens)", "microseconds a token", tuple(lines), log_x=True, log_y=True),),
    )


def training_section() -> Section:
    """Two charts of dense lines, without a table."""
    steps = tuple(float(step) for step in range(0, 1000, 10))
    loss = tuple(2.7 / (1 + step / 100) for step in steps)
    low, high = tuple(0.8 * one for one in loss), tuple(1.2 * one for one in loss)
    broken = tuple(nan if 300 <= step < 400 else one for step, one in zip(steps, loss, strict=True))
    return Section(
        name="training",
        title="Training",
        charts=(
            Chart(
                "step", "loss (nats)", (Line("novelty_gate", steps, loss, low, high), Line("mlp_gate", steps, broken))
            ),
            Chart("step", "tokens kept", (Line("novelty_gate", steps, tuple(256 - step / 5 for step in steps)),)),
        ),
    )


def cost(*sections: Section, **changes: Any) -> ReportInput:
    """A finished sweep of kind cost_scaling: sections, no panels."""
    shown = sections or (cost_section(), training_section())
    base = report(
        name="cost",
        kind="cost_scaling",
        spec=COST_SPEC,
        counts={"trials": 42, "done": 42, "failed": 0, "reused": 0},
        summary=Summary((), (), shown),
        reproduce=("slotsweep run cost.yaml",),
    )
    return replace(base, **changes)


def hostile_section() -> Section:
    """Markup wherever a plug-in's job type can write."""
    base = cost_section()
    assert base.table is not None
    rows = tuple((HOSTILE, *row[1:-1], f"'\"|<b>{HOSTILE}") for row in base.table.rows)
    lines = tuple(replace(line, label=f"_{HOSTILE} {line.label}") for line in base.charts[0].lines)
    chart = replace(base.charts[0], x_label=f"$x_1$ {HOSTILE}", y_label=f"$\\frac{{1}}$ {HOSTILE}", lines=lines)
    table = Grid((HOSTILE, *base.table.columns[1:-1], f"{HOSTILE}|&"), rows)
    return Section("cost", f"{HOSTILE} | $x$", (HOSTILE,), table, (chart,))


def odd_sections() -> tuple[Section, ...]:
    """Sections at the edges: without anything, with empty parts, with numbers that no axis can show."""
    far = Line("far", (-1.0, 0.0, 1e12), (inf, 1e-9, -3e8), (None, 0.0, -inf), (nan, 1.0, inf))
    return (
        Section("empty", "Nothing"),
        Section("no-rows", "No rows", table=Grid(("a", "b"), ()), charts=(Chart("x", "y", ()),)),
        Section(
            "far",
            "Far",
            table=Grid((), ()),
            charts=(
                Chart("x", "y", (far,)),
                Chart("x", "y", (far,), log_x=True, log_y=True),
                Chart("x", "y", (Line("one", (5.0,), (5.0,), (5.0,), (5.0,)), Line("none", (), ()))),
            ),
        ),
    )


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
        "sections alone": cost(),
        "sections beside a panel": report(summary=Summary((whole,), (), (cost_section(), training_section()))),
        "hostile sections": cost(hostile_section()),
        "odd sections": cost(*odd_sections()),
    }


def claim(claim_id: str, where: str, verdict: Verdict, *numbers: float, **changes: Any) -> Judgement:
    """A claim of which `numbers` were measured, each 0.01 over what is published."""
    made = Judgement(
        id=claim_id,
        where=where,
        says=f"What {claim_id} says.",
        published=tuple(number - 0.01 for number in numbers) if len(numbers) > 1 else numbers[0] - 0.01,
        measured=numbers,
        intervals=tuple(estimate(number, n=10, method="Student t over 10 seeds") for number in numbers),
        n=10,
        test="interval: 95% of both, ±0.005",
        verdict=verdict,
        reason=f"why {claim_id} {verdict}",
        sweep="dpcache/table-1",
    )
    return replace(made, **changes)


def ablation(verdict: Verdict = "differs") -> AblationJudgement:
    """The claim under another gamma."""
    return AblationJudgement(
        says="A cache of fixed size does as well.",
        under="gamma 0.999",
        sweep="dpcache/ablation-gamma",
        published=0.5,
        measured=(0.71,),
        intervals=(estimate(0.71, n=5),),
        n=5,
        test="dominance: nowhere below by more than 0.005, somewhere above",
        verdict=verdict,
        reason="above at 0 of 3 sizes",
    )


def certificate(**changes: Any) -> Certificate:
    """Every verdict, numbers alone and in series, with and without an ablation."""
    unknown: dict[str, Any] = {"measured": (), "intervals": (), "n": 0}
    made = Certificate(
        paper="dpcache",
        title="Memory as a Dirichlet-process cache (arXiv 2607.09889)",
        created="2026-07-14T09:12:03Z",
        seconds=754.2,
        judgements=(
            claim("table-1/dp-recall", "Table 1, §3.1.1", "holds", 0.9996),
            claim("figure-9/bgl", "Figure 9, §3.2.3", "holds only if", 0.71, ablation=ablation()),
            claim("table-1/dp-slots", "Table 1, §3.1.1", "holds", 64.03),
            claim("table-1/ssm", "Table 1, §3.1.1", "differs", 0.31, sweep="dpcache/figure-2"),
            claim("figure-9/counts", "Figure 9, §3.2.3", "holds", *(36.0 * i for i in range(1, 26))),
            claim("prose/gpu", "§3.1.9", "not measurable here", 3.5, **unknown, published="37x", sweep=None),
            claim("prose/scaling", "§3.1.9", "not measured", 1.0, **unknown, reason="2 trials failed"),
        ),
        machines=(HARDWARE,),
        software={"slotsweep": "0.1.0"},
        reports={"dpcache/table-1": "../../reports/swp-7f3a9c/report.html"},
    )
    return replace(made, **changes)


def hostile_certificate() -> Certificate:
    """Markup wherever a claim can be written."""
    words: dict[str, Any] = dict.fromkeys(("says", "reason", "test", "sweep", "published"), f"{HOSTILE} |\n$x$ [red]")
    words["ablation"] = replace(ablation(), says=HOSTILE, under=HOSTILE, reason=HOSTILE, sweep=HOSTILE)
    judgements = (
        claim(f"{HOSTILE} one", f"{HOSTILE}, two", "differs", 0.5, **words),
        claim("two", f"{HOSTILE} three", "holds", 0.5, **words),
    )
    reports = {words["sweep"]: "javascript:alert(1)", HOSTILE: '"><script>'}
    return certificate(paper=HOSTILE, title=HOSTILE, created=HOSTILE, judgements=judgements, reports=reports)
