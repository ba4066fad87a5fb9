"""Names such as `models` and `tasks` are common: make sure ours are found, whatever the working directory holds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

PACKAGES = ("orchestrator", "workers", "models", "tasks", "dashboards")
ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds our five packages: site-packages, or a checkout."""


class SiblingFinder:
    """Finds our top-level packages beside this one, before any other place is searched."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of one of our five packages; None for every other name."""
        return PathFinder.find_spec(name, [str(ROOT)]) if name in PACKAGES else None


def keep_siblings_together() -> None:
    """Resolve our package names beside this package from now on.

    Raises ImportError if a foreign package of one of these names is loaded already.
    """
    if SiblingFinder not in sys.meta_path:
        sys.meta_path.insert(0, SiblingFinder)
    for name in PACKAGES:
        loaded = sys.modules.get(name)
        origin = getattr(loaded, "__file__", None)
        if loaded is not None and origin is not None and Path(origin).resolve().parent.parent != ROOT:
            raise ImportError(
                f"another package named `{name}` ({origin}) is loaded already; slotsweep has a package of that name: "
                "start Python from another folder, or import slotsweep's `orchestrator` first"
            )
