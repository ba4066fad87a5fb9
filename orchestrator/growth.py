"""What a sweep asks for beyond what was submitted, as its results come in; and the seeds that an interval needs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import numpy as np

from models.config import canonical_json
from orchestrator.ledger import Grown, Ledger
from orchestrator.patience import patiently
from orchestrator.pinned import pinned_spec
from orchestrator.plan import Plan
from orchestrator.store.records import CellRow, SweepRow
from tasks.kind import KINDS
from tasks.sequential import SeedsUntil

if TYPE_CHECKING:
    from orchestrator.store.store import Store

LOOK_SECONDS = 1.0
"""How often to ask the store for trials that ended elsewhere: in another sweep, or by another process."""


class Growth(ABC):
    """Takes steps, each of which adds what follows from the results so far.

    What it adds depends on the spec and on results alone, never on when they came or on who computed them, so that a
    sweep that was killed goes on as if nothing had happened.

    samples: cells like those that it will ask for, where a sweep begins with none of them
    """

    samples: tuple[CellRow, ...] = ()

    @abstractmethod
    def step(self, ended: Collection[int] | None) -> Grown:
        """Take up results, those of the trials `ended` (rows) or any (None), and ask for what follows from them."""

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether nothing will be asked for any more."""

    @property
    @abstractmethod
    def share(self) -> float:
        """How much of what will be asked for is there, from 0 to 1, as far as that can be told."""

    @property
    @abstractmethod
    def words(self) -> str:
        """How far it is, in words."""


class Grower:
    """Takes a growth's steps in a thread of its own, one after another: proposals may take longer than trials."""

    def __init__(self, growth: Growth) -> None:
        self._growth = growth
        self._news = threading.Condition()
        self._ended: set[int] = set()
        self._grown: deque[Grown] = deque()
        self._error: Exception | None = None
        self._again = True
        self._stepping = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="growth", daemon=True)
        self._thread.start()

    def note(self, trials: Iterable[int]) -> None:
        """Some trials (rows) have ended."""
        with self._news:
            self._ended.update(trials)
            self._news.notify_all()

    def take(self) -> list[Grown]:
        """What steps have added since this was last asked. Raises what one of them raised."""
        with self._news:
            if self._error is not None:
                raise self._error
            grown = list(self._grown)
            self._grown.clear()
            return grown

    def wait(self, seconds: float) -> None:
        """Wait until a step has been taken, or there is none to take, at most so long."""
        with self._news:
            self._news.wait_for(lambda: bool(self._grown) or self._error or not self._is_busy, seconds)

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._closed or self._is_busy, LOOK_SECONDS)
                if self._closed or self._growth.over:
                    self._news.notify_all()
                    return
                # Now and then, and after a step that asks for it, whatever has ended: elsewhere as well.
                ended = None if self._again or not self._ended else frozenset(self._ended)
                self._ended.clear()
                self._stepping = True
            grown, error = Grown(), None
            try:
                grown = patiently(self._growth.step, ended)
            except Exception as failure:  # for whoever takes what this thread has grown
                error = failure
            with self._news:
                self._again, self._stepping, self._error = grown.again, False, error
                self._grown.append(grown)
                self._news.notify_all()
                if error is not None:
                    return

    @property
    def _is_busy(self) -> bool:
        return self._stepping or ((self._again or bool(self._ended)) and not self._growth.over)

    @property
    def busy(self) -> bool:
        """Whether a step is being taken, or about to be."""
        with self._news:
            return self._is_busy

    @property
    def over(self) -> bool:
        """Whether nothing will be added any more, and all that was added has been taken."""
        with self._news:
            return self._error is None and not (self._grown or self._stepping) and self._growth.over

    @property
    def share(self) -> float:
        """As `Growth.share`."""
        return self._growth.share

    @property
    def words(self) -> str:
        """As `Growth.words`."""
        return self._growth.words

    def close(self) -> None:
        """Take no more steps; one that is under way is finished."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        self._thread.join()


class SeedGrowth(Growth):
    """Adds seeds to every cell until an interval is narrow enough: Stein's two stages, see `tasks.sequential`.

    All cells of a workload are given as many seeds as the one that needs most: they are compared seed by seed.
    """

    def __init__(self, ledger: Ledger, first: tuple[int, ...], until: SeedsUntil) -> None:
        self._ledger = ledger
        self._first = first
        self._until = until
        self._groups: dict[str, list[CellRow]] = {}
        for cell in ledger.cells.values():
            group = canonical_json([cell.workload, cell.episodes, cell.dtype, cell.device, cell.machine])
            self._groups.setdefault(group, []).append(cell)
        self._undecided = dict(self._groups)
        self._most = len(first)

    def step(self, ended: Collection[int] | None) -> Grown:
        self._ledger.learn(ended)
        wanted, decided = [], []
        for group, cells in self._undecided.items():
            if not all(self._ledger.has_ended(cell.digest, self._first) for cell in cells):
                continue
            count = max((self._needed(cell) for cell in cells), default=len(self._first))
            self._most = max(self._most, count)
            more = range(self._first[0] + len(self._first), self._first[0] + count)
            wanted += [(cell, seed) for seed in more for cell in cells]
            decided.append(group)
        grown = self._ledger.ask(wanted)
        for group in decided:
            del self._undecided[group]
        return grown

    def _needed(self, cell: CellRow) -> int:
        """Seeds that the cell asks for; those of the first stage where one of them failed or has no such metric."""
        results = [self._ledger.metrics(cell.digest, seed) for seed in self._first]
        values = [None if metrics is None else metrics.get(self._until.metric) for metrics in results]
        if any(value is None for value in values):
            return len(self._first)
        outcomes = cell.episodes if cell.episodes > 1 else None
        return self._until.rule.seeds_needed(np.array(values, dtype=np.float64), outcomes)

    @property
    def over(self) -> bool:
        return not self._undecided

    @property
    def share(self) -> float:
        return 1.0 - len(self._undecided) / len(self._groups) if self._groups else 1.0

    @property
    def words(self) -> str:
        if self._undecided:
            return f"first {len(self._first)} seeds, which tell how many there must be"
        return f"{self._most} seeds for a half-width of {self._until.rule.half_width:g} of {self._until.metric}"


def growth_of(store: Store, sweep: SweepRow) -> Growth | None:
    """What adds trials to a stored sweep; None if it was submitted whole."""
    tunes = KINDS.implementation(sweep.kind).proposes
    if not tunes and not sweep.spec.get("until"):
        return None
    spec = pinned_spec(store, sweep)
    if spec.until is not None:
        return SeedGrowth(Ledger(store, sweep), spec.seeds, spec.until)
    from orchestrator.tuner.tuner import Tuner

    return Tuner(store, sweep, spec)


def sample_cells(store: Store, sweep: SweepRow) -> tuple[CellRow, ...]:
    """Cells like those that a stored sweep will propose; none where it does not."""
    if not KINDS.implementation(sweep.kind).proposes:
        return ()
    return Plan(pinned_spec(store, sweep), fingerprints=sweep.fingerprints).cells


def grow_from_store(store: Store, sweep: SweepRow) -> bool:
    """Ask for all that follows from results that are in the store; whether nothing more will follow."""
    growth = growth_of(store, sweep)
    while growth is not None and growth.step(None).again:
        pass
    return growth is None or growth.over
