#!/usr/bin/env -S python -P
"""On the head that `ray up` starts: the service, with settings that no other machine of the cluster has.

slotsweep-head keep COMMAND...  keeps a service: from when its settings are there, again whenever it has ended, and anew
                                when they have changed; in place of what an earlier call keeps
slotsweep-head run COMMAND...   runs a command with the same settings

Settings are lines NAME=VALUE of ~/cluster.env. Values are taken as they stand: no shell reads them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, NoReturn

SETTINGS = Path.home() / "cluster.env"
LOCK = Path.home() / "service.lock"

LOOK_SECONDS = 1.0
STOP_SECONDS = 40.0
FIRST_WAIT, LAST_WAIT = 2.0, 64.0
"""Seconds until a service that ended is started again: the first time, and at most."""


class SettingsError(Exception):
    """A line of the settings is none; the message says which."""


def settings() -> dict[str, str]:
    """What the settings say. Raises SettingsError."""
    found = {}
    for number, line in enumerate(SETTINGS.read_text(encoding="utf-8").splitlines(), 1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not name or name.startswith("#"):
            continue
        if not equals or re.fullmatch(r"[A-Za-z_]\w*", name) is None:
            raise SettingsError(f"{SETTINGS}, line {number}: expected NAME=VALUE")
        if value[:1] in ("'", '"') and value.endswith(value[:1]):
            raise SettingsError(f"{SETTINGS}, line {number}: values are taken as they stand, so without quotes")
        found[name] = value
    return found


def run(command: list[str]) -> NoReturn:
    """Become `command`."""
    try:
        os.execvpe(command[0], command, {**os.environ, **settings()})
    except FileNotFoundError:
        sys.exit(f"{SETTINGS} or {command[0]} is not there: `ray rsync-up` brings the settings")
    except SettingsError as error:
        sys.exit(str(error))


def keep(command: list[str]) -> NoReturn:
    """Keep a service until this process is told to end."""
    signal.signal(signal.SIGTERM, _end)
    lock = _in_place_of_another()
    service, seen, wait, began, due = None, None, FIRST_WAIT, 0.0, 0.0
    try:
        while True:
            told = _text()
            if told != seen:
                _stop(service)
                service, seen, wait, due = None, told, FIRST_WAIT, 0.0
            if service is not None and service.poll() is not None:
                wait = FIRST_WAIT if time.monotonic() - began > LAST_WAIT else min(2 * wait, LAST_WAIT)
                _say(f"the service ended with {service.returncode}; it is started again in {wait:g} s")
                service, due = None, time.monotonic() + wait
            if service is None and told is not None and time.monotonic() >= due:
                service, began = _start(command), time.monotonic()
                due = float("inf")  # until it ends, or there are other settings
            time.sleep(LOOK_SECONDS)
    finally:
        _stop(service)
        lock.close()


def _end(number: int, *_: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # the service has its time to end, however often this is said
    sys.exit()


def _text() -> str | None:
    try:
        return SETTINGS.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _start(command: list[str]) -> subprocess.Popen[bytes] | None:
    """The service with its settings, which ends with this process; None if they cannot be read."""
    try:
        told = settings()
    except SettingsError as error:
        _say(str(error))
        return None
    _say("the service starts")
    ends_with_this = ["setpriv", "--pdeathsig", "TERM"]
    return subprocess.Popen([*ends_with_this, *command], env={**os.environ, **told})


def _stop(service: subprocess.Popen[bytes] | None) -> None:
    if service is None:
        return
    service.terminate()
    try:
        service.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        service.kill()
        service.wait()


def _in_place_of_another() -> IO[str]:
    """The lock that one process of this machine has, once another that had it is gone."""
    lock = LOCK.open("w", encoding="utf-8")
    patience = time.monotonic() + STOP_SECONDS + 10
    while True:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError:
            if (holder := _holder(lock)) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(holder, signal.SIGTERM if time.monotonic() < patience else signal.SIGKILL)
            time.sleep(LOOK_SECONDS)


def _holder(lock: IO[str]) -> int | None:
    """The process that has a lock; None: none has."""
    layout = "hhqqi"  # struct flock: type, whence, start, length, process
    asked = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, *_, process = struct.unpack(layout, fcntl.fcntl(lock, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else process


def _say(message: str) -> None:
    print(time.strftime("%Y-%m-%d %H:%M:%S"), message, flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["keep", *words] if words:
            keep(words)
        case ["run", *words] if words:
            run(words)
        case _:
            sys.exit(__doc__)
