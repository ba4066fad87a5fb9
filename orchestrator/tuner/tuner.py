"""What a sweep that tunes asks for: the studies of its spec, each on its course."""

from __future__ import annotations

from collections.abc import Collection

from models.config import MechanismConfig
from orchestrator.growth import Growth
from orchestrator.ledger import Grown, Ledger, Wanted
from orchestrator.plan import Plan
from orchestrator.spec.spec import Spec
from orchestrator.store.growing import GrownElsewhereError
from orchestrator.store.records import CellRow, ProposalRow, SweepRow, Verdict
from orchestrator.store.store import Store
from orchestrator.tuner.course import Course, points_of
from orchestrator.tuner.studies import studies_of
from orchestrator.tuner.warm_start import known_results
from tasks.kinds.tuning import TuningConfig
from tasks.workload import WorkloadConfig


class Tuner(Growth):
    """All studies of one sweep, side by side: a batch of trials may serve several."""

    def __init__(self, store: Store, sweep: SweepRow, spec: Spec) -> None:
        self._store = store
        self._sweep = sweep
        self._plan = Plan(spec, fingerprints=sweep.fingerprints)
        self.samples = self._plan.cells
        assert isinstance(spec.options, TuningConfig)
        self._options = spec.options
        self._stale = False
        self._load()

    def _load(self) -> None:
        """Take everything from the store."""
        self._ledger = Ledger(self._store, self._sweep)
        known = known_results(self._store, self._plan)
        rows: dict[int, list[ProposalRow]] = {}
        for row in self._store.proposals(self._sweep.id):
            rows.setdefault(row.study, []).append(row)
        spec = self._plan.spec
        courses = []
        for study in studies_of(spec):
            course = Course(study, self._options, spec.seeds, spec.held_out, self._cell)
            points = points_of(study, self._options.enqueue)
            course.begin(rows.get(study.number, []), self._ledger, known.get(study.number, []), points)
            courses.append(course)
        self._courses = courses  # whole, for who asks beside this how far they are

    def _cell(self, workload: WorkloadConfig, mechanism: MechanismConfig) -> CellRow:
        [device] = self._plan.devices
        return self._plan.cell(workload, mechanism, device)

    def step(self, ended: Collection[int] | None) -> Grown:
        if self._stale:
            self._load()
        self._stale = True  # until the store has what courses now take for decided
        self._ledger.learn(ended)
        wanted: list[Wanted] = []
        proposals: list[tuple[ProposalRow, CellRow | None]] = []
        verdicts: dict[tuple[int, int], Verdict] = {}
        best: dict[int, list[int]] = {}
        for course in self._courses:
            number, step = course.study.number, course.advance(self._ledger)
            wanted += step.wanted
            proposals += step.proposals
            verdicts |= {(number, proposal): verdict for proposal, verdict in step.verdicts.items()}
            if step.best is not None:
                best[number] = step.best
        try:
            grown = self._ledger.ask(wanted, proposals, verdicts, best)
        except GrownElsewhereError:
            return Grown(again=True)
        self._stale = False
        return grown

    @property
    def over(self) -> bool:
        return all(course.over(self._ledger) for course in self._courses)

    @property
    def share(self) -> float:
        return sum(course.told for course in self._courses) / (self._options.trials * len(self._courses))

    @property
    def words(self) -> str:
        told = sum(course.told for course in self._courses)
        studies = f" of {len(self._courses)} studies" if len(self._courses) > 1 else ""
        return f"{told:,} of {self._options.trials * len(self._courses):,} proposals{studies}"
