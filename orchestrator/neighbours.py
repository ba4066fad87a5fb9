"""Finding, among finished cells, the one that differs least from a cell: in its code, or in as few fields as can be.

Each cell has a sum of the hashes of its fields. Cells that differ in one field alone have the same sum once that field
is taken out, so that a table of such sums finds them without comparing every cell with every other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

from models.config import canonical_json
from orchestrator.store.records import CellRow

Fields = dict[str, Any]
"""A cell's fields by dotted name (`workload.noise`, `episodes`), its code left out."""

MOST_FIELDS = 3
"""Cells that differ in more fields than this have little to do with each other."""

NAMES = frozenset({"workload.name", "mechanism.name"})
NEAR_ON_A_LINE = 2


ABSENT: Any = object()
"""The value of a field in a config that is without it: its version of slotsweep had no such field."""


class Change(NamedTuple):
    """A field that differs: what it was in the finished cell, and what it is now."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Neighbour:
    """A finished cell, and the fields in which another differs from it (none: only the code does)."""

    cell: CellRow
    changes: tuple[Change, ...]


def flat_fields(cell: CellRow) -> Fields:
    """Everything that tells `cell` from others but its code."""
    return {
        "machine": cell.machine,
        "episodes": cell.episodes,
        "dtype": cell.dtype,
        "device": cell.device,
        **{f"workload.{name}": _hashable(value) for name, value in cell.workload.items()},
        **{f"mechanism.{name}": _hashable(value) for name, value in cell.mechanism.items()},
    }


class Neighbours:
    """The finished cells `done`, oldest first, made ready for looking up."""

    def __init__(self, done: Sequence[CellRow]) -> None:
        self._done = done
        self._fields = [flat_fields(cell) for cell in done]
        self._lines: dict[int, list[int]] = defaultdict(list)
        self._newest: dict[int, int] = {}
        self._ordered: dict[tuple[int, str], tuple[list[float], list[int]]] = {}
        self._hashes: dict[tuple[str, Any], int] = {}
        for index, fields in enumerate(self._fields):
            hashes = self._hashed(fields)
            whole = sum(hashes.values())
            self._lines[whole].append(index)
            for name, part in hashes.items():
                if name not in NAMES:
                    self._lines[whole - part].append(index)
            self._newest.update(dict.fromkeys(_halves(hashes), index))

    def nearest(self, cell: CellRow) -> Neighbour | None:
        """The finished cell that differs from `cell` least; None if all differ in more than a few fields.

        A cell that differs in its code alone is nearest of all. Of cells equally near, that with the nearest number
        counts, then the newest.
        """
        fields = flat_fields(cell)
        hashes = self._hashed(fields)
        whole = sum(hashes.values())
        found = set(self._on_line(whole, None, fields))
        for name, part in hashes.items():
            if name not in NAMES and whole - part in self._lines:
                found.update(self._on_line(whole - part, name, fields))
        found.update(self._newest[half] for half in _halves(hashes) if half in self._newest)
        rated = [(self._rate(index, cell, fields), index) for index in found]
        if not rated:
            return None
        _, best = min(rated)
        changes = _changes(self._fields[best], fields)
        return Neighbour(self._done[best], changes) if len(changes) <= MOST_FIELDS else None

    def _hashed(self, fields: Fields) -> dict[str, int]:
        """A hash of each field with its value; of text, because sums of the hashes of numbers often collide."""
        for item in fields.items():
            if item not in self._hashes:
                self._hashes[item] = hash(f"{item[0]}={item[1]!r}")
        return {item[0]: self._hashes[item] for item in fields.items()}

    def _on_line(self, rest: int, name: str | None, fields: Fields) -> list[int]:
        """A few of the cells that share `rest`: the newest, and those whose number in field `name` is nearest."""
        line = self._lines.get(rest, [])
        if len(line) <= 2 * NEAR_ON_A_LINE:
            return line
        near = line[-NEAR_ON_A_LINE:]
        value = fields.get(name) if name is not None else None
        if name is None or not _is_number(value):
            return near
        if (rest, name) not in self._ordered:
            numbered = sorted(
                (self._fields[index][name], index) for index in line if _is_number(self._fields[index].get(name))
            )
            self._ordered[rest, name] = ([number for number, _ in numbered], [index for _, index in numbered])
        numbers, order = self._ordered[rest, name]
        place = bisect_left(numbers, value)
        return near + order[max(0, place - NEAR_ON_A_LINE) : place + NEAR_ON_A_LINE]

    def _rate(self, index: int, cell: CellRow, fields: Fields) -> tuple[int, int, float, int]:
        changes = _changes(self._fields[index], fields)
        code = self._done[index].fingerprint != cell.fingerprint
        distance = sum(map(_distance, changes))
        return len(changes) + code, len(changes), distance, -index


def _halves(hashes: dict[str, int]) -> tuple[int, int]:
    """What a cell shares with cells of the same mechanism config, and with cells of the same workload config.

    The names of both are part of either: across names, fields do not compare.
    """
    workload = sum(part for name, part in hashes.items() if name.startswith("workload."))
    mechanism = sum(part for name, part in hashes.items() if name.startswith("mechanism."))
    return hash(("mechanism", mechanism, hashes["workload.name"])), hash(
        ("workload", workload, hashes["mechanism.name"])
    )


def _changes(before: Fields, after: Fields) -> tuple[Change, ...]:
    return tuple(
        Change(name, before.get(name, ABSENT), after.get(name, ABSENT))
        for name in after | before
        if before.get(name, ABSENT) != after.get(name, ABSENT)
    )


def _distance(change: Change) -> float:
    """How far a number moved, relative to what it is now; 1 for anything else."""
    if not (_is_number(change.before) and _is_number(change.after)):
        return 1.0
    return abs(change.after - change.before) / (abs(change.after) or 1.0)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _hashable(value: Any) -> Any:
    return canonical_json(value) if isinstance(value, list | dict) else value
