"""Ends what a local Ray leaves behind when the process that started it is gone.

The kernel ends most of Ray's processes with their driver, but its agents stay for a minute after a kill, trying to tell
a control process that is dead too. A process of our own waits for the driver's end and then ends them.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import time

LOOKS = 5
PAUSE_SECONDS = 1.0


@functools.cache
def end_orphans_after_this_process() -> subprocess.Popen[bytes]:
    """Start the waiting process, once; it notices this one's end by a pipe that closes, even after a kill."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "orchestrator.executors.ray_orphans", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the driver
    )


def main() -> None:
    """Wait until the driver, named by its process id, is gone; then end what has a file of its Ray session open."""
    driver = int(sys.argv[1])
    sys.stdin.buffer.read()
    for _ in range(LOOKS):
        time.sleep(PAUSE_SECONDS)
        if not end_orphans(driver):
            return


def end_orphans(driver: int) -> int:
    """Kill processes of the Ray sessions that process `driver` started; how many there were.

    Ray names a session's folder after its driver's process id, and all its processes log there.
    """
    import psutil

    session = re.compile(rf"/session_[\d_-]+_{driver}/")
    killed = 0
    for process in psutil.process_iter():
        try:
            if process.pid != driver and any(session.search(file.path) for file in process.open_files()):
                process.kill()
                killed += 1
        except psutil.Error:
            continue
    return killed


if __name__ == "__main__":
    main()
