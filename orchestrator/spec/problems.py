"""What is wrong with a spec: where, what, what was expected; how it prints, and how all of it is kept together."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.spec.nodes import Node

LINE_BREAK = re.compile(r"\r\n|\r|\n")
SHOWN_WIDTH = 100
NAME_WIDTH = 80


@dataclass(frozen=True)
class Source:
    """Text that problems point into: a file, or one `--set` override. Lower ranks are reported first."""

    name: str
    text: str
    rank: int = 0

    @cached_property
    def lines(self) -> list[str]:
        """The text without its line breaks."""
        return LINE_BREAK.split(self.text)

    def line(self, number: int) -> str:
        """Line `number` (1-based); empty where there is none."""
        return self.lines[number - 1] if 1 <= number <= len(self.lines) else ""


@dataclass(frozen=True)
class Place:
    """A position in a source; line and column count from 1, in characters."""

    source: Source
    line: int = 1
    column: int = 1

    @classmethod
    def of_index(cls, source: Source, index: int) -> Place:
        """The place of character `index` (0-based) of the source."""
        breaks = [match.end() for match in LINE_BREAK.finditer(source.text, 0, index)]
        return cls(source, len(breaks) + 1, index - (breaks[-1] if breaks else 0) + 1)

    def __str__(self) -> str:
        name = self.source.name
        shown = name if len(name) <= NAME_WIDTH or self.source.rank == 0 else f"{name[:NAME_WIDTH]}..."
        return f"{visible(shown)}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. `expected` and `hint` may be empty."""

    place: Place
    wrong: str
    expected: str = ""
    hint: str = ""

    def render(self) -> str:
        """Plain text: `file:line:column: what`, the offending line with a caret, what was expected, a hint."""
        rows = [f"{self.place}: {self.wrong}"]
        line = self.place.source.line(self.place.line)
        if line.strip():
            number = f"{self.place.line:>5}"
            shown, caret = _line_and_caret(line, self.place.column)
            rows += [f"{number} | {shown}".rstrip(), f"{' ' * len(number)} | {caret}"]
        if self.expected:
            rows.append(f"  expected {self.expected}")
        if self.hint:
            rows.append(f"  {self.hint}")
        return "\n".join(rows)

    def as_json(self) -> dict[str, Any]:
        """The same as a JSON tree."""
        return {
            "file": self.place.source.name,
            "line": self.place.line,
            "column": self.place.column,
            "text": self.place.source.line(self.place.line),
            "message": self.wrong,
            "expected": self.expected,
            "hint": self.hint,
        }


class SpecError(ValueError):
    """A spec cannot be read; holds every problem, the file's in file order first, then those of the overrides."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(
            sorted(problems, key=lambda problem: (problem.place.source.rank, problem.place.line, problem.place.column))
        )
        super().__init__(self.render())

    def __reduce__(self) -> tuple[type[SpecError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)

    def render(self) -> str:
        """Plain text for a terminal: one block a problem, and their number."""
        count = len(self.problems)
        blocks = [problem.render() for problem in self.problems]
        return "\n\n".join([*blocks, f"{count} problem{'s' if count != 1 else ''} in the spec"])

    def as_json(self) -> list[dict[str, Any]]:
        """One JSON tree a problem."""
        return [problem.as_json() for problem in self.problems]


class Problems:
    """Collects problems while a spec is read, so that all are reported at once and none of them twice."""

    def __init__(self) -> None:
        self._found: list[Problem] = []
        self._spoiled: dict[int, Node] = {}

    def at(self, place: Place, wrong: str, *, expected: str = "", hint: str = "") -> None:
        """Note a problem at a place that is no value."""
        self._found.append(Problem(place, wrong, expected, hint))

    def add(self, node: Node, wrong: str, *, expected: str = "", hint: str = "") -> None:
        """Note a problem with a value; from here on the value is not `clean`."""
        self.spoil(node)
        self.at(node.at, wrong, expected=expected, hint=hint)

    def spoil(self, node: Node) -> None:
        """Make `node` count as not `clean`, for a reason that has been noted elsewhere."""
        self._spoiled[id(node)] = node

    def spoiled(self, node: Node) -> bool:
        """Whether the problem is with `node` itself: then nothing is known of what it has or lacks."""
        return id(node) in self._spoiled

    def clean(self, node: Node) -> bool:
        """Whether no problem was found with `node` or anything in it, so that its meaning can be checked."""
        return not self.spoiled(node) and all(self.clean(child) for child in node.children())

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        """Raise SpecError with everything found so far."""
        if self._found:
            raise SpecError(self._found)


def visible(text: str) -> str:
    """`text` with control characters replaced, so that printing it cannot steer a terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _line_and_caret(line: str, column: int) -> tuple[str, str]:
    """The part of `line` around `column`, and a caret that stands under it in a monospaced font."""
    start = max(0, column - 1 - SHOWN_WIDTH // 2) if len(line) > SHOWN_WIDTH else 0
    stop = start + SHOWN_WIDTH
    head, tail = ("..." if start else ""), ("..." if stop < len(line) else "")
    before = line[start : column - 1]
    shown = visible(line[start:stop].replace("\t", " "))
    width = len(head) + sum(_columns(char) for char in before)
    return head + shown + tail, " " * width + "^"


def _columns(char: str) -> int:
    """Terminal columns of a character."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
