"""What workers sent back, on its way from their reports to the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from orchestrator.store.records import AttemptReport, TrialResult
from workers.batch import BatchReport, TrialReport


@dataclass(frozen=True)
class Returned:
    """A batch that `worker` sent back, with the trials of it that failed and that are done.

    suspected: the worker may be at fault, so that what failed is to be tried by another one
    """

    worker: str
    report: BatchReport
    failed: frozenset[int]
    done: frozenset[int]
    suspected: bool

    def as_stored(self) -> AttemptReport:
        """It as the store takes it."""
        return AttemptReport(
            self.report.attempt,
            self.worker,
            tuple(map(_result, self.report.trials)),
            "\n".join(self.report.log) or None,
            second_opinion=self.suspected,
        )


def stored_together(returned: Iterable[Returned], trials: int) -> Iterator[list[Returned]]:
    """`returned` in groups, in order, that end with their first batch that makes them have so many trials."""
    group: list[Returned] = []
    held = 0
    for one in returned:
        group.append(one)
        held += len(one.report.trials)
        if held >= trials:
            yield group
            group, held = [], 0
    if group:
        yield group


def _result(trial: TrialReport) -> TrialResult:
    return TrialResult(
        trial=trial.trial,
        metrics=trial.outcome.metrics,
        reason=trial.outcome.reason,
        message=trial.outcome.message,
        started=trial.started,
        finished=trial.finished,
        wall_seconds=trial.wall_seconds,
        cpu_seconds=trial.cpu_seconds,
        peak_memory_bytes=trial.peak_memory_bytes,
        series=trial.outcome.series,
        energy_joules=trial.energy_joules,
        energy_reason=trial.energy_reason,
        device_memory_bytes=trial.device_memory_bytes,
        own_seconds=trial.own_seconds,
    )
