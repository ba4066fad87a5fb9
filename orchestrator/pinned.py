"""A stored sweep as it was submitted: its plug-ins and its spec, whatever became of the files."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from models.plugins import PluginError, load_plugin
from orchestrator.code_snapshot import is_file, module_name
from orchestrator.errors import RequestError
from orchestrator.spec import Spec, from_canonical

if TYPE_CHECKING:
    from orchestrator.store.records import SweepRow
    from orchestrator.store.store import Store


def load_pinned_plugins(store: Store, sweep: SweepRow, folder: Path) -> None:
    """Load a sweep's plug-ins here, unless they are: files as they were at submission, unpacked in `folder`.

    Raises RequestError where one cannot be loaded.
    """
    for plugin in sweep.spec["plugins"]:
        name = module_name(plugin)
        if name in sys.modules:
            continue
        try:
            load_plugin(str(store.code(sweep).unpack(folder) / f"{name}.py") if is_file(plugin) else plugin)
        except PluginError as error:
            raise RequestError(f"sweep {sweep.id}: {error}") from error


def pinned_spec(store: Store, sweep: SweepRow) -> Spec:
    """The spec of a stored sweep. Its plug-ins are loaded if they are not yet. Raises RequestError or SpecError."""
    with tempfile.TemporaryDirectory(prefix="slotsweep-") as folder:
        load_pinned_plugins(store, sweep, Path(folder))
    return from_canonical(sweep.spec, load_plugins=False)
