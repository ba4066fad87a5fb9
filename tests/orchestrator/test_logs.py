"""A sweep's log: what a line says, that none is lost or torn whoever writes, and `slotsweep logs` as people meet it."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import multiprocessing
import os
import pty
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from sqlalchemy.exc import OperationalError

from orchestrator import logs
from orchestrator.logs import LogReader, SweepLog, log_file
from orchestrator.settings import Settings
from orchestrator.store.records import SweepRow
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store
from tests.orchestrator.conftest import HEEDING_INTERRUPTS, SLOTSWEEP, Ran
from tests.orchestrator.specs import write_small

SWEEP = "0123456789"
WRITERS = 8
Follow = Callable[..., subprocess.Popen[str]]
FORK = multiprocessing.get_context("fork")


def entries(settings: Settings, sweep: str = SWEEP) -> list[dict[str, Any]]:
    """Everything in the sweep's log, in order."""
    return list(LogReader(log_file(settings, sweep)).entries())


def sizes(settings: Settings) -> dict[str, int]:
    """Size of each file in the folder of logs."""
    return {path.name: path.stat().st_size for path in (settings.home / "logs").iterdir()}


def write_many(settings: Settings, writer: int, count: int) -> None:
    """Log `count` entries, some of them longer than a page of memory."""
    log = SweepLog(settings, SWEEP)
    for number in range(count):
        log.info("batch done", worker=str(writer), batch=number, lines=["é" * 450] * (number % 20))


def test_a_line_says_when_what_and_of_whom(settings: Settings) -> None:
    log = SweepLog(settings, SWEEP)
    before = time.time()
    log.warning(
        "batch lost", lines=("wärmer", 'a "quote"\n'), message="gone", worker="w1", batch=3, trial=None,
        reason="worker_lost", seconds=float("inf"), path=Path("/a"), state=SweepState.DONE,
    )  # fmt: skip
    [line] = log_file(settings, SWEEP).read_text(encoding="utf-8").splitlines()
    entry = json.loads(line)
    moment = entry.pop("time")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", moment)
    assert before - 0.001 <= logs.datetime.fromisoformat(moment).timestamp() <= time.time()
    assert list(entry.items()) == [
        ("level", "warning"), ("event", "batch lost"), ("sweep", SWEEP), ("batch", 3), ("worker", "w1"),
        ("reason", "worker_lost"), ("message", "gone"), ("seconds", "inf"), ("path", "/a"), ("state", "done"),
        ("lines", ["wärmer", 'a "quote"\n']),
    ]  # fmt: skip
    log.info("one")
    log.error("two")
    assert [(entry["level"], entry["event"]) for entry in entries(settings)[1:]] == [("info", "one"), ("error", "two")]


@pytest.mark.parametrize(
    ("told", "written"),
    [
        ("cannot reach postgresql://me:s3cr/et@host:5432/db, retrying", "postgresql://me:***@host:5432/db, retrying"),
        ("redis://:s3cret@host", "redis://:***@host"),
        ("http://me:s3c@ret@host/path?x=1", "http://me:***@host/path?x=1"),
        ("postgresql://host/db?user=me&password=s3cret&x=1", "db?user=me&password=***&x=1"),
        ("http://host:5000/path, ask me@there", "http://host:5000/path, ask me@there"),
    ],
)
def test_passwords_in_urls_are_masked_wherever_they_stand(settings: Settings, told: str, written: str) -> None:
    SweepLog(settings, SWEEP).error(told, message=told, lines=[told], detail={"where": told})
    [entry] = entries(settings)
    for text in (entry["event"], entry["message"], entry["lines"][0], entry["detail"]["where"]):
        assert text.endswith(written)
        assert "s3c" not in text


@pytest.mark.parametrize("rotate_bytes", [logs.ROTATE_BYTES, 4_000_000])
def test_eight_processes_write_one_log_and_no_line_is_torn_or_lost(
    settings: Settings, rotate_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader reads on all the while, across a rotation where the limit is low."""
    monkeypatch.setattr(logs, "ROTATE_BYTES", rotate_bytes)
    count = 100
    writers = [FORK.Process(target=write_many, args=(settings, writer, count)) for writer in range(WRITERS)]
    for writer in writers:
        writer.start()
    reader = LogReader(log_file(settings, SWEEP))
    seen: list[dict[str, Any]] = []
    deadline = time.monotonic() + 180
    while len(seen) < WRITERS * count and time.monotonic() < deadline:
        seen += reader.entries()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * WRITERS
    assert list(reader.entries()) == []
    by_writer = {str(writer): [e["batch"] for e in seen if e["worker"] == str(writer)] for writer in range(WRITERS)}
    assert by_writer == {str(writer): list(range(count)) for writer in range(WRITERS)}
    assert all(entry["lines"] == ["é" * 450] * (entry["batch"] % 20) for entry in seen)
    assert (len(sizes(settings)) > 1) == (rotate_bytes == 4_000_000)


def test_a_writer_waits_for_a_rotation_and_writes_to_the_new_file(settings: Settings) -> None:
    path = log_file(settings, SWEEP)
    log = SweepLog(settings, SWEEP)
    log.info("before")
    writer = threading.Thread(target=log.info, args=("after",))
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer.start()
        writer.join(0.2)
        assert writer.is_alive()
        path.rename(path.with_name(f"{path.name}.1"))
    writer.join(60)
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["after"]
    assert [entry["event"] for entry in entries(settings)] == ["before", "after"]


def test_the_log_is_bounded_and_its_end_is_whole(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "ROTATE_BYTES", 5_000)
    log = SweepLog(settings, SWEEP)
    for number in range(500):
        log.info("batch done", batch=number)
    assert set(sizes(settings)) == {f"{SWEEP}.jsonl", f"{SWEEP}.jsonl.1"}
    assert max(sizes(settings).values()) < 5_200
    kept = [entry["batch"] for entry in entries(settings)]
    assert len(kept) > 40
    assert kept == list(range(500 - len(kept), 500))


def test_a_reader_finds_its_way_after_several_rotations(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "ROTATE_BYTES", 1)  # every line rotates
    log, reader = SweepLog(settings, SWEEP), LogReader(log_file(settings, SWEEP))
    read = []
    for number in range(20):
        log.info("batch done", batch=number)
        if number % 3 == 0:
            read += [entry["batch"] for entry in reader.entries()]
    assert read == [0, 3, 6, 9, 12, 15, 18]  # one old file is kept: what went before it is gone
    monkeypatch.setattr(logs, "ROTATE_BYTES", 500)
    for number in range(20, 60):
        log.info("batch done", batch=number)
        if number % 4 == 0:
            read += [entry["batch"] for entry in reader.entries()]
    read += [entry["batch"] for entry in reader.entries()]
    assert read[7:] == list(range(19, 60))


def test_a_line_cut_short_by_a_kill_costs_that_line_only(settings: Settings) -> None:
    log = SweepLog(settings, SWEEP)
    log.info("before")
    with log_file(settings, SWEEP).open("a") as file:
        file.write('{"time": "2026-11-29T14:00:0')
    log.info("after")
    assert [entry["event"] for entry in entries(settings)] == ["before", "after"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_drops_lines_says_so_once_and_stops_nothing(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log_file(settings, SWEEP)
    path.parent.mkdir()
    path.symlink_to("/dev/full")
    log = SweepLog(settings, SWEEP)
    for _ in range(3):
        log.info("lost")
    assert capsys.readouterr().err == (
        f"the log of sweep {SWEEP} cannot be written, lines are dropped: No space left on device\n"
    )
    path.unlink()
    log.info("room again")
    assert [entry["event"] for entry in entries(settings)] == ["room again"]


def test_a_disk_that_fills_within_a_line_leaves_the_rest_readable(settings: Settings) -> None:
    """A limit on the file's size acts as a disk that takes only a part of a line."""
    child = FORK.Process(target=_log_up_to, args=(settings, 1000))
    child.start()
    child.join()
    assert child.exitcode == 0
    SweepLog(settings, SWEEP).info("after")
    lines = log_file(settings, SWEEP).read_text().splitlines()
    whole = 1000 // (len(lines[0]) + 1)
    assert len(lines) == whole + 2
    assert 0 < len(lines[whole]) < len(lines[0])
    assert [entry["event"] for entry in entries(settings)] == ["filling"] * whole + ["after"]


def _log_up_to(settings: Settings, size: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    log = SweepLog(settings, SWEEP)
    for _ in range(20):
        log.info("filling", message="x" * 10)


def test_a_folder_in_the_way_is_no_exception(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    (settings.home / "logs").write_text("a file")
    SweepLog(settings, SWEEP).info("nowhere to go")
    assert "cannot be written" in capsys.readouterr().err


@pytest.fixture
def sweep(slotsweep_here: Callable[..., Ran], tmp_path: Path) -> str:
    """A sweep, queued."""
    return slotsweep_here("submit", str(write_small(tmp_path))).out.strip()


def test_logs_are_readable_or_json(slotsweep_here: Callable[..., Ran], settings: Settings, sweep: str) -> None:
    ran = slotsweep_here("logs", "last")
    assert (ran.code, ran.out) == (0, "")
    assert f"sweep {sweep} has no log" in ran.err

    log = SweepLog(settings, sweep)
    log.info("sweep started", trials=24)
    log.warning(
        "batch lost", worker="w1", batch=7, reason="worker_lost", message="the worker died", lines=["one", "\x1b[2J"]
    )
    log.error("trial failed", trial="ab", message="Traceback:\n  File x\nValueError", lines=["last word"])
    moments = [
        logs.datetime.fromisoformat(entry["time"]).astimezone().isoformat(" ", "milliseconds")[:23]
        for entry in entries(settings, sweep)
    ]
    ran = slotsweep_here("logs", sweep[:6])
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        f"{moments[0]}  info     sweep started  trials=24",
        f"{moments[1]}  warning  batch lost  batch=7  worker=w1  reason=worker_lost  the worker died",
        "    one",
        "    \\x1b[2J",
        f"{moments[2]}  error    trial failed  trial=ab",
        "    Traceback:",
        "      File x",
        "    ValueError",
        "    last word",
    ]
    assert slotsweep_here("logs", "last", "--tail", "1").out.splitlines() == ran.out.splitlines()[4:]
    ran = slotsweep_here("logs", "last", "--json", "--tail", "2")
    assert ran.out == "".join(log_file(settings, sweep).read_text(encoding="utf-8").splitlines(keepends=True)[1:])

    for name in ("zzz", ""):
        ran = slotsweep_here("logs", name)
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert slotsweep_here("logs", "last", "--tail", "0").code == 2


def _read_screen(screen: IO[bytes]) -> bytes:
    """What a program wrote to its terminal; nothing once it has gone, which is an error there."""
    try:
        return screen.read(1000)
    except OSError:
        return b""


def test_colours_are_for_terminals(settings: Settings, sweep: str) -> None:
    SweepLog(settings, sweep).error("trial failed", lines=["\x1b[2J"])

    def on_a_terminal(**environment: str) -> str:
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [*SLOTSWEEP, "logs", "last"], stdout=theirs, env={**os.environ, **environment}
        ) as running:
            os.close(theirs)
            with open(ours, "rb", buffering=0) as screen:
                shown = b"".join(iter(lambda: _read_screen(screen), b""))
            running.wait()
        return shown.decode()

    coloured = on_a_terminal()
    assert "\x1b[31merror" in coloured
    assert "\x1b[2J" not in coloured
    assert "\x1b" not in on_a_terminal(NO_COLOR="1")


@pytest.fixture
def follow(settings: Settings) -> Iterator[Follow]:
    """Starts `slotsweep logs -f` in a process of its own, which does not outlive the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [*HEEDING_INTERRUPTS, "logs", "-f", *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()


def test_following_shows_every_line_until_the_sweep_has_ended(
    follow: Follow, settings: Settings, store: Store, sweep: str
) -> None:
    """The log is begun, grows and is rotated under the eyes of the follower."""
    following = follow("--json", sweep)
    assert store.set_sweep_state(sweep, SweepState.RUNNING)

    def work() -> None:
        log = SweepLog(settings, sweep)
        for number in range(300):
            log.info("batch done", batch=number)
            time.sleep(0.005)
        assert store.set_sweep_state(sweep, SweepState.CANCELLED)
        log.info("sweep cancelled")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "ROTATE_BYTES", 20_000)
        worker = threading.Thread(target=work)
        worker.start()
        out, err = following.communicate(timeout=180)
        worker.join()
    shown = [json.loads(line) for line in out.splitlines()]
    assert (following.returncode, err) == (0, "")
    assert [entry["batch"] for entry in shown[:-1]] == list(range(300))
    assert shown[-1]["event"] == "sweep cancelled"
    assert log_file(settings, sweep).with_name(f"{sweep}.jsonl.1").exists()


def test_ctrl_c_ends_following_quietly(follow: Follow, settings: Settings, sweep: str) -> None:
    SweepLog(settings, sweep).info("sweep started")
    following = follow(sweep)
    assert following.stdout is not None
    assert select.select([following.stdout], [], [], 120)[0]
    following.send_signal(signal.SIGINT)
    out, err = following.communicate(timeout=120)
    assert (following.returncode, err) == (0, "")
    assert "sweep started" in out


def test_following_outlasts_a_database_that_is_away(
    slotsweep_here: Callable[..., Ran], settings: Settings, sweep: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    SweepLog(settings, sweep).info("sweep started")
    asked: list[str] = []

    def answer(self: Store, identity: str) -> SweepRow:
        asked.append(identity)
        if len(asked) == 2:
            raise OperationalError("SELECT", {}, ConnectionError("away"))
        return dataclasses.replace(store_sweep(self, identity), state=SweepState.CANCELLED)

    store_sweep = Store.sweep
    monkeypatch.setattr(Store, "sweep", answer)
    monkeypatch.setattr(logs, "POLL_SECONDS", 0.0)
    ran = slotsweep_here("logs", "-f", sweep)
    assert (ran.code, ran.err, len(ran.out.splitlines())) == (0, "", 1)
    assert len(asked) == 4
