"""What a sweep that tunes says of its best: of each study, beside references, and of Pareto fronts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from tasks.cells import marked
from tasks.comparisons import compare_all, every_pair
from tasks.difference_table import difference_table, superior
from tasks.frontier import SHARES
from tasks.search import Bound, Goal
from tasks.staircase import knee
from tasks.statistics import Sample
from tasks.summary import Chart, Grid, Interval, Line, Section, Value
from tasks.tuning_results import Contest, Found, Group
from tasks.tuning_table import TUNING, Table, parameters_text

MARGIN = 0.01
"""Values of an objective that differ by less are called equal, where an equivalence test shows it; of one that is no
share, by less than this part of the largest."""


def best_sections(contest: Contest, table: Table) -> Iterator[Section]:
    """The best of each study, or with several objectives the Pareto front of each group."""
    if len(table.goal.objectives) > 1:
        yield _front(contest, table)
        return
    yield _best(contest, table)
    if contest.repeats > 1:
        columns = ("study", *table.columns, "proposal", "parameters")
        lines = [_line(one, table, one.label) for study in contest.studies for one in study.best]
        yield Section(
            f"studies-{contest.number}", f"Best of each study: {contest.title}", (), Grid(columns, tuple(lines))
        )
    yield from _differences(contest, table)


def _best(contest: Contest, table: Table) -> Section:
    repeated = contest.repeats > 1
    columns = ("mechanism", *table.columns, *(("studies",) if repeated else ("proposal", "parameters")))
    lines: list[tuple[Value, ...]] = []
    for group in contest.groups:
        best = group.best
        if repeated:
            lines.append((group.best_label, *table.numbers(best), f"{len(best)} of {len(group.studies)} feasible"))
        elif best:
            lines.append(_line(best[0], table, group.best_label))
        else:
            lines.append((group.label, *(None for _ in table.columns), None, table.nothing_feasible))
    last: tuple[Value, ...] = ("reference",) if repeated else (None, "reference")
    lines += [(one.label, *table.numbers([one]), *last) for one in contest.references]
    text = [_chosen(contest, table), *_leaking(contest)]
    if repeated:
        text.append("Medians over studies that differ by the sampler's seed alone, with intervals over these studies.")
    return Section(
        f"best-{contest.number}",
        f"Best: {contest.title}",
        (*text, *_bounds(table)),
        Grid(columns, tuple(lines)),
        leading=True,
    )


def _chosen(contest: Contest, table: Table) -> str:
    """What the two kinds of seeds are worth."""
    if not any(study.best for study in contest.studies):
        return "None is chosen so far." if table.so_far else "None was chosen: no proposal with results is feasible."
    most = max((len(study.proposals) for study in contest.studies), default=0)
    text = (
        f"Each was chosen among up to {most:,} proposals by its values on the tuning seeds, which are therefore "
        "optimistic."
    )
    if table.awaited:
        yet = " yet" if table.so_far else ""
        return f"{text} Nothing of them was measured on the held-out seeds{yet}: there is no number to quote{yet}."
    if table.held_out:
        return f"{text} The held-out seeds chose nothing: theirs is the number to quote."
    return f"{text} There are no held-out seeds: there is no number to quote."


def _leaking(contest: Contest) -> Iterator[str]:
    """What values are worth whose models look at what they are to predict."""
    if any(one.leaks for one in contest.found):
        yield (
            "Outputs of those marked `leaks future` depend on later tokens. Where every position is scored their "
            "losses are no scores of predictions: they did not win fairly. Search without the values that leak."
        )


def _bounds(table: Table) -> Iterator[str]:
    if table.goal.constraints:
        bounds = [_bound(metric, bound) for metric, bound in table.goal.constraints.items()]
        yield (
            f"Feasible: {' and '.join(bounds)}, on average over the tuning seeds. On other seeds a bound is kept or "
            "broken if the 95% interval lies on one side of it, else on average."
        )


def _bound(metric: str, bound: Bound) -> str:
    ends = [f"{sign} {end:g}" for sign, end in (("≥", bound.at_least), ("≤", bound.at_most)) if end is not None]
    return f"{metric} {' and '.join(ends)}"


def _line(found: Found, table: Table, label: str) -> tuple[Value, ...]:
    assert found.proposal is not None
    return label, *table.numbers([found]), found.proposal.number, parameters_text(found.proposal.params)


def _differences(contest: Contest, table: Table) -> Iterator[Section]:
    """Each group less the best reference, or where there is none, every pair of groups; paired by held-out seed."""
    ((objective, direction),) = table.goal.objectives.items()
    groups = {group.best_label: _group_sample(group, objective) for group in contest.groups}
    references = {one.label: one.held_out.get(objective, {}) for one in contest.references}
    candidates = [one for one in contest.references if one.held_out.get(objective)]
    keeping = [one for one in candidates if table.verdict(one.held_out) in ("kept", "kept on average")]
    pool = (keeping or candidates) if table.goal.constraints else candidates
    sign = 1.0 if direction == "maximize" else -1.0
    leader = max(pool, key=lambda one: sign * fmean(one.held_out[objective].values()), default=None)
    pairs = every_pair(list(groups)) if leader is None else [(label, leader.label) for label in groups]
    samples = {**groups, **references}
    margin = _margin(objective, list(samples.values()))
    compared = compare_all(samples, pairs, margin, table.episodes if objective in SHARES else None, direction)
    if not compared:
        return
    beside = f"the best reference, {leader.label}" if leader else "one another"
    text = [
        f"{objective} of the best of each mechanism beside {beside}, paired by held-out seed; the mean of its studies' "
        f"best where there are several. {superior(direction)}"
    ]
    if leader:
        among = " among those that keep the bounds," if leader in keeping and table.goal.constraints else ""
        text.append(f"The best reference was chosen{among} on these seeds, which favours it.")
    number = "1 comparison" if len(compared) == 1 else f"{len(compared)} comparisons"
    text.append(
        f"p-values are adjusted for {number}. Equal: to within {margin:.3g}, by two one-sided t-tests, or "
        "where no seed differs, by an exact binomial test over the episodes. Verdicts go by Holm's, at 5%."
    )
    yield Section(
        f"differences-{contest.number}",
        f"Differences: {contest.title}",
        tuple(text),
        difference_table(compared, pairs),
    )


def _margin(objective: str, samples: Sequence[Sample]) -> float:
    largest = max((abs(fmean(sample.values())) for sample in samples if sample), default=1.0)
    return MARGIN if objective in SHARES else MARGIN * (largest or 1.0)


def _group_sample(group: Group, metric: str) -> Sample:
    """The mean over a group's studies of their best, by held-out seed."""
    samples = [sample for study in group.studies for one in study.best if (sample := one.held_out.get(metric))]
    seeds = set.intersection(*(set(sample) for sample in samples)) if samples else set()
    return {seed: fmean(sample[seed] for sample in samples) for seed in sorted(seeds)}


def _front(contest: Contest, table: Table) -> Section:
    """The proposals of each group that no other dominates."""
    columns = ("mechanism", *table.columns, "knee", "proposal", "parameters")
    lines: list[tuple[Value, ...]] = []
    drawn: list[tuple[str, list[Found]]] = []
    for group in contest.groups:
        front = group.front(table.goal)
        bend = _knee(front, table.goal)
        for place, one in enumerate(front):
            assert one.study is not None
            assert one.proposal is not None
            number = f"{one.proposal.number}" + (f" of repeat {one.study.repeat + 1}" if len(group.studies) > 1 else "")
            params = parameters_text(one.proposal.params)
            label = marked(group.label, one.leaks)
            lines.append((label, *table.numbers([one]), "knee" if place == bend else None, number, params))
        drawn += [(marked(group.label, leaks), [one for one in front if one.leaks == leaks]) for leaks in (False, True)]
    lines += [(one.label, *table.numbers([one]), None, None, "reference") for one in contest.references]
    text = (
        f"Proposals that keep the bounds and that no other of the same mechanism beats in one objective without losing "
        f"in another; equal ones all stand. {_chosen(contest, table)}",
        "Knee: beyond it a gain in one objective costs more of the other, farthest above the line between the front's "
        "ends over the logarithm of the one that is minimized (Das 1999).",
    )
    charts = tuple(_front_charts(drawn, table))
    return Section(
        f"front-{contest.number}",
        f"Pareto front: {contest.title}",
        (text[0], *_leaking(contest), *text[1 : 1 + _bends(table.goal)], *_bounds(table)),
        Grid(columns, tuple(lines)),
        charts,
        leading=True,
    )


def _bends(goal: Goal) -> bool:
    """Whether a front can have a knee: of two objectives, one to be minimized."""
    return len(goal.objectives) == 2 and "minimize" in goal.directions


def _knee(front: Sequence[Found], goal: Goal) -> int | None:
    if not _bends(goal):
        return None
    names, directions = list(goal.objectives), goal.directions
    cost = directions.index("minimize")
    sign = 1.0 if directions[1 - cost] == "maximize" else -1.0
    costs = [fmean(one.tuning[names[cost]].values()) for one in front]
    return knee(costs, [sign * fmean(one.tuning[names[1 - cost]].values()) for one in front])


def _front_charts(fronts: Sequence[tuple[str, list[Found]]], table: Table) -> Iterator[Chart]:
    """The first objective against each of the others, on the tuning seeds that made the front."""
    first, *others = table.goal.objectives
    for other in others:
        lines = []
        for label, front in fronts:
            points = [(fmean(one.tuning[other].values()), table.mean(first, one.tuning[first])) for one in front]
            if points:
                lines.append(_marks(label, sorted(points, key=lambda point: (point[0], point[1].mean))))
        yield Chart(f"{other}, {TUNING}", f"{first}, {TUNING}", tuple(lines))


def _marks(label: str, points: Sequence[tuple[float, Interval]]) -> Line:
    """Points by rising x that nothing joins."""
    return Line(
        label,
        tuple(x for x, _ in points),
        tuple(mean.mean for _, mean in points),
        tuple(mean.low for _, mean in points),
        tuple(mean.high for _, mean in points),
        joined=False,
    )
