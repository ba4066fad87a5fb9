"""Names of the metrics that trials have, by mechanism: what a study may aim at, and an interval be narrow for."""

from __future__ import annotations

from collections.abc import Iterable

from models.mechanism import MECHANISMS
from tasks.evaluate import SUMMED_METRICS


def metrics_of(mechanism: str) -> tuple[str, ...]:
    """The metrics of trials of a mechanism, times left out. Those of its own may be absent where nothing gives them."""
    return (*SUMMED_METRICS, *MECHANISMS.implementation(mechanism).own_metrics)


def shared_metrics(mechanisms: Iterable[str]) -> tuple[str, ...]:
    """The metrics that trials of all of these have."""
    each = [metrics_of(name) for name in mechanisms]
    return tuple(
        name for name in dict.fromkeys(name for names in each for name in names) if all(name in n for n in each)
    )
