"""A sequence of token ids as the stream that a memory of what followed which token is given."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from models.stream import Floats, Ints, Phase, Stream
from tasks.keys import random_keys
from tasks.seeds import generator
from tasks.sequences import IGNORED


def neighbours(ids: Ints, targets: Ints, places: Ints, vectors: Floats, chance: float) -> Stream:
    """Token i of the stream has the vector of id i as its key, and id i + 1 as its value.

    ids      [T]     the sequence
    targets  [P]     what should follow at each of `places` [P], or IGNORED; the id that stands there asks for it
    vectors  [V, d]  of length 1, one an id

    As in a trained model (`models.sequence.memory`), id t may read what ended before it: tokens up to t - 2. A phase
    ends where an id asks. What comes after the last is left out: nobody asks for it.
    """
    asked = places[targets != IGNORED]
    phases = tuple(
        Phase(
            end=int(place) - 1,
            queries=vectors[ids[place : place + 1]],
            answers=np.array([answer]),
            items=ids[place : place + 1],
            asked=np.zeros(1, dtype=np.int64),
        )
        for place, answer in zip(asked, targets[targets != IGNORED], strict=True)
    )
    length = phases[-1].end
    return Stream(vectors[ids[:length]], ids[1 : length + 1], ids[:length], phases, len(vectors), chance)


@lru_cache(maxsize=4)
def id_vectors(seed: int, vocabulary: int, dim: int) -> Floats:
    """Random directions [V, d] for the ids of all episodes of a trial with `seed`, as a model has one table of them."""
    vectors = random_keys(vocabulary, dim, generator(seed, "stream"))
    vectors.flags.writeable = False
    return vectors
