"""Getting ready: what hangs or dies is found, told of, left out, and not tried again; whoever gives up is heeded."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.mechanism import MECHANISMS
from models.plugins import load_plugin
from orchestrator.code_snapshot import take_snapshot
from orchestrator.executors import ray_preparing
from orchestrator.executors.ray_preparing import Preparer
from orchestrator.settings import Settings
from workers.batch import load_mechanism
from workers.host import Preparation

PLUGIN = '''\
"""Mechanisms that hang, die, or do neither."""

import os
import time
from typing import Literal

from models.config import SlotConfig
from models.mechanism import MECHANISMS, mechanism

FullAttention = MECHANISMS.implementation("full_attention")


class StubbornConfig(SlotConfig):
    """Does as told."""

    name: Literal["stubborn"] = "stubborn"
    does: Literal["hang", "die", "work"] = "work"


@mechanism(StubbornConfig)
class Stubborn(FullAttention):
    def start(self, stream, rng):
        print("0")
        if self.config.does == "hang":
            time.sleep(600)
        if self.config.does == "die":
            os.kill(os.getpid(), 9)
        super().start(stream, rng)
'''


@pytest.fixture
def stubborn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A plug-in, which is forgotten with the test."""
    path = tmp_path / "stubborn_mechanism.py"
    # Tests share compiled kernels, and beside them what was found unfit: each test's code is its own.
    path.write_text(f"{PLUGIN}\n\nTEST = {str(tmp_path)!r}\n", encoding="utf-8")
    MECHANISMS.names()
    monkeypatch.setattr(MECHANISMS, "_entries", dict(MECHANISMS._entries))
    load_plugin(str(path))
    yield path
    sys.modules.pop("stubborn_mechanism", None)


def preparation(*does: str) -> Preparation:
    trees: list[dict[str, Any]] = [{"name": "full_attention"}, *({"name": "stubborn", "does": one} for one in does)]
    mechanisms = tuple(load_mechanism(tree).identity() for tree in trees)
    return Preparation((), mechanisms, "float32", ("stubborn_mechanism",))


def prepared(preparer: Preparer, *does: str) -> list[str]:
    """What is left of a preparation: what each of its mechanisms of the plug-in does."""
    found = preparer.prepare(preparation(*does), lambda: None)
    assert found.mechanisms[0]["name"] == "full_attention"
    return [tree["does"] for tree in found.mechanisms[1:]]


@pytest.mark.slow
def test_what_hangs_or_dies_is_told_of_left_out_and_not_tried_again(
    stubborn: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, pace: float
) -> None:
    monkeypatch.setattr(ray_preparing, "TELL_SECONDS", 0.5)
    told: list[str] = []
    preparer = Preparer(take_snapshot([str(stubborn)]), settings, lambda: False, told.append, plugin_seconds=8.0 * pace)
    assert prepared(preparer, "die", "work", "hang") == ["work"]
    assert "workers get ready: trying mechanism stubborn" in told
    assert sum("left to its own trials" in one for one in told) == 2
    assert prepared(preparer, "die", "work", "hang") == ["work"]
    assert sum("left to its own trials" in one for one in told) == 2, "neither was tried again"


def test_who_gives_up_is_heeded_while_a_mechanism_hangs(stubborn: Path, settings: Settings) -> None:
    until = time.monotonic() + 5.0
    preparer = Preparer(take_snapshot([str(stubborn)]), settings, lambda: time.monotonic() > until)
    assert prepared(preparer, "hang") == ["hang"]
    assert time.monotonic() < until + 30.0
