"""The proposals of a sweep that tunes, with what came of them: for reports, and for studies that start from them."""

from __future__ import annotations

from orchestrator.ledger import Ledger
from orchestrator.spec.spec import Spec
from orchestrator.store.records import SweepRow
from orchestrator.store.store import Store
from tasks.kinds.tuning import TuningConfig
from tasks.search import Goal, Proposal


def goal_of(spec: Spec) -> Goal:
    """What the studies of `spec` are for."""
    assert isinstance(spec.options, TuningConfig)
    return spec.options.goal


def proposals_of(store: Store, sweep: SweepRow, spec: Spec, goal: Goal | None = None) -> list[Proposal]:
    """Every proposal of every study, in order. goal: whose metrics to give; None: those of the sweep itself."""
    ledger = Ledger(store, sweep)
    metrics = (goal or goal_of(spec)).metrics
    held_out = spec.held_out
    return [
        Proposal(
            study=row.study,
            number=row.number,
            params=row.params,
            state=row.state,
            metrics=ledger.by_metric(row.cell, spec.seeds[: row.seeds], metrics) if row.cell else {},
            held_out=ledger.by_metric(row.cell, held_out) if row.cell else {},
            same_as=row.same_as,
            error=row.error,
            enqueued=row.enqueued,
        )
        for row in store.proposals(sweep.id)
    ]
