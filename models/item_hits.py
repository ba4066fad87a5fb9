"""Hits by item: tokens whose item is held when they come, whatever their keys."""

from __future__ import annotations

import numpy as np

from models.kernel import kernel
from models.stream import Floats, Ints, Stream

HITS = "hits"
"""The metric: the share of tokens whose item is held when they come; the first of an item never is.

The kernels of the CPU count it, on streams in memory; device forms and reads in chunks do not.
"""

UNCOUNTED: Ints = np.empty(0, dtype=np.int64)
"""In place of items and of counts where no hits are counted."""


@kernel
def holder(item: int, tokens: Ints, count: int, items: Ints) -> int:
    """First slot, of `count` that store `tokens` [cap], opened by a token of `item`; -1 if none. items [n]: theirs."""
    for slot in range(count):
        if items[tokens[slot]] == item:
            return slot
    return -1


def hits_metric(hits: Ints, stream: Stream) -> dict[str, Floats]:
    """The metric of C caches that counted `hits` [C] among the tokens of `stream` that are read."""
    return {HITS: hits / stream.phases[-1].end}
