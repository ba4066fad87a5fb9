"""The seam every sequence model meets: a config under `mechanisms:`, and the module that it describes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from models.mechanism import AnyMechanism
from models.sequence.config import SequenceConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel

S = TypeVar("S", bound=SequenceConfig)


class SequenceMechanism(AnyMechanism, ABC, Generic[S]):
    """A sequence model by name. Nothing of it is made: `build` makes the module, which needs torch."""

    batch_over: ClassVar[tuple[str, ...]] = SequenceConfig.rates
    trained: ClassVar[bool] = True
    reads_ids: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def build(cls, config: S, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        """The model that `config` describes, with parameters to begin with.

        lanes: one for each seed; vocabulary: ids are 0 .. vocabulary - 1; length: of the longest sequence
        """


AnySequenceMechanism = SequenceMechanism[Any]
