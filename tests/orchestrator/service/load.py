"""Many clients at once: each submits sweeps and asks how they stand, again and again."""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.orchestrator.service.conftest import API
from tests.orchestrator.specs import SMALL

POLLS = 20
"""Times a client asks for the status of a sweep before it submits another one."""

PAUSE_SECONDS = 0.1
"""Between two requests of a client: the command line asks every two seconds."""


@dataclass
class Load:
    """What clients saw: seconds that each answer took, by what was asked, and what went wrong."""

    submitting: list[float] = field(default_factory=list)
    asking: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    sweeps: set[str] = field(default_factory=set)

    def told(self) -> str:
        """In a line."""
        parts = [
            f"{name}: {len(times)} requests, p50 {1000 * quantile(times, 0.5):.0f} ms, "
            f"p95 {1000 * quantile(times, 0.95):.0f} ms, worst {1000 * max(times):.0f} ms"
            for name, times in (("status", self.asking), ("submit", self.submitting))
            if times
        ]
        return "; ".join([*parts, f"{len(self.errors)} errors"])


def quantile(times: list[float], share: float) -> float:
    """The smallest of `times` that `share` of them do not exceed."""
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def load(url: str, token: str, *, clients: int, seconds: float, large: int = 0) -> Load:
    """Let `clients` work at once for `seconds`; meanwhile one more submits a sweep of so many trials, if any."""
    first = _Client(url, token, Load(), clients).submit(0)
    seen = Load(sweeps={first})
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=_Client(url, token, seen, number).work, args=(first, until))
        for number in range(clients)
    ]
    if large:
        threads.append(threading.Thread(target=_Client(url, token, seen, clients + 1).submit_large, args=(large,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 300)
    return seen


class _Client:
    """One user with one connection."""

    def __init__(self, url: str, token: str, seen: Load, number: int) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=300)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._seen = seen
        self._number = number

    def work(self, first: str, until: float) -> None:
        """Ask for `first`, some more often than others, so that not all submit at once; then for their own."""
        sweep, polls, count = first, self._number % POLLS, 0
        try:
            while True:
                for _ in range(polls):
                    if time.monotonic() >= until:
                        return
                    self._status(sweep)
                    time.sleep(PAUSE_SECONDS)
                sweep, polls, count = self.submit(count), POLLS, count + 1
        except Exception as error:
            self._seen.errors.append(f"{type(error).__name__}: {error}")

    def submit(self, count: int) -> str:
        name = f"load-{self._number}-{count}"
        text = SMALL.replace("name: small", f"name: {name}").replace("seeds: 4", f"seeds: {2 + count % 5}")
        began = time.perf_counter()
        answer = self._ask("POST", f"{API}/sweeps", 201, {"specs": [{"name": name, "text": text}]})
        self._seen.submitting.append(time.perf_counter() - began)
        sweep = str(answer["submitted"][name]["sweep"])
        self._seen.sweeps.add(sweep)
        return sweep

    def submit_large(self, trials: int) -> None:
        """Submit one sweep of about so many trials."""
        cells = 6
        text = SMALL.replace("name: small", "name: large").replace("seeds: 4", f"seeds: {trials // cells}")
        try:
            answer = self._ask("POST", f"{API}/sweeps", 201, {"specs": [{"name": "large", "text": text}]})
        except Exception as error:
            self._seen.errors.append(f"{type(error).__name__}: {error}")
            return
        self._seen.sweeps.add(str(answer["submitted"]["large"]["sweep"]))

    def _status(self, sweep: str) -> None:
        began = time.perf_counter()
        answer = self._ask("GET", f"{API}/sweeps/{sweep}", 200)
        self._seen.asking.append(time.perf_counter() - began)
        if answer["id"] != sweep:
            self._seen.errors.append(f"asked for {sweep}, told of {answer['id']}")

    def _ask(self, method: str, path: str, expected: int, body: Any = None) -> Any:
        self._connection.request(method, path, None if body is None else json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != expected:
            raise AssertionError(f"{method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text)
