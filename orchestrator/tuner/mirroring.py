"""The studies of a stored sweep as Optuna has them: for its own store, and for its own plots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from orchestrator.pinned import pinned_spec
from orchestrator.settings import Settings
from orchestrator.spec.spec import Spec
from orchestrator.store.records import SweepRow
from orchestrator.store.store import Store
from orchestrator.tracker.tracker import TrackerRefusedError, TrackerUnavailableError
from orchestrator.tuner.live import told_of
from orchestrator.tuner.mirror import MirroredStudy, MirroredTrial, mirror, study_name, trials_told
from orchestrator.tuner.proposals import proposals_of
from orchestrator.tuner.studies import StudySpec, studies_of, tuning_options
from tasks.kinds.tuning import Levels
from tasks.search import Goal, Proposal, StudyLabel, best_of, losses_of

PAGE = "studies.html"
MOST_DRAWN = 12
"""Studies on a page, at most: of those that differ by the sampler's seed alone the best is drawn."""


def mirror_studies(store: Store, sweep: SweepRow, settings: Settings) -> None:
    """Bring the sweep's studies in Optuna's own store up to date. Raises as `mirror`."""
    spec = pinned_spec(store, sweep)
    mirrored = _mirrored(store, sweep, spec, proposals_of(store, sweep, spec))
    mirror(settings.optuna_url, sweep.id, sweep.name, [one for _, one in mirrored])


def catch_up(store: Store, sweep: SweepRow, settings: Settings) -> str | None:
    """Bring the sweep's studies in Optuna's own store up to date, unless they are; why that cannot be done."""
    try:
        if _is_behind(store, sweep, settings):
            mirror_studies(store, sweep, settings)
    except (TrackerUnavailableError, TrackerRefusedError) as error:
        return str(error)
    return None


def _is_behind(store: Store, sweep: SweepRow, settings: Settings) -> bool:
    """Whether some study there has other numbers of decided and of failed proposals than here."""
    names = {
        study.number: study_name(sweep.id, sweep.name, study.title) for study in studies_of(pinned_spec(store, sweep))
    }
    rows = store.proposals(sweep.id)
    decided = Counter(row.study for row in rows if row.state != "open")
    failed = Counter(row.study for row in rows if row.state == "failed")
    there = trials_told(settings.optuna_url, list(names.values()))
    return any(there.get(name) != (decided[number], failed[number]) for number, name in names.items())


def write_studies_page(store: Store, sweep: SweepRow, proposals: Sequence[Proposal], folder: Path) -> Path:
    """Draw the sweep's studies with Optuna's own plots into PAGE in `folder`; its path."""
    from orchestrator.tuner.plots import study_figures, study_in_memory, write_study_page

    spec = pinned_spec(store, sweep)
    goal = tuning_options(spec).goal
    chosen: dict[str, tuple[list[float], MirroredStudy]] = {}
    for study, mirrored in _mirrored(store, sweep, spec, proposals):
        rank = _rank([one for one in proposals if one.study == study.number], goal)
        if study.group not in chosen or rank < chosen[study.group][0]:
            chosen[study.group] = rank, mirrored
    figures = {
        f"{mirrored.title}: {heading}": figure
        for _, mirrored in list(chosen.values())[:MOST_DRAWN]
        for heading, figure in study_figures(study_in_memory(mirrored)).items()
    }
    path = folder / PAGE
    write_study_page(figures, path, f"Studies of {sweep.name} {sweep.id}")
    return path


def _rank(proposals: list[Proposal], goal: Goal) -> list[float]:
    """Sorts studies alike: the first objective of the best proposal, better ones first, then those that have none."""
    best = best_of(proposals, goal)
    return [0.0, float(losses_of(best[:1], goal)[0, 0])] if best else [1.0]


def _mirrored(
    store: Store, sweep: SweepRow, spec: Spec, proposals: Sequence[Proposal]
) -> list[tuple[StudySpec, MirroredStudy]]:
    """The studies of the sweep, with all its `proposals`."""
    options = tuning_options(spec)
    cells = {(row.study, row.number): row.cell for row in store.proposals(sweep.id)}
    times = store.cell_times(sweep.id)
    by_level = isinstance(options.stops, Levels)
    labels = {study.number: study.label for study in studies_of(spec)}
    by_study: dict[int, list[MirroredTrial]] = {}
    for one in proposals:
        started, ended = times.get(cells[one.study, one.number] or "", (sweep.started or sweep.created,) * 2)
        trial = MirroredTrial(
            number=one.number,
            params=one.params,
            told=None if one.state == "open" else told_of(one.state, one.metrics, options.goal, by_level=by_level),
            started_ms=round(1000 * started),
            ended_ms=round(1000 * ended),
            notes=_notes(labels[one.study], one),
        )
        by_study.setdefault(one.study, []).append(trial)
    return [
        (study, MirroredStudy(study.title, options.goal, study.parameters, by_study.get(study.number, [])))
        for study in studies_of(spec)
    ]


def _notes(label: StudyLabel, proposal: Proposal) -> dict[str, object]:
    seeds = len(next(iter(proposal.metrics.values()), {}))
    notes: dict[str, object] = {"state": proposal.state, "seeds": seeds}
    if proposal.same_as is not None:
        notes["same_as"] = proposal.same_as
    if proposal.error is not None:
        notes["error"] = proposal.error
    if label.leaks(proposal.params):
        notes["leaks_future"] = True
    return notes
