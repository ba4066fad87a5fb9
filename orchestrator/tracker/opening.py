"""From a tracking URI to the right tracker."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from orchestrator.tracker.mlflow_client import MlflowClientTracker
from orchestrator.tracker.records import ParentRun, Place, RunStatus, TrialRun
from orchestrator.tracker.tracker import Tracker

logger = logging.getLogger(__name__)

BULK_BACKENDS = ("sqlite", "postgresql")


def open_tracker(uri: str, artifact_root: str) -> Tracker:
    """The tracker for an MLflow tracking URI. Touches nothing: `prepare()`, or the first write, does.

    artifact_root   folder or URI for the artifacts of a SQLite or Postgres store; a server has its own
    """
    backend = urlsplit(uri).scheme.partition("+")[0]
    if backend in BULK_BACKENDS:
        return SqlStoreTracker(uri, absolute_root(artifact_root))
    return MlflowClientTracker(uri)


def absolute_root(artifact_root: str) -> str:
    """`artifact_root` with a folder made absolute, as MLflow records it."""
    return artifact_root if urlsplit(artifact_root).scheme else str(Path(artifact_root).absolute())


class SqlStoreTracker(Tracker):
    """A SQL store, created when first used; then written in bulk if its schema is known, else through the client."""

    def __init__(self, uri: str, artifact_root: str) -> None:
        self._uri = uri
        self._artifact_root = artifact_root
        self._opened: Tracker | None = None

    def prepare(self) -> None:
        self._writer().prepare()

    def write_parent(self, run: ParentRun) -> None:
        self._writer().write_parent(run)

    def write_trials(self, runs: Sequence[TrialRun]) -> None:
        self._writer().write_trials(runs)

    def close_orphans(self, experiment: str, parent_run_id: str, status: RunStatus, end_ms: int) -> int:
        return self._writer().close_orphans(experiment, parent_run_id, status, end_ms)

    def find(self, experiment: str, run_id: str) -> Place | None:
        from orchestrator.tracker.mlflow_store import store_version

        return None if store_version(self._uri) is None else self._writer().find(experiment, run_id)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _writer(self) -> Tracker:
        if self._opened is None:
            from orchestrator.tracker.mlflow_sql import MlflowSql
            from orchestrator.tracker.mlflow_store import KNOWN_VERSIONS, ensure_store, store_version

            ensure_store(self._uri, self._artifact_root)
            version = store_version(self._uri)
            if version in KNOWN_VERSIONS:
                self._opened = MlflowSql(self._uri, self._artifact_root)
            else:
                logger.warning("MLflow's schema %s is not known: runs are written one by one, which is slow", version)
                self._opened = MlflowClientTracker(self._uri, self._artifact_root)
        return self._opened
