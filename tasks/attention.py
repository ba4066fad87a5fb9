"""How far a memory's output is from full attention's, on streams of keys, values and queries of an attention layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from models.attending import AttentionBlock
from models.fixed_state import FixedSize
from models.mechanism import Mechanism
from models.stream import Floats, Ints, Phase

ATTENTION_METRICS = ("attention_error", "top1_agreement")
"""attention_error  length of the difference from full attention's output over the length of that, mean over queries
top1_agreement   queries whose heaviest token is the same as in full attention

Memories decide by cosines which tokens stay and which of them a query reads, as for `recall`; what they read is weighed
by the layer's own logits, by keys and queries as they are. One that reads nothing gives the zero vector, an error of 1,
and agrees on nothing. A state of fixed size has no tokens to agree on: there the value vectors are written in place of
classes, and its own read gives the output.
"""


class AttentionScores:
    """Sums of `ATTENTION_METRICS` over the queries of a phase for C configs; none of what a memory does not have."""

    def __init__(self, configs: int) -> None:
        self._sums: dict[str, Floats] = {}
        self._configs = configs

    def note(self, memory: Mechanism[Any], vectors: FixedSize[Any] | None, block: AttentionBlock, phase: Phase) -> None:
        """Add the queries of `block`, as `memory` reads tokens, or `vectors`, the same states of value vectors.

        Raises FloatingPointError where full attention gives the zero vector, to which no error is relative.
        """
        full, top = block.full
        lengths = np.linalg.norm(full, axis=1)
        if block.values is not None and not lengths.all():
            query = block.start + int(np.flatnonzero(lengths == 0.0)[0]) + 1
            raise FloatingPointError(
                f"full attention gives zero for query {query} of those at token {phase.end}: an error relative to its "
                "length is not defined; leave it out of `queries`, or give `values` as classes"
            )
        for c, (outputs, heaviest) in enumerate(_read(memory, vectors, block, phase)):
            if block.values is not None:
                self._add("attention_error", c, np.linalg.norm(outputs - full, axis=1) / lengths)
            if heaviest is not None:
                self._add("top1_agreement", c, heaviest == top)

    def _add(self, name: str, c: int, values: np.ndarray) -> None:
        self._sums.setdefault(name, np.zeros(self._configs))[c] += values.sum()

    def means(self, queries: int) -> dict[str, Floats]:
        """Of each metric there is [C], over so many queries."""
        return {name: total / queries for name, total in self._sums.items()}


def _read(
    memory: Mechanism[Any], vectors: FixedSize[Any] | None, block: AttentionBlock, phase: Phase
) -> Iterator[tuple[Floats, Ints | None]]:
    """Outputs [Q, dv] and heaviest tokens [Q] of each config; none where it reads neither tokens nor vectors."""
    if vectors is not None:
        yield from ((outputs, None) for outputs in vectors.outputs(block.queries))
        return
    for c in range(len(memory)):
        weights = memory.attends(c, block, phase)
        if weights is not None:
            yield block.read(weights)
