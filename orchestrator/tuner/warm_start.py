"""Studies that begin with results of an earlier sweep: what is refused, what is pinned at submission, who takes it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from orchestrator.errors import RequestError, StoreError
from orchestrator.pinned import pinned_spec
from orchestrator.spec.spec import Spec, Taken
from orchestrator.store.states import ENDED
from orchestrator.tuner.live import Known
from orchestrator.tuner.proposals import proposals_of
from orchestrator.tuner.studies import StudySpec, studies_of, tuning_options
from tasks.kind import KINDS
from tasks.kinds.tuning import Levels, TuningConfig
from tasks.search import Params, Proposal, full_name

if TYPE_CHECKING:
    from orchestrator.plan import Plan
    from orchestrator.store.records import CellRow, SweepRow
    from orchestrator.store.store import Store


def pin_warm_start(store: Store, spec: Spec) -> Spec:
    """`spec` with the whole id of the sweep that its studies begin with, and what they take of it as it is now.

    A spec without `warm_start` stays as it is. Raises RequestError where there is no such sweep, or it does not tune or
    has not ended, or seeds to be held out have chosen what would be taken.
    """
    options = spec.options
    if not isinstance(options, TuningConfig) or options.warm_start is None:
        return spec
    earlier = _ended(store, options.warm_start)
    _refuse_leaks(store, spec, earlier)
    rows = store.proposals(earlier.id)
    made = Counter(row.study for row in rows)
    taken = Taken(
        sweep=earlier.id,
        made=tuple(made[number] for number in range(max(made, default=-1) + 1)),
        without=tuple((row.study, row.number) for row in rows if row.state in ("failed", "open")),
    )
    return replace(spec, options=options.model_copy(update={"warm_start": earlier.id}), taken=taken)


def take_the_same(spec: Spec, taken: Taken | None) -> Spec:
    """An edited `spec` with what was pinned when it was submitted, where it names the same earlier sweep."""
    options = spec.options
    named = options.warm_start if isinstance(options, TuningConfig) else None
    if taken is None or named is None or not taken.sweep.startswith(named):
        return spec
    assert options is not None
    return replace(spec, options=options.model_copy(update={"warm_start": taken.sweep}), taken=taken)


def _ended(store: Store, name: str) -> SweepRow:
    try:
        sweep = store.sweep(name)
    except StoreError as error:
        raise RequestError(f"`warm_start`: {error}") from error
    if not KINDS.implementation(sweep.kind).proposes:
        raise RequestError(f"`warm_start`: sweep {sweep.id} is of kind {sweep.kind}, and only a tuning sweep will do")
    if sweep.state not in ENDED:
        raise RequestError(
            f"`warm_start`: sweep {sweep.id} is {sweep.state}, and what it finds is not known before it has ended: "
            f"`slotsweep run {sweep.id}` finishes it, `slotsweep cancel {sweep.id}` ends it as it is"
        )
    return sweep


def _refuse_leaks(store: Store, spec: Spec, earlier: SweepRow) -> None:
    """Refuse seeds held out that chose among the earlier results, or among those which these began with."""
    chosen: set[int] = set()
    sweep: SweepRow | None = earlier
    while sweep is not None:
        before = pinned_spec(store, sweep)
        chosen.update(before.seeds)
        sweep = store.sweep(before.taken.sweep) if before.taken else None
    leaking = sorted(chosen.intersection(spec.held_out))
    if leaking:
        count = len(spec.seeds)
        base = max(0, max(chosen) + 1 - count)
        raise RequestError(
            f"`warm_start`: seed {leaking[0]} is held out, and sweep {earlier.id} has chosen by it: the best would not "
            f"be measured on seeds that did not choose them. `seeds: {{count: {count}, base: {base}}}` holds out seeds "
            "beyond all of the earlier ones"
        )


def known_results(store: Store, plan: Plan) -> dict[int, list[Known]]:
    """What each study (a number) of a stored sweep, whose spec `plan` has, begins with.

    Results are taken of an earlier study of the same sampler and repeat: see `_sources`. Of its complete proposals
    those count that this study could have made, for the same configs on as many episodes in the same precision.
    """
    taken = plan.spec.taken
    if taken is None:
        return {}
    sweep = store.sweep(taken.sweep)
    before = pinned_spec(store, sweep)
    goal, levels = tuning_options(plan.spec).goal, tuning_options(plan.spec).stops
    cells = {cell.digest: cell for cell in store.cells(sweep.id).values()}
    pool: dict[int, list[tuple[Proposal, CellRow]]] = defaultdict(list)
    without = set(taken.without)
    for row, one in zip(store.proposals(sweep.id), proposals_of(store, sweep, before, goal), strict=True):
        pinned = one.number < _made(taken, one.study) and (one.study, one.number) not in without
        if pinned and one.state == "complete" and row.cell and set(goal.metrics) <= one.metrics.keys():
            pool[one.study].append((one, cells[row.cell]))
    earlier = studies_of(before)
    return {
        study.number: [
            Known(one.params, goal.values(one.metrics), goal.violations(one.metrics))
            for source in _sources(study, earlier)
            for one, cell in pool[source]
            if _is_of(cell, one.params, study, plan, levels if isinstance(levels, Levels) else None)
        ]
        for study in studies_of(plan.spec)
    }


def _made(taken: Taken, study: int) -> int:
    return taken.made[study] if study < len(taken.made) else 0


def _sources(study: StudySpec, earlier: Sequence[StudySpec]) -> Iterator[int]:
    """Numbers of the earlier studies, of any mechanism and workload, whose results `study` may take.

    They are of the sampler with the same options, else of the same name, else of the first; and of the same repeat,
    counted round where there were fewer, so that repeats share as little as they can.
    """
    sampler = min(
        (one.sampler for one in earlier), key=lambda one: (one != study.sampler, one.name != study.sampler.name)
    )
    repeats = max(one.repeat for one in earlier) + 1
    for one in earlier:
        if one.sampler == sampler and one.repeat == study.repeat % repeats:
            yield one.number


def _is_of(cell: CellRow, params: Params, study: StudySpec, plan: Plan, levels: Levels | None) -> bool:
    """Whether `study` would measure `params` as the earlier `cell` was, by the same or other code, on any device."""
    if not study.takes(params):
        return False
    own = str(study.mechanism_fields["name"])
    last = {full_name(levels.field, own): levels.levels[-1]} if levels else {}
    try:
        workload, mechanism = study.configs({**params, **last})
    except ValidationError:
        return False
    mine = plan.cell(workload, mechanism, plan.devices[0])
    return (mine.workload, mine.mechanism, mine.episodes, mine.dtype) == (
        cell.workload,
        cell.mechanism,
        cell.episodes,
        cell.dtype,
    )
