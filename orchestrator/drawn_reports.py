"""Which report that lies on this machine shows its sweep as it is."""

from __future__ import annotations

from pathlib import Path

from orchestrator.store.states import ENDED
from orchestrator.store.status import SweepStatus


def whole_report(sweep: SweepStatus) -> Path | None:
    """The HTML file of a report that shows all of a sweep that has ended; None: there is none, or an older one."""
    if sweep.state not in ENDED or sweep.report is None or sweep.finished is None:
        return None
    path = Path(sweep.report)
    return path if path.is_file() and path.stat().st_mtime >= sweep.finished else None
