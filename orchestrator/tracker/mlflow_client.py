"""Runs through MLflow's public client: for servers reached over HTTP, and for stores whose tables we do not know.

A trial costs three calls (create with tags, log params and metrics, end), and two searches serve 250 trials. MLflow
chooses the run ids itself, so runs are found again by the tag `slotsweep.run_id`.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from orchestrator.tracker import artifacts
from orchestrator.tracker.entries import (
    NAME_LENGTH,
    NAME_TAG,
    OWN_TAGS,
    PARENT_TAG,
    RUN_ID_TAG,
    Entry,
    experiment_tags,
    parent_entry,
    shorten,
    trial_entry,
)
from orchestrator.tracker.quiet import quiet_mlflow
from orchestrator.tracker.records import ParentRun, Place, RunStatus, TrialRun
from orchestrator.tracker.tracker import Tracker, TrackerRefusedError, TrackerUnavailableError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

CONNECTIONS = 4
"""Requests at once: a server spends most of a request waiting for its database."""

SEARCHED_TOGETHER = 250
"""Trials whose runs are looked for at once, in two searches."""

REMEMBERED_PARENTS = 64

CURES = {
    "UNAUTHENTICATED": (
        "does not know who is writing: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
        "MLFLOW_TRACKING_TOKEN"
    ),
    "PERMISSION_DENIED": (
        "does not let this user write there: somebody who may manage the experiment has to grant EDIT, or give the "
        "sweep another name"
    ),
}
"""What to do about an error that no repetition mends."""

MOST_METRICS = 1000
"""Values that MLflow takes in one call."""


class MlflowClientTracker(Tracker):
    """Writes through MLflow's client. Deliveries of one run must not overlap in time: the server cannot exclude twins.

    artifact_root   where artifacts of new experiments go; None leaves it to the server
    """

    most_together = 100

    def __init__(self, uri: str, artifact_root: str | None = None) -> None:
        self._uri = uri
        self._place = _without_password(uri)
        self._artifact_root = artifact_root
        self._opened: MlflowClient | None = None
        self._experiments: dict[str, str] = {}
        self._parents: dict[str, str] = {}

    def prepare(self) -> None:
        with self._errors_named():
            self._client.search_experiments(max_results=1)

    def write_parent(self, run: ParentRun) -> None:
        artifacts.check(run.artifacts)
        entry = parent_entry(run)
        with self._errors_named():
            found = self._find_parent(run.experiment, run.run_id)
            identity = self._write(run.experiment, entry, found)
            self._remember_parent(run.run_id, identity)
            self._tag_experiment(run)
            for place, source in run.artifacts.items():
                with artifacts.under_its_name(place, source) as (file, folder):
                    self._client.log_artifact(identity, str(file), folder)

    def write_trials(self, runs: Sequence[TrialRun]) -> None:
        latest = {run.run_id: run for run in runs}
        ordered = sorted(latest.values(), key=lambda run: (run.experiment, run.parent_run_id, run.start_ms))
        with self._errors_named(), ThreadPoolExecutor(CONNECTIONS) as pool:
            for (experiment, parent), members in itertools.groupby(
                ordered, key=lambda run: (run.experiment, run.parent_run_id)
            ):
                parent_identity = self._parent_identity(experiment, parent)
                while chunk := list(itertools.islice(members, SEARCHED_TOGETHER)):
                    entries = [trial_entry(run, parent_identity) for run in chunk]
                    found = self._find_children(experiment, parent_identity, entries)
                    writing = [pool.submit(self._write, experiment, one, found.get(one.run_id)) for one in entries]
                    for done in writing:
                        done.result()

    def close_orphans(self, experiment: str, parent_run_id: str, status: RunStatus, end_ms: int) -> int:
        with self._errors_named():
            parent = self._find_parent(experiment, parent_run_id)
            if parent is None:
                return 0
            children = f"tags.`{PARENT_TAG}` = '{parent.info.run_id}' AND attributes.status = 'RUNNING'"
            open_runs = [run.info.run_id for run in self._search(experiment, children)]
            if parent.info.status == "RUNNING":
                open_runs.append(parent.info.run_id)
            for identity in open_runs:
                self._client.set_terminated(identity, status, end_ms)
            return len(open_runs)

    def find(self, experiment: str, run_id: str) -> Place | None:
        with self._errors_named():
            there = self._client.get_experiment_by_name(shorten(experiment, NAME_LENGTH))
            if there is None:
                return None
            self._experiments[there.name] = there.experiment_id
            run = self._find_parent(experiment, run_id)
            return None if run is None else Place(str(there.experiment_id), str(run.info.run_id))

    def close(self) -> None:
        self._opened = None
        self._forget()

    @property
    def _client(self) -> MlflowClient:
        if self._opened is None:
            quiet_mlflow()
            from mlflow import MlflowClient

            self._opened = MlflowClient(self._uri)
        return self._opened

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        quiet_mlflow()
        from mlflow.exceptions import MlflowException

        try:
            yield
        except OSError as error:  # requests' own errors, from uploads
            raise TrackerUnavailableError(self._message(error)) from error
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":  # the server has another database than it had: look again
                self._forget()
            if error.error_code in CURES:
                raise TrackerRefusedError(f"MLflow at {self._place} {CURES[error.error_code]}") from error
            refused = error.error_code in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
            kind = TrackerRefusedError if refused else TrackerUnavailableError
            raise kind(self._message(error)) from error

    def _message(self, error: Exception) -> str:
        return f"MLflow at {self._place}: {error}".replace(self._uri.rstrip("/"), self._place)

    def _forget(self) -> None:
        self._experiments.clear()
        self._parents.clear()

    # -- experiments and parents ------------------------------------------------------------------------------------

    def _experiment_id(self, name: str) -> str:
        name = shorten(name, NAME_LENGTH)
        if name not in self._experiments:
            self._experiments[name] = self._find_or_create_experiment(name)
        return self._experiments[name]

    def _find_or_create_experiment(self, name: str) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name, self._artifact_location(name)))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                found = self._client.get_experiment_by_name(name)
        if found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    def _tag_experiment(self, run: ParentRun) -> None:
        identity = self._experiment_id(run.experiment)
        wanted = experiment_tags(run, self._client.get_experiment(identity).tags)
        for key, value in wanted.items():
            self._client.set_experiment_tag(identity, key, value)

    def _artifact_location(self, experiment: str) -> str | None:
        if self._artifact_root is None:
            return None
        return f"{self._artifact_root}/{hashlib.sha256(experiment.encode()).hexdigest()[:16]}"

    def _find_parent(self, experiment: str, run_id: str) -> Run | None:
        return next(iter(self._search(experiment, f"tags.`{RUN_ID_TAG}` = '{run_id}'")), None)

    def _parent_identity(self, experiment: str, run_id: str) -> str:
        if run_id not in self._parents:
            found = self._find_parent(experiment, run_id)
            if found is None:
                raise TrackerRefusedError(f"MLflow at {self._place} has no run of sweep {run_id}")
            self._remember_parent(run_id, found.info.run_id)
        return self._parents[run_id]

    def _remember_parent(self, run_id: str, identity: str) -> None:
        if len(self._parents) >= REMEMBERED_PARENTS:
            self._parents.clear()
        self._parents[run_id] = identity

    # -- runs -------------------------------------------------------------------------------------------------------

    def _search(self, experiment: str, condition: str) -> list[Run]:
        """Runs of `experiment` that meet `condition`, deleted ones included: a deleted run is not to be made again."""
        from mlflow.entities import ViewType

        runs: list[Run] = []
        token = None
        while True:
            page = self._client.search_runs(
                [self._experiment_id(experiment)], condition, run_view_type=ViewType.ALL, page_token=token
            )
            runs += page
            token = page.token
            if not token:
                return runs

    def _find_children(self, experiment: str, parent: str, entries: Sequence[Entry]) -> dict[str, Run]:
        """Those of `entries` that are there already, by our run id.

        MLflow cannot search for a list of tags. A run that is FINISHED is delivered again with the same start time, so
        it started when one of `entries` did; any other may have been retried, and there are few of those.
        """
        starts = [entry.start_ms for entry in entries]
        children = f"tags.`{PARENT_TAG}` = '{parent}'"
        same_time = f"{children} AND attributes.start_time >= {min(starts)} AND attributes.start_time <= {max(starts)}"
        unfinished = f"{children} AND attributes.status != 'FINISHED'"
        found = itertools.chain(self._search(experiment, same_time), self._search(experiment, unfinished))
        return {run.data.tags.get(RUN_ID_TAG, ""): run for run in found}

    def _write(self, experiment: str, entry: Entry, found: Run | None) -> str:
        """Create the run, or bring the one that was found up to date. Returns MLflow's run id."""
        if found is None:
            created = self._client.create_run(
                self._experiment_id(experiment), entry.start_ms, tags=entry.tags, run_name=entry.name
            )
            self._log(created.info.run_id, entry, entry.params, {}, entry.latest)
            self._set_status(created.info.run_id, entry)
            return str(created.info.run_id)
        identity, data = str(found.info.run_id), found.data
        if found.info.lifecycle_stage == "deleted":
            return identity
        new_params = {key: value for key, value in entry.params.items() if key not in data.params}
        tags = {key: value for key, value in _changed(entry.tags, data.tags).items() if key != NAME_TAG}
        self._log(identity, entry, new_params, tags, _changed(entry.latest, data.metrics))
        for key in data.tags:
            if key.startswith(OWN_TAGS) and key not in entry.tags:
                self._client.delete_tag(identity, key)
        if (found.info.status, found.info.end_time) != (entry.status, entry.end_ms):
            self._set_status(identity, entry)
        return identity

    def _log(
        self,
        identity: str,
        entry: Entry,
        params: Mapping[str, str],
        tags: Mapping[str, str],
        metrics: Iterable[str],
    ) -> None:
        """Log these params and tags, and every step of the metrics named `metrics`."""
        from mlflow.entities import Metric, Param, RunTag

        values = [Metric(*point) for point in entry.points(metrics)]
        for start in range(MOST_METRICS, len(values), MOST_METRICS):
            self._client.log_batch(identity, metrics=values[start : start + MOST_METRICS])
        self._client.log_batch(
            identity,
            metrics=values[:MOST_METRICS],
            params=[Param(key, value) for key, value in params.items()],
            tags=[RunTag(key, value) for key, value in tags.items()],
        )

    def _set_status(self, identity: str, entry: Entry) -> None:
        if entry.end_ms is None:
            self._client.update_run(identity, status=entry.status)
        else:
            self._client.set_terminated(identity, entry.status, entry.end_ms)


def _changed(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in wanted.items() if there.get(key) != value}


def _without_password(uri: str) -> str:
    from sqlalchemy import make_url

    return str(make_url(uri)).rstrip("/")
