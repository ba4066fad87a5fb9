"""Putting a sweep's report together: rows from the store, the summary from tasks, the drawing from dashboards."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.pinned import pinned_spec
from orchestrator.plan import Plan
from orchestrator.results import result_rows
from orchestrator.settings import Settings
from orchestrator.store.records import SweepRow
from orchestrator.store.store import Store
from tasks.by_device import summarise
from tasks.kind import KINDS, NOTHING_ASKED, Asked
from tasks.search import Began
from tasks.summary import ReportInput, Summary

VERDICT = "verdict.md"
"""What the sweep says in short, beside its report: MLflow shows it as the description of the sweep's run."""


def summary_of(store: Store, sweep: SweepRow) -> Summary:
    """What the sweep says so far."""
    return summarise(KINDS.implementation(sweep.kind), list(result_rows(store, sweep)), asked_of(store, sweep))


def asked_of(store: Store, sweep: SweepRow) -> Asked:
    """What a sweep was asked for beside its trials."""
    tunes = KINDS.implementation(sweep.kind).proposes
    if not tunes and not sweep.spec.get("until"):
        return NOTHING_ASKED
    spec = pinned_spec(store, sweep)
    if not tunes:
        return Asked(spec.options, spec.until)
    from orchestrator.tuner.proposals import proposals_of
    from orchestrator.tuner.studies import studies_of

    labels = (study.label for study in studies_of(spec))
    if spec.taken is not None:
        from orchestrator.tuner.warm_start import known_results

        known = known_results(store, Plan(spec, fingerprints=sweep.fingerprints))
        labels = (replace(one, began=Began(spec.taken.sweep, len(known[one.number]))) for one in labels)
    studies = tuple(labels)
    return Asked(spec.options, None, studies, tuple(proposals_of(store, sweep, spec)))


def report_input(store: Store, sweep: SweepRow, asked: Asked | None = None) -> ReportInput:
    """Everything the sweep's report shows. asked: as `asked_of`, where that is known."""
    rows = list(result_rows(store, sweep))
    counts = sweep.counts
    return ReportInput(
        sweep=sweep.id,
        name=sweep.name,
        kind=sweep.kind,
        state=sweep.state,
        created=_iso(sweep.created),
        finished=None if sweep.finished is None else _iso(sweep.finished),
        seconds=store.computing_seconds(sweep.id) or None,
        counts={"trials": counts.total, "done": counts.done, "failed": counts.failed, "reused": sweep.reused},
        failures=dict(Counter(row["reason"] for row in rows if row["state"] == "failed")),
        spec=sweep.spec_text,
        summary=summarise(KINDS.implementation(sweep.kind), rows, asked or asked_of(store, sweep)),
        hardware=tuple(store.hardware_of(sweep.id)),
        reproduce=_reproduce(sweep),
        software={name: str(value) for name, value in sweep.software.items()},
    )


def write_own_report(store: Store, sweep: SweepRow, settings: Settings) -> tuple[Path, Summary]:
    """As `write_report`, into the sweep's own folder, without what an earlier drawing left there."""
    folder = settings.report_folder(sweep.id)
    for left_over in folder.iterdir() if folder.exists() else ():
        if left_over.is_file():
            left_over.unlink()
    return write_report(store, sweep, folder)


def write_report(store: Store, sweep: SweepRow, folder: Path) -> tuple[Path, Summary]:
    """Draw the sweep's report into `folder`; the HTML file's path and the summary it shows."""
    from dashboards.mlflow_notes import verdict
    from dashboards.report import render_report

    asked = asked_of(store, sweep)
    report = report_input(store, sweep, asked)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.yaml").write_text(sweep.spec_text, encoding="utf-8")
    (folder / VERDICT).write_text(verdict(report), encoding="utf-8")
    if KINDS.implementation(sweep.kind).proposes:
        from orchestrator.tuner.mirroring import write_studies_page

        write_studies_page(store, sweep, asked.proposals, folder)
    return render_report(report, folder), report.summary


def relative_link(report: str, folder: Path) -> str:
    """How a page in `folder` links to the file `report`."""
    return Path(os.path.relpath(Path(report).resolve(), folder.resolve())).as_posix()


def _reproduce(sweep: SweepRow) -> tuple[str, ...]:
    commit = sweep.software.get("git_commit")
    checkout = (f"git checkout {commit}",) if commit else (f"pip install slotsweep=={sweep.software['slotsweep']}",)
    return (*checkout, "# save the spec shown above as spec.yaml, then", "slotsweep run spec.yaml --no-cache")


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
