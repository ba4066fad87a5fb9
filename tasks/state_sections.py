"""Recall against what is kept of a sequence: of trained models by their state, of other memories by their slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tasks.cells import CurveName, name_curves
from tasks.labels import MOST_LINES, SHARE, NamedCell
from tasks.staircase import on_frontier
from tasks.summary import Chart, Grid, Line, Section

TEXT = (
    "Bytes of state are what a mechanism keeps of the sequence that it has read: of a model what reading id by id "
    "keeps after a sequence of full length, without its parameters; of a memory its keys, values and what its policy "
    "keeps. `frontier` marks what no other reaches at as few bytes. Parameters are learned once and serve every "
    "sequence; a mechanism without any was not trained, and is given random vectors of the ids."
)


def state_section(number: int, title: str, cells: Sequence[NamedCell]) -> Iterator[Section]:
    """The section of one workload whose cells recall; nothing where no model's state was measured."""
    known = [cell for cell in cells if cell.values("recall") and kept(cell) is not None]
    if not any(cell.values("bytes_state") for cell in known):
        return
    known.sort(key=lambda cell: (_bytes(cell), cell.label))
    leads = on_frontier([_bytes(cell) for cell in known], [_mean(cell, "recall") for cell in known])
    rows = tuple(
        (
            cell.label,
            _bytes(cell),
            cell.mean("recall", SHARE),
            _mean(cell, "parameters") if cell.values("parameters") else None,
            "frontier" if leading else None,
            len(cell.values("recall")),
        )
        for cell, leading in zip(known, leads, strict=True)
    )
    table = Grid(("mechanism", "bytes of state", "recall", "parameters", "frontier", "n"), rows)
    chart = Chart("bytes of state, after the whole sequence", "recall", tuple(_lines(known)), log_x=True)
    yield Section(f"state-{number}", f"Recall by state: {title}", (TEXT,), table, (chart,), leading=True)


def kept(cell: NamedCell) -> str | None:
    """The metric that tells what is kept of a sequence; None where none was measured."""
    return next((name for name in ("bytes_state", "bytes") if cell.values(name)), None)


def _bytes(cell: NamedCell) -> float:
    return _mean(cell, kept(cell) or "bytes")


def _mean(cell: NamedCell, metric: str) -> float:
    return float(np.mean(list(cell.values(metric).values())))


def _lines(cells: Sequence[NamedCell]) -> Iterator[Line]:
    """A line for each curve by rising bytes, of many those of best recall; no bytes have no place on the axis."""
    curves: dict[CurveName, list[NamedCell]] = {}
    for cell, name in zip(cells, name_curves([cell.cell for cell in cells]), strict=True):
        if _bytes(cell) > 0.0:
            curves.setdefault(name, []).append(cell)
    best = sorted(curves, key=lambda name: -max(_mean(cell, "recall") for cell in curves[name]))[:MOST_LINES]
    for name in [name for name in curves if name in best]:
        recalls = [interval for cell in curves[name] if (interval := cell.mean("recall", SHARE)) is not None]
        yield Line(
            name.label,
            tuple(_bytes(cell) for cell in curves[name]),
            tuple(recall.mean for recall in recalls),
            tuple(recall.low for recall in recalls),
            tuple(recall.high for recall in recalls),
            joined=len(recalls) > 1,
        )
