"""What is kept of the lines that a batch's code prints and logs, and that nothing about printing changes meanwhile."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.config import MechanismConfig
from models.mechanism import MECHANISMS
from workers.batch import BatchTask, run_batch
from workers.log_capture import LINE_CHARACTERS, LINES, capture_lines, worker_log_tail

WORKLOAD = {
    "name": "associative_recall", "items": 4, "repeats": 2, "classes": 2, "dim": 8, "noise": 0.0,
}  # fmt: skip


@contextlib.contextmanager
def streams() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """stdout and stderr of one's own, and the check that nothing is left in their place."""
    before = sys.stdout, sys.stderr
    own = sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    factory = logging.getLogRecordFactory()
    try:
        yield own
        assert (sys.stdout, sys.stderr) == own
        assert logging.getLogRecordFactory() is factory
    finally:
        sys.stdout, sys.stderr = before


def test_printed_and_logged_lines_are_kept_in_order_and_go_their_way() -> None:
    with streams() as (out, err), capture_lines() as tail:
        print("to stdout")
        print("to stderr", file=sys.stderr)
        logging.getLogger("memory").warning("%d slots", 7)
        print()
        print("no end", end="")
    assert tail.lines == ("to stdout", "to stderr", "WARNING memory: 7 slots", "no end")
    assert out.getvalue() == "to stdout\n\nno end"
    assert err.getvalue() == "to stderr\n"


def test_only_the_last_lines_are_kept_and_each_is_cut() -> None:
    with streams(), capture_lines() as tail:
        print("\n".join(str(number) for number in range(1000)))
        for _ in range(3):
            print("x" * 400, end="")
        print()
    assert len(tail.lines) == LINES
    assert tail.lines[:-1] == tuple(str(number) for number in range(981, 1000))
    assert tail.lines[-1] == "x" * (LINE_CHARACTERS - 1) + "…"


def test_a_progress_bar_is_one_line_and_bytes_that_no_database_takes_are_gone() -> None:
    with streams(), capture_lines() as tail:
        for percent in range(100):
            sys.stdout.write(f"\r{percent} %")
        sys.stdout.write("\r100 %\r\n")
        print("a\0b \udc80")
    assert tail.lines == ("100 %", "a�b ?")


def test_an_exception_is_logged_with_its_trace_and_wrong_arguments_harm_nothing() -> None:
    with streams(), capture_lines(limit=50) as tail:
        try:
            raise ValueError("told to fail")
        except ValueError:
            logging.exception("it failed")
        logging.getLogRecordFactory()("memory", logging.ERROR, "", 0, "%d slots", ("many",), None)
    assert tail.lines[0] == "ERROR root: it failed"
    assert "ValueError: told to fail" in tail.lines
    assert tail.lines[-1] == "%d slots"


def test_handlers_print_as_ever_and_no_line_counts_twice() -> None:
    """In a process of its own: pytest puts handlers on the root logger."""
    program = (
        "import logging, sys; from workers.log_capture import capture_lines\n"
        "with capture_lines() as outer:\n"
        "    logging.getLogger('early').warning('by default')\n"
        "    with capture_lines() as inner:\n"
        "        logging.basicConfig(level=logging.INFO, format='handled %(message)s')\n"
        "        logging.info('by a handler')\n"
        "    quiet = logging.getLogger('quiet'); quiet.propagate = False; quiet.addHandler(logging.NullHandler())\n"
        "    quiet.warning('past the root')\n"
        "    logging.debug('not asked for')\n"
        "logging.info('afterwards')\n"
        "print(inner.lines); print(outer.lines)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    inner = ("INFO root: by a handler",)
    outer = ("WARNING early: by default", *inner, "WARNING quiet: past the root")
    assert done.stdout.splitlines() == [str(inner), str(outer)]
    assert done.stderr.splitlines() == ["by default", "handled by a handler", "handled afterwards"]


def test_code_may_replace_a_stream_for_a_while() -> None:
    with streams(), capture_lines() as tail:
        print("before")
        with contextlib.redirect_stdout(io.StringIO()) as elsewhere:
            print("aside")
        print("after")
    assert tail.lines == ("before", "after")
    assert elsewhere.getvalue() == "aside\n"


def test_a_stream_that_code_leaves_there_stays_and_is_seen_from_then_on() -> None:
    with streams() as (out, _):
        replaced = io.StringIO()
        with capture_lines() as tail:
            sys.stdout = replaced
            print("gone there")
        assert (tail.lines, sys.stdout) == ((), replaced)
        with capture_lines() as tail:
            print("seen again")
        assert tail.lines == ("seen again",)
        assert replaced.getvalue() == "gone there\nseen again\n"
        sys.stdout = out


def test_a_stream_left_closed_is_taken_away() -> None:
    with streams() as (out, _):
        with capture_lines(), io.StringIO() as closed:
            sys.stdout = closed
        print("works")
    assert out.getvalue() == "works\n"


def test_a_stream_that_cannot_be_written_fails_nobody() -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    with streams() as (out, _):
        sys.stdout = Full()
        with capture_lines() as tail:
            print("kept all the same")
        sys.stdout = out
    assert tail.lines == ("kept all the same",)


def test_no_stream_at_all_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with streams(), monkeypatch.context() as without:
        without.setattr(sys, "stdout", None)
        with capture_lines() as tail:
            print("nowhere")
            print("somewhere", file=sys.stderr)
        assert sys.stdout is None
        assert tail.lines == ("somewhere",)


def test_lines_of_threads_are_whole() -> None:
    def print_in_pieces(name: str) -> None:
        for _ in range(50):
            for piece in (name, " ", name, "\n"):
                sys.stdout.write(piece)

    with streams(), capture_lines(limit=1000) as tail:
        threads = [threading.Thread(target=print_in_pieces, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(tail.lines) == sorted(f"{name} {name}" for name in "abcd" for _ in range(50))


def test_captures_end_in_any_order_and_late_writers_still_write() -> None:
    with streams() as (out, _):
        first, second = capture_lines(), capture_lines()
        one = first.__enter__()
        two = second.__enter__()
        held_by_a_thread = sys.stdout
        first.__exit__(None, None, None)
        logging.getLogger("memory").warning("to the second")
        print("to the second")
        second.__exit__(None, None, None)
        print("late", file=held_by_a_thread)
    assert (one.lines, two.lines) == ((), ("WARNING memory: to the second", "to the second"))
    assert out.getvalue() == "to the second\nlate\n"


def test_an_error_passes_and_its_lines_are_kept() -> None:
    tails = []

    def fail() -> None:
        with capture_lines() as tail:
            tails.append(tail)
            print("almost")
            raise ZeroDivisionError

    with streams(), pytest.raises(ZeroDivisionError):
        fail()
    assert tails[0].lines == ("almost",)


def test_a_batch_costs_at_most_fifty_microseconds_more(pace: float) -> None:
    seconds = []
    for _ in range(300):
        began = time.perf_counter()
        with capture_lines():
            pass
        seconds.append(time.perf_counter() - began)
    assert statistics.median(seconds) < 50e-6 * pace


def test_a_batch_report_carries_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    full_attention: Any = MECHANISMS.implementation("full_attention")
    answer = full_attention.answer

    def talking(self: Any, *arguments: Any) -> Any:
        print("answering")
        logging.getLogger("plugin").error("but badly")
        return answer(self, *arguments)

    monkeypatch.setattr(full_attention, "answer", talking)
    mechanism: MechanismConfig = MECHANISMS.config_class("full_attention").model_validate({"name": "full_attention"})
    task = BatchTask(
        attempt=5,
        kind="frontier",
        workload=WORKLOAD,
        mechanisms=(mechanism.model_dump(mode="json"),),
        trials=((1, 0, 0), (2, 1, 0)),
        episodes=1,
        dtype="float32",
    )
    with streams():
        report = run_batch(task)
    assert [trial.outcome.reason for trial in report.trials] == [None, None]
    assert report.log == ("answering", "ERROR plugin: but badly") * 2


def test_the_last_lines_of_a_dead_worker_are_those_of_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()

    def write(name: str, text: str, age: int) -> None:
        path = tmp_path / name
        path.write_text(text)
        os.utime(path, (1e9 - age, 1e9 - age))

    write("worker-aa-ffffffff-180.err", "another process", 0)
    write("worker-bb-ffffffff-80.out", "its id came again", 9)
    write("worker-cc-01000000-80.err", ":job_id:01000000\n:actor_name:BatchWorker\nFatal Python error: Aborted\n", 1)
    write("old/worker-cc-01000000-80.out", "\n".join(map(str, range(20_000))) + "\n\n", 2)
    tail = worker_log_tail(80, tmp_path)
    assert tail == [*map(str, range(19_981, 20_000)), "Fatal Python error: Aborted"]
    assert worker_log_tail(81, tmp_path) == []
    assert worker_log_tail(80, tmp_path / "none") == []


@pytest.mark.xdist_group("ray")
def test_ray_names_its_workers_files_as_we_think(tmp_path: Path) -> None:
    """On a real Ray, in a process of its own: what a killed worker printed is found."""
    program = (
        "import os, ray, signal, sys\n"
        "ray.init(address='local', num_cpus=1, include_dashboard=False, log_to_driver=False,"
        " object_store_memory=100 * 2**20, configure_logging=False)\n"
        "@ray.remote(max_restarts=0)\n"
        "class BatchWorker:\n"
        "    def pid(self): return os.getpid()\n"
        "    def die(self):\n"
        "        print('last words'); print('and why', file=sys.stderr); os.kill(os.getpid(), signal.SIGKILL)\n"
        "worker = BatchWorker.remote(); pid = ray.get(worker.pid.remote())\n"
        "try: ray.get(worker.die.remote())\n"
        "except ray.exceptions.RayActorError: pass\n"
        "from workers.log_capture import worker_log_tail\n"
        "tail = worker_log_tail(pid, ray._private.worker._global_node.get_session_dir_path() + '/logs')\n"
        "open(sys.argv[1], 'w').write('\\n'.join(tail))\n"
        "ray.shutdown()"
    )
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, str(tmp_path / "tail")],
        env={**environment, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert sorted((tmp_path / "tail").read_text().splitlines()) == ["and why", "last words"]
