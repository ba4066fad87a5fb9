"""Random numbers: every draw descends from a trial's seed through named children."""

from __future__ import annotations

import zlib

import numpy as np


def generator(seed: int, name: str, *path: int) -> np.random.Generator:
    """A generator for the child `name` (stream, queries, mechanism, init) of `seed`, at `path` below it (episode, ...).

    Children are independent of each other, of the order in which they are made, and of how many are made.
    """
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()), *path)))
    )
