"""Describing a plan against a store: what is unique, what is reused, how many batches, what it may cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.batching import batches
from orchestrator.crew import expected_crew
from orchestrator.doubts import doubts
from orchestrator.estimate import Estimate, estimate
from orchestrator.lacking import absent_data
from orchestrator.leaking import leaks
from orchestrator.plan import Plan
from orchestrator.settings import Settings
from orchestrator.store.glance import Glance, SqliteGlance
from orchestrator.store.records import CellRow, Pending

if TYPE_CHECKING:
    from orchestrator.explain import Known
    from orchestrator.store.store import Store


@dataclass(frozen=True)
class PlanSummary:
    """Counts of a plan, with the trials that may follow from results, except in `batches`.

    name, kind    of its spec; seeds: how many a cell has at first
    reused        None: unknown, as the machines are `untold` on which times would be measured on some device classes
    at_first      trials that are asked for whatever comes back; None: all are
    devices       trials by device class
    explanations  why trials are not reused (see `Explanation.as_json`), if that was asked
    absent        what is to be said of public data that are not on this machine
    leaks         a sentence on each model that sees what it is to predict
    doubts        a sentence on each setting that is hardly what was meant
    """

    name: str
    kind: str
    seeds: int
    trials: int
    cells: int
    unique: int
    reused: int | None
    batches: int
    devices: dict[str, int]
    estimate: Estimate
    at_first: int | None = None
    explanations: list[dict[str, Any]] | None = None
    untold: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The contract of `plan --json`."""
        explained = {} if self.explanations is None else {"explain": self.explanations}
        return {
            "trials": self.trials,
            "cells": self.cells,
            "unique": self.unique,
            "reused": self.reused,
            "batches": self.batches,
            "devices": self.devices,
            "estimate": self.estimate.as_json(),
            **({} if not self.untold else {"untold": list(self.untold)}),
            **({} if not self.absent else {"absent": list(self.absent)}),
            **({} if self.at_first is None else {"at_first": self.at_first}),
            **explained,
        }


def describe(plan: Plan, settings: Settings, *, explained: bool = False) -> PlanSummary:
    """Count the plan's trials, and those that the store behind `settings` holds already. Creates nothing.

    If it shall be `explained`, the summary also says why the others are not reused.
    """
    glance = _glance(settings)
    devices: dict[str, int] = {}
    for cell in plan.cells:
        devices[cell.device] = devices.get(cell.device, 0) + plan.counts[cell.digest]
    untold = plan.untold
    done = glance.done_keys(key for _, _, key in plan.trials()) if glance is not None else set()
    return PlanSummary(
        name=plan.spec.name,
        kind=plan.spec.kind,
        seeds=len(plan.spec.seeds),
        trials=plan.trial_count,
        cells=plan.cell_count,
        unique=sum(plan.counts.values()),
        reused=None if untold else len(done),
        batches=_count_batches(plan),
        devices=devices,
        estimate=estimate(plan, glance, done, expected_crew(plan, settings, glance)),
        at_first=sum(1 for _ in plan.trials()) if plan.grows else None,
        explanations=_explanations(plan, settings) if explained and not untold else None,
        untold=untold,
        absent=absent_data(plan),
        leaks=tuple(leaks(plan)),
        doubts=doubts(plan),
    )


def _explanations(plan: Plan, settings: Settings) -> list[dict[str, Any]]:
    from orchestrator.explain import explain

    return [each.as_json() for each in explain(plan, _known(plan, _existing_store(settings)))]


def _glance(settings: Settings) -> Glance | None:
    """Something to ask about finished trials; None if there is no store yet."""
    file = settings.database_file
    return SqliteGlance(file) if file is not None and file.exists() else _existing_store(settings)


def _existing_store(settings: Settings) -> Store | None:
    if settings.database_file is not None and not settings.database_file.exists():
        return None
    from orchestrator.store.store import Store

    return Store.open(settings.database_url)


def _known(plan: Plan, store: Store | None) -> Known:
    """What the store holds that bears on the plan."""
    from orchestrator.explain import Known

    if store is None:
        return Known()
    from orchestrator.store.explaining import done_cells, latest_states, recorded_modules

    names = {(cell.workload["name"], cell.mechanism["name"]) for cell in plan.cells}
    done = done_cells(store.engine, {workload for workload, _ in names}, {mechanism for _, mechanism in names})
    return Known(
        trials=latest_states(store.engine, (key for _, _, key in plan.trials())),
        done=done,
        modules=recorded_modules(store.engine, {cell.fingerprint for cell in done}),
    )


def _count_batches(plan: Plan) -> int:
    """Batches if every trial has to run."""
    cells: dict[int, CellRow] = {}
    numbers: dict[str, int] = {}
    for cell in plan.cells:
        numbers.setdefault(cell.digest, len(numbers))
        cells[numbers[cell.digest]] = cell
    listed = enumerate(plan.trials())

    def page(_after: int, limit: int) -> list[Pending]:
        return [
            Pending(position, position, numbers[cell.digest], seed)
            for _, (position, (cell, seed, _)) in zip(range(limit), listed, strict=False)
        ]

    return sum(1 for _ in batches(page, cells, by_seed=plan.kind.measures_time))
