"""Facts that may be out of reach, each then with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class UnknownFactError(Exception):
    """A fact that cannot be read here; the text is the reason that is recorded beside it."""


def ask(read: Callable[[], T]) -> T | UnknownFactError:
    """What `read` gives, or why it cannot be known."""
    try:
        return read()
    except UnknownFactError as unknown:
        return unknown
