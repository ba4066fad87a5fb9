"""Putting a run's files where MLflow looks for them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from orchestrator.tracker.tracker import TrackerRefusedError, TrackerUnavailableError


def upload(artifact_uri: str, files: Mapping[str, Path]) -> None:
    """Copy `files` (path inside the run's artifacts -> file here) under `artifact_uri`, replacing what is there."""
    check(files)
    folder = local_folder(artifact_uri)
    if folder is None:
        _upload_remote(artifact_uri, files)
        return
    for place, source in files.items():
        try:
            _replace(folder / place, source)
        except OSError as error:
            raise TrackerUnavailableError(f"artifact {place} cannot be written to {folder}: {error}") from error


def check(files: Mapping[str, Path]) -> None:
    """Raise TrackerRefusedError if a file is gone, or its place is not inside the run's artifacts."""
    for place, source in files.items():
        path = PurePosixPath(place)
        if path.is_absolute() or ".." in path.parts:
            raise TrackerRefusedError(f"artifact path {place!r} leads out of the run's artifacts")
        if not source.is_file():
            raise TrackerRefusedError(f"artifact {place!r}: there is no file {source}")


def local_folder(artifact_uri: str) -> Path | None:
    """The folder that `artifact_uri` names on this machine; None for a remote store."""
    parts = urlsplit(artifact_uri)
    if parts.scheme == "":
        return Path(artifact_uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _replace(target: Path, source: Path) -> None:
    """Copy `source` so that a reader of `target` sees the old file or the new one, never half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, aside = tempfile.mkstemp(dir=target.parent, prefix=".new-")
    os.close(descriptor)
    try:
        shutil.copyfile(source, aside)
        shutil.copymode(source, aside)
        os.replace(aside, target)
    except BaseException:
        os.unlink(aside)
        raise


def _upload_remote(artifact_uri: str, files: Mapping[str, Path]) -> None:
    from orchestrator.tracker.quiet import quiet_mlflow

    quiet_mlflow()
    from mlflow.exceptions import MlflowException
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    try:
        repository = get_artifact_repository(artifact_uri)
    except MlflowException as error:
        raise TrackerRefusedError(f"artifacts cannot be stored under {artifact_uri}: {error}") from error
    for place, source in files.items():
        try:
            with under_its_name(place, source) as (file, folder):
                repository.log_artifact(str(file), folder)
        except Exception as error:  # each kind of store raises its own library's errors
            raise TrackerUnavailableError(f"artifact {place} cannot be stored under {artifact_uri}: {error}") from error


@contextmanager
def under_its_name(place: str, source: Path) -> Iterator[tuple[Path, str | None]]:
    """A file with the content of `source` and the name of `place`, and the folder of `place` (None at the top).

    MLflow names an artifact after the file that it is given.
    """
    path = PurePosixPath(place)
    folder = None if path.parent == PurePosixPath() else str(path.parent)
    if source.name == path.name:
        yield source, folder
        return
    with tempfile.TemporaryDirectory() as aside:
        yield Path(shutil.copyfile(source, Path(aside) / path.name)), folder
