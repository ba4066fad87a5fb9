"""What the studies of a sweep found, in the order of its report: by workload, then by what repeats share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from models.config import canonical_json, round_number
from tasks.cells import Cell, Row, looks_ahead, marked, workload_titles
from tasks.labels import NamedCell, name_cells
from tasks.search import WORKLOAD, Goal, Proposal, StudyLabel, best_of, split
from tasks.statistics import Sample

COUNTS = ("slots_phase_end", "slots_mean")
"""How a memory's slots are counted whose size changes: as arXiv 2607.09889 does, and per token."""

BESIDE = ("recall", *COUNTS, "slots")
"""Metrics that are told of the best beside those that decided."""


@dataclass(frozen=True)
class Found:
    """One of the best of a study, or a reference, and what it measured.

    study, proposal    None: a reference, which nothing was searched for
    tuning, held_out   metric -> seed -> value, on the seeds that decided and on those that did not
    rows               its trials on held-out seeds, or where there are none, on the others
    """

    label: str
    study: StudyLabel | None
    proposal: Proposal | None
    tuning: Mapping[str, Sample]
    held_out: Mapping[str, Sample]
    rows: Sequence[Row]

    @property
    def leaks(self) -> bool:
        """Whether a proposal looks at later tokens; the label of a reference says it of itself."""
        if self.study is None or self.proposal is None:
            return False
        return looks_ahead(self.rows, {**self.study.mechanism, **split(self.proposal.params)[1]})


@dataclass(frozen=True)
class Study:
    """One study: `best` is its best, or with several objectives its Pareto front."""

    label: StudyLabel
    proposals: Sequence[Proposal]
    best: Sequence[Found]


@dataclass(frozen=True)
class Group:
    """Studies that differ by the sampler's seed alone, by rising repeat."""

    label: str
    studies: Sequence[Study]

    @property
    def best(self) -> list[Found]:
        """The best of its studies."""
        return [one for study in self.studies for one in study.best]

    @property
    def best_label(self) -> str:
        """What its best are called: marked where one of them looks at later tokens."""
        return marked(self.label, any(one.leaks for one in self.best))

    def front(self, goal: Goal) -> list[Found]:
        """What no proposal of any of its studies dominates."""
        found = {id(one.proposal): one for one in self.best}
        return [found[id(one)] for one in best_of([one.proposal for one in found.values() if one.proposal], goal)]


@dataclass(frozen=True)
class Contest:
    """All that was searched on one workload, numbered from 1, and the references that stand beside it."""

    number: int
    title: str
    groups: Sequence[Group]
    references: Sequence[Found]

    @property
    def studies(self) -> list[Study]:
        """Of all groups."""
        return [study for group in self.groups for study in group.studies]

    @property
    def repeats(self) -> int:
        """Studies of the largest group."""
        return max(len(group.studies) for group in self.groups)

    @property
    def found(self) -> list[Found]:
        """The best of all studies, then the references."""
        return [*(one for study in self.studies for one in study.best), *self.references]


def contests(
    cells: Sequence[Cell], studies: Sequence[StudyLabel], proposals: Sequence[Proposal], goal: Goal
) -> list[Contest]:
    """The studies of each workload in order of appearance, with what `cells` tell of their best and of references."""
    made: dict[int, list[Proposal]] = {}
    for proposal in proposals:
        made.setdefault(proposal.study, []).append(proposal)
    searched = {str(label.mechanism["name"]) for label in studies}
    own = {row["key"]: cell for cell in cells if cell.mechanism["name"] in searched for row in cell.rows.values()}
    references = name_cells([cell for cell in cells if cell.mechanism["name"] not in searched])

    by_workload: dict[str, list[StudyLabel]] = {}
    for label in studies:
        by_workload.setdefault(canonical_json(label.workload), []).append(label)
    titles = workload_titles([dict(labels[0].workload) for labels in by_workload.values()])
    return [
        Contest(
            number,
            title,
            _groups([_study(label, made.get(label.number, []), goal, own) for label in labels]),
            [_reference(one, goal) for one in references if _is_beside(labels[0], one)],
        )
        for number, (title, labels) in enumerate(zip(titles, by_workload.values(), strict=True), start=1)
    ]


def _groups(studies: Sequence[Study]) -> list[Group]:
    by_label: dict[str, list[Study]] = {}
    for study in studies:
        by_label.setdefault(study.label.group, []).append(study)
    return [Group(label, sorted(alike, key=lambda one: one.label.repeat)) for label, alike in by_label.items()]


def _study(label: StudyLabel, proposals: Sequence[Proposal], goal: Goal, cells: Mapping[str | None, Cell]) -> Study:
    return Study(label, proposals, [_best(label, one, cells.get(one.key)) for one in best_of(proposals, goal)])


def _best(label: StudyLabel, proposal: Proposal, cell: Cell | None) -> Found:
    """One of the best. Its own trials tell what its goal does not name."""
    rows = {} if cell is None else cell.rows
    tuning, held_out = (_beside(rows, side) | dict(side) for side in (proposal.metrics, proposal.held_out))
    shown = _seeds(proposal.held_out) or _seeds(proposal.metrics)
    found = Found(label.title, label, proposal, tuning, held_out, [rows[seed] for seed in shown if seed in rows])
    return replace(found, label=marked(label.title, found.leaks))


def _is_beside(label: StudyLabel, reference: NamedCell) -> bool:
    """Whether a reference read the streams of a study; nothing stands beside one that searches its workload."""
    fixed = not any(parameter.name.startswith(f"{WORKLOAD}.") for parameter in label.parameters)
    return fixed and _has(reference.cell.workload, label.workload)


def _has(fields: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_same(fields.get(name), value) for name, value in wanted.items())


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool) or not (isinstance(a, int | float) and isinstance(b, int | float)):
        return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)
    return round_number(float(a)) == round_number(float(b))


def _seeds(metrics: Mapping[str, Sample]) -> list[int]:
    return sorted(set[int]().union(*metrics.values()))


def _beside(rows: Mapping[int, Row], metrics: Mapping[str, Sample]) -> dict[str, Sample]:
    """What `BESIDE` names, of the seeds of `metrics`."""
    return dict(_samples({seed: rows[seed] for seed in _seeds(metrics) if seed in rows}, BESIDE))


def _reference(named: NamedCell, goal: Goal) -> Found:
    metrics = tuple(dict.fromkeys([*goal.metrics, *BESIDE]))
    return Found(named.label, None, None, {}, dict(_samples(named.done, metrics)), list(named.cell.rows.values()))


def _samples(rows: Mapping[int, Row], metrics: Sequence[str]) -> Iterator[tuple[str, Sample]]:
    for metric in metrics:
        values = {seed: row.get(f"metrics.{metric}") for seed, row in rows.items() if row.get("state") == "done"}
        if sample := {seed: float(value) for seed, value in values.items() if value is not None}:
            yield metric, sample
