"""The service and what it starts, killed and started again; users, priorities and codes that share workers."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest
from sqlalchemy import select, update

from orchestrator.service.duties import ITS_TURN, Supervisor
from orchestrator.store import schema
from orchestrator.store.engine import reading
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store
from tests.faults.checks import check_store, check_table
from tests.faults.place import DROWSY_PLUGIN, Place, Row, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

CONDUCTOR = "orchestrator.service.conductor"

END_SECONDS = 45.0
"""A service ends within ten seconds where it has the machine to itself; here others share it."""

BREAKABLE_FILE = "breakable_memory.py"
BREAKABLE = '''

class BreakableConfig(SlotConfig):
    """Cannot be made where BREAK is set."""

    name: Literal["breakable"] = "breakable"


@mechanism(BreakableConfig)
class Breakable(FullAttention):
    def __init__(self, configs):
        if "BREAK" in os.environ:
            raise ValueError("told to break")
        super().__init__(configs)
'''

SHORT = """\
name: {name}
kind: frontier
priority: {priority}
plugins: [{plugin}]
workload: {{name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16, noise: {noises}}}
mechanisms: [{{name: {mechanism}}}]
seeds: 1
episodes: 3
"""


def conductors(place: Place) -> list[psutil.Process]:
    """Conductors that run in `place`. What one of them starts has its command line for a moment, and is none."""
    found = {process.pid: process for process in place.processes() if CONDUCTOR in " ".join(_line(process))}
    return [process for process in found.values() if _parent(process) not in found]


def _parent(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.Error:
        return None


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@contextmanager
def serving(place: Place, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A service of `place`, told to end afterwards, which it does in order, and in time."""
    place.services |= environment
    process = place.start("serve", "--port", "0")
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_SECONDS) == 0, place.errors()
    assert conductors(place) == []
    assert place.left() == []


def done(store: Store, sweep: str) -> int:
    return store.counts(sweep).done


def wait_until_done(place: Place, store: Store, sweep: str, seconds: float = 150.0) -> None:
    wait_for(lambda: store.sweep(sweep).state == SweepState.DONE, seconds, f"the end of sweep {sweep}")
    wait_for(lambda: store.sweep(sweep).report is not None, 180, "its report")
    wait_for(lambda: store.undelivered(sweep) == 0, 60, "its runs in MLflow")


def short(
    place: Place,
    name: str,
    noise: float,
    batches: int,
    *,
    priority: int = 0,
    mechanism: str = "drowsy",
    plugin: tuple[str, str] = (BREAKABLE_FILE, DROWSY_PLUGIN + BREAKABLE),
) -> str:
    """Submit a sweep of `batches` trials, each of which naps; its id. No other has its `noise`."""
    noises = [noise + index / 1000 for index in range(batches)]
    file, code = plugin
    (place.folder / file).write_text(code)
    text = SHORT.format(name=name, noises=f"{{values: {noises}}}", priority=priority, plugin=file, mechanism=mechanism)
    (place.folder / f"{name}.yaml").write_text(text)
    return place.submit(f"{name}.yaml")


def give_to(store: Store, sweep: str, user: str) -> str:
    """Let `sweep` be `user`'s."""
    with store.engine.begin() as connection:
        connection.execute(update(schema.sweeps).where(schema.sweeps.c.id == sweep).values(user=user))
    return sweep


def test_sweeps_are_finished_whatever_is_killed(
    make_place: Callable[..., Place], undisturbed: Callable[[Place, str], list[Row]]
) -> None:
    """The service in the middle of a sweep, then its conductor: all that it takes is to start the service again."""
    place = make_place(nap=0.15)
    spec = place.write_spec(6, seeds=4)
    sweep, paused = place.submit(spec), short(place, "paused", 0.95, 3)
    store = place.store()
    store.set_sweep_state(paused, SweepState.PAUSED)
    first = place.start("serve", "--port", "0")
    wait_for(lambda: done(store, sweep) >= 8 or first.poll() is not None, 120, "some results")
    first.kill()
    first.wait()
    killed = time.monotonic()
    wait_for(lambda: conductors(place) == [], 15, "the conductor's end")
    assert time.monotonic() - killed < 12.0
    wait_for(lambda: place.processes() == [], 20, "the end of all that was started")
    before = done(store, sweep)
    assert 8 <= before < 96
    with serving(place):
        wait_for(lambda: done(store, sweep) > before, 120, "more results")
        [conductor] = conductors(place)
        conductor.kill()
        wait_until_done(place, store, sweep)
        assert store.sweep(paused).state == SweepState.PAUSED
        assert done(store, paused) == 0
    check_store(store, sweep)
    check_table(place.rows(sweep), undisturbed(place, spec))
    with reading(store.engine) as connection:
        assert set(connection.execute(select(schema.trials.c.infrastructure_failures)).scalars()) == {0}
        reasons = set(connection.execute(select(schema.attempts.c.reason)).scalars())
    assert reasons <= {None, "preempted"}
    store.close()


def test_one_replica_runs_sweeps_and_another_takes_over(
    make_place: Callable[..., Place], postgres_url: str, undisturbed: Callable[[Place, str], list[Row]]
) -> None:
    place = make_place(nap=0.1, services={"SLOTSWEEP_DATABASE_URL": postgres_url})
    spec = place.write_spec(6, seeds=4)
    sweep = place.submit(spec)
    store = place.store()
    first = place.start("serve", "--port", "0")
    wait_for(lambda: conductors(place) != [] or first.poll() is not None, 60, "a conductor")
    [conductor] = conductors(place)
    with serving(place) as second:
        wait_for(lambda: place.errors().count("listening") == 2 and done(store, sweep) > 0, 120, "results")
        time.sleep(2.0)
        assert conductors(place) == [conductor], "two replicas run sweeps"
        first.kill()
        first.wait()
        wait_for(lambda: conductors(place) not in ([], [conductor]), 60, "the other replica's conductor")
        assert second.poll() is None
        wait_until_done(place, store, sweep)
    check_store(store, sweep)
    check_table(place.rows(sweep), undisturbed(place, spec))
    store.close()


def test_users_share_workers_and_what_is_urgent_comes_first(make_place: Callable[..., Place]) -> None:
    """A sweep that cannot be prepared is paused with the reason; one without a worker waits and says so."""
    place = make_place(nap=1.0)
    store = Store.open(place.settings.database_url)
    ada = give_to(store, short(place, "ada", 0.1, 36), "ada")
    bob = give_to(store, short(place, "bob", 0.2, 36), "bob")
    broken = give_to(store, short(place, "broken", 0.3, 2, mechanism="breakable"), "bob")
    nowhere = give_to(store, short(place, "nowhere", 0.4, 1), "eve")
    [cell] = store.cells(nowhere)
    with store.engine.begin() as connection:
        connection.execute(update(schema.cells).where(schema.cells.c.id == cell).values(device="cuda"))
    with serving(place, BREAK="1"):
        wait_for(lambda: done(store, ada) + done(store, bob) >= 4, 150, "results of both")
        urgent = short(place, "urgent", 0.5, 3, priority=9)
        wait_until_done(place, store, urgent)
        assert SweepState.DONE not in (store.sweep(ada).state, store.sweep(bob).state), "the urgent one is first"
        wait_for(lambda: store.outlooks([nowhere]).get(nowhere) is not None, 30, "an outlook")
        told = store.outlooks([broken, nowhere, ada])
        assert store.sweep(broken).state == SweepState.PAUSED
        assert "told to break" in str(told[broken].waiting)
        assert store.sweep(nowhere).state == SweepState.RUNNING
        assert "cuda" in str(told[nowhere].waiting)
        assert store.set_sweep_state(ada, SweepState.CANCELLED)
        wait_until_done(place, store, bob)
        wait_for(lambda: store.counts(ada).open == 0, 30, "nothing left of what was cancelled")
        wait_for(lambda: store.sweep(ada).report is not None, 60, "the report of what there was")
        wait_for(lambda: store.undelivered(ada) + store.undelivered(broken) == 0, 30, "MLflow hears of each change")
    columns = schema.attempts.c
    with reading(store.engine) as connection:
        query = select(columns.sweep).where(columns.sweep.in_([ada, bob])).order_by(columns.id)
        order = list(connection.execute(query).scalars())
    shared = order[: 2 * min(order.count(ada), order.count(bob)) - 4]
    assert len(shared) >= 8
    assert abs(shared.count(ada) - shared.count(bob)) <= 3, "both users have had as many batches"
    store.close()


def test_sweeps_of_different_code_take_turns(make_place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch) -> None:
    """And two groups are never run at once."""
    place = make_place(nap=0.7)
    first = short(place, "first", 0.1, 60)
    other = ("sleepy_memory.py", DROWSY_PLUGIN.replace("drowsy", "sleepy"))
    second = short(place, "second", 0.2, 60, mechanism="sleepy", plugin=other)
    store = place.store()
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    supervisor = Supervisor(place.settings, store, turn_seconds=4.0)
    supervisor.start()
    try:
        most = _watch_conductors(place)
        wait_for(lambda: done(store, first) > 0, 90, "results of the older sweep")
        assert done(store, second) == 0
        wait_for(lambda: done(store, second) > 0, 90, "results of the other sweep")
        assert store.outlooks([first])[first].waiting == ITS_TURN
        assert store.sweep(first).state == SweepState.RUNNING
        before = done(store, first)
        wait_for(lambda: done(store, first) > before, 90, "another turn of the older sweep")
        assert most() == 1
    finally:
        supervisor.end()
    assert store.leased([first, second]) == set()
    assert {store.sweep(first).state, store.sweep(second).state} == {SweepState.RUNNING}
    store.close()


def _watch_conductors(place: Place) -> Callable[[], int]:
    """Count conductors from now on; the most that there were at once."""
    seen = [0]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            seen.append(len(conductors(place)))

    threading.Thread(target=watch, daemon=True).start()

    def most() -> int:
        over.set()
        return max(seen)

    return most
