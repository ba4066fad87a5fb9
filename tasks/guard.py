"""Keeping what fails apart from the rest: steps that are run until one of them raises, or their time is up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any


class Guarded:
    """Something that is computed step by step, beside others that its failure must not harm.

    limit    seconds that all of its steps may take together
    seconds  spent so far
    error    what ended it; None as long as nothing did
    """

    def __init__(self, limit: float = math.inf) -> None:
        self.limit = limit
        self.seconds = 0.0
        self.error: Exception | SystemExit | None = None

    def guard(self, step: Callable[..., None], *arguments: Any) -> None:
        """Run `step` unless an earlier one has failed; remember the error if it fails, or if time is up."""
        if self.error is not None:
            return
        began = time.perf_counter()
        try:
            self.attempt(step, *arguments)
        except (Exception, SystemExit) as error:
            if self.passes_on(error):
                raise
            self.error = error
        self.seconds += time.perf_counter() - began
        if self.seconds > self.limit and self.error is None:
            self.error = TimeoutError("the trial took longer than its time limit")

    def attempt(self, step: Callable[..., None], *arguments: Any) -> None:
        """Run `step` to its end."""
        step(*arguments)

    def passes_on(self, error: BaseException) -> bool:
        """Whether `error` is not this one's own, but for whoever runs its steps."""
        return False


def time_limit(timeout: float | None, trials: int = 1) -> float:
    """Seconds that `trials` may take together, where each may take `timeout`; None is no limit."""
    return math.inf if timeout is None else timeout * trials
