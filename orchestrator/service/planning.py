"""Planners: processes that read specs, plan and submit them for the service, some at a time, in turns between users."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

from pydantic import ValidationError

from orchestrator.secrecy import SECRET_VARIABLES
from orchestrator.service.orders import Answer, Order, Refusal, RefusedError
from orchestrator.settings import Settings

PLANNERS = 3
"""Orders that are carried out at a time; others wait for their turn."""

PLANNERS_EACH = 2
"""Of these, the most that are one user's."""

MOST_WAITING = 64
"""Orders of one user that may wait."""

RETRY_SECONDS = 5
"""After this long, whoever has too many orders waiting may try again."""

NEEDED = "RAY_AUTH_TOKEN"
"""The one secret in the environment that planning has a use for: it asks the cluster what machines there are."""


class Queue:
    """Whose order is carried out next: users take turns, each with few at a time. Used by one event loop."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._running: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Wait for the turn of an order of `user`; it lasts until the block ends. Raises RefusedError."""
        waiting = self._waiting.setdefault(user, deque())
        if len(waiting) >= MOST_WAITING:
            told = f"{len(waiting)} requests of {user}'s wait to be planned: try again in a moment"
            raise RefusedError(Refusal(status=429, message=told, retry_after=RETRY_SECONDS))
        mine = asyncio.get_running_loop().create_future()
        waiting.append(mine)
        self._go_on()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._end(user)
            else:
                self._forget(user, mine)
            raise
        try:
            yield
        finally:
            self._end(user)

    def _end(self, user: str) -> None:
        self._running[user] -= 1
        self._go_on()

    def _forget(self, user: str, one: asyncio.Future[None]) -> None:
        with suppress(KeyError, ValueError):
            self._waiting[user].remove(one)

    def _go_on(self) -> None:
        """Let those begin whose turn it is."""
        while self._running.total() < PLANNERS:
            user = next((name for name in self._waiting if self._may_begin(name)), None)
            if user is None:
                break
            begins = self._waiting[user].popleft()
            if not begins.done():  # whoever asked may have gone just now
                begins.set_result(None)
                self._running[user] += 1
                self._waiting.move_to_end(user)
        self._waiting = OrderedDict((name, orders) for name, orders in self._waiting.items() if orders)
        self._running = +self._running

    def _may_begin(self, user: str) -> bool:
        return bool(self._waiting[user]) and self._running[user] < PLANNERS_EACH


class Planners:
    """Hands orders to planners. One that brings code of a user's has a planner of its own, which ends with it."""

    def __init__(self, settings: Settings, seconds: float) -> None:
        self._settings = settings
        self._seconds = seconds
        self._queue = Queue()
        self._threads = ThreadPoolExecutor(PLANNERS, "plan")
        self._idle: list[_Planner] = []
        self._lock = threading.Lock()

    async def carry_out(self, order: Order, user: str) -> object:
        """What the order's task gives. Raises RefusedError.

        If this is cancelled, as when `user` has gone, the order is not carried out, or ended where it is.
        """
        async with self._queue.turn(user):
            errand = _Errand(order)
            loop = asyncio.get_running_loop()
            carried = loop.run_in_executor(self._threads, self._ask, errand)
            try:
                answer = await asyncio.shield(carried)
            except asyncio.CancelledError:
                errand.abandon()
                await asyncio.wait([carried])
                raise
        if answer.refusal is not None:
            raise RefusedError(answer.refusal)
        return answer.given

    def close(self) -> None:
        """End all planners; orders that wait are dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            idle, self._idle = self._idle, []
        for planner in idle:
            planner.end()

    def _ask(self, errand: _Errand) -> Answer:
        idle = None if errand.brings_code else self._take()
        try:
            return self._ask_planner(idle or _Planner(self._settings, self._seconds), errand)
        except _DiedError:
            if idle is None or errand.abandoned:
                return _refused("the process that planned this ended without an answer: ask for less")
            return self._ask(errand)  # it may have died while it waited; what it did is not done twice
        except ValidationError:
            if not errand.brings_code:
                raise
            return _refused("code of a plug-in wrote into the answer of the process that planned this")

    def _ask_planner(self, planner: _Planner, errand: _Errand) -> Answer:
        if not errand.begin(planner):
            raise _DiedError
        try:
            answer = planner.ask(errand.order)
        except ValidationError:
            planner.end()
            raise
        errand.end()
        if answer is None:
            return _refused(
                f"planning this takes more than the {self._seconds:g} s that the service gives to it (`serve "
                "--plan-seconds`): ask for less, or for several smaller sweeps"
            )
        if errand.brings_code:
            planner.end()
            return answer
        with self._lock:
            self._idle.append(planner)
        return answer

    def _take(self) -> _Planner | None:
        with self._lock:
            return self._idle.pop() if self._idle else None


def _refused(why: str) -> Answer:
    return Answer(refusal=Refusal(status=422, message=why))


class _Errand:
    """An order, and the planner that is at it."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.brings_code = any(spec.plugins is not None for spec in order.specs)
        self.abandoned = False
        self._planner: _Planner | None = None
        self._lock = threading.Lock()

    def begin(self, planner: _Planner) -> bool:
        """Note that `planner` begins; False, and it is ended, if nobody waits for it any more."""
        with self._lock:
            self._planner = planner
            if self.abandoned:
                planner.end()
            return not self.abandoned

    def end(self) -> None:
        """Note that no planner is at it any more."""
        with self._lock:
            self._planner = None

    def abandon(self) -> None:
        """Have nobody wait for it, and end the planner that is at it."""
        with self._lock:
            self.abandoned = True
            if self._planner is not None:
                self._planner.end()


class _DiedError(Exception):
    """A planner ended without an answer."""


class _Planner:
    """One process."""

    def __init__(self, settings: Settings, seconds: float) -> None:
        self._seconds = seconds
        self._ended = threading.Event()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "orchestrator.service.planner", str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(settings),
            start_new_session=True,  # so that it ends with all that it has started
        )

    def ask(self, order: Order) -> Answer | None:
        """The answer to `order`; None after the time that it may take. Raises _DiedError, or ValidationError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Event()

        def stop() -> None:
            late.set()
            self.end()

        timer = threading.Timer(self._seconds, stop)
        timer.start()
        try:
            with suppress(BrokenPipeError):
                self._process.stdin.write(order.model_dump_json().encode() + b"\n")
                self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if late.is_set():
            return None
        if not line:
            self.end()
            raise _DiedError
        return Answer.read(order, line)

    def end(self) -> None:
        """End the process and what it has started, unless that was done: others may have its number by now."""
        if self._ended.is_set():
            return
        self._ended.set()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _environment(settings: Settings) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name == NEEDED or name not in SECRET_VARIABLES}
    return {**kept, **settings.as_environment()}
