"""What a cost is fitted against: the sizes in which the workloads of a sweep differ, one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Sizes = Mapping[str, float]
"""Sizes of one workload: its tokens, and its numeric fields, by name."""

FEWEST = 3
"""Different sizes that a fit needs."""


@dataclass(frozen=True)
class Axis:
    """A size that varies, and the other fields that can only vary with it: `repeats` where it sets the tokens."""

    name: str
    along: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """E.g. `tokens (by repeats)`."""
        return f"{self.name} (by {', '.join(self.along)})" if self.along else self.name


@dataclass(frozen=True)
class Ladder:
    """Workloads (indices, by rising size) that differ along one axis alone, and what the other axes are held at."""

    axis: Axis
    fixed: str
    members: tuple[int, ...]


def axes_of(workloads: Sequence[Sizes]) -> list[Axis]:
    """The sizes that vary, in the order in which they are named, each with the fields that those before it set."""
    names = dict.fromkeys(name for sizes in workloads for name in sizes)
    varying = [name for name in names if len({sizes.get(name) for sizes in workloads}) > 1]
    kept: list[str] = []
    along: dict[str, list[str]] = {}
    for name in varying:
        if kept and _determines(kept, name, workloads):
            along[next(one for one in kept if _determines(kept[: kept.index(one) + 1], name, workloads))].append(name)
        else:
            kept.append(name)
            along[name] = []
    return [Axis(name, tuple(along[name])) for name in kept]


def _determines(names: Sequence[str], other: str, workloads: Sequence[Sizes]) -> bool:
    """Whether workloads that agree in `names` agree in `other`."""
    found = {(tuple(sizes.get(name) for name in names), sizes.get(other)) for sizes in workloads}
    return len(found) == len({known for known, _ in found})


def ladders(workloads: Sequence[Sizes]) -> list[Ladder]:
    """Along each axis, every set of workloads of three sizes or more; the largest set where all are smaller.

    `workloads` may be listed more than once each: every listing counts as one of its own.
    """
    axes = axes_of(workloads)
    found = []
    for axis in axes:
        others = [other.name for other in axes if other is not axis]
        sets: dict[tuple[float | None, ...], list[int]] = {}
        for index, sizes in enumerate(workloads):
            if axis.name in sizes:
                sets.setdefault(tuple(sizes.get(name) for name in others), []).append(index)
        made = []
        for held, members in sets.items():
            members.sort(key=lambda index: workloads[index][axis.name])
            fixed = ", ".join(f"{n} {v:,.6g}" for n, v in zip(others, held, strict=True) if v is not None)
            made.append(Ladder(axis, fixed, tuple(members)))
        made.sort(key=lambda ladder: -_steps(ladder, workloads))
        found += [ladder for ladder in made if _steps(ladder, workloads) >= FEWEST] or made[:1]
    return found


def _steps(ladder: Ladder, workloads: Sequence[Sizes]) -> int:
    return len({workloads[index][ladder.axis.name] for index in ladder.members})
