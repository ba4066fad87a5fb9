"""What is to be said of settings that can be run, and are hardly what was meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.kinds.tuning import TuningConfig
from tasks.workload import WORKLOADS

if TYPE_CHECKING:
    from orchestrator.plan import Plan


def doubts(plan: Plan) -> tuple[str, ...]:
    """A sentence on each doubtful setting of `plan`; where fields are searched, of its workloads alone."""
    return tuple(dict.fromkeys(_all(plan)))


def _all(plan: Plan) -> Iterator[str]:
    searched = isinstance(plan.spec.options, TuningConfig)
    for workload in plan.spec.workloads():
        for doubt in workload.doubts():
            yield f"{workload.name}: {doubt}"
        implementation = WORKLOADS.implementation(workload.name)
        if searched or not implementation.makes_ids:
            continue
        from models.sequence.config import SequenceConfig
        from tasks.sequences import SequenceWorkload

        assert issubclass(implementation, SequenceWorkload)
        (_, length), tested = implementation.lengths(workload), implementation.tested(workload)
        for mechanism in plan.spec.mechanism_configs():
            if isinstance(mechanism, SequenceConfig):
                yield from (f"{mechanism.name}: {doubt}" for doubt in mechanism.doubts(length, tested))
