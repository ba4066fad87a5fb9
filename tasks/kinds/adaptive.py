"""Adaptive memories: how many slots a memory holds as its working set changes, and what it recalls with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from tasks.cells import Row
from tasks.growth_sections import growth_sections
from tasks.kind import NOTHING_ASKED, Asked, Kind, KindConfig, kind
from tasks.labels import SHARE, NamedCell, by_workload, legible
from tasks.summary import Chart, Grid, Line, Section, Summary, Value


class AdaptiveConfig(KindConfig):
    """Recall and slots phase by phase on streams whose working set changes, with slots counted both ways."""

    name: Literal["adaptive"] = "adaptive"


@kind(AdaptiveConfig)
class Adaptive(Kind):
    """The paper counts slots at phase ends (arXiv 2607.09889, §3.2.1); a count per token can differ a lot."""

    starter = """\
name: my-phases            # names the sweep, here and in MLflow
kind: adaptive             # recall and slots phase by phase, slots counted at phase ends and per token

# Streams whose working set changes: small, large, small, ... At the end of a phase the memory is asked for its items.
workload: {name: phased_recall, small: 6, large: 30, phases: 8, repeats: 6, classes: 16, dim: 32, noise: 0.3}

mechanisms:
  - {name: full_attention}
  - {name: dp_cache, similarity: 0.6}
  - {name: dp_cache, similarity: 0.6, cap: {values: [18, 30]}, decay: 0.95}
  - {name: adaptive_dp_cache, similarity: 0.6, eta: 0.1, m0: 8, beta: 40, decay: 0.99}
  - {name: item_lru, budget: {values: [18, 30]}}

seeds: 10
episodes: 50
"""

    @classmethod
    def summarise(cls, rows: Sequence[Row], asked: Asked = NOTHING_ASKED) -> Summary:
        from tasks.frontier import summarise

        groups = by_workload(rows, asked.until)
        sections = [section for group in groups for section in _sections(*group)]
        growth = growth_sections([cell for _, _, cells in groups for cell in cells])
        return replace(summarise(rows, asked.until), sections=(*sections, *growth))


def _sections(number: int, title: str, cells: Sequence[NamedCell]) -> Iterator[Section]:
    table = Grid(
        ("mechanism", "recall", "slots, phase ends", "slots, per token", "slots, peak", "least to most at phase ends"),
        tuple(map(_counted, cells)),
    )
    text = (
        "Slots are averaged over the ends of phases, as the paper counts them, and over all tokens. A memory that "
        "shrinks before it is asked looks smaller at phase ends than it is most of the time."
    )
    charts = tuple(_charts(cells))
    if not charts:
        text += " These streams have one phase: there is nothing to adapt to."
    yield Section(f"phases-{number}", f"Phases: {title}", (text,), table, charts)


def _counted(cell: NamedCell) -> tuple[Value, ...]:
    slots = cell.series("phase_slots")
    swing = None
    if slots is not None:
        means = slots.mean(axis=0)
        swing = f"{means.min():.1f} to {means.max():.1f}"
    counts = (cell.mean("slots_phase_end"), cell.mean("slots_mean"), cell.mean("slots_peak"))
    return cell.label, cell.mean("recall", SHARE), *counts, swing


def _charts(cells: Sequence[NamedCell]) -> Iterator[Chart]:
    shown = legible(cells)
    for name, label in (("phase_slots", "slots at the phase's end"), ("phase_recall", "recall of the phase's items")):
        bounds = SHARE if name == "phase_recall" else (0.0, float("inf"))
        lines = tuple(line for cell in shown if (line := cell.line(name, bounds)))
        if name == "phase_slots":
            lines += tuple(_demand(shown))
        if lines:
            yield Chart("phase", label, lines)


def _demand(cells: Sequence[NamedCell]) -> Iterator[Line]:
    """All items met, what a memory that forgets nothing has to hold, and those asked for, what any has to."""
    for cell in cells:
        met, asked = cell.line("phase_items"), cell.line("phase_queries")
        if met is None or asked is None:
            continue
        yield replace(met, label="distinct items so far", low=None, high=None)
        if asked.y != met.y:
            yield replace(asked, label="items asked for", low=None, high=None)
        return
