"""Full attention: every token is kept and read by softmax."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from models.config import SlotConfig
from models.mechanism import Trace, mechanism
from models.reference import keep_all
from models.similarity import Similarities
from models.stream import Stream
from models.token_memory import TokenMemory


class FullAttentionConfig(SlotConfig):
    """Full attention over all N tokens, the upper reference in recall and in size (arXiv 1706.03762, Eq. 1)."""

    name: Literal["full_attention"] = "full_attention"


@mechanism(FullAttentionConfig)
class FullAttention(TokenMemory[FullAttentionConfig]):
    """Append O(1), read O(N d). Size grows with the stream."""

    compares_tokens: ClassVar[bool] = False

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        self.append(start, stop)

    @classmethod
    def reference(
        cls, stream: Stream, config: FullAttentionConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        return keep_all(stream)
