"""What MLflow's pages tell of a sweep in words, gathered from its row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dashboards.mlflow_notes import SweepNote
from orchestrator.reporting import VERDICT
from orchestrator.store.records import SweepRow
from orchestrator.store.states import ENDED

SpecEntry = dict[str, Any]
"""One workload or mechanism of a stored spec: its `fixed` fields and its `axes`."""


def note_of(sweep: SweepRow) -> SweepNote:
    """What is known of the sweep as it stands."""
    counts = sweep.counts
    return SweepNote(
        sweep=sweep.id,
        kind=sweep.kind,
        state=sweep.state,
        description=sweep.spec["description"],
        workloads=_names(sweep.spec["workload"]),
        mechanisms=_names(sweep.spec["mechanisms"]),
        seeds=len(sweep.spec["seeds"]),
        trials=counts.total,
        done=counts.done,
        failed=counts.failed,
        reused=sweep.reused,
        spec=sweep.spec_text,
        verdict=_verdict(sweep),
        over=sweep.state in ENDED,
    )


def varied_fields(sweep: SweepRow, mechanism: str | None = None) -> list[str]:
    """Fields in which trials of the sweep differ, such as `mechanism.tau`: axes, and what a study searches.

    mechanism: its trials alone are compared; else the fields in which those of any mechanism differ
    """
    families = {"mechanism": sweep.spec["mechanisms"], "workload": sweep.spec["workload"]}
    found: dict[str, None] = {}
    for family, entries in families.items():
        for name in _names(entries):
            if family == "workload" or mechanism in (None, name):
                found |= dict.fromkeys(f"{family}.{field}" for field in _varied(entries, name))
    for dimension in (sweep.spec.get("options") or {}).get("search", ()):
        owner, _, field = dimension.partition(".")
        if owner == "workload" or mechanism in (None, owner) or owner == "mechanism":
            found[f"{'workload' if owner == 'workload' else 'mechanism'}.{field}"] = None
    return list(found)


def _varied(entries: Iterable[SpecEntry], name: str) -> list[str]:
    """The axes of the entries called `name`, and the fields in which these entries differ."""
    same = [entry for entry in entries if entry["fixed"]["name"] == name]
    axes = [axis["field"] for entry in same for axis in entry["axes"] if len(axis["values"]) > 1]
    fixed = dict.fromkeys(field for entry in same for field in entry["fixed"])
    differing = [
        field for field in fixed if any(one["fixed"].get(field) != same[0]["fixed"].get(field) for one in same)
    ]
    return [*axes, *differing]


def _names(entries: Iterable[SpecEntry]) -> list[str]:
    return list(dict.fromkeys(entry["fixed"]["name"] for entry in entries))


def _verdict(sweep: SweepRow) -> str:
    """What the sweep's last report says; empty where there is none, or where it lies on another machine."""
    if sweep.report is None:
        return ""
    try:
        return Path(sweep.report).with_name(VERDICT).read_text(encoding="utf-8")
    except OSError:
        return ""
