"""Blows at random moments to every process that a sweep needs, until none is left and the sweep is done."""

from __future__ import annotations

import random
import subprocess
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import psutil

from tests.faults.place import Kind, Place
from tests.faults.services import Postgres
from tests.orchestrator.tracker.conftest import Server

Blow = Literal["driver", "tracker", "worker", "gcs", "raylet", "mlflow", "postgres"]

LIFE_SECONDS = 600.0
"""A driver that nobody strikes any more ends within this, whatever was done to it before."""

KILLED, RAY_GAVE_UP, SYSTEM_FAILED = -9, 1, 3
"""How a struck driver may end. Ray ends its process, with a line that says so, if it dies while it is being started."""


@dataclass
class Storm:
    """Strikes at the processes of `place`, in random order, and counts what it hit.

    blows   what is still to be struck
    pause   most seconds from one to the next
    struck  how often each kind was hit
    codes   how drivers ended
    """

    place: Place
    dice: random.Random
    blows: deque[Blow]
    pause: float = 6.0
    executor: Literal["ray", "inline"] = "ray"
    mlflow: Server | None = None
    postgres: Postgres | None = None
    struck: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, place: Place, seed: int, blows: Iterable[tuple[Blow, int]], **more: object) -> Storm:
        """A storm of so many blows of each kind."""
        dice = random.Random(seed)
        order: list[Blow] = [blow for blow, count in blows for _ in range(count)]
        dice.shuffle(order)
        return cls(place, dice, deque(order), **more)  # type: ignore[arg-type]

    def endure(self, sweep: str) -> None:
        """Resume `sweep` as often as it takes, under blows."""
        while not self._is_done(sweep):
            driver = self.place.start("resume", sweep, "--executor", self.executor)
            self._accompany(driver)
            self.codes[driver.returncode] += 1
            said = self.place.errors()
            assert driver.returncode in (0, KILLED, RAY_GAVE_UP, SYSTEM_FAILED), said
            assert "Traceback" not in said, said

    def calm(self, sweep: str) -> None:
        """If a killed tracker left something, one more, undisturbed resume: it delivers that."""
        store = self.place.store()
        left = store.undelivered(sweep)
        store.close()
        if left:
            ran = self.place.run("resume", sweep, "--executor", self.executor)
            assert ran.code == 0, ran.err

    def _is_done(self, sweep: str) -> bool:
        store = self.place.store()
        try:
            return store.sweep(sweep).state == "done"
        finally:
            store.close()

    def _accompany(self, driver: subprocess.Popen[str]) -> None:
        """Strike now and then while `driver` lives; fail if it hangs."""
        while self.blows:
            try:
                driver.wait(self.dice.uniform(0.2, self.pause))
                return
            except subprocess.TimeoutExpired:
                self._strike(driver)
        driver.wait(LIFE_SECONDS)

    def _strike(self, driver: subprocess.Popen[str]) -> None:
        """The next blow, if it finds a victim now."""
        if self._lands(self.blows[0], driver):
            self.struck[self.blows.popleft()] += 1

    def _lands(self, blow: Blow, driver: subprocess.Popen[str]) -> bool:
        if blow == "driver":
            driver.kill()
            return True
        if blow == "mlflow":
            assert self.mlflow is not None
            self.mlflow.kill()
            self.mlflow.start()
            return True
        if blow == "postgres":
            assert self.postgres is not None
            self.postgres.crash()
            self.postgres.start()
            return True
        return self._kill(blow)

    def _kill(self, kind: Kind) -> bool:
        victims = self.place.victims(kind)
        if not victims:
            return False
        try:
            self.dice.choice(victims).kill()
        except psutil.NoSuchProcess:
            return False
        return True
