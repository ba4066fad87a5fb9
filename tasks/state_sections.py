"""Recall against what is kept of a sequence: of trained models by their state, of other memories by their slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tasks.labels import SHARE, NamedCell, lines_by_size
from tasks.staircase import on_frontier
from tasks.summary import Chart, Grid, Section

TEXT = (
    "Bytes of state are what a mechanism keeps of the sequence that it has read: of a model what reading id by id "
    "keeps after a sequence of full length, without its parameters; of a memory its keys, values and what its policy "
    "keeps. `frontier` marks what no other reaches at as few bytes. Parameters are learned once and serve every "
    "sequence; a mechanism without any was not trained, and is given random vectors of the ids."
)


MOST_LINES = 36
"""Each backbone with each memory, and those without either, belong in one figure."""


def state_section(number: int, title: str, cells: Sequence[NamedCell]) -> Iterator[Section]:
    """The section of one workload whose cells recall; nothing where no model's state was measured."""
    known = [cell for cell in cells if cell.values("recall") and kept(cell) is not None]
    if not any(cell.values("bytes_state") for cell in known):
        return
    known.sort(key=lambda cell: (_bytes(cell), cell.label))
    leads = on_frontier([_bytes(cell) for cell in known], [cell.average("recall") for cell in known])
    rows = tuple(
        (
            cell.label,
            _bytes(cell),
            cell.mean("recall", SHARE),
            cell.average("parameters") if cell.values("parameters") else None,
            "frontier" if leading else None,
            len(cell.values("recall")),
        )
        for cell, leading in zip(known, leads, strict=True)
    )
    table = Grid(("mechanism", "bytes of state", "recall", "parameters", "frontier", "n"), rows)
    lines = lines_by_size(known, _bytes, "recall", SHARE, "maximize", [cell.cell for cell in known], MOST_LINES)
    chart = Chart("bytes of state, after the whole sequence", "recall", tuple(lines), log_x=True)
    yield Section(f"state-{number}", f"Recall by state: {title}", (TEXT,), table, (chart,), leading=True)


def kept(cell: NamedCell) -> str | None:
    """The metric that tells what is kept of a sequence; None where none was measured."""
    return next((name for name in ("bytes_state", "bytes") if cell.values(name)), None)


def _bytes(cell: NamedCell) -> float:
    return cell.average(kept(cell) or "bytes")
