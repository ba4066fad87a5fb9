"""What becomes of trials that failed: they wait again while they have retries left, or have failed for good."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, select

from orchestrator.store import schema
from orchestrator.store.base import change_trials
from orchestrator.store.many import among
from orchestrator.store.rules import TrialChange
from orchestrator.store.states import CODE_REASONS, FREE_REASONS, SPLIT_REASONS, TrialState

Failures = dict[int, tuple[str, str]]
"""Why trials failed: trial row -> (reason, message)."""


def settle(
    connection: Connection,
    failures: Mapping[int, Failures],
    doubtful: Collection[int] = (),
    split: frozenset[str] = SPLIT_REASONS,
) -> dict[int, int]:
    """Send attempts' failed trials back to pending while they have retries left, else fail them.

    A batch that ran out of memory or time is halved first: its trials wait again, for smaller batches. What failed in
    attempts that are `doubtful` has one more try. The number that failed for good, by attempt.
    """
    if not failures:
        return {}
    attempts, sweeps, columns = schema.attempts.c, schema.sweeps.c, schema.trials.c
    budgets = connection.execute(
        select(attempts.id, attempts.trials, sweeps.infrastructure_retries, sweeps.code_retries)
        .join(schema.sweeps, sweeps.id == attempts.sweep)
        .where(among(connection, attempts.id, failures))
    ).all()
    spent = {
        identity: (code, infrastructure)
        for identity, code, infrastructure in connection.execute(
            select(columns.id, columns.code_failures, columns.infrastructure_failures).where(
                among(connection, columns.id, [trial for trials in failures.values() for trial in trials])
            )
        )
    }
    failed: dict[int, int] = {}
    for attempt, size, infrastructure_retries, code_retries in budgets:
        fates: dict[_Fate, list[int]] = {}
        for trial, (reason, message) in failures[attempt].items():
            code, infrastructure = spent[trial]
            fate = _Fate(reason, message)
            if reason in split and size > 1:
                fate = replace(fate, batch_limit=max(1, size // 2))
            elif reason in CODE_REASONS:
                fate = replace(fate, counts="code_failures", final=code >= code_retries + (attempt in doubtful))
            elif reason not in FREE_REASONS:
                fate = replace(fate, counts="infrastructure_failures", final=infrastructure >= infrastructure_retries)
            fates.setdefault(fate, []).append(trial)
        for fate, trials in fates.items():
            changed = change_trials(connection, trials, fate.change(attempt), fate.values)
            failed[attempt] = failed.get(attempt, 0) + (len(changed) if fate.final else 0)
    return failed


@dataclass(frozen=True)
class _Fate:
    """What becomes of a trial that failed for `reason`.

    counts: the column of failures that it adds to; batch_limit: it waits for batches of at most so many; final: it
    failed for good
    """

    reason: str
    message: str
    counts: str | None = None
    batch_limit: int | None = None
    final: bool = False

    def change(self, attempt: int) -> TrialChange:
        """The change of state, of a trial that `attempt` holds."""
        return TrialChange(TrialState.FAILED if self.final else TrialState.PENDING, attempt, self.reason)

    @property
    def values(self) -> dict[str, Any]:
        """What is set with it."""
        values: dict[str, Any] = {"message": self.message}
        if self.counts is not None:
            values[self.counts] = schema.trials.c[self.counts] + 1
        if self.batch_limit is not None:
            values["batch_limit"] = self.batch_limit
        return values
