"""Sweeps under random kills of everything they need: the result is that of a sweep which nobody disturbed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.faults.checks import check_store, check_table, check_tracking
from tests.faults.place import Place, Row
from tests.faults.services import Postgres
from tests.faults.storm import Blow, Storm
from tests.orchestrator.tracker.conftest import Server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

Blows = list[tuple[Blow, int]]
Undisturbed = Callable[[Place, str], list[Row]]

EMBEDDED_SHORT: Blows = [("driver", 1), ("worker", 1), ("gcs", 1)]
EMBEDDED: Blows = [("driver", 12), ("worker", 14), ("gcs", 4), ("raylet", 4), ("tracker", 4)]
SERVED_SHORT: Blows = [("driver", 1), ("postgres", 2), ("tracker", 1)]
SERVED: Blows = [
    ("driver", 8), ("worker", 8), ("gcs", 2), ("raylet", 2), ("tracker", 2), ("mlflow", 4), ("postgres", 5),
]  # fmt: skip


def weather(storm: Storm, batches: int, undisturbed: Undisturbed, tell: Callable[[str], None]) -> None:
    """Run sweeps of `batches` times twenty trials until the storm is over, then check all that it left."""
    place, sweeps = storm.place, {}
    while storm.blows:
        spec = place.write_spec(batches, base=1000 * len(sweeps))
        sweep = place.submit(spec)
        sweeps[sweep] = spec
        storm.endure(sweep)
    for sweep in sweeps:
        storm.calm(sweep)
    assert place.left() == []
    trials = 0
    for sweep, spec in sweeps.items():
        rows = place.rows(sweep)
        trials += len(rows)
        check_table(rows, undisturbed(place, spec))
        check_store(place.store(), sweep)
        check_tracking(place, sweep, rows)
    struck = ", ".join(f"{kind} {count}" for kind, count in sorted(storm.struck.items()))
    ended = ", ".join(f"{count} with {code}" for code, count in sorted(storm.codes.items()))
    tell(f"{trials} trials, {len(sweeps)} sweeps, {storm.struck.total()} blows ({struck}); drivers ended: {ended}")


def test_embedded_sweeps_survive_kills_of_any_process(
    place: Place, undisturbed: Undisturbed, full: bool, seed: int, tell: Callable[[str], None]
) -> None:
    """SQLite, a local Ray, an MLflow SQLite store."""
    blows = EMBEDDED if full else EMBEDDED_SHORT
    storm = Storm.of(place, seed, blows)
    weather(storm, 20 if full else 10, undisturbed, tell)
    assert storm.struck == Counter(dict(blows))


def test_served_sweeps_survive_crashes_of_their_services_too(
    make_place: Callable[..., Place],
    postgres: Postgres,
    request: pytest.FixtureRequest,
    undisturbed: Undisturbed,
    full: bool,
    seed: int,
    tell: Callable[[str], None],
) -> None:
    """Postgres, an MLflow server and Ray; in the short form Postgres, and everything else in one process."""
    place = make_place(services={"SLOTSWEEP_DATABASE_URL": postgres.url})
    if full:
        mlflow: Server = request.getfixturevalue("mlflow_server")
        place.services["SLOTSWEEP_TRACKING_URI"] = mlflow.uri
        storm = Storm.of(place, seed, SERVED, mlflow=mlflow, postgres=postgres)
    else:
        storm = Storm.of(place, seed, SERVED_SHORT, pause=3.0, executor="inline", postgres=postgres)
    weather(storm, 15 if full else 5, undisturbed, tell)
    assert storm.struck == Counter(dict(SERVED if full else SERVED_SHORT))
