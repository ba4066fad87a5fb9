"""What a sweep still has before it: which batches to hand out first, and how long the rest will take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.batching import TARGET_SECONDS, guessed_costs, stream_group
from orchestrator.forecast import History, Work
from orchestrator.plan import trains_together
from orchestrator.store.glance import Glance
from orchestrator.store.records import CellRow, WaitingCell

LONG_SECONDS = 30.0
"""A trial that takes so long tells what others will take, even if it is a worker's first."""


@dataclass(frozen=True)
class Span:
    """Cells (rows) whose trials share batches, and the first and the last position at which one waits."""

    cells: frozenset[int]
    first: int
    last: int


class Outlook:
    """Expected seconds of every waiting trial: from the history of the store, then from what this sweep measures."""

    def __init__(self, store: Glance, cells: Mapping[int, CellRow], waiting: Sequence[WaitingCell]) -> None:
        self.spans: tuple[Span, ...] = ()
        self._left = {one.cell: one.trials for one in waiting}
        self._expected: dict[int, float] = {}
        self._seconds: dict[int, float] = {}
        self._counts: dict[int, int] = {}
        self._cold: set[int] = set()
        self._measured = 0.0
        self._warm: set[tuple[str, str]] = set()
        self._names = {cell: row.mechanism["name"] for cell, row in cells.items()}
        if waiting:
            self._expect(History(store, {self._names[one.cell] for one in waiting}), cells, waiting)

    def _expect(self, history: History, cells: Mapping[int, CellRow], waiting: Sequence[WaitingCell]) -> None:
        """Set what each trial is expected to take, and the spans: those with the longest batches first."""
        forecast = history.forecast([Work(cells[one.cell], one.trials) for one in waiting])
        groups: dict[str, list[int]] = {}
        for index, one in enumerate(waiting):
            groups.setdefault(stream_group(cells[one.cell]), []).append(index)
        found: list[tuple[float, Span]] = []
        for members in groups.values():
            rows = [waiting[index] for index in members]
            guesses = [guessed_costs(cells[row.cell]) for row in rows]
            own = [forecast.own[index] for index in members]
            trials = [guess[1] if one is None else one for one, guess in zip(own, guesses, strict=True)]
            stream = forecast.shared[members[0]] or guesses[0][0]
            for row, seconds in zip(rows, trials, strict=True):
                self._expected[row.cell] = seconds + stream / len(members)
            together = rows[0].trials if trains_together(cells[rows[0].cell]) else 1
            longest = max(TARGET_SECONDS, (stream + sum(trials)) * together)
            span = Span(
                frozenset(row.cell for row in rows), min(row.first for row in rows), max(row.last for row in rows)
            )
            found.append((longest, span))
        found.sort(key=lambda one: (-one[0], one[1].first))
        self.spans = tuple(span for _, span in found)

    def note(self, worker: str, seconds: Sequence[tuple[int, float]]) -> None:
        """Trials have finished together on `worker`: of which cells, and how long each took.

        A worker's first trials of a mechanism hold the time in which its kernels were compiled or loaded. So they tell
        nothing of the others, unless they are long, and then only until there is a later one.
        """
        for cell, took in seconds:
            self._left[cell] = max(0, self._left.get(cell, 0) - 1)
            self._measured += took
            warm = (worker, self._names.get(cell, "")) in self._warm
            if warm and cell in self._cold:
                self._cold.remove(cell)
                self._seconds[cell], self._counts[cell] = 0.0, 0
            elif not warm and took >= LONG_SECONDS and cell not in self._counts:
                self._cold.add(cell)
            if warm or cell in self._cold:
                self._seconds[cell] = self._seconds.get(cell, 0.0) + took
                self._counts[cell] = self._counts.get(cell, 0) + 1
        self._warm |= {(worker, self._names.get(cell, "")) for cell, _ in seconds}

    def carry(self, before: Outlook) -> None:
        """Take over what was measured so far."""
        self._seconds |= before._seconds
        self._counts |= before._counts
        self._cold |= before._cold
        self._measured += before._measured
        self._warm |= before._warm
        self._expected = {**before._expected, **self._expected}

    @property
    def measured(self) -> float:
        """Seconds that finished trials took, all workers together."""
        return self._measured

    @property
    def settled(self) -> bool:
        """Whether it is known what trials take once a worker has begun."""
        return bool(self._counts) or not any(self._left.values())

    def left(self) -> float:
        """Seconds that the trials which are left will take, all workers together.

        By the mean of the cell's own trials; where there are none, by what was expected, times how much longer others
        of the mechanism, or else all others, took than expected.
        """
        ratios = self._ratios()
        overall = ratios.get("", 1.0)
        total = 0.0
        for cell, trials in self._left.items():
            if cell in self._counts:
                total += trials * self._seconds[cell] / self._counts[cell]
            else:
                total += trials * self._expected.get(cell, 0.0) * ratios.get(self._names.get(cell, ""), overall)
        return total

    def _ratios(self) -> dict[str, float]:
        """Measured over expected seconds, by mechanism, and of all under an empty name."""
        took: dict[str, float] = {}
        expected: dict[str, float] = {}
        for cell, seconds in self._seconds.items():
            for name in (self._names.get(cell, ""), ""):
                took[name] = took.get(name, 0.0) + seconds
                expected[name] = expected.get(name, 0.0) + self._expected.get(cell, 0.0) * self._counts[cell]
        return {name: seconds / expected[name] for name, seconds in took.items() if expected[name]}
