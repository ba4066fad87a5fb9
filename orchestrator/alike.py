"""Which sweeps one orchestrator runs together: those that run the same code, timed ones apart from the others."""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from orchestrator.code_snapshot import module_name
from tasks.kind import KINDS

if TYPE_CHECKING:
    from orchestrator.store.conducting import WaitingSweep
    from orchestrator.store.records import SweepRow


@dataclass(frozen=True, order=True)
class Group:
    """What sweeps have in common that run together.

    code     digest of the code that they run
    plugins  modules that are loaded for them
    timing   `timed` or `untimed`; the job type's name where a plug-in brings it
    """

    code: str
    plugins: tuple[str, ...]
    timing: str

    def __str__(self) -> str:
        """As JSON, to be read by `group_from`."""
        return json.dumps(astuple(self))


def group_from(text: str) -> Group:
    """The group that was written as `text`."""
    code, plugins, timing = json.loads(text)
    return Group(code, tuple(plugins), timing)


def group_of(sweep: SweepRow | WaitingSweep) -> Group:
    """The group of a sweep. The same in every process, whatever plug-ins it has loaded."""
    from orchestrator.store.records import SweepRow

    named = sweep.spec.get("plugins", ()) if isinstance(sweep, SweepRow) else sweep.plugins
    plugins = tuple(module_name(plugin) for plugin in named)
    return Group(sweep.code, plugins, _timing(sweep.kind, plugins))


def _timing(kind: str, plugins: tuple[str, ...]) -> str:
    if kind not in KINDS or KINDS.implementation(kind).__module__ in plugins:
        return kind
    return "timed" if KINDS.implementation(kind).measures_time else "untimed"
