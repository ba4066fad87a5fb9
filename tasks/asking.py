"""Asking at the end: what the streams of most synthetic workloads have in common after their tokens."""

from __future__ import annotations

from models.stream import Floats, Ints, Phase, Stream
from tasks.keys import noisy
from tasks.seeds import generator


def asked_at_the_end(
    keys: Floats,
    values: Ints,
    items: Ints,
    *,
    asked: Ints,
    clean: Floats,
    answers: Ints,
    classes: int,
    query_noise: float,
    seed: int,
    episode: int,
) -> Stream:
    """A stream of uniform classes with one phase, at whose end each of the items `asked` [K] is asked by its key
    `clean` [K, d] for its class `answers` [K]; `recall` counts one of them, drawn uniformly.

    keys [L, d], values [L], items [L]: the tokens
    """
    rng = generator(seed, "queries", episode)
    counted = rng.integers(len(asked), size=1)
    phase = Phase(len(items), noisy(clean, query_noise, rng), answers, asked, counted)
    return Stream(keys, values, items, (phase,), classes, chance=1.0 / classes)
