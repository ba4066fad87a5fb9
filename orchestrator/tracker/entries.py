"""A run as MLflow stores it: text within its limits, finite metrics, and the tags that runs are found by.

Both ways of writing go through here, so that they write the same.
"""

from __future__ import annotations

import functools
import getpass
import hashlib
import math
import posixpath
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.tracker.records import ParentRun, RunStatus, TrialRun

KEY_LENGTH = 250
NAME_LENGTH = 250
PARAM_LENGTH = 6000
TAG_LENGTH = 8000

RUN_ID_TAG = "slotsweep.run_id"
"""Our run id: over HTTP MLflow chooses its own, and runs are recognised by this tag."""

PARENT_TAG = "mlflow.parentRunId"
NAME_TAG = "mlflow.runName"

OWN_TAGS = ("slotsweep.", "hw.")
"""Prefixes of tags that are ours alone: a delivery replaces all of them, and leaves other people's tags as they are."""

NOTE_TAG = "mlflow.note.content"
"""The description of a run, or of an experiment, in Markdown."""

VIEW_TAG = "mlflow.sharedViewState."
"""Beginning of the tags in which an experiment keeps saved views of its table of runs."""

VIEW_LENGTH = 5000
"""Most characters of an experiment's tag."""


class Point(NamedTuple):
    """A value of a metric, at a time (milliseconds since the epoch) and a step."""

    key: str
    value: float
    ms: int
    step: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One run, ready to be stored."""

    run_id: str
    name: str
    user: str
    status: RunStatus
    start_ms: int
    end_ms: int | None
    params: dict[str, str]
    tags: dict[str, str]
    metrics: dict[str, float]
    series: dict[str, dict[int, float]]
    times: dict[str, Sequence[int]]

    @property
    def latest(self) -> dict[str, float]:
        """The value that MLflow shows of each metric: of a series its last."""
        return {**self.metrics, **{key: values[max(values)] for key, values in self.series.items()}}

    def points(self, keys: Iterable[str]) -> list[Point]:
        """Every point of the metrics named `keys`."""
        single = {key: {0: value} for key, value in self.metrics.items()} | self.series
        return [Point(key, value, self._ms(key, step), step) for key in keys for step, value in single[key].items()]

    def last_points(self, keys: Iterable[str]) -> list[Point]:
        """The last point of each of the series named `keys`."""
        return [
            Point(key, self.series[key][step], self._ms(key, step), step)
            for key in keys
            for step in [max(self.series[key])]
        ]

    def _ms(self, key: str, step: int) -> int:
        return self.times[key][step] if key in self.times else self.metrics_ms

    @property
    def metrics_ms(self) -> int:
        """The time that its metrics carry."""
        return self.start_ms if self.end_ms is None else self.end_ms


def parent_entry(run: ParentRun) -> Entry:
    """A sweep's run as MLflow stores it."""
    tags: dict[str, object] = {"slotsweep.sweep": run.sweep}
    if run.note:
        tags[NOTE_TAG] = run.note
    return _entry(run, tags)


def experiment_tags(run: ParentRun, there: Mapping[str, str]) -> dict[str, str]:
    """Tags that the sweep's experiment is to get, of which it has `there`."""
    about = {NOTE_TAG: shorten(run.about, VIEW_LENGTH)} if run.about and not there.get(NOTE_TAG) else {}
    views = {clean_key(VIEW_TAG + key): view for key, view in run.views.items() if len(view) <= VIEW_LENGTH}
    return {key: value for key, value in (about | views).items() if there.get(key) != value}


def trial_entry(run: TrialRun, parent: str) -> Entry:
    """A trial's run as MLflow stores it, under the run that MLflow knows as `parent`."""
    return _entry(run, {"slotsweep.sweep": run.sweep, "slotsweep.trial_key": run.trial_key, PARENT_TAG: parent})


def _entry(run: ParentRun | TrialRun, own: Mapping[str, object]) -> Entry:
    name = shorten(run.name, NAME_LENGTH)
    standard = {"mlflow.user": _user(), "mlflow.source.name": "slotsweep", "mlflow.source.type": "JOB"}
    tags = clean_tags({**standard, **run.tags, **own, NAME_TAG: name, RUN_ID_TAG: run.run_id})
    metrics = clean_metrics(run.metrics)
    return Entry(
        run_id=run.run_id,
        name=name,
        user=tags["mlflow.user"],
        status=run.status,
        start_ms=run.start_ms,
        end_ms=run.end_ms,
        params={clean_key(key): shorten(str(value), PARAM_LENGTH) for key, value in run.params.items()},
        tags=tags,
        metrics=metrics,
        series={} if isinstance(run, ParentRun) else clean_series(run.series, run.steps, metrics),
        times={} if isinstance(run, ParentRun) else {clean_key(key): times for key, times in run.times.items()},
    )


def clean_tags(tags: Mapping[str, object]) -> dict[str, str]:
    """Tags that have a value, as text."""
    return {clean_key(key): shorten(str(value), TAG_LENGTH) for key, value in tags.items() if value is not None}


def clean_metrics(metrics: Mapping[str, float | None]) -> dict[str, float]:
    """Metrics that are numbers; infinities become the largest float, which is what MLflow's own stores keep."""
    largest = sys.float_info.max
    return {
        clean_key(key): max(-largest, min(largest, float(value)))
        for key, value in metrics.items()
        if value is not None and not math.isnan(value)
    }


def clean_series(
    series: Mapping[str, Sequence[float | None]], steps: Mapping[str, Sequence[int]], metrics: Mapping[str, float]
) -> dict[str, dict[int, float]]:
    """Values by step of each series that has any number; a missing or NaN value leaves its step out.

    Steps are 0, 1, ... where `steps` has no others. A series named like one of the `metrics` is called `series/NAME`:
    MLflow has one history for a name.
    """
    cleaned = {}
    for key, values in series.items():
        at = steps.get(key, range(len(values)))
        found = clean_metrics({str(step): value for step, value in zip(at, values, strict=True)})
        name = clean_key(key)
        if found:
            cleaned[f"series/{name}" if name in metrics else name] = {int(step): v for step, v in found.items()}
    return cleaned


def shorten(text: str, limit: int) -> str:
    """`text`, or as much of it as fits `limit` characters with a note of how long it was."""
    if len(text) <= limit:
        return text
    note = f" … [{len(text)} characters]"
    return text[: limit - len(note)] + note


@functools.lru_cache(maxsize=4096)
def clean_key(key: str) -> str:
    """`key` as MLflow accepts it; a changed one ends in a hash of the original, so that keys stay distinct."""
    allowed = re.sub(r"[^/\w.\- :]", "_", key)
    plain = posixpath.normpath(allowed).lstrip("/.") or "_"
    if plain == key and len(key) <= KEY_LENGTH:
        return key
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return f"{plain[: KEY_LENGTH - len(digest) - 1]}-{digest}"


@functools.cache
def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
