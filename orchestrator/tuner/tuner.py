"""What a sweep that tunes asks for: the studies of its spec, each on its course."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from models.config import MechanismConfig
from orchestrator.errors import RequestError
from orchestrator.growth import Growth
from orchestrator.ledger import Grown, Ledger, Wanted
from orchestrator.pinned import pinned_spec
from orchestrator.plan import Plan
from orchestrator.spec.spec import Spec
from orchestrator.store.growing import GrownElsewhereError
from orchestrator.store.records import CellRow, ProposalRow, SweepRow, Verdict
from orchestrator.store.store import Store
from orchestrator.tuner.course import Course, points_of
from orchestrator.tuner.live import Known
from orchestrator.tuner.proposals import proposals_of
from orchestrator.tuner.studies import studies_of
from tasks.kind import KINDS
from tasks.kinds.tuning import TuningConfig
from tasks.search import Proposal
from tasks.workload import WorkloadConfig


class Tuner(Growth):
    """All studies of one sweep, side by side: a batch of trials may serve several."""

    def __init__(self, store: Store, sweep: SweepRow, spec: Spec) -> None:
        self._store = store
        self._sweep = sweep
        self._plan = Plan(spec, fingerprints=sweep.fingerprints)
        self.samples = tuple(cell for group in self._plan.groups for cell in group.cells)
        assert isinstance(spec.options, TuningConfig)
        self._options = spec.options
        self._stale = False
        self._load()

    def _load(self) -> None:
        """Take everything from the store."""
        self._ledger = Ledger(self._store, self._sweep)
        known = _known(self._options, self._earlier())
        rows: dict[int, list[ProposalRow]] = {}
        for row in self._store.proposals(self._sweep.id):
            rows.setdefault(row.study, []).append(row)
        spec = self._plan.spec
        self._courses = []
        for study in studies_of(spec):
            course = Course(study, self._options, spec.seeds, spec.held_out, self._cell)
            points = points_of(study, self._options.enqueue)
            course.begin(rows.get(study.number, []), self._ledger, known, points)
            self._courses.append(course)

    def _cell(self, workload: WorkloadConfig, mechanism: MechanismConfig) -> CellRow:
        [device] = self._plan.devices
        return self._plan.cell(workload, mechanism, device)

    def _earlier(self) -> list[Proposal]:
        """Proposals of the sweep that the studies start from."""
        if self._options.warm_start is None:
            return []
        sweep = self._store.sweep(self._options.warm_start)
        if not KINDS.implementation(sweep.kind).proposes:
            raise RequestError(
                f"`warm_start`: sweep {sweep.id} is of kind {sweep.kind}, and only a tuning sweep will do"
            )
        return proposals_of(self._store, sweep, pinned_spec(self._store, sweep), self._options.goal)

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


def _known(options: TuningConfig, earlier: Sequence[Proposal]) -> list[Known]:
    """What a study is told of complete proposals of earlier ones."""
    goal = options.goal
    complete = [one for one in earlier if one.state == "complete" and set(goal.metrics) <= one.metrics.keys()]
    return [Known(one.params, goal.values(one.metrics), goal.violations(one.metrics)) for one in complete]
