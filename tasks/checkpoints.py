"""Points on the way through a stream, evenly spaced in its logarithm, at which growth is seen."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

FIRST = 100
"""Tokens before the first checkpoint, unless the stream is shorter."""

Checkpoints = Annotated[
    int,
    Field(
        ge=1,
        le=1000,
        description="phases: their ends are evenly spaced in log time, from token 100 to the last; 1: only the last",
    ),
]


def checkpoints(events: int, count: int) -> list[int]:
    """Up to `count` distinct numbers of tokens, evenly spaced in their logarithm, the last of them `events`."""
    if count == 1:
        return [events]
    ends: list[int] = np.unique(np.rint(np.geomspace(min(FIRST, events), events, count)).astype(np.int64)).tolist()
    return ends
