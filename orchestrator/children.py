"""Processes of ours that run beside this one: their output goes to a log, and they end when their stdin closes, as it
does when this process dies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from orchestrator.settings import private_folder


def start_child(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Run a module of ours (`command`: its name and arguments). Ctrl-C is for this process, not for that one."""
    private_folder(log.parent.parent)
    log.parent.mkdir(exist_ok=True)
    with log.open("a") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )


def leave_child(process: subprocess.Popen[bytes]) -> None:
    """Let it end by itself."""
    assert process.stdin is not None
    with suppress(OSError):  # it is gone, with something left that was to be written to it
        process.stdin.close()


def end_child(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Let it end by itself within `seconds`; then end it by force."""
    leave_child(process)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
