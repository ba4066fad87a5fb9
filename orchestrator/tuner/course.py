"""The course of one study: batches of proposals, each evaluated on as many seeds as can change the ranking."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from models.config import MechanismConfig
from orchestrator.ledger import Ledger, Wanted
from orchestrator.spec.validation import message_of
from orchestrator.store.records import CellRow, ProposalRow, Verdict
from orchestrator.tuner.live import Known, LiveStudy, Stored, Told, told_of
from orchestrator.tuner.samplers import BY_GENERATION, default_batch, sized
from orchestrator.tuner.studies import StudySpec
from tasks.kinds.tuning import Levels, TuningConfig, Wilcoxon
from tasks.racing import Metrics, Race, looks
from tasks.search import Goal, Params, Proposal, best_of, full_name
from tasks.workload import WorkloadConfig

MOST_HELD_OUT = 50
"""Proposals of one Pareto front that are evaluated on the held-out seeds, at most."""

CellOf = Callable[[WorkloadConfig, MechanismConfig], CellRow]


OPEN = Verdict()


@dataclass(frozen=True)
class Stage:
    """What the proposals of a batch are given before they are compared: trials at a level, with the first `seeds`."""

    level: int
    seeds: int


@dataclass
class Member:
    """A proposal on its way. cells: one for each level, none where the params make no config."""

    number: int
    params: Params
    cells: tuple[CellRow, ...]
    same_as: int | None = None
    verdict: Verdict = OPEN


@dataclass
class Batch:
    """Proposals made together. rivals: metrics of the best proposals that were known when they were made."""

    number: int
    members: list[Member]
    rivals: list[Metrics]
    stage: int = 0

    @property
    def going(self) -> list[Member]:
        """Those that are not decided yet."""
        return [member for member in self.members if member.verdict.state == "open"]


@dataclass
class Step:
    """What follows from results: trials to ask for, proposals, verdicts by number, and the best if they are others."""

    wanted: list[Wanted] = field(default_factory=list)
    proposals: list[tuple[ProposalRow, CellRow | None]] = field(default_factory=list)
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    best: list[int] | None = None


class Course:
    """Drives one study. What it asks for follows from its spec and the results of earlier batches, never from timing.

    Once something is known, two batches are under way at a time, so that workers have work while proposals are made: a
    batch is made from the results of all batches but the one before. It is always one where a sampler makes
    generations, or a pruner compares with whatever is there.
    """

    def __init__(
        self, study: StudySpec, options: TuningConfig, seeds: Sequence[int], held_out: Sequence[int], cell_of: CellOf
    ) -> None:
        self.study = study
        self.goal: Goal = options.goal
        self._options = options
        self._seeds = tuple(seeds)
        self._held_out = tuple(held_out)
        self._cell_of = cell_of
        stops = options.stops
        self._levels = stops if isinstance(stops, Levels) else None
        self._race = Race(self.goal, stops.p) if isinstance(stops, Wilcoxon) else None
        self._stages = _stages(stops, len(self._seeds))
        self._under_way = 1 if self._levels or study.sampler.name in BY_GENERATION else 2
        sampler = sized(study.sampler, options.trials)
        self._batch = options.batch or default_batch(sampler, study.parameters, options.trials)
        self._live = LiveStudy(study.parameters, self.goal, sampler, study.seed, pruner=self._levels)
        self._flying: deque[Batch] = deque()
        self._told: list[Member] = []
        self._mending: list[Member] = []
        self._cells: dict[str, int] = {}
        self._points = 0
        self._batches = 0
        self._exhausted = False
        self._winners: list[Member] | None = None
        self._noted: set[int] = set()
        self._best: list[Metrics] = []

    # -- beginning ---------------------------------------------------------------------------------------------------

    def begin(
        self, rows: Sequence[ProposalRow], ledger: Ledger, known: Sequence[Known], points: Sequence[Params]
    ) -> None:
        """Begin with what is known of an earlier study and with points to try first; go on after stored proposals."""
        self._live.warm_start(known)
        self._live.enqueue(points)
        self._points = len(points)
        self._take_up(rows, ledger)
        told = {member.number: member for member in self._told}
        self._live.restore(
            [
                Stored(row.params, row.attributes, self._telling(member, ledger), self._by_level(member, ledger))
                if (member := told.get(row.number))
                else Stored(row.params, row.attributes)
                for row in rows
            ]
        )

    def _take_up(self, rows: Sequence[ProposalRow], ledger: Ledger) -> None:
        batches: dict[int, list[Member]] = {}
        for row in rows:
            member = self._member(row.params, row.number, Verdict(row.state, row.error, row.seeds))
            batches.setdefault(row.batch, []).append(member)
        under_way = {row.batch for row in rows if row.state == "open"}
        for number, batch in sorted(batches.items()):
            if number in under_way:
                last = max(number - self._under_way, min(0, number - 1))
                known = [one for other in batches if other <= last for one in batches[other]]
                self._flying.append(Batch(number, batch, self._front(known, ledger)))
            else:
                self._told += batch
        self._best = self._front(self._told, ledger)
        self._batches = len(batches)
        self._noted = {row.number for row in rows if row.best}
        self._mending = [one for one in self._told if one.verdict.state == "failed" and self._is_mended(one, ledger)]

    def _by_level(self, member: Member, ledger: Ledger) -> dict[int, float]:
        """Values of the objective at the levels that a proposal came to."""
        found: dict[int, float] = {}
        for level, cell in enumerate(member.cells if self._levels else ()):
            if not all(ledger.metrics(cell.digest, seed) for seed in self._seeds):
                break
            found[level] = self.goal.values(self._metrics(member, ledger, self._seeds, level))[0]
        return found

    def _is_mended(self, member: Member, ledger: Ledger) -> bool:
        """Whether no trial of a failed proposal is failed any more: they were retried."""
        if not member.cells:
            return False
        cell = member.cells[-1].digest
        seeds = [seed for seed in ledger.seeds(cell) if seed in self._seeds]
        return not any(ledger.has_ended(cell, [seed]) and ledger.metrics(cell, seed) is None for seed in seeds)

    # -- going on ----------------------------------------------------------------------------------------------------

    def advance(self, ledger: Ledger) -> Step:
        """Take up what `ledger` has learned: what to ask for, and what to note."""
        step = Step()
        self._fill(step)
        while self._flying:
            for batch in self._flying:
                self._judge(batch, ledger, step)
            if self._flying[0].going:
                break
            first = self._flying.popleft()
            for member in first.members:
                self._live.tell(member.number, self._telling(member, ledger))
                step.verdicts[member.number] = member.verdict
            self._told += first.members
            self._best = self._front(first.members, ledger, self._best)
            self._fill(step)
        self._mend(ledger, step)
        if not self._flying and not self._mending:
            self._hold_out(ledger, step)
        return step

    def _fill(self, step: Step) -> None:
        """Make as many batches as may be under way: one as long as nothing is known."""
        most = self._under_way if self._told else 1
        while len(self._flying) < most and (batch := self._propose(step)):
            self._flying.append(batch)

    def _propose(self, step: Step) -> Batch | None:
        """The next batch; None if there is none, or there are as many proposals as there shall be."""
        count = min(self._batch, self._options.trials - self.asked)
        if count <= 0 or self._exhausted:
            return None
        made = self._live.ask(count, self._batches)
        self._exhausted = len(made) < count
        if not made:
            return None
        batch = Batch(self._batches, [], self._best)
        for one in made:
            member = self._member(one.params, one.number)
            batch.members.append(member)
            cell = member.cells[-1] if member.cells else None
            row = ProposalRow(
                study=self.study.number,
                number=one.number,
                batch=batch.number,
                params=one.params,
                attributes=one.attributes,
                cell=None if cell is None else cell.digest,
                same_as=member.same_as,
                enqueued=one.number < self._points,
            )
            step.proposals.append((row, cell))
        self._batches += 1
        return batch

    def _member(self, params: Params, number: int, verdict: Verdict = OPEN) -> Member:
        try:
            cells = tuple(self._cell(params, level) for level in range(len(self._levels.levels) if self._levels else 1))
        except ValidationError as failure:
            why = "; ".join(map(message_of, failure.errors(include_url=False)))
            return Member(number, params, (), None, Verdict("failed", why))
        first = self._cells.setdefault(cells[-1].digest, number)
        return Member(number, params, cells, None if first == number else first, verdict)

    def _cell(self, params: Params, level: int) -> CellRow:
        """The cell of a proposal at a level. Raises ValidationError where the params do not go together."""
        own = str(self.study.mechanism_fields["name"])
        at_level = {full_name(self._levels.field, own): self._levels.levels[level]} if self._levels else {}
        return self._cell_of(*self.study.configs({**params, **at_level}))

    # -- judging -----------------------------------------------------------------------------------------------------

    def _judge(self, batch: Batch, ledger: Ledger, step: Step) -> None:
        """Take the batch as far as its trials go, and ask for what it needs next."""
        while going := batch.going:
            stage = self._stages[batch.stage]
            seeds = self._seeds[: stage.seeds]
            if not all(ledger.has_ended(member.cells[stage.level].digest, seeds) for member in going):
                step.wanted += [(member.cells[stage.level], seed) for seed in seeds for member in going]
                return
            for member in going:
                self._check(member, stage, ledger)
            self._compare(batch, stage, ledger)
            batch.stage += 1

    def _check(self, member: Member, stage: Stage, ledger: Ledger) -> None:
        """Fail a proposal of which a trial failed, or whose trials do not report what the goal asks for."""
        cell = member.cells[stage.level].digest
        for seed in self._seeds[: stage.seeds]:
            metrics = ledger.metrics(cell, seed)
            missing = [name for name in self.goal.metrics if metrics is not None and name not in metrics]
            if metrics is None or missing:
                why = f"no metric `{missing[0]}`" if missing else f"its trial with seed {seed} failed"
                member.verdict = Verdict("failed", why)
                return

    def _compare(self, batch: Batch, stage: Stage, ledger: Ledger) -> None:
        """Stop those that cannot be the best; where nothing is left to do for the others, they are complete."""
        last = stage == self._stages[-1]
        seeds = self._seeds[: stage.seeds]
        going = batch.going
        known = {member.number: self._metrics(member, ledger, seeds, stage.level) for member in going}
        if self._levels:
            values = {member.number: self.goal.values(known[member.number])[0] for member in going}
            stopped = self._live.stopped(stage.level, values)
            for member in going:
                if member.number in stopped and not last:
                    member.verdict = Verdict("stopped", seeds=stage.seeds)
        elif self._race and not last:
            rivals = [*batch.rivals, *_best_of_metrics(list(known.values()), self.goal)]
            for member in going:
                if self._race.stops(known[member.number], rivals, seeds):
                    member.verdict = Verdict("stopped", seeds=stage.seeds)
        for member in batch.going if last else ():
            member.verdict = Verdict("complete", seeds=stage.seeds)

    def _metrics(
        self, member: Member, ledger: Ledger, seeds: Sequence[int], level: int = -1
    ) -> dict[str, dict[int, float]]:
        return ledger.by_metric(member.cells[level].digest, seeds, self.goal.metrics) if member.cells else {}

    def _telling(self, member: Member, ledger: Ledger) -> Told:
        """What the sampler is told: means over the seeds that it was judged by, fewer where it was stopped.

        Of a cell that another study proposed as well there may be more by now.
        """
        metrics = self._metrics(member, ledger, self._seeds[: member.verdict.seeds])
        return told_of(member.verdict.state, metrics, self.goal, by_level=self._levels is not None)

    def _front(self, members: Sequence[Member], ledger: Ledger, before: Sequence[Metrics] = ()) -> list[Metrics]:
        """Metrics of the best of those `before` and of the complete ones of `members`; none where nobody is raced."""
        if self._race is None or len(self._stages) == 1:
            return []
        complete = [self._metrics(one, ledger, self._seeds) for one in members if one.verdict.state == "complete"]
        return _best_of_metrics([*before, *complete], self.goal)

    # -- ending ------------------------------------------------------------------------------------------------------

    def _mend(self, ledger: Ledger, step: Step) -> None:
        """Finish proposals that had failed and whose trials were retried. The sampler was told of the failure."""
        for member in list(self._mending):
            cell = member.cells[-1]
            if not ledger.has_ended(cell.digest, self._seeds):
                step.wanted += [(cell, seed) for seed in self._seeds]
                continue
            member.verdict = Verdict("complete", seeds=len(self._seeds))
            self._check(member, Stage(len(member.cells) - 1, len(self._seeds)), ledger)
            step.verdicts[member.number] = member.verdict
            self._mending.remove(member)

    def _hold_out(self, ledger: Ledger, step: Step) -> None:
        """Ask for the trials of the best on seeds that nothing was chosen by."""
        if self._winners is None:
            decided = [
                Proposal(
                    0, one.number, {}, one.verdict.state, self._metrics(one, ledger, self._seeds), same_as=one.same_as
                )
                for one in self._told
            ]
            numbers = {one.number for one in best_of(decided, self.goal)[:MOST_HELD_OUT]}
            self._winners = [member for member in self._told if member.number in numbers]
            step.best = None if numbers == self._noted else sorted(numbers)
        step.wanted += [(member.cells[-1], seed) for seed in self._held_out for member in self._winners]

    @property
    def asked(self) -> int:
        """Proposals made."""
        return len(self._told) + sum(len(batch.members) for batch in self._flying)

    @property
    def told(self) -> int:
        """Proposals that are decided."""
        return len(self._told)

    def over(self, ledger: Ledger) -> bool:
        """Whether nothing is left to ask for, and all that was asked for has ended."""
        if self._winners is None or self._flying or self._mending:
            return False
        return all(ledger.has_ended(member.cells[-1].digest, self._held_out) for member in self._winners)


def _stages(stops: Wilcoxon | Levels | None, seeds: int) -> list[Stage]:
    if isinstance(stops, Levels):
        return [Stage(level, seeds) for level in range(len(stops.levels))]
    return [Stage(0, count) for count in (looks(stops.first, seeds) if stops else [seeds])]


def _best_of_metrics(known: Sequence[Metrics], goal: Goal) -> list[Metrics]:
    """Those of `known` that are feasible and that no other dominates."""
    proposals = [Proposal(0, number, {}, "complete", one) for number, one in enumerate(known)]
    return [known[one.number] for one in best_of(proposals, goal)]


def points_of(study: StudySpec, enqueue: Sequence[Mapping[str, object]]) -> list[Params]:
    """Those of the points in a spec that a study can try: all of their parameters are its own."""
    own = str(study.mechanism_fields["name"])
    names = {parameter.name for parameter in study.parameters}
    points = ({full_name(name, own): value for name, value in point.items()} for point in enqueue)
    return [point for point in points if point.keys() <= names]
