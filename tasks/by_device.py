"""What a sweep says that ran on several device classes: each by itself, then each beside the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tasks.cells import Row
from tasks.comparing import NothingInCommonError, Side, compare_sides
from tasks.comparing_sections import comparison_sections
from tasks.kind import NOTHING_ASKED, Asked, Kind
from tasks.summary import Section, Summary
from tasks.until_section import until_section


def summarise(kind: type[Kind], rows: Sequence[Row], asked: Asked = NOTHING_ASKED) -> Summary:
    """The summary of `kind`; where trials were asked for on several device classes, one of all, compared at the end."""
    devices = _by_device(rows)
    if len(devices) < 2 or kind.proposes:  # a study is one, whatever computes its trials
        return _summary(kind, rows, asked)
    parts = [_named(device, _summary(kind, of_device, asked)) for device, of_device in devices.items()]
    return Summary(
        tuple(panel for part in parts for panel in part.panels),
        tuple(warning for part in parts for warning in part.warnings),
        (*(section for part in parts for section in part.sections), *_compared(devices)),
    )


def _summary(kind: type[Kind], rows: Sequence[Row], asked: Asked) -> Summary:
    summary = kind.summarise(rows, asked)
    if asked.until is None:
        return summary
    return replace(summary, sections=(until_section(rows, asked.until), *summary.sections))


def _by_device(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by device class. One that any device may compute, and none has, counts with the first that has computed."""
    computed = [row["device"] for row in rows if row["state"] == "done"]
    devices: dict[str, list[Row]] = {}
    for row in rows:
        device = computed[0] if row["device"] == "any" and computed else row["device"]
        devices.setdefault(device, []).append(row)
    return devices


def _named(device: str, summary: Summary) -> Summary:
    """`summary` with the device's name in every title, warning and file's name."""
    return Summary(
        tuple(replace(panel, title=f"{panel.title} on {device}") for panel in summary.panels),
        tuple(f"{device}: {warning}" for warning in summary.warnings),
        tuple(replace(one, name=f"{one.name}-{device}", title=f"{one.title} on {device}") for one in summary.sections),
    )


def _compared(devices: dict[str, list[Row]]) -> list[Section]:
    first, *others = (Side(device, device, rows) for device, rows in devices.items())
    sections: list[Section] = []
    for number, other in enumerate(others, start=1):
        try:
            sections += comparison_sections(compare_sides(first, other), number)
        except NothingInCommonError:  # nothing is finished on both yet
            continue
    return sections
