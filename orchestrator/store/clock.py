"""The clock that leases run on, and whether who holds one still lives: a jump of the wall clock moves neither."""

from __future__ import annotations

import functools
import socket
import subprocess
import sys
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


def process_start(pid: int) -> float:
    """When the process `pid` of this host started: the same number whenever it is asked. Raises psutil.NoSuchProcess.

    On Linux psutil adds the time of boot, which follows the wall clock, to seconds since boot; here it is taken off.
    """
    import psutil

    started = psutil.Process(pid).create_time()
    return started - psutil.boot_time() if sys.platform == "linux" else started


def is_dead(host: str, boot: str, pid: int, started: float) -> bool:
    """Whether a process of this host is gone for certain (or waits to be reaped); False for those of other hosts."""
    import psutil

    if host != socket.gethostname():
        return False
    if boot != boot_id():
        return True
    try:
        ended = psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        return ended or abs(process_start(pid) - started) > 2.0
    except psutil.NoSuchProcess:
        return True
