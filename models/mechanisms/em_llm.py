"""EM-LLM: what was surprising begins an event, and a query reads the events most like it, and their neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.block_memory import BlockMemory, Blocks
from models.config import MOST, SlotConfig
from models.kernel import kernel
from models.mechanism import TIE, Trace, mechanism
from models.reference import unit_keys
from models.selective_memory import Mask, foremost, keep_and_ask, reference_foremost, reference_shares
from models.similarity import Similarities
from models.stream import Floats, Ints, Phase, Stream, unit

LONGEST = 128
"""Tokens after which an event ends, surprising or not, as in the original."""


class EMLLMConfig(SlotConfig):
    """Events cut at surprising tokens, retrieved by similarity and contiguity (EM-LLM, arXiv 2407.09450, Sec. 3).

    Kept: a token whose surprise exceeds mean + gamma standard deviations of those before it begins an event;
    borders are moved back to where they part the key similarities best, by modularity, within half an event on either
    side; each event has the mean key of its most influential tokens; a query reads the top events, the events beside
    these, and the newest, which is not over. Surprise is novelty here, 1 - the largest cosine with an earlier token: a
    memory alone has no -log p; and influence is similarity to the event's own tokens, for want of their queries.
    Left out: the first tokens as sinks, a local window of fixed length, a shortest event, and that neighbours stay for
    the queries after. Similarities below 0 count as 0, so that modularity is defined.
    """

    name: Literal["em_llm"] = "em_llm"
    gamma: float = Field(1.0, ge=-10.0, le=10.0, description="threshold of surprise, in standard deviations")
    window: int = Field(64, ge=1, le=MOST, description="tokens before one, whose surprise its own is compared with")
    refine: bool = Field(True, description="move borders to the greatest modularity")
    representatives: int = Field(
        4, ge=1, le=MOST, description="tokens whose mean key stands for an event; all if there are fewer"
    )
    events: int = Field(4, ge=1, le=MOST, description="events read for a query by similarity; all if there are fewer")
    contiguity: int = Field(1, ge=0, le=MOST, description="events read on either side of each of these")


@mechanism(EMLLMConfig)
class EMLLM(BlockMemory[EMLLMConfig]):
    """Write O(N d), find events O(N w + N e d) at a phase end, read O((m + tokens read) d).

    For a window of w tokens, m events, and e tokens in an event, 128 at most before borders move. Size grows with the
    stream: all tokens, and for each event a key and where it begins. The first token begins an event. A border stays
    where it is unless another is better by more than 1e-9; of several the latest is taken. Ties: the oldest events are
    read, and the oldest tokens represent one.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("gamma", "window", "refine", "representatives", "events", "contiguity")
    compares_tokens: ClassVar[bool] = True
    border_bytes: ClassVar[int] = 4

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.surprise = np.ones(len(stream))

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        super().write(similarities, start, stop)
        note_novelty(similarities.rows(start, stop), start, self.surprise)

    def divide(self, keys: Floats, config: EMLLMConfig) -> Blocks:
        borders = surprising(self.surprise[: len(keys)], config.gamma, config.window)
        if config.refine:
            borders = refined(keys, borders)
        events = [keys[start:stop] for start, stop in zip(borders, [*borders[1:], len(keys)], strict=True)]
        representatives = [representative(event, config.representatives) for event in events]
        return Blocks(np.append(borders, len(keys)), np.array(representatives))

    def chosen(self, scores: Floats, config: EMLLMConfig) -> Mask:
        found = foremost(scores, config.events)
        read = found.copy()
        for distance in range(1, min(config.contiguity, found.shape[1] - 1) + 1):
            read[:, distance:] |= found[:, :-distance]
            read[:, :-distance] |= found[:, distance:]
        read[:, -1] = True
        return read

    @classmethod
    def reference(cls, stream: Stream, config: EMLLMConfig, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        keys, trace = unit_keys(stream, dtype), Trace()
        surprise = [1.0 - max((keys[:t] @ keys[t]).tolist(), default=0.0) for t in range(len(keys))]

        def shares(phase: Phase) -> Iterator[Floats]:
            held = keys[: phase.end]
            borders = reference_surprising(surprise[: phase.end], config, trace)
            if config.refine:
                borders = reference_refined(held, borders, trace)
            events = [range(*pair) for pair in zip(borders, [*borders[1:], phase.end], strict=True)]
            means = np.array([reference_representative(held[event], config, trace) for event in events])
            for query in unit(phase.queries):
                found = reference_foremost(means @ query, config.events, trace)
                beside = min(config.contiguity, len(events))
                read = {near for b in found for near in range(b - beside, b + beside + 1)}
                tokens = [t for b, event in enumerate(events) if b in read or b == len(events) - 1 for t in event]
                yield reference_shares(held @ query, tokens, config.reading, trace)

        return keep_and_ask(stream, trace, shares)


@kernel
def note_novelty(cosines: Floats, start: int, novelty: Floats) -> None:
    """Novelty of tokens `start` and later, by their cosines [b, start + b] with all tokens up to the last of them."""
    for row in range(len(cosines)):
        nearest = 0.0 if start + row == 0 else -1.0
        for earlier in range(start + row):
            nearest = max(nearest, cosines[row, earlier])
        novelty[start + row] = 1.0 - nearest


@kernel
def count_surprising(surprise: Floats, gamma: float, window: int, borders: Ints) -> int:
    """Write the tokens that begin an event into `borders` [n], and count them."""
    count = 1
    borders[0] = 0
    for t in range(1, len(surprise)):
        before = surprise[max(0, t - window) : t]
        mean = before.mean()
        deviation = np.sqrt(((before - mean) ** 2).mean())
        if surprise[t] > mean + gamma * deviation + TIE or t - borders[count - 1] >= LONGEST:
            borders[count] = t
            count += 1
    return count


def surprising(surprise: Floats, gamma: float, window: int) -> Ints:
    """Tokens that begin an event: the first, those of great surprise, and those after an event of 128 tokens."""
    borders = np.empty(len(surprise), dtype=np.int64)
    return borders[: count_surprising(surprise, gamma, min(window, len(surprise)), borders)]


def similarity(keys: Floats) -> Floats:
    """Cosines of unit keys [n, d] with each other [n, n], 0 where they are negative."""
    return np.maximum(keys @ keys.T, 0.0)


def refined(keys: Floats, borders: Ints) -> Ints:
    """Borders, each moved back within its event, one after another, to where modularity is greatest."""
    moved = [0]
    for border in borders[1:].tolist():
        begin = moved[-1]
        reach = (border - begin) // 2
        first, last = max(0, begin - reach), min(len(keys), border + reach)
        scores = split_modularity(similarity(keys[first:last]))[begin + 1 - first : border + 1 - first]
        moved.append(border - int((scores[::-1] >= scores.max() - TIE).argmax()))
    return np.array(moved)


def split_modularity(weights: Floats) -> Floats:
    """Modularity [n + 1] of a graph of `weights` [n, n] parted into its first t nodes and the others, for each t.

    Newman and Girvan, Phys. Rev. E 69, 026113 (2004), Eq. 5; 0 throughout for a graph without weight.
    """
    total = weights.sum()
    if total == 0.0:
        return np.zeros(len(weights) + 1)
    degrees = np.append(0.0, np.cumsum(weights.sum(axis=1)))
    within = np.append(0.0, np.diagonal(weights.cumsum(axis=0).cumsum(axis=1)))
    others = total - 2.0 * degrees + within
    modularity: Floats = (within + others) / total - (degrees**2 + (total - degrees) ** 2) / total**2
    return modularity


def representative(keys: Floats, count: int) -> Floats:
    """Mean of the `count` keys of an event [n, d] that are most similar to all of it."""
    mean: Floats = keys[foremost(similarity(keys).sum(axis=1)[None], count)[0]].mean(axis=0)
    return mean


def reference_surprising(surprise: list[float], config: EMLLMConfig, trace: Trace) -> list[int]:
    """Tokens that begin an event."""
    borders = [0]
    for t in range(1, len(surprise)):
        before = surprise[max(0, t - config.window) : t]
        mean = math.fsum(before) / len(before)
        deviation = math.sqrt(math.fsum((one - mean) ** 2 for one in before) / len(before))
        gap = surprise[t] - mean - config.gamma * deviation
        trace.decide(gap if abs(gap) > TIE else 0.0)
        if gap > TIE or t - borders[-1] >= LONGEST:
            borders.append(t)
    return borders


def reference_refined(keys: Floats, borders: list[int], trace: Trace) -> list[int]:
    """Borders moved to the greatest modularity, the latest within a tie."""
    moved = [0]
    for border in borders[1:]:
        begin = moved[-1]
        reach = (border - begin) // 2
        first, last = max(0, begin - reach), min(len(keys), border + reach)
        weights = np.maximum(keys[first:last] @ keys[first:last].T, 0.0)
        places = range(border, begin, -1)
        scores = [reference_modularity(weights, place - first) for place in places]
        moved.append(places[reference_foremost(scores, 1, trace)[0]])
    return moved


def reference_modularity(weights: Floats, split: int) -> float:
    """Modularity of a graph parted before node `split`: the weight within parts beyond what degrees give by chance."""
    total = weights.sum()
    degrees = weights.sum(axis=1)
    if total == 0.0:
        return 0.0
    excess = weights / total - np.outer(degrees, degrees) / total**2
    return float(excess[:split, :split].sum() + excess[split:, split:].sum())


def reference_representative(keys: Floats, config: EMLLMConfig, trace: Trace) -> Floats:
    """Mean of the keys of an event that are most similar to all of it."""
    influence = [math.fsum(np.maximum(keys @ key, 0.0)) for key in keys]
    mean: Floats = keys[reference_foremost(influence, config.representatives, trace)].mean(axis=0)
    return mean
