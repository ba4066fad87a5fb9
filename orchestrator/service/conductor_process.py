"""The conductor as the service sees it: a process that is started, told to give way or to leave, and ended."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from orchestrator.alike import Group
from orchestrator.children import end_child, leave_child, start_child
from orchestrator.secrecy import SECRET_VARIABLES
from orchestrator.service.conductor import GIVE_WAY
from orchestrator.settings import Settings

NEEDED = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "RAY_AUTH_TOKEN")
"""Secrets that running sweeps takes; users' code gets no others to see."""


class ConductorProcess:
    """A conductor of `group`. began: seconds since the epoch; since: on the monotonic clock."""

    def __init__(self, settings: Settings, group: Group) -> None:
        self.group = group
        self.began, self.since = time.time(), time.monotonic()
        self.gives_way = False
        hidden = set(SECRET_VARIABLES) - set(NEEDED)
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        self._process = start_child(
            ["orchestrator.service.conductor", str(group)],
            settings.home / "logs" / "conductor.log",
            {**kept, **settings.as_environment()},
        )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def give_way(self) -> None:
        """Let it finish what runs, and end."""
        self.gives_way = True
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it is gone, or leaves already
            self._process.stdin.write(GIVE_WAY)
            self._process.stdin.flush()

    def leave(self) -> None:
        """Let it hand back what runs, and end."""
        leave_child(self._process)

    def end(self, seconds: float) -> None:
        """Wait so long until it has left; then end it by force."""
        end_child(self._process, seconds)
