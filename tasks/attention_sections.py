"""What memories make of real attention traffic: their error against full attention, by size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tasks.attention import ATTENTION_METRICS
from tasks.cells import Row, group_cells, panels
from tasks.labels import ANY, SHARE, NamedCell, lines_by_size, name_cells
from tasks.staircase import on_frontier
from tasks.summary import Chart, Grid, Section, Value

ERROR, AGREEMENT = ATTENTION_METRICS

TEXT = (
    "attention_error: distance of a query's output from full attention's over the length of that, mean over queries. "
    "top1_agreement: queries whose heaviest token is that of full attention. Both weigh what a memory reads by the "
    "layer's own logits; those of fixed size write value vectors, and have no token to agree on.",
    "recall is another thing here: how often a memory that reads by cosines, at its own temperature, names the class "
    "of the token with the layer's largest logit. Full attention itself, read so, need not reach 1. Bytes are those of "
    "keys and value vectors, without the classes that recall is scored by.",
)


def attention_sections(rows: Sequence[Row]) -> Iterator[Section]:
    """For each workload of attention traffic, the errors of all cells by size, and which are least at their bytes."""
    for number, (title, cells) in enumerate(panels(group_cells(rows)), start=1):
        named = [one for one in name_cells(cells) if one.values(ERROR) or one.values(AGREEMENT)]
        if named:
            named.sort(key=lambda one: (one.average("bytes"), one.label))
            columns = ("mechanism", "slots", "bytes", ERROR, AGREEMENT, "recall", "frontier")
            table = Grid(columns, tuple(_row(one, leads) for one, leads in zip(named, _leading(named), strict=True)))
            having = [one for one in named if one.values(ERROR)]
            lines = tuple(lines_by_size(having, _bytes, ERROR, ANY, "minimize", cells))
            charts = (Chart("bytes", ERROR, lines, log_x=True),) if lines else ()
            yield Section(f"attention-{number}", f"Attention: {title}", TEXT, table, charts, leading=True)


def _bytes(one: NamedCell) -> float:
    return one.average("bytes")


def _leading(named: Sequence[NamedCell]) -> list[bool]:
    """Whether no other has at most its error at no larger size, one of the two strictly better."""
    return on_frontier([one.average("bytes") for one in named], [-one.average(ERROR) for one in named])


def _row(one: NamedCell, leads: bool) -> tuple[Value, ...]:
    return (
        one.label,
        one.average("slots"),
        one.average("bytes"),
        one.mean(ERROR, (0.0, np.inf)),
        one.mean(AGREEMENT, SHARE),
        one.mean("recall", SHARE),
        "least error" if leads else None,
    )
