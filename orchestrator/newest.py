"""Which of the sweeps that were submitted is what a spec asks for now."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from orchestrator.plan import Plan
from orchestrator.spec import canonical
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store

if TYPE_CHECKING:
    from orchestrator.store.records import SweepRow

GONE = (SweepState.CANCELLED, SweepState.FAILED)
"""States of a sweep that is of no use any more where there may be a better one."""

MOST_LISTED = 20
"""Seeds up to which they are named one by one."""


def newest_sweep(
    store: Store, sweeps: Sequence[SweepRow], plan: Plan, gone: Collection[SweepState]
) -> tuple[SweepRow, str] | None:
    """The newest of `sweeps` that asks for exactly the plan's trials, or else for its cells with the seeds that are
    told.

    None where there is neither, or where they are in a state of `gone`.
    """
    wanted = {key for _, _, key in plan.trials()}
    cells = {cell.digest for cell, _, _ in plan.trials()}
    with_other_seeds = None
    for row in sweeps:
        if row.name != plan.spec.name or row.state in gone:
            continue
        if plan.kind.proposes:
            if _same_study(row, plan):
                return row, ""
            continue
        asked = store.asked(row.id)
        if {key for _, _, key in asked} == wanted:
            return row, ""
        if with_other_seeds is None and {cell.digest for cell, _, _ in asked} == cells:
            with_other_seeds = row, _seeds_told({seed for _, seed, _ in asked}, plan)
    return with_other_seeds


def _same_study(row: SweepRow, plan: Plan) -> bool:
    """Whether a sweep searches as the plan does, by the same code: which trials it has follows from results."""
    asks = canonical(plan.spec)
    parts = ("kind", "workload", "mechanisms", "seeds", "episodes", "device", "dtype", "plugins", "options")
    return row.fingerprints == plan.fingerprints and all(row.spec[part] == asks[part] for part in parts)


def _seeds_told(seeds: set[int], plan: Plan) -> str:
    """Which seeds stand for those of the plan; nothing where the plan lets more of them follow from results."""
    wanted = plan.spec.seeds
    if plan.spec.until is not None and seeds >= set(wanted):
        return ""
    return f"from {_listed(sorted(seeds))} instead of {_listed(wanted)}"


def _listed(seeds: Sequence[int]) -> str:
    number = "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
    return f"{number} ({', '.join(map(str, seeds))})" if len(seeds) <= MOST_LISTED else number
