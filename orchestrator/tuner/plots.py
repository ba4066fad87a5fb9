"""Optuna's own plots of a study, on one page that needs no network."""

from __future__ import annotations

import html
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.tuner.mirror import MirroredStudy, frozen_trial
from orchestrator.tuner.quiet import quiet_optuna

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial
    from plotly.graph_objects import Figure

MOST_PAIRED = 4
"""Parameters that are drawn against each other, at most: the most important ones."""

MOST_POINTS = 300
"""Proposals that plots of pairs show, at most: what they take grows with the square."""

FRONT_OBJECTIVES = (2, 3)
"""Numbers of objectives of which a front can be drawn."""

BEYOND = 0.1
"""By how much of the range of an objective the reference point of hypervolumes is worse than the worst value."""


def study_in_memory(mirrored: MirroredStudy) -> Study:
    """The study as Optuna has it, without a store."""
    import optuna

    quiet_optuna()
    study = optuna.create_study(directions=mirrored.goal.directions, study_name=mirrored.title)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names(list(mirrored.goal.objectives))
    study.add_trials(frozen_trial(mirrored, one) for one in mirrored.trials)
    return study


def study_figures(study: Study) -> dict[str, Figure]:
    """Figures by title; what Optuna cannot draw of this study is left out.

    Parameters are drawn in pairs only where there are two, and the most important ones where there are many.
    """
    quiet_optuna()
    if not _complete(study):
        return {}
    figures: dict[str, Figure] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that some plots are experimental, and lower targets better
        for title, draw in _plots(study).items():
            try:
                figures[title] = draw()
            except (ValueError, RuntimeError):  # Optuna's for too few proposals, or all alike
                continue
    return {title: figure for title, figure in figures.items() if figure.data}


def write_study_page(figures: Mapping[str, Figure], path: Path, title: str) -> None:
    """One HTML file with all figures; plotly.js is in it once."""
    from plotly.offline import get_plotlyjs

    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<style>body{font-family:system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}</style>",
        f"<script>{get_plotlyjs()}</script></head><body><h1>{html.escape(title)}</h1>",
    ]
    for heading, figure in figures.items():
        drawn = figure.to_html(full_html=False, include_plotlyjs=False, default_width="100%")
        parts.append(f"<section><h2>{html.escape(heading)}</h2>{drawn}</section>")
    if not figures:
        parts.append("<p>No proposal is complete yet.</p>")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</body></html>\n"]), encoding="utf-8")


def _complete(study: Study) -> list[FrozenTrial]:
    from optuna.trial import TrialState

    return list(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))


def _plots(study: Study) -> dict[str, Callable[[], Figure]]:
    """What to draw, by title."""
    from optuna import visualization

    names = study.metric_names or [f"objective {number}" for number, _ in enumerate(study.directions)]
    several = len(names) > 1
    found: dict[str, Callable[[], Figure]] = {}
    if not several:
        found["History"] = lambda: visualization.plot_optimization_history(study, target_name=names[0])
    if len(names) in FRONT_OBJECTIVES:
        found["Pareto front"] = lambda: visualization.plot_pareto_front(study, target_names=names)
    if several:
        found["Hypervolume history"] = lambda: _hypervolumes(study, names)
    for number, name in enumerate(names):
        found |= _plots_of_objective(study, name, number if several else None)
    if any(trial.intermediate_values for trial in study.get_trials(deepcopy=False)) and not several:
        found["Intermediate values"] = lambda: visualization.plot_intermediate_values(study)
    found["Timeline"] = lambda: visualization.plot_timeline(study)
    return found


def _plots_of_objective(study: Study, name: str, number: int | None) -> dict[str, Callable[[], Figure]]:
    """How one objective depends on the parameters; number: which it is of several."""
    from optuna import visualization

    target: Any = None if number is None else lambda trial: trial.values[number]
    tail = "" if number is None else f" of {name}"
    shown: dict[str, Any] = {"target": target, "target_name": name}
    every = sorted({one for trial in _complete(study) for one in trial.params})
    found: dict[str, Callable[[], Figure]] = {}
    if len(_complete(study)) > 1:
        loss = None if number is None else _loss(study, number)
        found[f"Importances{tail}"] = lambda: visualization.plot_param_importances(study, target=loss, target_name=name)
    found[f"Slices{tail}"] = lambda: visualization.plot_slice(study, every, **shown)
    some, of = _thinned(study)
    had = {one for trial in _complete(some) for one in trial.params}
    paired = _most_important(study, [one for one in every if one in had], number)
    if len(paired) > 1:
        found[f"Contours{tail}{of}"] = lambda: visualization.plot_contour(some, paired, **shown)
        found[f"Ranks{tail}{of}"] = lambda: visualization.plot_rank(some, paired, **shown)
        found[f"Parallel coordinates{tail}"] = lambda: visualization.plot_parallel_coordinate(study, every, **shown)
    return found


def _thinned(study: Study) -> tuple[Study, str]:
    """The study with no more than MOST_POINTS proposals, drawn at random, and what to say of that."""
    import numpy as np
    import optuna

    trials = _complete(study)
    if len(trials) <= MOST_POINTS:
        return study, ""
    some = optuna.create_study(directions=study.directions)
    drawn = np.random.default_rng(0).choice(len(trials), MOST_POINTS, replace=False)
    some.add_trials(trials[index] for index in sorted(drawn))
    return some, f", {MOST_POINTS} of {len(trials):,} proposals"


def _loss(study: Study, number: int) -> Callable[[FrozenTrial], float]:
    """One of several objectives, of which Optuna's importances take lower values for better ones."""
    from optuna.study import StudyDirection

    sign = 1.0 if study.directions[number] == StudyDirection.MINIMIZE else -1.0
    return lambda trial: sign * trial.values[number]


def _most_important(study: Study, names: Sequence[str], number: int | None) -> list[str]:
    """At most MOST_PAIRED of `names`, those first that every proposal has and the objective depends on."""
    from optuna.importance import get_param_importances

    if len(names) <= MOST_PAIRED:
        return list(names)
    try:
        ranked = list(get_param_importances(study, target=None if number is None else _loss(study, number)))
    except (ValueError, RuntimeError):  # too few proposals, or all alike
        ranked = []
    first = [name for name in ranked if name in names]
    return [*first, *(name for name in names if name not in first)][:MOST_PAIRED]


def _hypervolumes(study: Study, names: Sequence[str]) -> Figure:
    """Its reference point is worse than every feasible proposal, and stands in the title."""
    import numpy as np
    from optuna import visualization
    from optuna.study import StudyDirection

    feasible = [one for one in _complete(study) if all(beyond <= 0 for beyond in one.constraints.values())]
    if not feasible:
        raise ValueError("no feasible proposal, no hypervolume")
    signs = np.array([1.0 if one == StudyDirection.MINIMIZE else -1.0 for one in study.directions])
    losses = signs * np.array([one.values for one in feasible])
    worst, span = losses.max(axis=0), np.ptp(losses, axis=0)
    reference = signs * (worst + BEYOND * np.where(span > 0, span, 1.0))
    figure = visualization.plot_hypervolume_history(study, reference.tolist())
    point = ", ".join(f"{name} {value:.4g}" for name, value in zip(names, reference, strict=True))
    return figure.update_layout(title=f"Hypervolume beyond the reference point: {point}")
