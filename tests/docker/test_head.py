"""`slotsweep-head`: settings that no shell reads, and a service that is there whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docker.compose_file import ROOT
from tests.docker.dockerfile import programs
from tests.faults.services import free_port

HEAD = [sys.executable, "-P", str(ROOT / programs()["slotsweep-head"])]

SERVICE = """\
import os, pathlib, socket, time
listening = socket.socket()
listening.bind(("127.0.0.1", int(os.environ["PORT"])))
with open("starts", "a") as starts:
    starts.write(f"{os.getpid()} {os.environ['WORD']}\\n")
time.sleep(600)
"""


def head(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`slotsweep-head` in a container with that home."""
    return subprocess.run(
        [*HEAD, *words], env={**os.environ, "HOME": str(home)}, cwd=home, capture_output=True, text=True, timeout=30
    )


SHOW = ("run", sys.executable, "-c", "import os; print(repr({k: os.environ[k] for k in ('URL', 'PASSWORD')}))")


def test_values_are_taken_as_they_stand(tmp_path: Path) -> None:
    told = {
        "URL": "postgresql://u:p$ecret%2F@h/db?sslmode=require&application_name=x",
        "PASSWORD": "a b;touch ran # `x`",
    }
    lines = "".join(f"{name}={value}\n" for name, value in told.items())
    (tmp_path / "cluster.env").write_text(f"# ours\n\n{lines}")
    done = head(tmp_path, *SHOW)
    assert done.stdout == f"{told!r}\n", done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("line", ["export URL=secret", "secret", "URL='secret'"])
def test_a_line_that_is_no_setting_is_refused_without_being_shown(tmp_path: Path, line: str) -> None:
    (tmp_path / "cluster.env").write_text(f"PASSWORD=x\n{line}\n")
    done = head(tmp_path, *SHOW)
    assert (done.returncode, "cluster.env, line 2: " in done.stderr, "secret" in done.stderr) == (1, True, False)


def test_nothing_runs_without_settings(tmp_path: Path) -> None:
    done = head(tmp_path, *SHOW)
    assert (done.returncode, "cluster.env" in done.stderr, done.stdout) == (1, True, "")


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    (tmp_path / "service.py").write_text(SERVICE)
    begun: list[subprocess.Popen[bytes]] = []
    port = free_port()

    def begin() -> subprocess.Popen[bytes]:
        environment = {**os.environ, "HOME": str(tmp_path), "PORT": str(port)}
        words = [*HEAD, "keep", sys.executable, "service.py"]
        begun.append(subprocess.Popen(words, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL))
        return begun[-1]

    yield begin
    for process in begun:
        process.terminate()
    for process in begun:
        process.wait(20)


def starts(home: Path, count: int) -> list[tuple[int, str]]:
    """The services that have started, as soon as there are `count`: their processes and settings."""
    file, until = home / "starts", time.monotonic() + 20
    while not file.exists() or len(file.read_text().splitlines()) < count:
        assert time.monotonic() < until, f"no start {count}"
        time.sleep(0.05)
    lines = [line.split() for line in file.read_text().splitlines()]
    assert len(lines) == count
    return [(int(process), word) for process, word in lines]


def test_the_service_is_kept_and_replaced(tmp_path: Path, keep: Callable[[], subprocess.Popen[bytes]]) -> None:
    """It listens at one port: of two at once the second would end."""
    first = keep()
    time.sleep(1.5)
    assert not (tmp_path / "starts").exists(), "it has no settings yet"
    (tmp_path / "cluster.env").write_text("WORD=one\n")
    os.kill(starts(tmp_path, 1)[0][0], signal.SIGKILL)
    starts(tmp_path, 2)
    (tmp_path / "cluster.env").write_text("WORD=two\n")
    starts(tmp_path, 3)
    keep()
    found = starts(tmp_path, 4)
    assert first.wait(10) == 0, "of two that keep it the later one does"
    assert [word for _, word in found] == ["one", "one", "two", "two"]


def test_no_service_outlives_its_keeper(tmp_path: Path, keep: Callable[[], subprocess.Popen[bytes]]) -> None:
    (tmp_path / "cluster.env").write_text("WORD=one\n")
    keeper = keep()
    [(service, _)] = starts(tmp_path, 1)
    keeper.kill()
    until = time.monotonic() + 10
    while Path(f"/proc/{service}").exists() and "zombie" not in Path(f"/proc/{service}/status").read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    keep()
    starts(tmp_path, 2)
