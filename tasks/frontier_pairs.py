"""Which frontiers of a panel are compared: all with each other where they are few, else each with the yardsticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb

from models.roles import role_of
from tasks.comparisons import MOST_PAIRED, every_pair
from tasks.dominance import SizedCell

BOUND, CACHE = "optimal", "dp_cache"
BEST_STATE = "best state of fixed size"

Frontiers = dict[str, Sequence[SizedCell]]


@dataclass(frozen=True)
class Pairs:
    """Frontiers by label, the pairs of labels to compare (the first less the second), and which these are, in words."""

    frontiers: Frontiers
    pairs: list[tuple[str, str]]
    words: str


def choose_pairs(frontiers: Mapping[str, Sequence[SizedCell]], mechanisms: Mapping[str, str]) -> Pairs:
    """Pairs of `frontiers` that tell something, given each one's mechanism.

    Where there are more than 8, each is compared with the bound, with the Dirichlet-process cache, and with the best of
    the states of fixed size, as one frontier; with the first where there is none of these.
    """
    labels = list(frontiers)
    if len(labels) <= MOST_PAIRED:
        return Pairs(dict(frontiers), every_pair(labels), "")
    found = dict(frontiers)
    yardsticks = {label: label for name in (BOUND, CACHE) for label in labels if mechanisms[label] == name}
    states = [label for label in labels if role_of(mechanisms[label]) == "state"]
    if len(states) > 1:
        found[BEST_STATE] = [cell for label in states for cell in frontiers[label]]
        yardsticks[BEST_STATE] = f"the {BEST_STATE}, the best of {len(states)} at or under a size"
    yardsticks = yardsticks or {labels[0]: labels[0]}
    pairs = [
        (label, yardstick)
        for place, yardstick in enumerate(yardsticks)
        for label in found
        if label not in list(yardsticks)[: place + 1] and not (yardstick == BEST_STATE and label in states)
    ]
    every, among = comb(len(labels), 2), sum(BEST_STATE not in pair for pair in pairs)
    words = (
        f"Each frontier is compared with {'; with '.join(yardsticks.values())}. Of the {every:,} pairs that "
        f"{len(labels)} frontiers make, that leaves out {every - among:,}."
    )
    if BOUND in {mechanisms[label] for label in labels}:
        words += (
            f" In slots `{BOUND}` bounds memories that keep one item a slot; states of fixed size may lie above it."
        )
    return Pairs(found, pairs, words)
