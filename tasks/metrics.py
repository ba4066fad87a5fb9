"""Names of the metrics that trials have, by mechanism: what a study may aim at, and an interval be narrow for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from models.mechanism import MECHANISMS
from tasks.evaluate import SUMMED_METRICS
from tasks.sequences import SequenceWorkload
from tasks.training import TRAINED_METRICS
from tasks.workload import WORKLOADS


def metrics_of(mechanism: str, workloads: Sequence[str]) -> tuple[str, ...]:
    """The metrics of trials of a mechanism, on whichever of these workloads, times left out.

    Those of its own may be absent where nothing gives them.
    """
    implementation = MECHANISMS.implementation(mechanism)
    if not implementation.reads_ids:
        made = [WORKLOADS.implementation(name) for name in workloads]
        added = _shared([() if one.makes_ids else one.own_metrics for one in made])
        return (*SUMMED_METRICS, *implementation.own_metrics, *added)
    each = [one.own_metrics for one in map(WORKLOADS.implementation, workloads) if issubclass(one, SequenceWorkload)]
    return (*_shared(each), *TRAINED_METRICS, *implementation.own_metrics)


def shared_metrics(mechanisms: Iterable[str], workloads: Sequence[str]) -> tuple[str, ...]:
    """The metrics that trials of all of these have."""
    return _shared([metrics_of(name, workloads) for name in mechanisms])


def _shared(each: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    every = dict.fromkeys(name for names in each for name in names)
    return tuple(name for name in every if all(name in names for names in each))
