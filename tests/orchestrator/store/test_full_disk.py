"""A disk that runs full: one clear message, nothing half-written, and a later run goes on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from orchestrator.errors import StoreError
from orchestrator.settings import Settings
from orchestrator.store.contract import WORKER, asked, new_sweep, result, trials_of, with_worker
from orchestrator.store.records import Counts
from orchestrator.store.store import Store
from tests.orchestrator.store.old_databases import rows_of

FULL = r"^cannot write to the database at .*full.*make room.*`slotsweep resume`"
TRIALS = 3000


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    store = with_worker(Store.open(url))
    yield store
    store.close()


@contextmanager
def full_disk(store: Store) -> Iterator[None]:
    """No room for more: SQLite may use no further page; Postgres refuses the outbox, which is written last."""
    if store.engine.dialect.name == "sqlite":

        def limit(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA max_page_count = 1")  # SQLite takes the present size if that is more

        event.listen(store.engine, "connect", limit)
        store.engine.dispose()
        yield
        event.remove(store.engine, "connect", limit)
        store.engine.dispose()
        return
    with store.engine.begin() as connection:
        connection.execute(
            text(
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
                "'could not extend file: the disk is full' USING ERRCODE = 'disk_full'; END $$"
            )
        )
        connection.execute(
            text("CREATE TRIGGER full_disk BEFORE INSERT ON outbox EXECUTE FUNCTION full_disk()"),
        )
    yield
    with store.engine.begin() as connection:
        connection.execute(text("DROP FUNCTION full_disk CASCADE"))


def check_sound(store: Store) -> None:
    if store.engine.dialect.name == "sqlite":
        with store.engine.connect() as connection:
            assert connection.execute(text("PRAGMA integrity_check")).scalars().all() == ["ok"]
            assert connection.execute(text("PRAGMA foreign_key_check")).all() == []


def test_a_sweep_that_does_not_fit_is_not_submitted_at_all(store: Store) -> None:
    """Trials that no sweep asks for may be left: the next sweep that does has them already."""
    before = rows_of(store.engine)
    with full_disk(store), pytest.raises(StoreError, match=FULL) as caught:
        store.submit(new_sweep(), asked(TRIALS // 10, 10))
    assert len(str(caught.value).splitlines()) == 1
    check_sound(store)
    unasked = {"cells", "trials"}
    assert {name: rows for name, rows in rows_of(store.engine).items() if name not in unasked} == {
        name: rows for name, rows in before.items() if name not in unasked
    }
    submitted = store.submit(new_sweep(), asked(TRIALS // 10, 10))
    assert len(rows_of(store.engine)["trials"]) == TRIALS
    assert store.counts(submitted.sweep) == Counts(pending=TRIALS)


def test_results_that_do_not_fit_are_taken_whole_when_there_is_room(store: Store) -> None:
    submitted = store.submit(new_sweep(), asked(TRIALS // 10, 10))
    lease = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
    assert lease is not None
    results = [result(trial) for trial in lease.trials]
    before = rows_of(store.engine)
    with full_disk(store):
        for _ in range(2):
            with pytest.raises(StoreError, match=FULL):
                store.accept(lease.attempt, WORKER, results, log="a line\n" * 10_000)
        assert store.counts(submitted.sweep) == Counts(leased=TRIALS), "what is there can be read"
    check_sound(store)
    assert rows_of(store.engine) == before
    assert store.accept(lease.attempt, WORKER, results).done == TRIALS
    assert store.counts(submitted.sweep) == Counts(done=TRIALS)
    assert len({notice.trial for notice in store.notices(submitted.sweep, 2 * TRIALS)}) == TRIALS + 1


TINY_DISK = """
set -eu
mount -t tmpfs -o size=4m tmpfs "$DISK"
slotsweep() { "$PYTHON" -P -c "from orchestrator.cli import main; main()" "$@"; }
slotsweep submit "$SPEC" > id
dd if=/dev/zero of="$DISK/filler" bs=4k 2> /dev/null || true    # until nothing more fits
code=0; slotsweep status 2> no-room || code=$?; echo $code > code
truncate -s -96k "$DISK/filler"
code=0; slotsweep run "$(cat id)" --executor inline 2> little-room || code=$?; echo $code >> code
rm "$DISK/filler"
slotsweep run "$(cat id)" --executor inline --json > answer
slotsweep results "$(cat id)" --format json > results
check="import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('PRAGMA integrity_check'))"
"$PYTHON" -c "$check" "$DISK/s.db" > check
"""


def test_a_run_on_a_disk_that_runs_full_says_so_and_a_later_run_goes_on(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no disk of a test's own can be mounted here: unshare -rm is not allowed")
    disk, spec = tmp_path / "disk", tmp_path / "spec.yaml"
    disk.mkdir()
    spec.write_text(SPEC)
    for name, value in {
        "DISK": str(disk),
        "SPEC": str(spec),
        "PYTHON": sys.executable,
        "SLOTSWEEP_DATABASE_URL": f"sqlite:///{disk / 's.db'}",
        "SLOTSWEEP_TRACKING_GRACE": "0",
    }.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", TINY_DISK], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "code").read_text().split() == ["3", "3"]
    for name, reason in {"no-room": "disk I/O error", "little-room": "database or disk is full"}.items():
        said = (tmp_path / name).read_text()
        assert "Traceback" not in said
        [line] = [line for line in said.splitlines() if line.startswith("error:")]
        assert "cannot write to the database" in line
        assert reason in line
    answer = json.loads((tmp_path / "answer").read_text().splitlines()[-1])
    assert (answer["trials"], answer["done"], answer["failed"]) == (200, 200, 0)
    rows = json.loads((tmp_path / "results").read_text())
    assert len({row["key"] for row in rows}) == 200
    assert (tmp_path / "check").read_text() == "('ok',)\n"


SPEC = """
name: does-not-fit
kind: frontier
workload: {name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16, noise: 0.3}
mechanisms:
  - {name: recency, budget: {range: [1, 11]}}
seeds: 20
episodes: 2
"""
