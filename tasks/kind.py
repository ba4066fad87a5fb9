"""The seam every job type meets: how its trials are computed, and what a sweep of them says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from models.config import Config, MechanismConfig
from models.devices.device import DEVICE_CLASSES, DeviceClass
from models.registry import Registry

if TYPE_CHECKING:
    from tasks.cells import Row
    from tasks.evaluate import Outcome
    from tasks.fitting import Fits
    from tasks.search import Proposal, StudyLabel
    from tasks.sequential import SeedsUntil
    from tasks.summary import Summary
    from tasks.training import Lane, TrainingRun
    from tasks.workload import Workload


class KindConfig(Config):
    """Options a job type has: its name. Others stand at the top of a spec."""


@dataclass(frozen=True)
class Asked:
    """What a sweep was asked for beside its trials.

    options    of its job type; None: none
    until      seeds were added until this held; None: their number was given
    studies, proposals   of a sweep that tunes, proposals study by study in the order in which they were made
    """

    options: KindConfig | None = None
    until: SeedsUntil | None = None
    studies: tuple[StudyLabel, ...] = ()
    proposals: tuple[Proposal, ...] = ()


NOTHING_ASKED = Asked()


class Kind(ABC):
    """A job type. Nothing of it is made: a spec names it, and its methods are asked."""

    evaluator: ClassVar[str] = "tasks.evaluate"
    """The module that turns a trial into metrics. Its code is part of a trial's key; the job type's name is not, so
    that a trial which one sweep computed serves sweeps of every kind with the same evaluator."""

    device_evaluator: ClassVar[str] = "tasks.evaluate_device"
    """The module that does the same on an accelerator."""

    measures_time: ClassVar[bool] = False
    """True where trials measure time: they run one after another, seed by seed in random order, on a node that computes
    nothing else, and the machine belongs to a trial's key."""

    sequences: ClassVar[bool] = False
    """True where workloads may make token ids, which sequence models are trained on."""

    sequence_evaluator: ClassVar[str] = "tasks.training"
    """The module that turns a trial of a sequence model into metrics."""

    sequence_episodes: ClassVar[int | None] = None
    """Episodes of a trial of a sequence model when the spec does not say; None: what the workload says."""

    proposes: ClassVar[bool] = False
    """True where the trials of a sweep follow from its results: mechanisms and workloads are searched."""

    starter: ClassVar[str]
    """The text of a commented spec to begin with."""

    @classmethod
    def evaluate(
        cls,
        workload: Workload[Any],
        mechanisms: Sequence[MechanismConfig],
        seed: int,
        episodes: int,
        dtype: str,
        timeout: float | None,
        fits: Fits,
    ) -> list[Outcome]:
        """What becomes of the trials (workload, mechanism, seed) of `mechanisms`; as `tasks.evaluate.evaluate`.

        fits: what those of them that are trained have learned
        """
        from tasks.evaluate import evaluate

        return evaluate(workload, mechanisms, seed, episodes, dtype, timeout, fits)

    @classmethod
    def train(cls, run: TrainingRun, lanes: Sequence[Lane]) -> list[Outcome]:
        """What becomes of trials of sequence models; as `tasks.training.train`."""
        from tasks.training import train

        return train(run, lanes)

    @classmethod
    def devices(cls) -> tuple[DeviceClass, ...]:
        """Device classes on which its trials can run: the CPU alone if only `evaluate` is its own."""
        one, many = (
            getattr(cls, name).__func__ is getattr(Kind, name).__func__ for name in ("evaluate", "evaluate_on")
        )
        return DEVICE_CLASSES if one or not many else ("cpu",)

    @classmethod
    def evaluate_on(
        cls,
        device: DeviceClass,
        workload: Workload[Any],
        mechanisms: Sequence[MechanismConfig],
        seeds: Sequence[int],
        episodes: int,
        dtype: str,
        timeout: float | None,
        fits: Fits,
    ) -> list[list[Outcome]]:
        """As `evaluate`, of all `seeds` at once on a device, one list a seed: see `tasks.evaluate_device`."""
        from tasks.evaluate_device import evaluate_on

        return evaluate_on(device, workload, mechanisms, seeds, episodes, dtype, timeout, fits)

    @classmethod
    @abstractmethod
    def summarise(cls, rows: Sequence[Row], asked: Asked = NOTHING_ASKED) -> Summary:
        """What the trials of a sweep say, from one row a trial (see `tasks.frontier.summarise`)."""


KINDS: Registry[Kind] = Registry("kind", "tasks.kinds", "slotsweep.kinds")
kind = KINDS.register
