"""The table of paired comparisons, and what so many seeds could have shown: the same wherever things are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tasks.comparisons import Comparison
from tasks.search import Direction
from tasks.summary import Grid, Value

COLUMNS = (
    "mechanism",
    "less",
    "difference",
    "effect",
    "superior",
    "p, Holm",
    "p, Benjamini-Hochberg",
    "p of inequality",
    "detectable",
    "verdict",
)


def difference_table(compared: Sequence[Comparison], pairs: Sequence[tuple[str, str]]) -> Grid:
    """A row for each of `pairs`, in order; pairs that were not compared have no common seed."""
    done = {(one.a, one.b): _row(one) for one in compared}
    missing: tuple[Value, ...] = (None, None, None, None, None, None, None, "no common seed")
    return Grid(COLUMNS, tuple(done.get(pair, (*pair, *missing)) for pair in pairs))


def superior(better: Direction) -> str:
    """What the column of that name tells."""
    side = "below, for lower is better" if better == "minimize" else "above"
    return f"Superior: the share of seeds in which the first of a row is {side}, ties counted half."


def _row(one: Comparison) -> tuple[Value, ...]:
    numbers = one.effect, one.superiority, one.holm, one.discovery, one.equal, one.detectable
    return one.a, one.b, one.difference, *numbers, one.verdict


def power_sentence(compared: Sequence[Comparison]) -> Iterator[str]:
    """What so many seeds could have shown; nothing where no comparison tells."""
    visible = [one.detectable for one in compared if one.detectable is not None]
    if not visible:
        return
    counts = sorted({one.difference.n for one in compared if one.detectable is not None})
    seeds = f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    least, most = f"{min(visible):.2g}", f"{max(visible):.2g}"
    size = most if least == most else f"{least} to {most}, depending on the pair,"
    yield f"With {seeds} you can see a difference of {size} in 80% of studies, by one test at 5% that is not adjusted."
