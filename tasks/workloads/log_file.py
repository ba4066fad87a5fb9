"""A log of the user's own as a stream: one line a token."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from models.stream import Stream
from tasks.own import DEFAULT_CLASSES, DEFAULT_DIM, Classes, Events, OwnConfig, OwnWorkload
from tasks.tables.columns import Encoding, TableError
from tasks.tables.log_lines import LINE, LogLines
from tasks.tables.occurrences import Hashed, Labels, Occurrences, occurrences
from tasks.tables.vectors import HashedVectors
from tasks.text.source import FilesConfig, Sha256, known, unchanged
from tasks.workload import LONGEST_STREAM, workload


def _label(pattern: str | None) -> str | None:
    try:
        groups = 0 if pattern is None else re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"`{pattern}` is no regular expression: {error}") from None
    if groups > 1:
        raise ValueError(f"`{pattern}` has {groups} groups, where one tells the label: write others as (?:...)")
    return pattern


class LogFileConfig(FilesConfig, OwnConfig):
    """Lines of your own log: recall a hash of a line's item, and for log parsers its words.

    An item is the exact line, masked: what a log parser finds is compared with that, or with a `label` in the lines.
    """

    name: Literal["log_file"] = "log_file"
    path_sha256: Sha256 = None
    path: Annotated[str, AfterValidator(known), Field(description="log, a line an event; gzip may have packed it")]
    skip: int = Field(0, ge=0, le=1000, description="words at the front of a line that are left out, such as its time")
    label: Annotated[str | None, AfterValidator(_label)] = Field(
        None,
        description="regular expression that finds a line's item, by its group if it has one; by default the line with "
        "numbers, addresses and paths masked",
    )
    encoding: Encoding = Field("utf-8", description="of the text")
    classes: Classes = None
    events: Events = None

    @property
    def lines(self) -> LogLines:
        """The lines that are read."""
        return LogLines(self.path, self.encoding, self.skip, self.label)


@workload(LogFileConfig)
class LogFile(OwnWorkload[LogFileConfig]):
    """Lines in the order of the file. Their words go along where the log is not long."""

    has_lines: ClassVar[bool] = True

    def read(self) -> tuple[Occurrences, HashedVectors]:
        config = self.config
        unchanged(config.path, config.path_sha256)
        kept = [config.path_sha256, config.skip, config.label, config.encoding, config.classes, config.events]
        found = occurrences(
            config.lines,
            LINE,
            Labels(config.classes or DEFAULT_CLASSES),
            config.events,
            Hashed(),
            kept if self.is_long(config) else None,
        )
        return found, HashedVectors(config.dim or DEFAULT_DIM)

    def stream(self, seed: int, episode: int) -> Stream:
        return replace(super().stream(seed, episode), lines=tuple(self.config.lines.words(self.config.events)))

    @classmethod
    def tokens(cls, config: LogFileConfig) -> int:
        """By the file's lines, as far as it is here."""
        try:
            lines = config.lines.count()
        except TableError:
            return config.events or LONGEST_STREAM
        return min(lines, config.events or lines)
