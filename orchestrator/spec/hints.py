"""Short helpers for wording a problem."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

NAMES_SHOWN = 30


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name most like `word`, if any is like it."""
    by_folded = {name.casefold().replace("-", "_"): name for name in names}
    near = difflib.get_close_matches(word.casefold().replace("-", "_"), by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near else None


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """A question naming the nearest of `names`, or nothing."""
    near = nearest(word, names)
    return f"did you mean `{near}`?" if near else ""


def one_of(names: Iterable[str]) -> str:
    """`names` as a choice."""
    listed = list(names)
    words = ", ".join(listed[:NAMES_SHOWN]) + (", ..." if len(listed) > NAMES_SHOWN else "")
    return words if len(listed) == 1 else f"one of {words}"
