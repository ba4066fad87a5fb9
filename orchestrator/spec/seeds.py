"""The seeds of a spec, from the ways in which they may be written."""

from __future__ import annotations

from orchestrator.spec.schema import SeedRange, SeedsUntilNarrow
from tasks.sequential import FixedWidth, SeedsUntil


def seeds_of(seeds: int | SeedRange | SeedsUntilNarrow | list[int]) -> tuple[tuple[int, ...], SeedsUntil | None]:
    """The seeds; or those of the first stage, and what there may be more of them for."""
    if isinstance(seeds, list):
        return tuple(seeds), None
    if isinstance(seeds, SeedsUntilNarrow):
        asked = seeds.until
        rule = FixedWidth(asked.half_width, asked.max, asked.first)
        return tuple(range(seeds.base, seeds.base + rule.stage)), SeedsUntil(asked.metric, rule)
    count, base = (seeds, 0) if isinstance(seeds, int) else (seeds.count, seeds.base)
    return tuple(range(base, base + count)), None
