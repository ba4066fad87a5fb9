"""Why a plan's trials are not reused: what differs from what the store holds already. Pure: it asks no database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.neighbours import ABSENT, Change, Neighbours
from orchestrator.plan import Plan, trial_key
from orchestrator.store.records import CellRow
from orchestrator.store.states import TrialState

Why = Literal[
    "never_computed", "code_changed", "fields_differ", "new_seeds", "failed_before", "cancelled_before", "waiting"
]

NAMES_SHOWN = 3


@dataclass(frozen=True)
class Known:
    """What a store holds that bears on a plan.

    trials   (state, reason) of the newest generation of each of the plan's trials that is stored, by key
    done     cells with a finished trial, of the workloads and mechanisms (names) of the plan, oldest first
    modules  hash of each module of the code of `done`, by fingerprint, as far as it was recorded
    """

    trials: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    done: Sequence[CellRow] = ()
    modules: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Cause:
    """One answer to "why is this computed?".

    fields   that differ from the nearest finished cell
    code     whether the code differs from that cell's
    modules  of that code which changed, came or went; None where they were not recorded
    seeds    that are missing from a cell otherwise known
    reason   of the failure
    """

    why: Why
    fields: tuple[str, ...] = ()
    code: bool = False
    modules: tuple[str, ...] | None = ()
    seeds: tuple[int, ...] = ()
    reason: str | None = None


@dataclass
class Explanation:
    """Trials that share a cause.

    mechanisms  their names, in plan order
    changes     of each of the cause's fields, the different ones in plan order (a dict as an ordered set)
    """

    cause: Cause
    trials: int = 0
    cells: int = 0
    mechanisms: list[str] = field(default_factory=list)
    changes: dict[str, dict[Change, None]] = field(default_factory=dict)

    def add(self, cell: CellRow, trials: int, changes: Sequence[Change]) -> None:
        """Count `trials` of `cell`."""
        self.trials += trials
        self.cells += 1
        if cell.mechanism["name"] not in self.mechanisms:
            self.mechanisms.append(cell.mechanism["name"])
        for change in changes:
            self.changes.setdefault(change.field, {})[change] = None

    def as_json(self) -> dict[str, Any]:
        """An entry of `explain` in `plan --json`."""
        return {
            "why": self.cause.why,
            "trials": self.trials,
            "cells": self.cells,
            "mechanisms": self.mechanisms,
            "fields": [_changes_json(list(changes)) for changes in self.changes.values()],
            "code": self.cause.code,
            "modules": None if self.cause.modules is None else list(self.cause.modules),
            "seeds": list(self.cause.seeds),
            "reason": self.cause.reason,
            "text": self.text,
        }

    @property
    def text(self) -> str:
        """The cause for people, in one line."""
        match self.cause.why:
            case "never_computed":
                return "never computed"
            case "new_seeds":
                return f"new seeds of known cells: {_ranges(self.cause.seeds)}"
            case "failed_before":
                return f"failed before: {self.cause.reason}"
            case "cancelled_before":
                return "cancelled before"
            case "waiting":
                return "asked for by an earlier sweep too, and not done yet: computed once for both"
            case "code_changed" | "fields_differ":
                parts = [_changes_text(list(changes)) for changes in self.changes.values()]
                return "; ".join([*parts, _code_text(self.cause.modules)] if self.cause.code else parts)


def explain(plan: Plan, known: Known) -> list[Explanation]:
    """Every cause why trials of `plan` are not reused, with the trials it holds for, the most first."""
    neighbours = Neighbours(known.done)
    code = plan.code()
    found: dict[Cause, Explanation] = {}
    for cell in _distinct_cells(plan):
        states = {seed: known.trials.get(trial_key(cell, seed)) for seed in plan.seeds_of(cell)}
        missing = tuple(seed for seed, state in states.items() if state is None)
        counted: dict[Cause, int] = {}
        for state in filter(None, states.values()):
            if state[0] != TrialState.DONE:
                cause = _cause_of_state(*state)
                counted[cause] = counted.get(cause, 0) + 1
        for cause, trials in counted.items():
            found.setdefault(cause, Explanation(cause)).add(cell, trials, ())
        if not missing:
            continue
        changes: tuple[Change, ...] = ()
        cause = Cause("new_seeds", seeds=missing)
        if len(missing) == len(states):
            cause, changes = _cause_of_cell(cell, neighbours, known, code)
        found.setdefault(cause, Explanation(cause)).add(cell, len(missing), changes)
    return sorted(found.values(), key=lambda explanation: -explanation.trials)


def _distinct_cells(plan: Plan) -> Iterator[CellRow]:
    seen: set[str] = set()
    for group in plan.groups:
        for cell in group.cells:
            if cell.digest not in seen:
                seen.add(cell.digest)
                yield cell


def _cause_of_state(state: str, reason: str | None) -> Cause:
    if state == TrialState.FAILED:
        return Cause("failed_before", reason=reason)
    return Cause("cancelled_before" if state == TrialState.CANCELLED else "waiting")


def _cause_of_cell(
    cell: CellRow, neighbours: Neighbours, known: Known, code: Mapping[str, Mapping[str, str]]
) -> tuple[Cause, tuple[Change, ...]]:
    """Why nothing of `cell` is known, and its differences from the nearest finished cell."""
    nearest = neighbours.nearest(cell)
    if nearest is None:
        return Cause("never_computed"), ()
    before = nearest.cell.fingerprint
    changed = before != cell.fingerprint
    modules: tuple[str, ...] | None = ()
    if changed:
        modules = _changed_modules(known.modules[before], code[cell.fingerprint]) if before in known.modules else None
    names = tuple(change.field for change in nearest.changes)
    return Cause("fields_differ" if names else "code_changed", names, changed, modules), nearest.changes


def _changed_modules(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in sorted({*before, *after}) if before.get(name) != after.get(name))


def _changes_json(changes: Sequence[Change]) -> dict[str, Any]:
    """The first of one field's `changes` and their number; `from` or `to` is left out where there was no such field."""
    first = changes[0]
    ends = {name: value for name, value in (("from", first.before), ("to", first.after)) if value is not ABSENT}
    return {"field": first.field, **ends, "changes": len(changes)}


def _changes_text(changes: Sequence[Change]) -> str:
    first, others = changes[0], len(changes) - 1
    text = f"{first.field} {_value(first.before)} → {_value(first.after)}"
    return f"{text} and {others} more such change{'s' if others > 1 else ''}" if others else text


def _code_text(modules: tuple[str, ...] | None) -> str:
    if modules is None:
        return "the code changed (in which modules was not recorded then)"
    return f"the code changed: {shortened(modules)}"


def shortened(names: Sequence[str]) -> str:
    """The first few of `names`, and how many more there are."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _value(value: Any) -> str:
    if value is ABSENT:
        return "absent"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _ranges(seeds: Sequence[int]) -> str:
    """Whole numbers in ascending order with runs shortened: `0, 4–9`."""
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1][1:] = [seed]
        else:
            runs.append([seed])
    return shortened(["–".join(map(str, run)) for run in runs])
