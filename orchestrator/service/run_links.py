"""Where a page says that the MLflow runs of a sweep are."""

from __future__ import annotations

from dashboards.pages.frame import Link
from orchestrator.mlflow_links import pages_address
from orchestrator.service.artist import Artist, Wanted
from orchestrator.settings import Settings
from orchestrator.store.status import SweepStatus

PATIENCE_SECONDS = 0.5


def run_links(artist: Artist, settings: Settings, sweep: SweepStatus) -> tuple[Link, ...]:
    """Links to the sweep's own run and to its trials; to all runs as long as the tracking store does not tell where.

    Empty where no MLflow is served.
    """
    address = pages_address(settings)
    if address is None:
        return ()
    found = artist.draw(Wanted("mlflow", (sweep.id, sweep.name)), None, PATIENCE_SECONDS)
    if found is None or found.html is None:
        return (Link("MLflow", address, "the runs appear there as they are delivered"),)
    run, _, trials = found.html.partition("\n")
    return Link("MLflow run", run, "of this sweep"), Link("MLflow runs of its trials", trials, "a run for each")
