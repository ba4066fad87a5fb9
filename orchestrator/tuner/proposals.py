"""The proposals of a sweep that tunes, with what came of them: for reports, and for studies that start from them."""

from __future__ import annotations

from orchestrator.ledger import Ledger
from orchestrator.plan import trial_key
from orchestrator.spec.spec import Spec
from orchestrator.store.records import SweepRow
from orchestrator.store.store import Store
from orchestrator.tuner.studies import tuning_options
from tasks.search import Goal, Proposal


def proposals_of(store: Store, sweep: SweepRow, spec: Spec, goal: Goal | None = None) -> list[Proposal]:
    """Every proposal of every study, in order. goal: whose metrics to give; None: those of the sweep itself."""
    ledger = Ledger(store, sweep)
    metrics = (goal or tuning_options(spec).goal).metrics
    return [
        Proposal(
            study=row.study,
            number=row.number,
            params=row.params,
            state=row.state,
            metrics=ledger.by_metric(row.cell, spec.seeds[: row.seeds], metrics) if row.cell else {},
            held_out=ledger.by_metric(row.cell, spec.held_out) if row.cell else {},
            same_as=row.same_as,
            error=row.error,
            enqueued=row.enqueued,
            key=trial_key(cell, spec.seeds[0]) if (cell := ledger.cells.get(row.cell or "")) else None,
        )
        for row in store.proposals(sweep.id)
    ]
