"""Checking a paper's claims: which sweeps measure them, which of these have run, and what their rows say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import NotThereError
from orchestrator.lacking import part_lacking
from orchestrator.machines import planned
from orchestrator.newest import GONE, newest_sweep
from orchestrator.preflight import check_before_submitting
from orchestrator.reporting import relative_link
from orchestrator.requests import load_spec
from orchestrator.results import result_rows
from orchestrator.runner import submit_plan
from orchestrator.settings import Settings
from orchestrator.software import software_record
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store
from tasks.certificate import Certificate, Judgement, claim_record

if TYPE_CHECKING:
    from tasks.claims import Paper


@dataclass(frozen=True)
class Measurements:
    """The sweeps that measure a paper's claims, by the name of their ready-made spec.

    missing  ids of those that are not done, in order of need
    lacking  why the data of those that have no sweep cannot be had
    other    which seeds those are from that have not the spec's, in words
    """

    sweeps: dict[str, str]
    missing: list[str]
    lacking: dict[str, str]
    other: dict[str, str]


def known_paper(name: str) -> Paper:
    """The claims of a paper. Raises NotThereError for a paper that has none."""
    from tasks.claims import PAPERS, read_claims

    if name not in PAPERS:
        raise NotThereError(f"there are no claims of a paper `{name}`; papers: {', '.join(PAPERS)}")
    return read_claims(name)


def find_measurements(store: Store, settings: Settings, paper: Paper, *, submit: bool) -> Measurements:
    """The newest sweep of each spec that measures a claim, with the trials that the spec asks for now.

    Where there is none, the newest with its cells and other seeds, which is told. With `submit`, specs that have
    neither get one, if their data are to be had. Nothing is computed here.
    """
    from tasks.claims import sweeps_of

    plans = {name: planned(load_spec(name), settings) for name in sweeps_of(paper.claims, everywhere=False)}
    rows = store.sweeps()
    fitting = {name: one for name, plan in plans.items() if (one := newest_sweep(store, rows, plan, GONE)) is not None}
    found = {name: row for name, (row, _) in fitting.items()}
    sweeps = {name: row.id for name, row in found.items()}
    other = {name: words for name, (_, words) in fitting.items() if words}
    lacking: dict[str, str] = {}
    if submit:
        wanted, lacking = part_lacking({name: plan for name, plan in plans.items() if name not in sweeps})
        for name, plan in wanted.items():
            check_before_submitting(plan, settings)
            sweeps[name] = submit_plan(store, plan).sweep
    missing = [sweep for name, sweep in sweeps.items() if name not in found or found[name].state != SweepState.DONE]
    return Measurements(sweeps, missing, lacking, other)


def judge_paper(
    store: Store, paper: Paper, measurements: Measurements, folder: Path, seconds: float | None
) -> Certificate:
    """What the rows of `measurements` say of each claim of `paper`; links to reports are relative to `folder`."""
    from tasks.claims import judge

    sweeps = {name: store.sweep(sweep) for name, sweep in measurements.sweeps.items()}
    rows = {name: list(result_rows(store, row)) for name, row in sweeps.items()}
    machines = {str(record): record for row in sweeps.values() for record in store.hardware_of(row.id)}
    return Certificate(
        paper=paper.name,
        title=paper.title,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=seconds,
        judgements=tuple(
            _with_seeds(with_reason(one, measurements.lacking), measurements.other) for one in judge(paper.claims, rows)
        ),
        machines=tuple(machines.values()),
        software={name: str(value) for name, value in software_record().items()},
        reports={name: relative_link(row.report, folder) for name, row in sweeps.items() if row.report is not None},
    )


def with_reason(judgement: Judgement, lacking: Mapping[str, str]) -> Judgement:
    """A claim that nothing measured because its data cannot be had says so."""
    reason = lacking.get(judgement.sweep or "")
    if judgement.verdict != "not measured" or reason is None:
        return judgement
    return replace(judgement, verdict="not measurable here", reason=reason)


def _with_seeds(judgement: Judgement, other: Mapping[str, str]) -> Judgement:
    """A judgement, and that under another condition, with the seeds that it is from where they are not the spec's."""
    ablation = judgement.ablation
    if ablation is not None and (words := other.get(ablation.sweep)):
        judgement = replace(judgement, ablation=replace(ablation, reason=f"{ablation.reason} ({words})"))
    words = other.get(judgement.sweep or "")
    return replace(judgement, reason=f"{judgement.reason} ({words})") if words else judgement


def certificate_record(certificate: Certificate) -> dict[str, Any]:
    """The contract of `claims --json`."""
    claims: list[Mapping[str, Any]] = [claim_record(judgement) for judgement in certificate.judgements]
    return {"paper": certificate.paper, "seconds": certificate.seconds, "claims": claims}
