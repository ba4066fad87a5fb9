"""Waiting for a database that is away for a moment: restarting, failing over, or busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 5.0


def patiently(call: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
    """`call`, repeated with growing waits while the database cannot be reached, for a minute at most.

    Every method of the store may be repeated: what a lost commit had done already is found done, and not done twice.
    """
    from sqlalchemy.exc import InterfaceError, OperationalError

    try:
        return call(*arguments, **options)
    except (OperationalError, InterfaceError):
        return _again(call, *arguments, **options)


def _again(call: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
    """`call`, at once and then with growing waits."""
    import tenacity
    from sqlalchemy.exc import InterfaceError, OperationalError

    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((OperationalError, InterfaceError)),
        wait=tenacity.wait_exponential(0.1, LONGEST_WAIT_SECONDS),
        stop=tenacity.stop_after_delay(PATIENCE_SECONDS),
        reraise=True,
    )
    return attempts(call, *arguments, **options)
