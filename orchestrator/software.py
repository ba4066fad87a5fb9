"""Which software a sweep was submitted with: slotsweep's version, its commit, and the libraries that compute."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from orchestrator.siblings import ROOT

LIBRARIES = ("numpy", "numba", "torch", "ray", "mlflow", "optuna", "sqlalchemy", "pydantic")


def software_record() -> dict[str, Any]:
    """Versions by name; `git_commit` and `git_dirty` where slotsweep runs from a checkout."""
    record: dict[str, Any] = {"slotsweep": library_version("slotsweep"), "python": platform.python_version()}
    record |= {name: library_version(name) for name in LIBRARIES}
    return record | _git()


@cache
def library_version(name: str) -> str:
    """The installed version of a distribution, or `not installed`."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _git() -> dict[str, Any]:
    if not (ROOT / ".git").exists():
        return {}
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=5
        ).stdout.strip()
        status = subprocess.run(
            ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=5
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"git_commit": commit, "git_dirty": bool(status.strip())}
