"""How tests read streams with mechanisms, and what a read should give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models.config import MechanismConfig
from models.mechanism import MECHANISMS, TIE, Mechanism
from models.reference import cosine
from models.similarity import Similarities
from models.stream import Floats, Phase, Stream, unit


@pytest.fixture(scope="session")
def lab() -> SimpleNamespace:
    """Everything below, by name: test modules cannot import each other."""
    return SimpleNamespace(
        config=config,
        mechanism=mechanism,
        plain_read=plain_read,
        plain_read_scores=plain_read_scores,
        plain_read_state=plain_read_state,
        read=read,
        read_one=read_one,
        recall_stream=recall_stream,
        stream=stream,
    )


@dataclass
class Reading:
    """What one config held at each phase end, what it answered there, and its use of slots."""

    tokens: list[list[int]] = field(default_factory=list)
    values: list[list[int]] = field(default_factory=list)
    keys: list[Floats] = field(default_factory=list)
    states: list[Floats] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    answers: list[Floats] = field(default_factory=list)
    held: int = 0
    peak: int = 0


def config(name: str, **fields: Any) -> MechanismConfig:
    made = MECHANISMS.config_class(name)(name=name, **fields)
    assert isinstance(made, MechanismConfig)
    return made


def mechanism(name: str, *configs: dict[str, Any]) -> Mechanism[Any]:
    return MECHANISMS.implementation(name)([config(name, **fields) for fields in configs])


def read(group: Mechanism[Any], stream: Stream, seed: int = 0, dtype: str = "float32") -> list[Reading]:
    """Let a group of configs read a stream as a worker does; one reading a config."""
    readings = [Reading() for _ in group.configs]
    similarities = Similarities(stream, dtype)
    group.start(stream, np.random.default_rng(seed))
    for start, stop, phase in similarities.segments():
        group.write(similarities, start, stop)
        if phase is not None:
            group.settle(similarities, stop)
            answers = [group.answer(block, phase) for block in similarities.query_blocks(phase)]
            for c, reading in enumerate(readings):
                _note(reading, group, c, np.concatenate(answers, axis=1)[c] if answers else np.empty(0))
    for c, reading in enumerate(readings):
        reading.held, reading.peak = int(group.usage().held[c]), int(group.usage().peak[c])
    return readings


def _note(reading: Reading, group: Mechanism[Any], c: int, answers: Floats) -> None:
    count = int(group.counts()[c])
    reading.counts.append(count)
    reading.answers.append(answers)
    if hasattr(group, "states"):
        reading.states.append(group.states[c].copy())
    if hasattr(group, "contents"):
        contents = group.contents()
        reading.tokens.append(contents.tokens[c, :count].tolist())
        reading.values.append(contents.values[c, :count].tolist())
        if contents.keys is not None:
            reading.keys.append(contents.keys[c, :count].copy())


def read_one(name: str, stream: Stream, **fields: Any) -> Reading:
    return read(mechanism(name, fields), stream)[0]


def stream(
    keys: Any,
    values: Any = None,
    *,
    items: Any = None,
    ends: Sequence[int] = (),
    queries: Any = None,
    answers: Any = None,
    asked_items: Any = None,
    classes: int | None = None,
    lines: Sequence[Sequence[str]] | None = None,
) -> Stream:
    """A stream of `keys` [L, d]; unless told otherwise each token is an item, a class and a query of every phase.

    Unless told otherwise each token has a log line: the words of its item, and one word of its own.
    """
    keys = np.array(keys, dtype=np.float64)
    values = np.arange(len(keys)) if values is None else np.array(values, dtype=np.int64)
    items = np.arange(len(keys)) if items is None else np.array(items, dtype=np.int64)
    queries = keys if queries is None else np.array(queries, dtype=np.float64)
    answers = np.resize(values, len(queries)) if answers is None else np.array(answers, dtype=np.int64)
    asked = np.resize(items, len(queries)) if asked_items is None else np.array(asked_items, dtype=np.int64)
    counted = np.arange(len(queries))
    phases = tuple(Phase(end, queries, answers, asked, counted) for end in ends or (len(keys),))
    classes = int(values.max()) + 1 if classes is None else classes
    if lines is None:
        lines = [("item", str(i % 5), f"x{i // 5}", *(["more"] * (i % 3)), f"n{t}") for t, i in enumerate(items)]
    return Stream(keys, values, items, phases, classes, 1.0 / classes, tuple(map(tuple, lines)))


def recall_stream(
    seed: int, *, items: int = 64, repeats: int = 4, classes: int = 16, dim: int = 32, noise: float = 0.3
) -> Stream:
    """Associative recall as in arXiv 2607.09889, Sec. 3.1.1: every item asked once, at the end, by its clean key."""
    rng = np.random.default_rng(seed)
    base = unit(rng.standard_normal((items, dim)))
    order = rng.permutation(np.repeat(np.arange(items), repeats))
    keys = unit(base[order] + noise * rng.standard_normal((len(order), dim)) / math.sqrt(dim))
    labels = rng.integers(classes, size=items)
    return stream(
        keys, labels[order], items=order, queries=base, answers=labels, asked_items=np.arange(items), classes=classes
    )


def plain_read(
    query: Floats, keys: Sequence[Floats], values: Sequence[int], temperature: float | str, nearest: int | None = None
) -> tuple[int, float]:
    """Class read for a unit query from slots in order, and the gap by which it won (exact ties do not count)."""
    cosines = [cosine(query, key) for key in keys]
    if temperature == "argmax":
        nearest, temperature = 1, 1.0
    assert isinstance(temperature, float)
    border = sorted(cosines, reverse=True)[min(nearest or len(keys), len(keys)) - 1]
    clear = [slot for slot, similarity in enumerate(cosines) if similarity > border + TIE]
    tied = [slot for slot, similarity in enumerate(cosines) if abs(similarity - border) <= TIE]
    gaps = [abs(similarity - border) for similarity in cosines if abs(similarity - border) > TIE] if nearest else []
    votes: dict[int, list[float]] = {}
    for slot in clear + tied[: None if nearest is None else nearest - len(clear)]:
        votes.setdefault(values[slot], []).append(math.exp((cosines[slot] - 1.0) / temperature))
    shares = {value: math.fsum(weights) for value, weights in votes.items()}
    most = max(shares.values())
    best = min(value for value, share in shares.items() if share >= most * (1.0 - TIE))
    gaps += [1.0 - share / most for share in shares.values() if share < most * (1.0 - TIE)]
    return best, min(gaps, default=math.inf)


def plain_read_state(features: Floats, state: Floats) -> tuple[int | None, float]:
    """Class read for a query's features from a state matrix, and the gap by which it won, relative to its scale.

    None if the state is zero.
    """
    longest = max(math.hypot(*column) for column in state.T)
    if longest <= TIE:
        return None, math.inf
    scores = [math.fsum(x * y for x, y in zip(features, column, strict=True)) for column in state.T]
    scale = math.hypot(*features) * longest or 1.0
    most = max(scores)
    best = next(c for c, score in enumerate(scores) if score >= most - TIE * scale)
    return best, min(((most - score) / scale for score in scores if score < most - TIE * scale), default=math.inf)


def plain_read_scores(scores: Floats) -> tuple[int | None, float]:
    """Class with the largest of a query's scores, and the gap by which it won; None if all are 0."""
    largest = max(abs(score) for score in scores)
    if largest == 0.0:
        return None, math.inf
    most = max(scores)
    best = next(c for c, score in enumerate(scores) if score >= most - TIE * largest)
    return best, min(((most - score) / largest for score in scores if score < most - TIE * largest), default=math.inf)
