"""Rows of results sorted into cells, curves and panels, with the names that tell them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any

from models.config import canonical_json
from models.idle import idle_fields
from models.leaks import leaks_future

Row = Mapping[str, Any]
Fields = dict[str, Any]

WORKLOAD = "workload."
MECHANISM = "mechanism."


@dataclass
class Cell:
    """A workload config and a mechanism config (fields that are None left out), and the row of every seed."""

    workload: Fields
    mechanism: Fields
    rows: dict[int, Row] = field(default_factory=dict)

    @property
    def idle(self) -> frozenset[str]:
        """Fields of the mechanism that have no part in what it does."""
        return idle_fields(self.mechanism)

    @property
    def concerning(self) -> Fields:
        """The mechanism's other fields."""
        idle = self.idle
        return {key: value for key, value in self.mechanism.items() if key not in idle}


@dataclass(frozen=True)
class CurveName:
    """What cells of one curve share: the mechanism, a label, and the names of the numeric fields they differ in."""

    mechanism: str
    label: str
    settings: tuple[str, ...]


def group_cells(rows: Iterable[Row]) -> list[Cell]:
    """Cells in order of appearance. Of two rows with one cell and seed, the later counts."""
    cells: dict[tuple[str, str], Cell] = {}
    known: dict[Any, Cell] = {}
    for row in rows:
        layout = _layout(tuple(row))
        given = (layout, layout.workload(row), layout.mechanism(row))
        alias = given if _hashable(given) else repr(given)
        if alias not in known:
            workload, mechanism = _fields(row, WORKLOAD), _fields(row, MECHANISM)
            identity = (canonical_json(workload), canonical_json(mechanism))
            known[alias] = cells.setdefault(identity, Cell(workload, mechanism))
        known[alias].rows[row["seed"]] = row
    return list(cells.values())


@dataclass(frozen=True, eq=False)
class _Layout:
    """Fast readers of the config columns of rows that have the same columns."""

    workload: Callable[[Row], Any]
    mechanism: Callable[[Row], Any]


LEAKS = " (leaks future)"
"""Marks models whose outputs depend on later tokens, wherever they are named."""


@lru_cache
def _layout(columns: tuple[str, ...]) -> _Layout:
    workload, mechanism = (
        itemgetter(*(name for name in columns if name.startswith(prefix))) for prefix in (WORKLOAD, MECHANISM)
    )
    return _Layout(workload, mechanism)


def _fields(row: Row, prefix: str) -> Fields:
    return {
        name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix) and value is not None
    }


def panels(cells: Sequence[Cell]) -> list[tuple[str, list[Cell]]]:
    """Cells of each workload config, in order of appearance, with a title that tells it from the others."""
    by_workload: dict[str, list[Cell]] = {}
    for cell in cells:
        by_workload.setdefault(canonical_json(cell.workload), []).append(cell)
    workloads = [group[0].workload for group in by_workload.values()]
    titles = workload_titles(workloads)
    return list(zip(titles, by_workload.values(), strict=True))


def workload_titles(workloads: Sequence[Fields]) -> list[str]:
    """What tells each from the others: the name where names differ, then the fields that differ under that name.

    The name if nothing differs.
    """
    namesakes: dict[str, list[Fields]] = {}
    for workload in workloads:
        namesakes.setdefault(workload["name"], []).append(workload)
    differing = {name: varying(same) for name, same in namesakes.items()}
    titles = []
    for workload in workloads:
        parts = [f"{key} {_text(workload[key])}" for key in differing[workload["name"]] if key in workload]
        if len(namesakes) > 1 or not parts:
            parts.insert(0, workload["name"])
        titles.append(", ".join(parts))
    return titles


def name_curves(cells: Sequence[Cell]) -> list[CurveName]:
    """The curve of each cell: cells of one mechanism are split by every field whose non-numeric values differ.

    Only cells that a field concerns are split by it. Those that look at later tokens are split from those that do not.
    """
    by_mechanism: dict[str, list[Cell]] = {}
    for cell in cells:
        by_mechanism.setdefault(cell.mechanism["name"], []).append(cell)
    names: dict[int, CurveName] = {}
    for mechanism, same in by_mechanism.items():
        splitting = _splitting(same)
        by_categories: dict[tuple[tuple[Any, ...], bool], list[Cell]] = {}
        for cell in same:
            categories = tuple(None if key in cell.idle else _category(cell.mechanism.get(key)) for key in splitting)
            leaks = looks_ahead(cell.rows.values(), cell.mechanism)
            by_categories.setdefault((categories, leaks), []).append(cell)
        for (categories, leaks), curve in by_categories.items():
            label = marked(_label(mechanism, splitting, categories, [found for found, _ in by_categories]), leaks)
            name = CurveName(mechanism, label, tuple(varying([cell.mechanism for cell in curve])))
            names.update((id(cell), name) for cell in curve)
    return _show_fixed([names[id(cell)] for cell in cells], cells)


def marked(label: str, leaks: bool) -> str:
    """`label`, with the mark where what it names looks ahead."""
    return f"{label}{LEAKS}" if leaks else label


def looks_ahead(rows: Iterable[Row], mechanism: Mapping[str, Any]) -> bool:
    """Whether outputs of the mechanism with these fields depend on later tokens.

    As its trials, in `rows`, measured; where none did, as the fields say.
    """
    told = [row["metrics.leaks_future"] for row in rows if row.get("metrics.leaks_future") is not None]
    return any(told) if told else leaks_future(mechanism)


def row_looks_ahead(row: Row) -> bool:
    """The same of the mechanism of one trial."""
    return looks_ahead([row], _fields(row, MECHANISM))


def _splitting(cells: Sequence[Cell]) -> list[str]:
    """Names of the fields that split cells of one mechanism into curves."""
    idle = [cell.idle for cell in cells]
    names = dict.fromkeys(name for cell in cells for name in cell.mechanism)
    values = (
        {_category(cell.mechanism.get(name)) for cell, none in zip(cells, idle, strict=True) if name not in none}
        for name in names
    )
    return [name for name, found in zip(names, values, strict=True) if len(found) > 1]


def _show_fixed(names: Sequence[CurveName], cells: Sequence[Cell]) -> list[CurveName]:
    """Give curves without settings of their own the fields that are settings elsewhere: one budget is a point, too.

    Elsewhere is where other curves of the same mechanism have settings; if none has, in any curve.
    """
    settings: dict[str, set[str]] = {}
    for name in names:
        settings.setdefault(name.mechanism, set()).update(name.settings)
    anywhere = set().union(*settings.values())
    shown = [
        name.settings or tuple(key for key in cell.concerning if key in (settings[name.mechanism] or anywhere))
        for name, cell in zip(names, cells, strict=True)
    ]
    return [replace(name, settings=keys) for name, keys in zip(names, shown, strict=True)]


def _category(value: Any) -> Any:
    """`value` if it splits a curve; numbers, and an absent value among numbers, are points along it."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if is_number else _token(value)


def _label(
    mechanism: str, splitting: Sequence[str], categories: tuple[Any, ...], every: Sequence[tuple[Any, ...]]
) -> str:
    """E.g. `h2o half_recent`, `snapkv no pooling`; a field is named where its value alone could be another's."""
    parts = [mechanism]
    for place, (key, value) in enumerate(zip(splitting, categories, strict=True)):
        elsewhere = {other for row in every for index, other in enumerate(row) if index != place}
        if isinstance(value, bool):
            parts.append(key if value else f"no {key}")
        elif value is not None:
            parts.append(f"{key} {value}" if value in elsewhere else str(value))
    return " ".join(parts)


def varying(configs: Sequence[Fields]) -> list[str]:
    """Names of the fields that do not have the same value everywhere, in order of appearance."""
    names = dict.fromkeys(name for config in configs for name in config)
    return [name for name in names if len({_token(config.get(name)) for config in configs}) > 1]


def _token(value: Any) -> Any:
    """`value`, or for a list its text: something that can be a member of a set."""
    return value if _hashable(value) else canonical_json(value)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _text(value: Any) -> str:
    """A config value as a title shows it."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)
