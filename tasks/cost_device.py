"""What mechanisms cost on an accelerator: the time to build and to read, for one stream alone and for many at once.

Repeats, their random order and the untimed first round are those of `tasks.cost`; every time is taken once the device
has done all that it was given (`tasks.evaluate_device`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from models.config import MechanismConfig
from models.devices.device import DeviceClass
from models.stream import Stream
from tasks.cost import Measured, TrialFailedError
from tasks.cost_batch import BATCHES
from tasks.evaluate import Outcome
from tasks.evaluate_device import evaluate_on
from tasks.fitting import Fits
from tasks.seeds import generator
from tasks.workload import WORKLOADS, Workload

SIZES = ("tokens", "items", "slots", "bytes")


def measure_on(
    device: DeviceClass,
    workload: Workload[Any],
    mechanisms: Sequence[MechanismConfig],
    seeds: Sequence[int],
    episodes: int,
    dtype: str,
    timeout: float | None,
    fits: Fits,
) -> list[list[Outcome]]:
    """Outcomes of the trials (workload, mechanism, seed), each over `episodes` repeats; one list a seed.

    Metrics are those of `tasks.cost.measure` as far as a device has them: `build_us_per_token` and
    `read_us_per_query` of one stream, all its queries at once; `build_64_us_per_token` and `read_64_us_per_query` a
    token and a query of 64 streams that are read at once, and so on for each of BATCHES. Streams so long that not all
    fit at once are read in parts.
    """
    return [
        [trial.outcome() for trial in _measure(device, workload, mechanisms, seed, episodes, dtype, timeout, fits)]
        for seed in seeds
    ]


def _measure(
    device: DeviceClass,
    workload: Workload[Any],
    mechanisms: Sequence[MechanismConfig],
    seed: int,
    episodes: int,
    dtype: str,
    timeout: float | None,
    fits: Fits,
) -> list[_Trial]:
    trials = [_Trial(config, timeout, device, dtype, fits) for config in mechanisms]
    for repeat in range(-1, episodes):
        streams = _From(workload, max(repeat, 0) * max(BATCHES))
        for index in generator(seed, "order", repeat + 1).permutation(len(trials)):
            trials[index].guard(trials[index].run, streams, seed, repeat >= 0)
    return trials


class _From(Workload[Any]):
    """A workload whose episodes are counted from another one."""

    def __init__(self, workload: Workload[Any], first: int) -> None:
        super().__init__(workload.config)
        self._workload = workload
        self._first = first

    def stream(self, seed: int, episode: int) -> Stream:
        return self._workload.stream(seed, self._first + episode)

    @classmethod
    def tokens(cls, config: Any) -> int:
        return WORKLOADS.implementation(config.name).tokens(config)


class _Trial(Measured):
    """One mechanism on a device."""

    def __init__(
        self, config: MechanismConfig, timeout: float | None, device: DeviceClass, dtype: str, fits: Fits
    ) -> None:
        super().__init__(config, timeout)
        self._device, self._dtype, self._fits = device, dtype, fits

    def run(self, streams: Workload[Any], seed: int, timed: bool) -> None:
        """Build and read once for each number of streams at once."""
        for batch in BATCHES:
            [[outcome]] = evaluate_on(
                self._device, streams, [self.config], [seed], batch, self._dtype, None, self._fits
            )
            if outcome.metrics is None:
                raise TrialFailedError(outcome)
            if timed:
                self._note(outcome.metrics, batch)

    def _note(self, metrics: dict[str, float], batch: int) -> None:
        at_once = "" if batch == 1 else f"_{batch}"
        for step, unit in (("build", "us_per_token"), ("read", "us_per_query")):
            self.times[f"{step}{at_once}_{unit}"].append(metrics[f"{step}_{unit}"] / 1e6)
        if batch == 1:
            for name in SIZES:
                self.sizes[name].append(metrics[name])
