"""The Dockerfile keeps to the rules of its trade, and finds what it copies."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import tomllib

import pytest

from tests.docker.compose_file import ROOT
from tests.docker.dockerfile import environment, instructions, last_stage, programs

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def texts(name: str) -> list[str]:
    return [one.text for one in instructions() if one.name == name]


def argument(name: str) -> str:
    [found] = [text.partition("=")[2] for text in texts("ARG") if text.startswith(f"{name}=")]
    return found


def test_bases_are_pinned_to_the_patch_version_of_python() -> None:
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", argument("BASE_IMAGE"))
    stages = [text.partition(" AS ")[2] for text in texts("FROM")]
    for base in (text.partition(" AS ")[0] for text in texts("FROM")):
        assert base == "${BASE_IMAGE}" or base.replace("${VARIANT}", argument("VARIANT")) in stages
    assert {"base-cpu", "base-cuda"} <= set(stages)


def test_python_is_the_one_that_the_constraints_were_made_for() -> None:
    made_for = re.search(r"on Python (3\.\d+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert made_for is not None
    assert argument("BASE_IMAGE").startswith(f"python:{made_for[1]}.")


def test_the_last_user_is_not_root_and_numeric() -> None:
    users = [one.text for one in last_stage() if one.name == "USER"]
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", users[-1])
    after = last_stage()[[one.name for one in last_stage()].index("USER") + 1 :]
    assert {one.name for one in after} <= {"EXPOSE", "HEALTHCHECK", "CMD"}
    uid = users[-1].partition(":")[0]
    assert any(f"--uid {uid}" in one.text for one in last_stage() if one.name == "RUN")


def test_packages_of_the_system_leave_nothing_behind() -> None:
    runs = [text for text in texts("RUN") if "apt-get" in text]
    assert runs
    for text in runs:
        assert text.startswith("apt-get update"), "an index of another day has other packages"
        assert "install -y --no-install-recommends" in text
        assert text.endswith("rm -rf /var/lib/apt/lists/*")
        assert "upgrade" not in text


def test_packages_of_python_are_pinned_and_not_cached() -> None:
    installs = re.findall(r"pip install [^;&]*", " ; ".join(texts("RUN")))
    assert len(installs) >= 3
    for install in installs:
        assert "--no-cache-dir" in install
        assert "-c constraints.txt" in install


def test_nothing_is_fetched_but_packages() -> None:
    assert texts("ADD") == []
    for text in texts("RUN"):
        assert not re.search(r"\bcurl\b|\bwget\b|\bgit\b|https?://|\bsudo\b|\bcd\b", text)


def test_no_secret_is_built_in() -> None:
    secret = re.compile(r"password|secret|token|key", re.IGNORECASE)
    for name in ("ARG", "ENV", "LABEL"):
        assert not any(secret.search(text) for text in texts(name))


def test_what_is_copied_is_there_and_in_the_context() -> None:
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert patterns[0] == "*", "all is left out but what is named"
    let_in = [line[1:] for line in patterns if line.startswith("!")]
    copied = set()
    for text in texts("COPY"):
        *sources, _ = [word for word in text.split() if not word.startswith("--")]
        if "--from" not in text:
            copied |= set(sources)
    assert all((ROOT / source).exists() for source in copied)
    assert copied == set(let_in), "what is let in is copied, and nothing else"
    tracked = subprocess.run(["git", "ls-files", ".env*", "docker/.env"], cwd=ROOT, capture_output=True, text=True)
    assert [name for name in tracked.stdout.split() if not fnmatch.fnmatch(name, "*.example")] == []


def test_all_packages_of_the_project_are_in_the_image() -> None:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    for package in found["find"]["include"]:
        assert f"{package.removesuffix('*')} {package.removesuffix('*')}" in texts("COPY")


@pytest.mark.parametrize("name", ["CMD", "HEALTHCHECK"])
def test_commands_are_lists(name: str) -> None:
    [text] = [one.text for one in last_stage() if one.name == name]
    words = json.loads(text[text.index("[") :])
    assert words[0] in programs()
    assert all(isinstance(word, str) for word in words)
    assert texts("ENTRYPOINT") == []


def test_labels_say_what_it_is() -> None:
    [label] = [one.text for one in last_stage() if one.name == "LABEL"]
    assert f"image.version={VERSION}-${{VARIANT}}" in label
    for name in ("title", "description", "licenses", "revision"):
        assert f"org.opencontainers.image.{name}=" in label


def test_programs_are_executable() -> None:
    assert set(programs()) == {"slotsweep-serve", "slotsweep-health", "slotsweep-head"}
    for source in programs().values():
        assert (ROOT / source).stat().st_mode & 0o100


def test_the_home_is_a_folder_that_the_user_owns() -> None:
    [made] = [one.text for one in last_stage() if one.name == "RUN"]
    home = environment()["SLOTSWEEP_HOME"]
    assert f"{home}" in made.partition("mkdir -p ")[2].partition("&&")[0]
    assert f"{home}" in made.partition("chown ")[2]
