"""A jump of the wall clock neither ends nor prolongs a lease, and spoils no sweep."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil
import pytest

from orchestrator.store.contract import WORKER, asked, new_sweep, trials_of, with_worker
from orchestrator.store.records import Counts
from orchestrator.store.store import Store
from tests.faults.checks import check_store, check_table
from tests.faults.place import Place, Row

DAY = 86_400.0

JUMPING = f"""
import time
wall = time.time
time.time = lambda: wall() + {DAY} * (int(2 * time.monotonic()) % 3 - 1)
"""
"""A wall clock that is a day behind, right, and a day ahead in turn, half a second each."""


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the wall clock forward by so many seconds; the time of boot, counted back from it, moves along."""

    def by(seconds: float) -> None:
        wall, boot = time.time, psutil._psplatform.boot_time
        monkeypatch.setattr(time, "time", lambda: wall() + seconds)
        monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: boot() + seconds)

    return by


@pytest.mark.parametrize("seconds", [DAY, -DAY])
def test_a_jump_of_the_wall_clock_moves_no_lease(url: str, jump: Callable[[float], None], seconds: float) -> None:
    """A long lease of a living process stays, a short one runs out when it would have."""
    store = with_worker(Store.open(url))
    sweep = store.submit(new_sweep(), asked(1, 2)).sweep
    kept, ending = trials_of(store, sweep)
    living = store.register_orchestrator()
    assert store.claim(sweep, [kept], WORKER, 60, living) is not None
    assert store.claim(sweep, [ending], WORKER, 1.0, living) is not None
    assert store.lease_tracking(sweep, living, 60)
    jump(seconds)
    assert store.expire() == 0
    assert not store.lease_tracking(sweep, "another", 60)
    time.sleep(1.2)
    assert store.expire() == 1
    assert trials_of(store, sweep) == [ending]
    assert store.counts(sweep) == Counts(pending=1, leased=1)
    store.close()


@pytest.mark.slow
def test_a_sweep_under_a_jumping_wall_clock_computes_every_trial_once(
    make_place: Callable[..., Place], undisturbed: Callable[[Place, str], list[Row]]
) -> None:
    """Driver and worker see the clock jump by a day and back, every half second."""
    place = make_place(nap=0.06)
    sweep = place.submit(spec := place.write_spec(5))
    ran = place.run("resume", sweep, "--executor", "inline", "--json", before=JUMPING)
    assert (ran.code, ran.json["done"]) == (0, 100), ran.err
    rows = place.rows(sweep)
    assert {row["attempts"] for row in rows} == {1}
    check_store(place.store(), sweep)
    check_table(rows, undisturbed(place, spec))
