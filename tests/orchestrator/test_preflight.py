"""What is refused before anything starts."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orchestrator.errors import ExecutorError, RequestError
from orchestrator.machines import planned
from orchestrator.plan import Plan
from orchestrator.preflight import check_before_submitting
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from tasks.workload import WORKLOADS
from tests.orchestrator.conftest import Ran
from tests.orchestrator.specs import SMALL, write_small
from tests.tasks.own_files import own_files


@pytest.mark.parametrize(
    ("tracking", "database"),
    [
        ("sqlite:////a/x.db", "sqlite:////a/x.db"),
        ("postgresql://me@h:1/db", "postgresql+psycopg://you@h:1/db"),
        ("file:///tmp/mlruns", "sqlite:///x.db"),
        ("nonsense", "sqlite:///x.db"),
    ],
)
def test_settings_that_cannot_work(settings: Settings, tracking: str, database: str) -> None:
    plan = Plan(read_spec(SMALL))
    check_before_submitting(plan, settings)
    with pytest.raises(RequestError, match="SLOTSWEEP_TRACKING_URI"):
        check_before_submitting(plan, replace(settings, tracking_uri=tracking, database_url=database))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"optuna_url": "sqlite:////a/x.db", "database_url": "sqlite:////a/x.db"},
            "slotsweep and Optuna need one each",
        ),
        ({"optuna_url": "sqlite:////a/x.db", "tracking_uri": "sqlite:////a/x.db"}, "MLflow and Optuna need one each"),
        ({"optuna_url": "postgresql+psycopg2://u:p@h/db", "database_url": "postgresql://h/db"}, "SLOTSWEEP_OPTUNA_URL"),
        ({"optuna_url": "mysql://h/db"}, "SLOTSWEEP_OPTUNA_URL is `mysql://h/db`: studies go to a database"),
    ],
)
def test_optuna_has_a_database_of_its_own(settings: Settings, changes: dict[str, str], said: str) -> None:
    """Scenario 23."""
    with pytest.raises(RequestError, match=said):
        check_before_submitting(Plan(read_spec(SMALL)), replace(settings, **changes))


def test_streams_that_no_memory_holds(settings: Settings) -> None:
    plan = Plan(read_spec(SMALL.replace("items: 8", "items: 1000000").replace("repeats: 2", "repeats: 10000")))
    with pytest.raises(RequestError, match=r"has 10,000,000,000 tokens and needs 1,280 GB"):
        check_before_submitting(plan, settings)


OWN = [
    ("csv_stream", "csv", {"key": "movie"}, 64),
    ("csv_stream", "csv", {"key": "movie", "dim": 7}, 7),
    ("csv_stream", "csv", {"key": "movie", "embeddings": "csv"}, 2),
    ("csv_stream", "csv", {"key": "movie", "embeddings": "npz"}, 3),
    ("csv_stream", "csv", {"key": "movie", "embeddings": "npy"}, 5),
    ("parquet_stream", "parquet", {"key": "movie", "value": "genre", "order": "when"}, 64),
    ("log_file", "log", {}, 64),
]


@pytest.mark.parametrize(("name", "form", "fields", "width"), OWN)
def test_streams_of_own_files_need_no_dim(
    name: str, form: str, fields: dict[str, object], width: int, settings: Settings, tmp_path: Path
) -> None:
    """Short streams, as the README writes them; by how wide their keys are memory is asked for."""
    movies = [f"m{number}" for number in range(12)]
    vectors = {kind: tmp_path / f"vectors.{kind}" for kind in ("csv", "npz", "npy")}
    vectors["csv"].write_text("name,x,y\n" + "".join(f"{movie},1,2\n" for movie in movies))
    np.savez(vectors["npz"], keys=movies, vectors=np.ones((12, 3)))
    np.save(vectors["npy"], np.ones((12, 5)))
    named = {field: str(vectors[str(value)]) if field == "embeddings" else value for field, value in fields.items()}
    workload = {"name": name, "path": own_files(tmp_path)[form], **named}
    spec: dict[str, object] = {
        "name": "own",
        "kind": "frontier",
        "workload": workload,
        "mechanisms": [{"name": "recency", "budget": 4}],
    }
    spec["seeds"] = 2
    plan = Plan(read_spec(json.dumps(spec)))
    check_before_submitting(plan, settings)
    [group] = plan.groups
    assert WORKLOADS.implementation(name).width(group.workload) == width


@pytest.fixture
def impostor() -> Iterator[Callable[[bytes], str]]:
    """Starts what listens and says so much, and never more; its address."""
    with ExitStack() as servers:

        def start(says: bytes) -> str:
            server = servers.enter_context(socket.create_server(("127.0.0.1", 0)))

            def answer() -> None:
                held = []
                with suppress(OSError):
                    while True:
                        held.append(server.accept()[0])
                        held[-1].sendall(says)

            threading.Thread(target=answer, daemon=True).start()
            return f"127.0.0.1:{server.getsockname()[1]}"

        yield start


@pytest.mark.parametrize("says", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"\0\0\0\4\0\0\0\0\0"], ids=["mute", "ssh", "http2"])
@pytest.mark.parametrize("command", [["run"], ["submit", "--wait", "5"]])
def test_what_is_no_cluster_is_named_in_seconds(
    slotsweep: Callable[..., Ran], tmp_path: Path, impostor: Callable[[bytes], str], command: list[str], says: bytes
) -> None:
    """Whatever the spec's device. Ray itself would look for its cluster for a minute."""
    address = impostor(says)
    began = time.monotonic()
    ran = slotsweep(command[0], str(write_small(tmp_path)), *command[1:], RAY_ADDRESS=address)
    assert time.monotonic() - began < 45.0
    assert ran.code == 3
    assert re.search(rf"RAY_ADDRESS: what (listens|answers) at {address} is no Ray cluster", ran.err), ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("address", "code", "said"),
    [
        ("127.0.0.1:1", 3, "RAY_ADDRESS: nothing answers at 127.0.0.1:1"),
        ("ray://127.0.0.1:1", 3, "RAY_ADDRESS: nothing answers at 127.0.0.1:1"),
        ("nonsense", 2, "RAY_ADDRESS: `nonsense` is no address"),
        ("http://127.0.0.1:1", 2, "RAY_ADDRESS: `http://127.0.0.1:1` is no address of a Ray cluster"),
    ],
)
def test_a_cluster_that_is_not_there_is_named_at_once(
    slotsweep: Callable[..., Ran], tmp_path: Path, address: str, code: int, said: str
) -> None:
    for command in (["submit", str(write_small(tmp_path))], ["workers"]):
        ran = slotsweep(*command, RAY_ADDRESS=address)
        assert (ran.code, ran.out) == (code, "")
        assert said in ran.err


def test_of_a_clients_address_it_is_said_that_it_lists_no_nodes(
    slotsweep: Callable[..., Ran], impostor: Callable[[bytes], str]
) -> None:
    address = f"ray://{impostor(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))}"
    ran = slotsweep("workers", RAY_ADDRESS=address)
    assert ran.code == 0
    assert f"nodes cannot be listed through a client's {address}" in ran.err
    assert slotsweep("workers", "--json", RAY_ADDRESS=address).json["unlisted"] is not None


def test_auto_is_the_cluster_of_this_machine(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private import services

    plan, settings = Plan(read_spec(SMALL)), replace(settings, ray_address="auto")
    monkeypatch.setattr(services, "canonicalize_bootstrap_address", lambda _: None)
    with pytest.raises(ExecutorError, match="`auto` names the Ray cluster that runs on this machine, and "):
        check_before_submitting(plan, settings)
    monkeypatch.setattr(services, "canonicalize_bootstrap_address", lambda _: "127.0.0.1:1")
    with pytest.raises(ExecutorError, match=r"nothing answers at 127\.0\.0\.1:1"):
        check_before_submitting(plan, settings)


@pytest.mark.parametrize(("written", "meant"), [("local", None), ("", None), ("auto", "auto"), ("h:1", "h:1")])
def test_rays_word_local_starts_a_ray_of_our_own(written: str, meant: str | None) -> None:
    assert Settings.read({"RAY_ADDRESS": written}).ray_address == meant


def test_times_are_not_kept_under_a_machine_that_a_client_cannot_know(settings: Settings) -> None:
    plan = planned(read_spec(SMALL.replace("frontier", "cost_scaling")), replace(settings, ray_address="ray://h:10001"))
    with pytest.raises(RequestError, match="let RAY_ADDRESS name the head's HOST:PORT"):
        plan.trial_count  # noqa: B018


def test_a_device_that_no_worker_offers(settings: Settings) -> None:
    """Scenario 6: refused, never silent."""
    plan = Plan(read_spec(SMALL + "device: cuda\n"))
    with pytest.raises(RequestError, match="no worker offers cuda"):
        check_before_submitting(plan, settings)
