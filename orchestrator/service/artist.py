"""Drawing what takes long, in a process of its own, once for everybody who looks.

Answers stay quick: a drawing that is not there, or shows what is no longer so, is waited for a little while; then the
old one is shown until the next one is there. Nothing is drawn more often than every few seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from orchestrator.settings import Settings

EVERY_SECONDS = 3.0
"""How often something is drawn anew at most; what takes long to draw, less often."""

SHARE = 3.0
"""Drawing one thing takes at most a third of the time."""

MOST_KEPT = 200
LONGEST_SECONDS = 600.0


@dataclass(frozen=True)
class Wanted:
    """Something to draw: a name in `orchestrator.service.drawings.DRAWINGS`, and what that function takes."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Drawn:
    """A drawing: HTML, or why there is none.

    version  what it shows
    at       when it was there, on the monotonic clock; took: seconds
    as_of    since when it may be out of date, seconds since the epoch
    """

    html: str | None
    error: str | None
    version: Hashable
    at: float
    took: float
    as_of: float

    def shows(self, version: Hashable) -> bool:
        """Whether it is what would be drawn now. What could not be drawn is tried again."""
        return self.error is None and self.version == version


class Artist:
    """One process that draws, started when first needed and again when it has died; it ends with this process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = ThreadPoolExecutor(1, "artist")
        self._lock = threading.Lock()
        self._drawn: OrderedDict[Wanted, Drawn] = OrderedDict()
        self._begun: dict[Wanted, Future[None]] = {}

    def draw(self, wanted: Wanted, version: Hashable, patience: float) -> Drawn | None:
        """The newest drawing of `wanted`: one that shows `version` if it is there after `patience` seconds.

        Else an older one, while a newer one is on its way or not yet due; None if there is none.
        """
        with self._lock:
            known = self._known(wanted)
            if known is not None and (known.shows(version) or not self._is_due(known)):
                return known
            begun = self._begun.get(wanted)
            if begun is None:
                begun = self._begun[wanted] = self._thread.submit(self._draw, wanted, version)
        wait([begun], patience)
        with self._lock:
            return self._known(wanted)

    def close(self) -> None:
        """End the process."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _known(self, wanted: Wanted) -> Drawn | None:
        known = self._drawn.get(wanted)
        if known is not None:
            self._drawn.move_to_end(wanted)
        return known

    def _is_due(self, known: Drawn) -> bool:
        return time.monotonic() - known.at >= max(EVERY_SECONDS, SHARE * known.took)

    def _draw(self, wanted: Wanted, version: Hashable) -> None:
        began, as_of = time.monotonic(), time.time()
        try:
            html, error = self._ask(wanted)
        except (OSError, ValueError) as problem:  # no process could be started, or it died in the middle of an answer
            html, error = None, f"this could not be drawn, and is tried again: {problem}"
        now = time.monotonic()
        with self._lock:
            self._drawn[wanted] = Drawn(html, error, version, now, now - began, as_of)
            self._drawn.move_to_end(wanted)
            while len(self._drawn) > MOST_KEPT:
                self._drawn.popitem(last=False)
            del self._begun[wanted]

    def _ask(self, wanted: Wanted) -> tuple[str | None, str | None]:
        """What the process draws: HTML, or an error."""
        question = json.dumps([wanted.name, *wanted.arguments]).encode() + b"\n"
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(LONGEST_SECONDS, process.kill)
        watch.start()
        try:
            process.stdin.write(question)
            process.stdin.flush()
            answer = process.stdout.readline()
        finally:
            watch.cancel()
        if not answer:
            raise BrokenPipeError("its process ended")
        html, error = json.loads(answer)
        return html, error

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            settings = self._settings
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "orchestrator.service.drawings"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **settings.as_environment()},
                start_new_session=True,  # Ctrl-C is for the service; this one ends when it does
            )
        return self._process
