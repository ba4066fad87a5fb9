"""The trials of a sweep that lie on a frontier of all its mechanisms together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.stream import Floats
from tasks.cells import Cell, Row, group_cells, panels
from tasks.staircase import on_frontier

RECALLS = ("recall", "recall_all")


def leading_trials(rows: Sequence[Row]) -> set[int]:
    """Positions (`trial`) of finished trials of the cells that no other cell of their workload and device beats.

    Beaten is a cell if another has at least its mean recall in no more bytes on average, one of the two being better:
    bytes are what mechanisms are comparable in. Where nothing is asked for, no trial leads.
    """
    devices: dict[str, list[Row]] = {}
    for row in rows:
        if row["state"] == "done":
            devices.setdefault(row["device"], []).append(row)
    return {
        row["trial"]
        for of_device in devices.values()
        for _, cells in panels(group_cells(of_device))
        for cell in _leading(cells)
        for row in cell.rows.values()
    }


def _leading(cells: Sequence[Cell]) -> list[Cell]:
    recalls = next((found for name in RECALLS if not np.isnan(found := _means(cells, name)).all()), None)
    if recalls is None:
        return []
    kept = on_frontier(_means(cells, "bytes").tolist(), recalls.tolist())
    return [cell for cell, keep in zip(cells, kept, strict=True) if keep]


def _means(cells: Sequence[Cell], metric: str) -> Floats:
    """Means [C] of `metric` over the seeds of each cell, NaN where it has none."""
    column = f"metrics.{metric}"
    found = np.full(len(cells), np.nan)
    for place, cell in enumerate(cells):
        values = [row[column] for row in cell.rows.values() if row.get(column) is not None]
        if values:
            found[place] = np.mean(values)
    return found
