"""What a memory answers from what its reference held at a phase end: float64, query by query, for comparing."""

from __future__ import annotations

import math

import numpy as np

from models.config import MechanismConfig, SlotConfig
from models.fixed_state import FixedState
from models.mechanism import TIE, SlotMemory, Trace, stream_reader
from models.reference import unit_keys
from models.stream import Floats, Ints, Stream, unit

Answer = tuple[int | None, float]
"""The class read, None where the memory abstains; and the gap, as in `Trace.margin`, by which it won."""


def answers_by_rule(config: MechanismConfig) -> bool:
    """Whether a mechanism neither reads slots nor multiplies a whole state, but answers by a rule of its own."""
    return not issubclass(stream_reader(config.name), FixedState | SlotMemory)


def reference_answers(stream: Stream, config: MechanismConfig, trace: Trace, number: int, dtype: str) -> list[Answer]:
    """An answer to each query of phase `number` (from 0), as `trace` left the memory then.

    Raises TypeError where `answers_by_rule` is true and the trace has neither scores nor what its states are read with.
    """
    if trace.scores:
        return [read_scores(row) for row in trace.scores[number]]
    implementation = stream_reader(config.name)
    queries = unit(stream.phases[number].queries)
    if trace.query_features:
        return [read_state(row, trace.states[number][:, -stream.classes :]) for row in trace.query_features[number]]
    if issubclass(implementation, FixedState):
        return [read_state(row, trace.states[number]) for row in implementation([config]).features(queries)]
    if not isinstance(config, SlotConfig):
        raise TypeError(f"`{config.name}` answers by a rule of its own")
    keys = unit_keys(stream, dtype)[trace.tokens[number]] if trace.keys is None else trace.keys[number]
    values = np.array(trace.values[number], dtype=np.int64)
    nearest = 1 if config.reading == "argmax" else getattr(config, "k", None)
    temperature = 1.0 if config.reading == "argmax" else config.reading
    if not len(keys):
        return [(None, math.inf)] * len(queries)
    return [read_slots(keys @ query, values, temperature, nearest) for query in queries]


def read_slots(cosines: Floats, values: Ints, temperature: float, nearest: int | None) -> Answer:
    """Class with most softmax weight over slots (of the `nearest` alone, the oldest where these tie)."""
    if nearest is not None and nearest < len(cosines):
        border = np.sort(cosines)[-nearest]
        clear, tied = np.flatnonzero(cosines > border + TIE), np.flatnonzero(np.abs(cosines - border) <= TIE)
        read = np.concatenate([clear, tied[: nearest - len(clear)]])
        others = np.abs(cosines - border)
        gap = float(others[others > TIE].min(initial=math.inf))
    else:
        read, gap = np.arange(len(cosines)), math.inf
    weights = np.exp((cosines[read] - 1.0) / temperature)
    shares = {int(value): float(weights[values[read] == value].sum()) for value in np.unique(values[read])}
    most = max(shares.values())
    clear_losers = [1.0 - share / most for share in shares.values() if share < most * (1.0 - TIE)]
    winner = min(value for value, share in shares.items() if share >= most * (1.0 - TIE))
    return winner, min([gap, *clear_losers])


def read_state(features: Floats, state: Floats) -> Answer:
    """Class with the largest score under a query's `features` [rows] of `state` [rows, classes]."""
    longest = float(np.linalg.norm(state, axis=0).max())
    if longest <= TIE:
        return None, math.inf
    scores = features @ state
    scale = float(np.linalg.norm(features)) * longest or 1.0
    behind = (scores.max() - scores) / scale
    return int(np.flatnonzero(behind <= TIE)[0]), float(behind[behind > TIE].min(initial=math.inf))


def read_scores(scores: Floats) -> Answer:
    """Class with the largest of a query's `scores` [classes]."""
    largest = float(np.abs(scores).max())
    if largest == 0.0:
        return None, math.inf
    behind = (scores.max() - scores) / largest
    return int(np.flatnonzero(behind <= TIE)[0]), float(behind[behind > TIE].min(initial=math.inf))
