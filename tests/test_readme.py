"""Every command in the README works, run as a newcomer would: in order, in an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
RUN_ELSEWHERE = {
    "make demo": "it is `slotsweep run quick-start` after an installation",
    "make test": "it runs this test",
    "slotsweep dashboard": "it serves until it is stopped; see tests/orchestrator/test_dashboard.py",
}


def commands() -> list[str]:
    """The lines of the README's shell blocks, without their comments."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


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
    seen = {"slotsweep run quick-start"}
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


def test_the_make_targets_of_the_readme_exist() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    for target in re.findall(r"`?make (\w+)", README):
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_files_that_the_readme_links_to_exist() -> None:
    for target in re.findall(r"\]\(((?!http)[^)]+)\)", README):
        assert (ROOT / target).exists(), target
