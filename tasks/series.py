"""Names of the series of a trial: which of them tells at what steps of a training the numbers of another were noted."""

from __future__ import annotations

STEPS = "_step"


def steps_name(series: str) -> str:
    """The series of the steps of `series`, where there is one: `training_step` for `training_loss`."""
    return series.partition("_")[0] + STEPS
