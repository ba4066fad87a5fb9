"""What a sweep that tunes says of the search itself: what became of proposals, how it went on, what mattered."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from models.stream import Floats
from tasks.cells import marked
from tasks.frontier import SHARES
from tasks.importances import LEAST_PROPOSALS, importances
from tasks.labels import ANY, SHARE
from tasks.search import Goal, Parameter, Proposal, losses_of, may_be_best
from tasks.staircase import hypervolume_history
from tasks.statistics import mean_interval, mean_intervals
from tasks.summary import Chart, Grid, Interval, Line, Section, Value
from tasks.tuning_results import Contest, Group, Study
from tasks.tuning_table import short_name

HISTORY_POINTS = 200
"""Points of a line of the history at most, evenly spaced."""

SLICE_POINTS = 500
"""Points of a line of a slice at most, the latest proposals of every so many."""


def proposals_section(contest: Contest, goal: Goal) -> Section:
    """How many proposals each group's studies made, what became of them, and the seeds they took."""
    leaking = [_leaking(group) for group in contest.groups]
    columns = (
        "mechanism", "studies", "proposals", "complete", "feasible", "stopped early", "failed", "open", "duplicates",
        "seeds spent", "seeds saved", *(("leak future",) if any(leaking) else ()),
    )  # fmt: skip
    seeds = max((_seeds(one) for study in contest.studies for one in study.proposals), default=0)
    text = (
        f"A proposal that is complete has {seeds:,} seeds; one stopped early has as many as it took to see that "
        "it is not the best. A duplicate has the configs of an earlier proposal and is answered from the store; its "
        "seeds are not spent again."
    )
    lines: list[tuple[Value, ...]] = [
        (group.label, len(group.studies), *_counts(group, goal, seeds), *((count,) if any(leaking) else ()))
        for group, count in zip(contest.groups, leaking, strict=True)
    ]
    name = f"proposals-{contest.number}"
    return Section(
        name,
        f"Proposals: {contest.title}",
        (text, *_beginnings(contest), *_failures(contest)),
        Grid(columns, tuple(lines)),
    )


def _leaking(group: Group) -> int:
    """How many of its proposals look at later tokens."""
    return sum(study.label.leaks(one.params) for study in group.studies for one in study.proposals)


def _seeds(proposal: Proposal) -> int:
    return max(map(len, proposal.metrics.values()), default=0)


def _counts(group: Group, goal: Goal, seeds: int) -> tuple[int, ...]:
    made = [one for study in group.studies for one in study.proposals]
    states = Counter(one.state for one in made)
    feasible = sum(may_be_best(one, goal) for one in made)
    own = [one for one in made if one.same_as is None]
    spent = sum(map(_seeds, own))
    saved = sum(seeds - _seeds(one) for one in own if one.state == "stopped")
    ends = states["complete"], feasible, states["stopped"], states["failed"], states["open"]
    return len(made), *ends, len(made) - len(own), spent, saved


def _beginnings(contest: Contest) -> Iterator[str]:
    """What studies began with; one that found nothing to begin with says so."""
    for group in contest.groups:
        began = [study.label.began for study in group.studies if study.label.began]
        if began:
            counts = sorted({one.results for one in began})
            number = (
                f"{counts[0]:,} results" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,} results a study"
            )
            yield f"{group.label}: began with {number} of sweep {began[0].sweep}."


def _failures(contest: Contest) -> Iterator[str]:
    why = Counter(
        one.error or "no reason given" for study in contest.studies for one in study.proposals if one.state == "failed"
    )
    if why:
        told = "; ".join(f"{reason} ({count})" for reason, count in why.most_common(5))
        rest = f"; {len(why) - 5} other reasons" if len(why) > 5 else ""
        yield f"Proposals that failed: {told}{rest}."


def history_section(contest: Contest, goal: Goal) -> Section:
    """The best so far, or the hypervolume so far, against the number of proposals."""
    several = len(goal.objectives) > 1
    box = _box(contest, goal) if several else None
    measured, bounds = _history_of(goal)
    courses = {marked(group.label, _led_by_a_leak(group, goal)): _course(group, goal, box) for group in contest.groups}
    lines = tuple(line for label, course in courses.items() if (line := _line(label, course, bounds)))
    longest = max((course.shape[1] for course in courses.values()), default=0)
    places = sorted({math.ceil(longest * share) for share in (0.25, 0.5, 1.0)} - {0})
    table = Grid(
        ("mechanism", *(f"{measured}, after {place:,}" for place in places), "studies"),
        tuple(
            (label, *(_at(course, place, bounds) for place in places), len(course)) for label, course in courses.items()
        ),
    )
    text = [
        "Proposals that are complete and keep the bounds count, by their means over the tuning seeds. Lines of several "
        "studies are means over these, with intervals over studies, and begin where each has such a proposal."
    ]
    if several:
        text += [_told(box, goal)]
    charts = (Chart("proposals", measured, lines),) if lines else ()
    return Section(f"history-{contest.number}", f"History: {contest.title}", tuple(text), table, charts)


def _led_by_a_leak(group: Group, goal: Goal) -> bool:
    """Whether some proposal that its history shows looks at later tokens."""
    return any(study.label.leaks(one.params) for study in group.studies for one in _leaders(study, goal))


def _leaders(study: Study, goal: Goal) -> list[Proposal]:
    """The proposals that were the best so far; of several objectives, all that count."""
    counted = [one for one in study.proposals if may_be_best(one, goal)]
    if len(goal.objectives) > 1:
        return counted
    losses = losses_of(counted, goal)[:, 0]
    before = np.concatenate([[np.inf], np.minimum.accumulate(losses)])[: len(losses)]
    return [one for one, better in zip(counted, losses < before, strict=True) if better]


def _history_of(goal: Goal) -> tuple[str, tuple[float, float]]:
    """What the history is of, and what it can be."""
    if len(goal.objectives) > 1:
        return "hypervolume", SHARE
    (objective,) = goal.objectives
    return f"{objective}, best so far", SHARE if objective in SHARES else ANY


def _box(contest: Contest, goal: Goal) -> tuple[Floats, Floats] | None:
    """The best and the worst [M] of each objective, as losses, of all feasible proposals; None if there is none."""
    every = [one for study in contest.studies for one in study.proposals if may_be_best(one, goal)]
    losses = losses_of(every, goal)
    return (losses.min(axis=0), losses.max(axis=0)) if every else None


def _told(box: tuple[Floats, Floats] | None, goal: Goal) -> str:
    if box is None:
        return "No proposal is feasible: there is no hypervolume."
    ideal, reference = (
        ", ".join(f"{name} {sign * end:.4g}" for name, sign, end in zip(goal.objectives, goal.signs, ends, strict=True))
        for ends in box
    )
    return (
        f"Hypervolume: the share of the box between the reference point ({reference}) and the ideal one ({ideal}) that "
        "the front so far dominates (Zitzler and Thiele 1999). They are the worst and the best of each objective "
        "among all feasible proposals of all studies here, the same for all; other sweeps have other boxes."
    )


def _course(group: Group, goal: Goal, box: tuple[Floats, Floats] | None) -> Floats:
    """The history [R studies, T proposals], T being what all of them have made; NaN before the first that counts."""
    length = min(len(study.proposals) for study in group.studies)
    return np.array([_course_of(study, length, goal, box) for study in group.studies])


def _course_of(study: Study, length: int, goal: Goal, box: tuple[Floats, Floats] | None) -> Floats:
    losses = np.full((length, len(goal.objectives)), np.nan)
    counted = [place for place, one in enumerate(study.proposals[:length]) if may_be_best(one, goal)]
    losses[counted] = losses_of([study.proposals[place] for place in counted], goal)
    if len(goal.objectives) == 1:
        best = np.fmin.accumulate(losses[:, 0]) if length else losses[:, 0]
        return best if goal.directions == ["minimize"] else -best
    if box is None:
        return np.zeros(length)
    ideal, reference = box
    extent = np.where(reference > ideal, reference - ideal, 1.0)
    return hypervolume_history((losses - ideal) / extent, np.ones(len(extent)))


def _line(label: str, course: Floats, bounds: tuple[float, float]) -> Line | None:
    complete = np.flatnonzero(~np.isnan(course).any(axis=0))
    if not len(complete):
        return None
    shown = np.unique(np.rint(np.linspace(complete[0], course.shape[1] - 1, HISTORY_POINTS)).astype(np.int64))
    means = [one for one in mean_intervals(course[:, shown], bounds=bounds) if one is not None]
    return Line(
        label,
        tuple((shown + 1.0).tolist()),
        tuple(one.mean for one in means),
        tuple(one.low for one in means),
        tuple(one.high for one in means),
    )


def _at(course: Floats, place: int, bounds: tuple[float, float]) -> Interval | None:
    """The mean over studies after `place` proposals, where all have made so many and found a feasible one."""
    if place > course.shape[1] or np.isnan(course[:, place - 1]).any():
        return None
    return over_studies(mean_interval(course[:, place - 1], bounds=bounds))


def over_studies(interval: Interval) -> Interval:
    """An interval whose values are of studies, in those words."""
    method = interval.method.replace("seeds", "studies").replace("seed", "study")
    return replace(interval, method=method)


def importances_section(contest: Contest, goal: Goal) -> Section:
    """How much each parameter decides, as means over a group's studies."""
    lines: list[tuple[Value, ...]] = []
    for group in contest.groups:
        found = [importances(study.label.parameters, study.proposals, goal) for study in group.studies]
        told = [one for one in found if one is not None]
        for parameter in group.studies[0].label.parameters:
            values = [one[parameter.name] for one in told]
            number = over_studies(mean_interval(values, bounds=SHARE)) if values else None
            lines.append((group.label, short_name(parameter.name), _range(parameter), number))
    best = "nearest to the Pareto front" if len(goal.objectives) > 1 else f"of {next(iter(goal.objectives))}"
    text = (
        f"How far a parameter's values among the best tenth ({best}) of a study differ from those among all, of its "
        "complete proposals that keep the bounds; the parameters of a study add up to 1 (PED-ANOVA, Watanabe et al. "
        f"2023, by Optuna). It takes {LEAST_PROPOSALS} such proposals. One that was searched over a small range "
        "has little to decide.",
    )
    columns = ("mechanism", "parameter", "searched", "importance")
    return Section(f"importances-{contest.number}", f"Importances: {contest.title}", text, Grid(columns, tuple(lines)))


def _range(parameter: Parameter) -> str:
    if parameter.kind == "categorical":
        return ", ".join(map(str, parameter.choices))
    step = f", step {parameter.step:g}" if parameter.step else ""
    return f"{parameter.low:g} to {parameter.high:g}{', log' if parameter.log else ''}{step}"


def slices_section(contest: Contest, goal: Goal) -> Section:
    """Each objective against each parameter, one proposal a point."""
    names = dict.fromkeys(parameter.name for study in contest.studies for parameter in study.label.parameters)
    charts = tuple(
        chart for name in names for place in range(len(goal.objectives)) for chart in _slice(contest, goal, name, place)
    )
    repeated = " Of studies that differ by the sampler's seed alone the first is shown." if contest.repeats > 1 else ""
    text = (
        "Means over the tuning seeds, one point a proposal that has a result, whether it keeps the bounds or not; those"
        f" that were stopped early have fewer seeds.{repeated}",
        "Contours of two parameters at a time are among Optuna's own plots, on the page beside this report.",
    )
    return Section(f"slices-{contest.number}", f"Slices: {contest.title}", text, None, charts)


def _slice(contest: Contest, goal: Goal, name: str, place: int) -> Iterator[Chart]:
    """The objective at `place` against one parameter; a line for each group that searches it."""
    having = [
        (group, parameter)
        for group in contest.groups
        for parameter in group.studies[0].label.parameters
        if parameter.name == name
    ]
    words = list(dict.fromkeys(choice for _, parameter in having for choice in parameter.choices))
    lines = tuple(
        line
        for group, _ in having
        for leaks in (False, True)
        if (line := _slice_line(marked(group.label, leaks), group.studies[0], leaks, goal, name, place, words))
    )
    if lines:
        numbered = ", ".join(f"{number}: {word}" for number, word in enumerate(words))
        label = f"{short_name(name)} ({numbered})" if words else short_name(name)
        log = all(parameter.log for _, parameter in having)
        yield Chart(label, list(goal.objectives)[place], lines, log_x=log)


def _slice_line(
    label: str, study: Study, leaks: bool, goal: Goal, name: str, place: int, words: Sequence[object]
) -> Line | None:
    """The proposals of a study that look at later tokens, or those that do not."""
    objective = list(goal.objectives)[place]
    shown = [
        one
        for one in study.proposals
        if one.state in ("complete", "stopped")
        and name in one.params
        and one.metrics.get(objective)
        and study.label.leaks(one.params) == leaks
    ]
    shown = shown[:: max(1, math.ceil(len(shown) / SLICE_POINTS))]
    points = sorted(
        (
            float(words.index(one.params[name]) if words else one.params[name]),
            float(np.mean(list(one.metrics[objective].values()))),
        )
        for one in shown
    )
    if not points:
        return None
    x, y = zip(*points, strict=True)
    return Line(label, x, y, joined=False)
