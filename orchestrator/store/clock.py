"""The clock that leases run on: one that a jump of a machine's wall clock cannot move."""

from __future__ import annotations

import functools
import subprocess
import time
from pathlib import Path

from sqlalchemy import Connection, text

SERVER_CLOCK = "server"


def lease_now(connection: Connection) -> tuple[str, float]:
    """(name of the clock, seconds on it): the server's clock on Postgres, this host's time since boot on SQLite."""
    if connection.dialect.name == "postgresql":
        return SERVER_CLOCK, float(
            connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one()
        )
    return boot_id(), _since_boot()


def _since_boot() -> float:
    """Seconds since this host booted, suspended time included where the system counts it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) if clock is not None else time.monotonic()


@functools.cache
def boot_id() -> str:
    """Names this boot of this host: after a reboot, times since boot say nothing about leases from before."""
    path = Path("/proc/sys/kernel/random/boot_id")
    if path.exists():
        return path.read_text().strip()
    return subprocess.run(
        ["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=True
    ).stdout.strip()
