"""Loghub: recall which part of a system wrote a log line, for the lines' templates, in the order of 16 system logs."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from models.stream import Ints
from tasks.catalogue import CORPORA, loghub_file
from tasks.corpora import corpus_files, open_text
from tasks.recording import (
    RecordedConfig,
    RecordedWorkload,
    Recording,
    Windows,
    hashed_classes,
    modal_classes,
    numbered,
    window_ends,
)
from tasks.workload import workload

LINES = 2000
HASHED_CLASSES = 16


class Header(NamedTuple):
    """Which columns of a system's lines say what.

    label  the field whose value is recalled; None where no field tells templates apart: then a hash of the template
    clock  fields that, joined by blanks, are the time
    form   of that time, as strptime reads it; None for seconds
    """

    label: str | None
    clock: tuple[str, ...]
    form: str | None


HEADERS = {
    "Android": Header("Component", ("Date", "Time"), "%m-%d %H:%M:%S.%f"),
    "Apache": Header("Level", ("Time",), "%a %b %d %H:%M:%S %Y"),
    "BGL": Header("Component", ("Timestamp",), None),
    "HDFS": Header("Component", ("Date", "Time"), "%y%m%d %H%M%S"),
    "HPC": Header("Component", ("Time",), None),
    "Hadoop": Header("Component", ("Date", "Time"), "%Y-%m-%d %H:%M:%S,%f"),
    "HealthApp": Header("Component", ("Time",), "%Y%m%d-%H:%M:%S:%f"),
    "Linux": Header("Component", ("Month", "Date", "Time"), "%b %d %H:%M:%S"),
    "Mac": Header("Component", ("Month", "Date", "Time"), "%b %d %H:%M:%S"),
    "OpenSSH": Header(None, ("Date", "Day", "Time"), "%b %d %H:%M:%S"),
    "OpenStack": Header("Component", ("Date", "Time"), "%Y-%m-%d %H:%M:%S.%f"),
    "Proxifier": Header("Program", ("Time",), "%m.%d %H:%M:%S"),
    "Spark": Header("Component", ("Date", "Time"), "%y/%m/%d %H:%M:%S"),
    "Thunderbird": Header("Component", ("Timestamp",), None),
    "Windows": Header("Component", ("Date", "Time"), "%Y-%m-%d %H:%M:%S"),
    "Zookeeper": Header("Component", ("Date", "Time"), "%Y-%m-%d %H:%M:%S,%f"),
}

System = Literal[
    "Android",
    "Apache",
    "BGL",
    "HDFS",
    "HPC",
    "Hadoop",
    "HealthApp",
    "Linux",
    "Mac",
    "OpenSSH",
    "OpenStack",
    "Proxifier",
    "Spark",
    "Thunderbird",
    "Windows",
    "Zookeeper",
]


class LoghubConfig(RecordedConfig):
    """2,000 log lines of one system, an item a template, its class the part that logs it (arXiv 2607.09889, §3.1.7).

    BGL in 25 windows is the stream of §3.2.1. A template is an EventId.

    The class of a template is the most common value of a header field among its lines: Component, but Level for Apache
    and Program for Proxifier; OpenSSH has no such field, and its classes are 16 hash values of the template's id.

    Data: Zhu et al. 2023, arXiv 2008.06448 (free for research; refer to https://github.com/logpai/loghub), corrections
    Khan et al. 2022, doi:10.1145/3510003.3510101; fetched from raw.githubusercontent.com if SLOTSWEEP_DATA lacks it.
    """

    name: Literal["loghub"] = "loghub"
    system: System = Field("HDFS", description="which of the 16 systems")
    corrected: bool = Field(False, description="take the templates as corrected in 2022, not as first published")
    windows: Windows = None


@workload(LoghubConfig)
class Loghub(RecordedWorkload[LoghubConfig]):
    """Lines in the order of the file, with `windows` in order of time. Their words go along, for log parsers."""

    has_lines: ClassVar[bool] = True

    def read(self) -> Recording:
        config = self.config
        rows = read_rows(config.system, corrected=False)
        templates = [row["EventId"] for row in (read_rows(config.system, True) if config.corrected else rows)]
        header = HEADERS[config.system]
        ends: list[int] = [len(rows)]
        if config.windows is not None:
            times = np.array([second(row, header) for row in rows])
            order = np.argsort(times, kind="stable")
            rows, templates = [rows[i] for i in order], [templates[i] for i in order]
            ends = window_ends(times[order], config.windows)
        items = numbered(templates)
        lines = tuple(tuple(row["Content"].split()) for row in rows)
        return Recording(items, classes(items, templates, rows, header.label), ends, lines)

    @classmethod
    def corpora(cls, config: LoghubConfig) -> tuple[str, ...]:
        return tuple(corpus_name(config.system, one) for one in ((False, True) if config.corrected else (False,)))

    @classmethod
    def tokens(cls, config: LoghubConfig) -> int:
        return LINES


def corpus_name(system: str, corrected: bool) -> str:
    """The data set that has the structured lines of `system`."""
    return f"loghub-{system}{'-corrected' if corrected else ''}"


def read_rows(system: str, corrected: bool) -> list[dict[str, str]]:
    """The structured lines of `system`, in file order."""
    with open_text(corpus_files(CORPORA[corpus_name(system, corrected)])[loghub_file(system, corrected)]) as file:
        return list(csv.DictReader(file))


def classes(items: Ints, templates: list[str], rows: list[dict[str, str]], label: str | None) -> Ints:
    """The class of each line's template [L]."""
    if label is None:
        return hashed_classes(templates, HASHED_CLASSES)
    return modal_classes(items, [row[label] for row in rows])


def second(row: dict[str, str], header: Header) -> int:
    """Second in which a line was written, from 1970 on; lines of one second stay in file order.

    Logs that do not tell the year get 2000, which has all days.
    """
    text = " ".join(row[field] for field in header.clock)
    if header.form is None:
        return int(text)
    form = header.form if "%y" in header.form.lower() else f"%Y {header.form}"
    when = datetime.strptime(text if form == header.form else f"2000 {text}", form).replace(tzinfo=UTC)
    return int(when.timestamp())
