"""How many trials a spec asks for, before any of them is looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestrator.spec.entries import Placed
from orchestrator.spec.nodes import MapNode, Node, to_python
from orchestrator.spec.problems import Problems
from orchestrator.spec.schema import SeedRange, SpecFields
from orchestrator.spec.seeds import seeds_of
from orchestrator.spec.validation import validate


def check_size(
    tree: MapNode, workloads: Sequence[Placed], mechanisms: Sequence[Placed], most: int, problems: Problems
) -> None:
    """Raise SpecError if axes, devices and seeds make more than `most` trials, at the largest of these factors."""
    factors: list[tuple[int, Node]] = []
    for placed in (workloads, mechanisms):
        if placed:
            largest = max(placed, key=lambda one: len(one.entry))
            factors.append((sum(len(one.entry) for one in placed), largest.node))
    factors += _counted(tree, problems)
    trials = math.prod(count for count, _ in factors)
    if trials > most:
        _, node = max(factors, key=lambda factor: factor[0])
        problems.add(node, f"this spec makes {trials:,} trials", expected=f"at most {most:,}")
        problems.raise_if_any()


def _counted(tree: MapNode, problems: Problems) -> list[tuple[int, Node]]:
    """The numbers of devices and seeds, where these are right."""
    found: list[tuple[int, Node]] = []
    device, seeds = tree.get("device"), tree.get("seeds")
    if device is not None and problems.clean(device) and isinstance(written := to_python(device), list):
        found.append((len(written), device))
    if seeds is not None and problems.clean(seeds):
        fields = {"name": "x", "kind": "frontier", "workload": None, "mechanisms": None, "seeds": to_python(seeds)}
        found.append((_seed_count(validate(SpecFields, fields)), seeds))
    return found


def _seed_count(fields: SpecFields) -> int:
    if isinstance(fields.seeds, int):
        return fields.seeds
    if isinstance(fields.seeds, SeedRange):
        return fields.seeds.count
    seeds, until = seeds_of(fields.seeds)
    return len(seeds) if until is None else until.rule.most
