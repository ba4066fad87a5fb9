"""Describing a plan against a store: what is unique, what is reused, how many batches, what it may cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orchestrator.batching import batches
from orchestrator.estimate import Estimate, estimate
from orchestrator.plan import Plan
from orchestrator.settings import Settings
from orchestrator.store.records import CellRow, Pending


@dataclass(frozen=True)
class PlanSummary:
    """Counts of a plan. devices: trials by device class."""

    trials: int
    cells: int
    unique: int
    reused: int
    batches: int
    devices: dict[str, int]
    estimate: Estimate

    def as_json(self) -> dict[str, Any]:
        """The contract of `plan --json`."""
        return {
            "trials": self.trials,
            "cells": self.cells,
            "unique": self.unique,
            "reused": self.reused,
            "batches": self.batches,
            "devices": self.devices,
            "estimate": self.estimate.as_json(),
        }


def describe(plan: Plan, settings: Settings, workers: int) -> PlanSummary:
    """Count the plan's trials, and those that the store behind `settings` holds already. Creates nothing."""
    store = None
    if settings.database_file is None or settings.database_file.exists():
        from orchestrator.store.store import Store

        store = Store.open(settings.database_url)
    digests: set[str] = set()
    devices: dict[str, int] = {}
    for group in plan.groups:
        for cell in group.cells:
            digests.add(cell.digest)
            devices[cell.device] = devices.get(cell.device, 0) + len(plan.spec.seeds)
    unique = len(digests) * len(plan.spec.seeds)
    reused = store.count_done(key for _, _, key in plan.trials()) if store is not None else 0
    return PlanSummary(
        trials=plan.trial_count,
        cells=plan.cell_count,
        unique=unique,
        reused=reused,
        batches=_count_batches(plan),
        devices=devices,
        estimate=estimate(plan, store, unique - reused, workers),
    )


def _count_batches(plan: Plan) -> int:
    """Batches if every trial has to run."""
    cells: dict[int, CellRow] = {}
    numbers: dict[str, int] = {}
    for group in plan.groups:
        for cell in group.cells:
            numbers.setdefault(cell.digest, len(numbers))
            cells[numbers[cell.digest]] = cell
    listed = enumerate(plan.trials())

    def page(_after: int, limit: int) -> list[Pending]:
        return [
            Pending(position, position, numbers[cell.digest], seed)
            for _, (position, (cell, seed, _)) in zip(range(limit), listed, strict=False)
        ]

    return sum(1 for _ in batches(page, cells))
