"""Full attention: every token is kept and read by softmax."""

from __future__ import annotations

from typing import Literal

import numpy as np

from models.config import MechanismConfig
from models.mechanism import SlotMemory, Trace, mechanism
from models.similarity import Similarities
from models.stream import Stream


class FullAttentionConfig(MechanismConfig):
    """Full attention over all N tokens, the upper reference in recall and in size (arXiv 1706.03762, Eq. 1)."""

    name: Literal["full_attention"] = "full_attention"


@mechanism(FullAttentionConfig)
class FullAttention(SlotMemory[FullAttentionConfig]):
    """Append O(1), read O(N d). Size grows with the stream."""

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        self.tokens[:, start:stop] = np.arange(start, stop)
        self.values[:, start:stop] = self.stream.values[start:stop]
        self.counts_[:] = stop
        self.usage_.held += sum(range(start + 1, stop + 1))
        self.usage_.peak[:] = stop

    @classmethod
    def reference(
        cls, stream: Stream, config: FullAttentionConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        trace = Trace()
        for phase in stream.phases:
            trace.tokens.append(list(range(phase.end)))
            trace.values.append([int(value) for value in stream.values[: phase.end]])
        for count in range(1, stream.phases[-1].end + 1):
            trace.count(count)
        return trace
