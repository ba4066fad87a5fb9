"""Every command in the README works, run as a newcomer would: in order, in an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
RUN_ELSEWHERE = {
    "make demo": "it is `slotsweep run quick-start` after an installation",
    "make test": "it runs this test",
    "slotsweep serve": "it serves until it is stopped; see tests/orchestrator/service",
    "slotsweep dashboard": "it serves until it is stopped; see tests/orchestrator/test_dashboard.py",
    "slotsweep trial KEY": "it needs a key; see tests/orchestrator/test_trial_command.py",
}


def commands() -> list[str]:
    """The lines of the README's shell blocks, without their comments."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def named_files() -> dict[str, str]:
    """What the README's YAML blocks hold, by the name that each gives itself."""
    blocks = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    return {found[1]: block for block in blocks if (found := re.match(r"name: ([\w-]+)", block))}


def inline_commands() -> set[str]:
    """Commands that stand in running text."""
    return {match for match in re.findall(r"`((?:slotsweep|make) [^`]+)`", README) if "ID" not in match}


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("SLOTSWEEP_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    if data := os.environ.get("SLOTSWEEP_DATA"):
        environment["SLOTSWEEP_DATA"] = str(Path(data).resolve())  # commands run in another folder
    seen = {"slotsweep run quick-start"}
    for name, text in named_files().items():
        (tmp_path / f"{name}.yaml").write_text(text)
    for command in [*commands(), *sorted(inline_commands())]:
        if command in RUN_ELSEWHERE or command in seen or command.startswith("make "):
            continue
        seen.add(command)
        if command == "slotsweep run sweep.yaml":
            example = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
            assert example is not None
            (tmp_path / "sweep.yaml").write_text(example[1].replace("episodes: 100", "episodes: 3"))
        done = subprocess.run(
            shlex.split(command),
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        if command == "slotsweep run sweep.yaml":
            assert "done: 120 of 120" in done.stdout
    notebook = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert notebook is not None
    done = subprocess.run(
        [sys.executable, "-P", "-c", notebook[1]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "slotsweep doctor" in seen


def service_commands(title: str) -> list[str]:
    """The commands of a part about the service, which are for several terminals, without their comments."""
    part = README.partition(f"### {title}\n")[2].partition("\n### ")[0]
    blocks = re.findall(r"```text\n(.*?)```", part, re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("export ")]


@contextmanager
def serving(command: str, environment: dict[str, str], folder: Path) -> Iterator[str]:
    """A command of the README that serves until it is stopped, on a port that is free; the address that it says."""
    *settings, name, verb = shlex.split(command.partition(" --port")[0])
    process = subprocess.Popen(
        [name, verb, "--port", "0"],
        cwd=folder,
        env=environment | dict(setting.split("=", 1) for setting in settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = ""
    while not (address := re.search(r"(?:listening at|all experiments)\s+(http://\S+)", said)):
        line = process.stdout.readline()
        assert line, f"{command}: {said}"
        said += line
    yield address[1]
    process.terminate()
    process.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_a_service_is_started_and_used_as_the_readme_says(tmp_path: Path) -> None:
    create, serve, dashboard, serve_linked = service_commands("Start one")
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("SLOTSWEEP_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    example = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert example is not None
    (tmp_path / "sweep.yaml").write_text(example[1].replace("episodes: 100", "episodes: 3"))

    def done(command: str, **more: str) -> str:
        ran = subprocess.run(
            shlex.split(command), cwd=tmp_path, env=environment | more, capture_output=True, text=True, timeout=600
        )
        assert ran.returncode == 0, f"{command}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}"
        return ran.stdout

    token = done(create).strip()
    with serving(serve, environment, tmp_path) as address:
        mine = {"SLOTSWEEP_SERVER": address, "SLOTSWEEP_TOKEN": token}
        for command in service_commands("Use the service"):
            if command.startswith("slotsweep "):
                done(command, **mine)
    with (
        serving(dashboard, environment, tmp_path) as pages,
        serving(serve_linked.replace("http://127.0.0.1:5000", pages), environment, tmp_path) as address,
        httpx.Client(base_url=address, follow_redirects=True) as browser,
    ):
        listed = browser.post("/login", data={"token": token}).text
        sweep = re.search(r'href="(/sweeps/\w+)"', listed)
        assert sweep is not None, listed
        until = time.monotonic() + 120
        while f"{pages}/#/experiments/" not in browser.get(sweep[1]).text and time.monotonic() < until:
            time.sleep(0.5)
        assert f"{pages}/#/experiments/" in browser.get(sweep[1]).text


def test_the_make_targets_of_the_readme_exist() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    for target in re.findall(r"`?make (\w+)", README):
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_files_that_the_readme_links_to_exist() -> None:
    for target in re.findall(r"\]\(((?!http)[^)]+)\)", README):
        assert (ROOT / target).exists(), target
