"""The trials of a sweep that grows, by cell and seed: what was asked for, and what has come back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.plan import trains_together, trial_key
from orchestrator.store.growing import Verdicts
from orchestrator.store.records import CellRow, Pending, ProposalRow, SweepRow
from orchestrator.store.states import TrialState
from orchestrator.store.store import Store

Wanted = tuple[CellRow, int]
"""A trial to ask for: (cell, seed)."""


@dataclass(frozen=True)
class Grown:
    """What was added to a sweep: trials that wait, and their cells by row.

    again: whether some of what was asked for is there already, so that there is something to learn at once
    """

    trials: tuple[Pending, ...] = ()
    cells: Mapping[int, CellRow] = field(default_factory=dict)
    again: bool = False


class Ledger:
    """Trials of one sweep. It is as good as what the store said last: `learn` asks again."""

    def __init__(self, store: Store, sweep: SweepRow) -> None:
        self._store = store
        self._sweep = sweep.id
        self.cells: dict[str, CellRow] = {}
        self._rows: dict[str, int] = {}
        self._trials: dict[tuple[str, int], int] = {}
        self._ended: dict[int, dict[str, float] | None] = {}
        self._open: set[int] = set()
        for row, cell in store.cells(sweep.id).items():
            self._know(cell, row)
        digests = {row: digest for digest, row in self._rows.items()}
        for trial in store.sweep_trials(sweep.id):
            self._trials[digests[trial.cell], trial.seed] = trial.trial
            if trial.state in (TrialState.PENDING, TrialState.LEASED):
                self._open.add(trial.trial)
            else:
                self._ended[trial.trial] = trial.metrics

    def _know(self, cell: CellRow, row: int) -> None:
        self.cells[cell.digest] = cell
        self._rows[cell.digest] = row

    def learn(self, trials: Collection[int] | None = None) -> None:
        """Ask the store which of `trials` (rows; None: all that are open) have ended."""
        asked = self._open if trials is None else self._open.intersection(trials)
        ended = self._store.ended(asked) if asked else {}
        self._ended |= ended
        self._open -= ended.keys()

    def has_ended(self, cell: str, seeds: Iterable[int]) -> bool:
        """Whether all trials of the cell (a digest) with `seeds` have ended."""
        return all(self._trials.get((cell, seed)) in self._ended for seed in seeds)

    def metrics(self, cell: str, seed: int) -> dict[str, float] | None:
        """Metrics of a trial that is done; None of one that failed, is open or was never asked for."""
        trial = self._trials.get((cell, seed))
        return None if trial is None else self._ended.get(trial)

    def by_metric(
        self, cell: str, seeds: Iterable[int], names: Collection[str] | None = None
    ) -> dict[str, dict[int, float]]:
        """Metrics of the cell's trials by name and seed, as far as there are any: those of `names`, or all (None)."""
        found: dict[str, dict[int, float]] = {}
        for seed in seeds:
            for name, value in (self.metrics(cell, seed) or {}).items():
                if names is None or name in names:
                    found.setdefault(name, {})[seed] = value
        return found

    def seeds(self, cell: str) -> list[int]:
        """Seeds that were asked for, rising."""
        return sorted(seed for digest, seed in self._trials if digest == cell)

    def ask(
        self,
        wanted: Iterable[Wanted],
        proposals: Sequence[tuple[ProposalRow, CellRow | None]] = (),
        verdicts: Verdicts | None = None,
        best: Mapping[int, Collection[int]] | None = None,
    ) -> Grown:
        """Ask for those of `wanted` that were not asked for yet. See `Store.grow`."""
        new = {
            (cell.digest, seed): cell
            for cell, seed in _seeds_together_where_trained(wanted)
            if (cell.digest, seed) not in self._trials
        }
        asked = [(cell, seed, trial_key(cell, seed)) for (_, seed), cell in new.items()]
        if not (asked or proposals or verdicts or best):
            return Grown()
        added = self._store.grow(self._sweep, asked, proposals, verdicts, best)
        waiting, cells = [], {}
        for ((digest, seed), cell), trial in zip(new.items(), added, strict=False):
            self._know(cell, trial.cell)
            self._trials[digest, seed] = trial.trial
            self._open.add(trial.trial)
            if trial.state == TrialState.PENDING:
                waiting.append(Pending(trial.position, trial.trial, trial.cell, seed))
                cells[trial.cell] = cell
        return Grown(tuple(waiting), cells, again=len(waiting) < len(added))


def _seeds_together_where_trained(wanted: Iterable[Wanted]) -> list[Wanted]:
    """Mechanisms that are trained come last, each with all of its seeds, which train together."""
    trained: dict[str, list[Wanted]] = {}
    others = []
    for cell, seed in wanted:
        if trains_together(cell):
            trained.setdefault(cell.digest, []).append((cell, seed))
        else:
            others.append((cell, seed))
    return [*others, *(one for group in trained.values() for one in group)]
