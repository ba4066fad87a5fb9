"""Landmark attention: blocks of tokens are found by one key each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.block_memory import BlockMemory, Blocks
from models.config import MOST, SlotConfig
from models.mechanism import Trace, mechanism
from models.reference import unit_keys
from models.selective_memory import Mask, foremost, keep_and_ask, reference_foremost, reference_shares
from models.stream import Floats, Phase, Stream, unit


class LandmarkAttentionConfig(SlotConfig):
    """Blocks of tokens, retrieved by a landmark each (Landmark Attention, arXiv 2305.16300, Sec. 3).

    Kept: blocks of equal length, the top blocks of each query by its product with their landmarks, attention inside.
    Left out: landmarks are tokens whose keys are trained; here a block's landmark is the mean of its unit keys, and as
    nothing has trained it to, it does not weigh the tokens inside (grouped softmax): one softmax reads all tokens of
    the chosen blocks. The newest block, however short, has a landmark too, and is not read unless chosen.
    """

    name: Literal["landmark_attention"] = "landmark_attention"
    block_size: int = Field(50, ge=1, le=MOST, description="length of a block, in tokens")
    blocks: int = Field(4, ge=1, le=MOST, description="blocks read for a query; all if there are fewer")


@mechanism(LandmarkAttentionConfig)
class LandmarkAttention(BlockMemory[LandmarkAttentionConfig]):
    """Append O(d), read O((N/l + k l) d) for k blocks of l tokens. Size grows with the stream: tokens and landmarks.

    Ties at the k-th place: the oldest blocks are read.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("block_size", "blocks")

    def divide(self, keys: Floats, config: LandmarkAttentionConfig) -> Blocks:
        starts = np.arange(0, len(keys), config.block_size)
        borders = np.append(starts, len(keys))
        return Blocks(borders, np.add.reduceat(keys, starts, axis=0) / np.diff(borders)[:, None])

    def chosen(self, scores: Floats, config: LandmarkAttentionConfig) -> Mask:
        return foremost(scores, config.blocks)

    @classmethod
    def reference(
        cls, stream: Stream, config: LandmarkAttentionConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        keys, trace = unit_keys(stream, dtype), Trace()

        def shares(phase: Phase) -> Iterator[Floats]:
            held = range(phase.end)
            blocks = [held[first : first + config.block_size] for first in range(0, phase.end, config.block_size)]
            landmarks = np.array([keys[block].mean(axis=0) for block in blocks])
            for query in unit(phase.queries):
                read = reference_foremost(landmarks @ query, config.blocks, trace)
                tokens = [token for b in read for token in blocks[b]]
                yield reference_shares(keys[: phase.end] @ query, tokens, config.reading, trace)

        return keep_and_ask(stream, trace, shares)
