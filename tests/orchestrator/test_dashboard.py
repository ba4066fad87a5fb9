"""`slotsweep dashboard` leads to a sweep in MLflow's pages, serves them where no server does, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.errors import StoreError
from orchestrator.mlflow_links import pages_address, run_link
from orchestrator.mlflow_pages import free_port, is_served, mlflow_pages
from orchestrator.settings import Settings
from orchestrator.store.store import Store
from tests.orchestrator.conftest import HEEDING_INTERRUPTS, SLOTSWEEP, make_home
from tests.orchestrator.specs import SMALL

DESCRIBED = SMALL.replace("kind:", "description: Which memory keeps items?\nkind:")


@dataclass(frozen=True)
class Served:
    """A dashboard that is up: its process, what it printed, and two sweeps, the second of reused trials alone."""

    process: subprocess.Popen[str]
    links: dict[str, str]
    sweeps: list[str]
    environment: dict[str, str]

    @property
    def address(self) -> str:
        return self.links["all experiments"]

    def post(self, path: str, **body: Any) -> Any:
        """The answer of MLflow's API."""
        request = urllib.request.Request(
            f"{self.address}/api/2.0/mlflow/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def found(self, condition: str) -> list[dict[str, Any]]:
        """Runs that meet `condition`, their tags as a dictionary."""
        experiments = self.post("experiments/search", max_results=10)["experiments"]
        [identity] = [one["experiment_id"] for one in experiments if one["name"] == "small"]
        answer = self.post("runs/search", experiment_ids=[identity], filter=condition, max_results=1000)
        return [run | {"tags": {tag["key"]: tag["value"] for tag in run["data"]["tags"]}} for run in answer["runs"]]


@pytest.fixture(scope="module")
def served(stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLOTSWEEP_")}
    environment["SLOTSWEEP_HOME"] = str(make_home(folder, stock))
    (folder / "small.yaml").write_text(DESCRIBED, encoding="utf-8")
    sweeps = []
    for _ in range(2):
        command = [*SLOTSWEEP, "run", "small.yaml", "--executor", "inline", "--json"]
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        sweeps.append(json.loads(ran.stdout.splitlines()[-1])["sweep"])
    process = subprocess.Popen(
        [*HEEDING_INTERRUPTS, "dashboard", sweeps[0], "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    printed = [process.stdout.readline().rstrip().rpartition("  ") for _ in range(4)]
    yield Served(process, {name.strip(): link for name, _, link in printed}, sweeps, environment)
    if process.poll() is None:
        process.terminate()
        process.wait(60)


def test_the_links_lead_to_the_sweep_and_to_its_trials(served: Served) -> None:
    sweep, _ = served.sweeps
    [parent] = [run for run in served.found(f"tags.`slotsweep.sweep` = '{sweep}'") if _is_parent(run)]
    info = parent["info"]
    assert served.links[f"sweep {sweep}"] == (
        f"{served.address}/#/experiments/{info['experiment_id']}/runs/{info['run_id']}?workflowType=machine_learning"
    )
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(served.links["its trials"]).fragment.partition("?")[2])
    [view] = query["viewStateShareKey"]
    tags = served.post("experiments/search", max_results=10)["experiments"]
    views = {tag["key"]: tag["value"] for one in tags if one["name"] == "small" for tag in one["tags"]}
    state = json.loads(json.loads(views[f"mlflow.sharedViewState.{view}"])["state"])
    assert {"tags.`hw.device`", "params.`mechanism.similarity`", "metrics.`recall`"} <= set(state["selectedColumns"])
    assert state["groupBy"]["groupByKeys"] == [{"mode": "param", "groupByData": "mechanism.name"}]
    assert len(served.found(state["searchFilter"])) == 25
    assert served.links["its experiment"] == (
        f"{served.address}/#/experiments/{info['experiment_id']}/runs?workflowType=machine_learning"
    )


def test_a_sweep_says_what_it_found(served: Served) -> None:
    for sweep in served.sweeps:
        [parent] = [run for run in served.found(f"tags.`slotsweep.sweep` = '{sweep}'") if _is_parent(run)]
        note = parent["tags"]["mlflow.note.content"]
        assert note.startswith("Which memory keeps items?\n\n3 mechanisms in 6 cells on 1 workload: 24 of 24 trials")
        assert "Numbers are means over 4 seeds with 95% intervals." in note
        assert "| mechanism | settings | recall |" in note
        assert "A frontier sweep of 24 trials: full\\_attention, dp\\_cache and recency on" in note
        assert "report/report.html" in note
    assert "24 of 24 were reused" in note


def test_filters_find_every_trial_reused_ones_too(served: Served) -> None:
    for sweep in served.sweeps:
        assert len(served.found(f"tags.slotsweep.sweep = '{sweep}' AND tags.hw.device = 'cpu'")) == 24
    reused = served.found("tags.`slotsweep.reused` = 'true'")
    assert {run["tags"]["slotsweep.sweep"] for run in reused} == {served.sweeps[1]}
    assert len(reused) == 24


def test_the_best_trials_are_those_that_no_other_cell_beats(served: Served) -> None:
    for sweep in served.sweeps:
        best = served.found(f"tags.`slotsweep.sweep` = '{sweep}' AND tags.`slotsweep.best` = 'true'")
        command = [*SLOTSWEEP, "results", sweep, "--json"]
        done = subprocess.run(command, env=served.environment, capture_output=True, text=True, check=True)
        cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in json.loads(done.stdout):
            cells.setdefault(
                tuple(row.get(f"mechanism.{name}") for name in ("name", "similarity", "budget")), []
            ).append(row)
        points = {
            cell: tuple(sum(row[f"metrics.{name}"] for row in rows) / len(rows) for name in ("recall", "bytes"))
            for cell, rows in cells.items()
        }
        wanted = {
            row["key"]
            for cell, rows in cells.items()
            if not any(_beats(other, points[cell]) for other in points.values())
            for row in rows
        }
        assert {run["tags"]["slotsweep.trial_key"] for run in best} == wanted
        assert 0 < len(wanted) < 24


def test_a_server_is_linked_to_and_nothing_is_started(served: Served) -> None:
    environment = served.environment | {"SLOTSWEEP_TRACKING_URI": served.address.replace("//", "//someone:secret@")}
    command = [*SLOTSWEEP, "dashboard", served.sweeps[0]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[0].endswith(served.links[f"sweep {served.sweeps[0]}"])
    assert "secret" not in done.stdout + done.stderr


def test_a_port_that_is_taken_is_told_of(served: Served) -> None:
    port = served.address.rpartition(":")[2]
    command = [*SLOTSWEEP, "dashboard", "--port", port]
    done = subprocess.run(command, env=served.environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
    assert "name another with --port" in done.stderr


def test_pages_that_nobody_serves_are_told_of(served: Served) -> None:
    environment = served.environment | {"SLOTSWEEP_MLFLOW_URL": "http://127.0.0.1:1"}
    command = [*SLOTSWEEP, "dashboard", served.sweeps[0]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert "nothing answers at http://127.0.0.1:1" in done.stderr
    assert "unset SLOTSWEEP_MLFLOW_URL" in done.stderr
    assert is_served(served.address)


@pytest.mark.parametrize("port", ["99999999", "-5"])
def test_a_port_that_there_is_not_is_refused(slotsweep: Callable[..., Any], port: str) -> None:
    ran = slotsweep("dashboard", "--port", port)
    assert (ran.code, "Invalid value for '--port'" in ran.err) == (2, True)


def test_ctrl_c_ends_it_and_leaves_no_process(served: Served) -> None:
    """The last test of the module: it ends the dashboard that the others look at."""
    children = psutil.Process(served.process.pid).children(recursive=True)
    assert children
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(60) == 0
    gone, alive = psutil.wait_procs(children, 30)
    assert (len(gone), alive) == (len(children), [])


def test_a_taken_port_is_passed_over_unless_it_was_named() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        assert free_port("127.0.0.1", None) >= 5000
        assert free_port("127.0.0.1", 0) != one.getsockname()[1]


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, None),
        ({"SLOTSWEEP_TRACKING_URI": "postgresql://me:secret@host/mlflow"}, None),
        ({"SLOTSWEEP_TRACKING_URI": "https://me:secret@host:5000/mlflow/"}, "https://host:5000/mlflow"),
        ({"SLOTSWEEP_TRACKING_URI": "http://mlflow:5000", "SLOTSWEEP_MLFLOW_URL": "http://me:x@out"}, "http://out"),
    ],
    ids=["embedded", "database", "server", "another name for browsers"],
)
def test_pages_have_an_address_where_somebody_serves_them(environment: dict[str, str], address: str | None) -> None:
    assert pages_address(Settings.read(environment)) == address


def test_a_sweep_that_mlflow_has_not_heard_of_has_no_link(settings: Settings) -> None:
    assert run_link(settings, "small", "nobody", "http://host") is None


def test_a_dashboard_of_a_service_needs_its_mlflow(slotsweep: Callable[..., Any]) -> None:
    ran = slotsweep("dashboard", SLOTSWEEP_SERVER="http://127.0.0.1:9", SLOTSWEEP_TOKEN="slotsweep_x")
    assert ran.code == 2
    assert ran.err.startswith("error: the runs are in the MLflow of the service that SLOTSWEEP_SERVER names")


@pytest.mark.slow
def test_a_store_in_postgres_is_served_and_its_address_on_no_command_line(
    postgres_database: Callable[..., Any], settings: Settings
) -> None:
    with postgres_database() as url:
        served = replace(settings, tracking_uri=url)
        with mlflow_pages(served, "127.0.0.1", free_port("127.0.0.1", 0)) as pages:
            pages.wait_until_served()
            search = urllib.request.Request(
                f"{pages.address}/api/2.0/mlflow/experiments/search",
                b'{"max_results": 1}',
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(search, timeout=120) as answer:
                assert [one["name"] for one in json.load(answer)["experiments"]] == ["Default"]
            mine = psutil.Process().children(recursive=True)
            lines = [word for process in mine for word in process.cmdline()]
            assert "mlflow" in lines
            assert not [word for word in lines if url in word]


def test_a_database_that_is_not_mlflows_is_refused(settings: Settings) -> None:
    Store.open(settings.database_url).close()
    wrong = replace(settings, tracking_uri=settings.database_url)
    with (
        pytest.raises(StoreError, match="holds tables that are not MLflow's"),
        mlflow_pages(wrong, "127.0.0.1", free_port("127.0.0.1", 0)),
    ):
        raise AssertionError("it is served")


def _is_parent(run: dict[str, Any]) -> bool:
    return "mlflow.parentRunId" not in run["tags"]


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether `one` has at least the recall of `other` in no more bytes, one of the two being better."""
    recall, size = (round(first - second, 9) for first, second in zip(one, other, strict=True))
    return recall >= 0 >= size and (recall > 0 or size < 0)
