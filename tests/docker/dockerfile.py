"""The Dockerfile as a list of instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.docker.compose_file import FOLDER

DOCKERFILE = FOLDER / "Dockerfile"


@dataclass(frozen=True)
class Instruction:
    """`RUN`, `COPY`, ...; what follows it, on one line; and the stage it belongs to, from 0 (-1: before all)."""

    name: str
    text: str
    stage: int


def instructions() -> list[Instruction]:
    """All of them, in order, without comments."""
    lines = [line for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found: list[Instruction] = []
    stage = -1
    for line in filter(None, map(str.strip, whole.splitlines())):
        name, _, text = line.partition(" ")
        stage += name == "FROM"
        found.append(Instruction(name, text.strip(), stage))
    return found


def last_stage() -> list[Instruction]:
    """What makes the image that is kept."""
    found = instructions()
    return [one for one in found if one.stage == found[-1].stage]


def environment() -> dict[str, str]:
    """Variables that containers of the image have, but for PATH."""
    pairs = [pair for one in last_stage() if one.name == "ENV" for pair in one.text.split()]
    given = dict(pair.split("=", 1) for pair in pairs)
    del given["PATH"]
    return given


def programs() -> dict[str, str]:
    """Programs that the image has besides those of packages: their names, and where in the repository they stand."""
    found = {}
    for one in last_stage():
        if one.name == "COPY" and "--from" not in one.text:
            *_, source, target = one.text.split()
            found[target.rpartition("/")[2]] = source
    return found
