"""What a sweep that tunes says: its best on seeds that did not choose them, and how the search went."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tasks.cells import Row, group_cells
from tasks.frontier import summarise, warnings
from tasks.search import Goal, Parameter, Proposal, StudyLabel
from tasks.summary import Section, Summary
from tasks.tuning_best import best_sections
from tasks.tuning_course import history_section, importances_section, proposals_section, slices_section
from tasks.tuning_results import Contest, Found, Group, contests
from tasks.tuning_table import Table, short_name, table_of

EDGE = 0.01
"""Share of a range, at either end, in which a value lies at its edge."""


def summarise_tuning(
    rows: Sequence[Row], studies: Sequence[StudyLabel], proposals: Sequence[Proposal], goal: Goal, held_out: int
) -> Summary:
    """The frontier of the best and the references on held-out seeds, and sections on each workload's studies.

    held_out: how many held-out seeds there are
    """
    cells = group_cells(rows)
    found = [(one, table_of(one, goal, rows, held_out)) for one in contests(cells, studies, proposals, goal)]
    shown = {id(row): row for contest, _ in found for one in contest.found for row in one.rows}
    remarks = [
        *warnings(rows, cells),
        *(remark for contest, table in found for remark in _remarks(contest, table)),
    ]
    sections = tuple(section for contest, table in found for section in _sections(contest, table))
    panels = tuple(panel for panel in summarise(list(shown.values())).panels if panel.asks)
    return Summary(panels, tuple(remarks), sections)


def _sections(contest: Contest, table: Table) -> Iterator[Section]:
    yield from best_sections(contest, table)
    for section in (history_section, importances_section, slices_section, proposals_section):
        yield section(contest, table.goal)


def _remarks(contest: Contest, table: Table) -> Iterator[str]:
    """What a reader must know before believing the best."""
    for group in contest.groups:
        made = [one for study in group.studies for one in study.proposals]
        failed, unfinished = (sum(one.state == state for one in made) for state in ("failed", "open"))
        if failed:
            yield f"{group.label}: {failed} of {len(made)} proposals failed"
        if unfinished:
            yield f"{group.label}: {unfinished} of {len(made)} proposals have no result yet"
        without = sum(not study.best for study in group.studies)
        if without:
            of = f" in {without} of {len(group.studies)} studies" if len(group.studies) > 1 else ""
            yield f"{group.label}: {table.nothing_feasible}{of}"
        leaking = sum(one.leaks for one in group.best)
        if leaking:
            yield f"{group.label}: outputs of {leaking} of {len(group.best)} best depend on later tokens (leaks future)"
        if len(table.goal.objectives) == 1:
            yield from _edges(group)


def _edges(group: Group) -> Iterator[str]:
    """Numbers of the best that lie where the search ended."""
    for parameter in group.studies[0].label.parameters:
        for upper, end in ((False, parameter.low), (True, parameter.high)):
            at = sum(_at_edge(one, parameter, upper) for one in group.best)
            if at:
                of = f" in {at} of {len(group.studies)} studies" if len(group.studies) > 1 else ""
                side = "upper" if upper else "lower"
                yield (
                    f"{group.label}: the best {short_name(parameter.name)} lies at the {side} end of what was searched "
                    f"({end:g}){of}; better ones may lie beyond"
                )


def _at_edge(found: Found, parameter: Parameter, upper: bool) -> bool:
    value = found.proposal.params.get(parameter.name) if found.proposal else None
    if value is None or parameter.kind == "categorical":
        return False
    low, high, place = (
        math.log(number) if parameter.log else number for number in (parameter.low, parameter.high, value)
    )
    return bool(place >= high - EDGE * (high - low) if upper else place <= low + EDGE * (high - low))
