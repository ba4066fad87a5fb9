"""Where people find a sweep in MLflow's pages."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlsplit, urlunsplit

from dashboards.mlflow_views import trials_view
from orchestrator.errors import StoreError
from orchestrator.settings import Settings
from orchestrator.tracker.records import parent_run_id_for

WORKFLOW = "workflowType=machine_learning"
"""Without it MLflow 3.17 shows the pages that it has for language models, unless somebody has chosen `Model training`
in that browser before: it heeds nothing that an experiment says of itself."""


@dataclass(frozen=True)
class RunLink:
    """Addresses of pages: the sweep's own run, the table of its trials by mechanism, and of all runs of its name."""

    run: str
    trials: str
    experiment: str


def pages_address(settings: Settings) -> str | None:
    """Where MLflow's pages are served for good, without a password; None where nobody serves them but `dashboard`."""
    address = settings.mlflow_url or settings.tracking_uri
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https"):
        return None
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


def run_link(settings: Settings, name: str, sweep: str, address: str | None = None) -> RunLink | None:
    """Links to the sweep `sweep` (an id), which is called `name`, on the pages at `address` (None: `pages_address`).

    None where no pages are served, or MLflow has not heard of the sweep yet. Asks the tracking store, which may take
    seconds: keep what comes back, it does not change. Raises StoreError if the tracking store does not answer.
    """
    from orchestrator.tracker.opening import open_tracker
    from orchestrator.tracker.tracker import TrackerRefusedError, TrackerUnavailableError

    address = address or pages_address(settings)
    if address is None:
        return None
    tracker = open_tracker(settings.tracking_uri, str(settings.artifacts))
    try:
        place = tracker.find(name, parent_run_id_for(sweep))
    except (TrackerUnavailableError, TrackerRefusedError) as error:
        raise StoreError(str(error)) from error
    finally:
        tracker.close()
    if place is None:
        return None
    runs = f"{address}/#/experiments/{place.experiment}/runs"
    return RunLink(
        run=f"{runs}/{place.run}?{WORKFLOW}",
        trials=f"{runs}?{WORKFLOW}&viewStateShareKey={quote(trials_view(sweep))}",
        experiment=f"{runs}?{WORKFLOW}",
    )
