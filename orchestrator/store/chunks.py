"""Long lists in pieces that a statement takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

CHUNK = 1000

T = TypeVar("T")


def chunks(items: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """`items` in lists of at most `size`."""
    chunk: list[T] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
