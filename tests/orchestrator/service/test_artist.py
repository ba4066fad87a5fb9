"""Drawing in a process of its own: once for all, not too often, and again when that process has died."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from threading import Thread

import psutil
import pytest

from orchestrator.service.artist import EVERY_SECONDS, Artist, Drawn, Wanted
from orchestrator.settings import Settings
from orchestrator.store.contract import asked, new_sweep
from orchestrator.store.store import Store

PATIENCE = 120.0


@pytest.fixture
def artist(settings: Settings) -> Iterator[Artist]:
    artist = Artist(settings)
    yield artist
    artist.close()


@pytest.fixture
def wanted(store: Store) -> Wanted:
    """The chart of a sweep of which nothing has finished."""
    return Wanted("chart", (store.submit(new_sweep(), asked(0, 0)).sweep,))


def draw(artist: Artist, wanted: Wanted, version: object = 0) -> Drawn:
    drawn = artist.draw(wanted, version, PATIENCE)  # type: ignore[arg-type]
    assert drawn is not None
    return drawn


def process_of(artist: Artist) -> int:
    [child] = [one for one in psutil.Process().children() if "orchestrator.service.drawings" in one.cmdline()]
    return child.pid


def test_a_drawing_is_made_once_for_all_who_ask(artist: Artist, wanted: Wanted) -> None:
    found: list[Drawn] = []
    viewers = [Thread(target=lambda: found.append(draw(artist, wanted))) for _ in range(8)]
    for viewer in viewers:
        viewer.start()
    for viewer in viewers:
        viewer.join()
    assert len(found) == 8
    assert {id(drawn) for drawn in found} == {id(found[0])}
    assert found[0].html is not None
    assert "nothing to draw yet" in found[0].html


def test_nobody_waits_for_longer_than_told_and_sees_the_old_drawing_then(artist: Artist, wanted: Wanted) -> None:
    began = time.monotonic()
    assert artist.draw(wanted, 0, 0.05) is None
    assert time.monotonic() - began < 5.0
    first = draw(artist, wanted)
    assert artist.draw(wanted, 1, PATIENCE) is first  # it is younger than it need be
    time.sleep(max(EVERY_SECONDS, 3.0 * first.took) + 0.1)
    assert artist.draw(wanted, 1, 0.0) is first  # while the next one is drawn
    assert draw(artist, wanted, 1).version == 1


def test_what_cannot_be_drawn_is_told(artist: Artist, store: Store) -> None:
    missing = draw(artist, Wanted("comparison", ("", store.submit(new_sweep(), asked(0, 0)).sweep)))
    assert missing.html is None
    assert missing.error is not None
    assert "has no finished trial yet" in missing.error
    broken = draw(artist, Wanted("chart", ("no such sweep",)))
    assert "there is no sweep" in str(broken.error)


def test_a_process_that_was_killed_is_started_again(artist: Artist, wanted: Wanted, store: Store) -> None:
    draw(artist, wanted)
    os.kill(process_of(artist), signal.SIGKILL)
    other = Wanted("chart", (store.submit(new_sweep(), asked(0, 0)).sweep,))
    until = time.monotonic() + PATIENCE
    while draw(artist, other).html is None and time.monotonic() < until:
        time.sleep(0.2)
    assert draw(artist, other).html is not None


def test_the_process_ends_with_the_artist(settings: Settings, wanted: Wanted) -> None:
    artist = Artist(settings)
    draw(artist, wanted)
    pid = process_of(artist)
    artist.close()
    assert not psutil.pid_exists(pid)
