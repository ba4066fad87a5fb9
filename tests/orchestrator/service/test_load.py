"""Fifty users who submit and watch at once, of one process on either database: no error, and answers come quickly.

With SLOTSWEEP_LOAD=full, as `make load` sets it: for a minute, and for another one while sweeps run and a large one is
submitted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from orchestrator.settings import Settings
from orchestrator.store.states import Role
from orchestrator.store.store import Store
from tests.orchestrator.service.conftest import Serving
from tests.orchestrator.service.load import load, quantile

CLIENTS = 50
P95_SECONDS = 0.2

BUSY_P95_SECONDS = 0.5
"""The same where workers have the cores, too."""

WORST_SECONDS = 10.0
LARGE = 120_000
FULL = os.environ.get("SLOTSWEEP_LOAD") == "full"
SECONDS = 60.0 if FULL else 10.0


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_fifty_clients_submit_and_ask_at_once(
    database: str,
    settings: Settings,
    slotsweep_serve: Callable[..., AbstractContextManager[Serving]],
    request: pytest.FixtureRequest,
    pace: float,
    record_property: Callable[[str, object], None],
) -> None:
    url = settings.database_url if database == "sqlite" else request.getfixturevalue("postgres_url")
    store = Store.open(url)
    _, token = store.create_token("ada", Role.SUBMITTER)
    with slotsweep_serve("--no-run", SLOTSWEEP_DATABASE_URL=url) as serving:
        seen = load(serving.url, token, clients=CLIENTS, seconds=SECONDS)
        assert serving.process.poll() is None
    record_property("load", seen.told())
    print(f"{database}, {SECONDS:g} s: {seen.told()}")
    assert not seen.errors, seen.errors[:5]
    assert len(seen.submitting) >= CLIENTS
    assert {row.id for row in store.sweeps()} == seen.sweeps
    assert quantile(seen.asking, 0.95) < P95_SECONDS * pace, seen.told()
    store.close()


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="takes minutes: SLOTSWEEP_LOAD=full")
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_nobody_waits_for_a_large_submission_while_sweeps_run(
    database: str,
    settings: Settings,
    slotsweep_serve: Callable[..., AbstractContextManager[Serving]],
    request: pytest.FixtureRequest,
    pace: float,
    record_property: Callable[[str, object], None],
) -> None:
    url = settings.database_url if database == "sqlite" else request.getfixturevalue("postgres_url")
    store = Store.open(url)
    _, token = store.create_token("ada", Role.SUBMITTER)
    with slotsweep_serve(SLOTSWEEP_DATABASE_URL=url) as serving:
        seen = load(serving.url, token, clients=CLIENTS, seconds=SECONDS, large=LARGE)
        assert serving.process.poll() is None
    record_property("load", seen.told())
    print(f"{database}, with {LARGE:,} trials submitted meanwhile, {SECONDS:g} s: {seen.told()}")
    assert not seen.errors, seen.errors[:5]
    assert {row.id for row in store.sweeps()} == seen.sweeps
    assert max(row.trials for row in store.sweeps()) == LARGE
    assert sum(row.counts.done for row in store.sweeps()) > 0
    assert quantile(seen.asking, 0.95) < BUSY_P95_SECONDS * pace, seen.told()
    assert max(seen.asking) < WORST_SECONDS * pace, seen.told()
    store.close()
