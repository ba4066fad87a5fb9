"""The commands of somebody whose SLOTSWEEP_SERVER names a service."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator import doctor
from orchestrator.client.local import LocalClient
from orchestrator.scheduler import StopRequest
from orchestrator.service.attempts import LATELY_SECONDS
from orchestrator.settings import Settings
from orchestrator.store import schema
from orchestrator.store.serving import OutlookRow
from orchestrator.store.states import Role, SweepState
from orchestrator.store.store import Store
from tests.orchestrator.client.conftest import serving
from tests.orchestrator.conftest import SLOTSWEEP, Ran
from tests.orchestrator.specs import SMALL

TINY = SMALL.replace("seeds: 4", "seeds: 2").replace("episodes: 3", "episodes: 1")


@dataclass(frozen=True)
class User:
    """Somebody at a machine of their own, with a token for the service at `url`."""

    url: str
    token: str
    folder: Path
    here: Callable[..., Ran]

    @property
    def environment(self) -> dict[str, str]:
        """What tells their commands where the service is."""
        return {"SLOTSWEEP_SERVER": self.url, "SLOTSWEEP_TOKEN": self.token, "SLOTSWEEP_HOME": str(self.folder / "own")}


@pytest.fixture
def user(
    settings: Settings,
    store: Store,
    tmp_path: Path,
    slotsweep_here: Callable[..., Ran],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[User]:
    with serving(settings, store) as url:
        user = User(url, store.create_token("ada", Role.SUBMITTER)[1], tmp_path, slotsweep_here)
        for name, value in user.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("orchestrator.client.watching.POLL_SECONDS", 0.1)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "tiny.yaml").write_text(TINY, encoding="utf-8")
        yield user


@pytest.fixture
def conductor(settings: Settings, store: Store) -> Iterator[None]:
    """Computes whatever is queued, as the service's conductor would."""
    over = threading.Event()

    def compute() -> None:
        client = LocalClient(settings, "inline")
        while not over.is_set():
            for sweep in store.waiting_sweeps([SweepState.QUEUED]):
                client.run([sweep], on_progress=lambda _: None, stop=StopRequest(), tell=lambda _: None)
            time.sleep(0.05)

    thread = threading.Thread(target=compute)
    thread.start()
    yield
    over.set()
    thread.join()


def test_a_spec_is_run_to_its_end_with_the_words_of_a_local_run(user: User, conductor: None) -> None:
    ran = user.here("run", "tiny.yaml")
    assert ran.code == 0, ran.err
    assert "12 trials, 0 of 12 reused" in ran.err
    assert "done: 12 of 12 trials done, 0 failed, 0 of 12 reused, in " in ran.out
    assert "dp_cache" in ran.out
    assert re.search(rf"^page      {re.escape(user.url)}/sweeps/\w+$", ran.out, re.MULTILINE)
    assert "dashboard" not in ran.out
    again = user.here("run", "tiny.yaml", "--json")
    assert again.json.keys() == {"sweep", "trials", "done", "failed", "reused", "seconds", "report"}
    assert (again.json["trials"], again.json["done"], again.json["reused"]) == (12, 12, 12)
    assert again.json["report"] == f"{user.url}/sweeps/{again.json['sweep']}/report/"
    [line] = user.here("submit", "tiny.yaml").out.splitlines()
    assert user.here("run", line).code == 0
    states = {one["sweep"]: one["state"] for one in user.here("status", "--json").json}
    assert states == {line: "done", again.json["sweep"]: "done", **dict.fromkeys(states, "done")}
    assert user.here("resume").err == "nothing to resume: every sweep has ended\n"


def test_results_and_reports_come_to_the_user(user: User, conductor: None, tmp_path: Path) -> None:
    sweep = user.here("run", "tiny.yaml", "--json").json["sweep"]
    assert len(user.here("results", sweep, "--format", "json").json) == 12
    header, *rows = user.here("results", sweep, "--format", "csv").out.splitlines()
    assert (header.startswith("sweep,trial,key,kind,state,"), len(rows)) == (True, 12)
    assert user.here("results", "last", "--format", "parquet", "-o", "r.parquet").code == 0
    assert (tmp_path / "r.parquet").read_bytes()[:4] == b"PAR1"
    page = Path(user.here("report", sweep).out.strip())
    assert page == tmp_path / "own" / "reports" / sweep / "report.html"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert user.here("plan", "tiny.yaml", "--json").json["reused"] == 12
    assert "12, already done in this store" in user.here("plan", "tiny.yaml").out


def test_what_is_wrong_is_told_as_it_is_locally(user: User, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(TINY.replace("seeds: 2", "seeds: two"), encoding="utf-8")
    for command in ("plan", "submit", "run"):
        ran = user.here(command, "bad.yaml")
        assert (ran.code, ran.err.startswith("bad.yaml:8:8: `seeds`")) == (2, True), ran.err
    assert user.here("plan", "bad.yaml", "--json").json["errors"][0]["line"] == 8
    assert user.here("run", "nothing").code == 2
    assert "ready-made" in user.here("run", "nothing").err
    assert "there is no sweep `ffff`" in user.here("pause", "ffff").err
    (tmp_path / "code.yaml").write_text(TINY + "plugins: [mine.py]\n", encoding="utf-8")
    assert "mine.py cannot be read: No such file" in user.here("submit", "code.yaml").err
    (tmp_path / "mine.py").write_text("", encoding="utf-8")
    refused = user.here("submit", "code.yaml")
    assert (refused.code, "this service takes no plug-ins" in refused.err) == (2, True)


def test_roles_and_tokens_are_told_of_in_one_line(user: User, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    row, viewer = store.create_token("vera", Role.VIEWER)
    monkeypatch.setenv("SLOTSWEEP_TOKEN", viewer)
    ran = user.here("submit", "tiny.yaml")
    assert (ran.code, ran.err) == (2, "error: this needs the role submitter; vera's token has the role viewer\n")
    store.revoke_token(row.id)
    time.sleep(LATELY_SECONDS)
    ran = user.here("status")
    assert (ran.code, "does not take the token in SLOTSWEEP_TOKEN" in ran.err) == (2, True)
    assert viewer not in ran.err
    monkeypatch.delenv("SLOTSWEEP_TOKEN")
    ran = user.here("status")
    assert (ran.code, "set SLOTSWEEP_TOKEN" in ran.err, len(ran.err.splitlines())) == (2, True, 1)


def test_admins_make_tokens_through_the_service(user: User, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert user.here("token", "list").code == 2
    monkeypatch.setenv("SLOTSWEEP_TOKEN", store.create_token("root", Role.ADMIN)[1])
    made = user.here("token", "create", "vera", "--role", "viewer", "--days", "2", "--json").json
    assert store.token_of(made["token"]) is not None
    assert made["id"] in {one["id"] for one in user.here("token", "list", "--json").json}
    assert user.here("token", "revoke", made["id"]).code == 0
    assert store.token_of(made["token"]) is None


def test_what_belongs_to_a_store_of_ones_own_is_refused_in_one_line(user: User) -> None:
    for arguments in (
        ("run", "tiny.yaml", "--executor", "inline"),
        ("resume", "--executor", "inline"),
        ("db", "upgrade"),
        ("serve",),
        ("trial", "abc"),
    ):
        ran = user.here(*arguments)
        assert (ran.code, len(ran.err.splitlines())) == (2, 1), (arguments, ran)
        assert "unset SLOTSWEEP_SERVER first" in ran.err


def test_a_service_that_is_not_there_is_told_of_in_one_line(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.client.http.FIRST_SECONDS", 0.3)
    for url, code, words in (
        ("http://127.0.0.1:9", 3, "cannot be reached"),
        ("127.0.0.1:9", 2, "no address of a service"),
        ("http://user:secret@127.0.0.1:9", 2, "no address of a service"),
    ):
        monkeypatch.setenv("SLOTSWEEP_SERVER", url)
        ran = user.here("status")
        assert (ran.code, words in ran.err, len(ran.err.splitlines())) == (code, True, 1), ran.err
        assert "secret" not in ran.err


@pytest.mark.slow
def test_ctrl_c_pauses_on_the_service(user: User, store: Store) -> None:
    watching = subprocess.Popen(
        [*SLOTSWEEP, "run", "tiny.yaml", "--json"],
        cwd=user.folder,
        env={**os.environ, **user.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stderr is not None
    lines = [watching.stderr.readline() for _ in range(2)]
    assert "0 of 12 reused" in lines[0]
    [sweep] = store.statuses()
    watching.send_signal(signal.SIGINT)
    out, _ = watching.communicate(timeout=60)
    assert (watching.returncode, json.loads(out)["sweep"]) == (1, sweep.id)
    assert store.status(sweep.id).state == SweepState.PAUSED


@pytest.mark.slow
def test_a_run_outlasts_a_service_that_is_restarted(
    settings: Settings, store: Store, as_user: Callable[..., Settings], tmp_path: Path
) -> None:
    from orchestrator.client.remote import RemoteClient
    from orchestrator.requests import SpecFile

    (tmp_path / "tiny.yaml").write_text(TINY, encoding="utf-8")
    with serving(settings, store) as url:
        client = RemoteClient(as_user(url))
        [submitted] = client.submit([SpecFile("tiny.yaml", tmp_path / "tiny.yaml")]).submitted.values()
    port = int(url.rpartition(":")[2])
    states: list[str] = []
    asking = threading.Thread(target=lambda: states.append(client.sweep(submitted.sweep).state))
    asking.start()
    time.sleep(1.0)
    assert states == []
    with serving(settings, store, port):
        asking.join(60)
    assert states == ["queued"]


def test_status_says_whose_sweeps_are_why_they_wait_and_how_long_they_take(user: User, store: Store) -> None:
    """And waits for the caller's own, if no sweep is named."""
    [mine] = user.here("submit", "tiny.yaml").out.splitlines()
    [other] = user.here("submit", "tiny.yaml", "--set", "seeds=3").out.splitlines()
    with store.engine.begin() as connection:
        sweeps = schema.sweeps
        connection.execute(sweeps.update().where(sweeps.c.id == other).values(user="bob"))
    store.set_outlooks([OutlookRow(mine, 1.0, 200.0), OutlookRow(other, 1.0, None, "no node has cuda")])
    told = user.here("status")
    assert next(line.split()[-3:] for line in told.out.splitlines()[1:]) == ["node", "has", "cuda"]
    assert {"ada", "bob"} <= set(told.out.split())
    assert "3 min 20 s" in told.out
    [one] = user.here("status", "--mine", "--json").json
    assert (one["sweep"], one["user"], one["priority"], one["waiting"], one["seconds_left"]) == (
        mine,
        "ada",
        0,
        None,
        200.0,
    )
    store.set_sweep_state(mine, SweepState.CANCELLED)
    assert user.here("status", "-w", "--json").json[0]["state"] == "cancelled"


def test_only_a_service_knows_whose_sweeps_are(slotsweep_here: Callable[..., Ran], settings: Settings) -> None:
    assert slotsweep_here("status", "--mine").err.startswith("error: `--mine` needs a service")


def test_the_doctor_asks_the_service_and_makes_no_store(
    user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it answers, and takes the token, and as whose."""
    others = [check for check in doctor.CURES if check.__name__ not in ("_service", "_database", "_mlflow", "_optuna")]
    for check in others:
        monkeypatch.setattr(doctor, check.__name__, lambda _: doctor.Finding("quiet", True, ""))

    def found() -> doctor.Finding:
        [finding] = [one for one in doctor.examine(Settings.read()) if one.check != "quiet"]
        return finding

    assert (found().ok, found().detail) == (True, f"{user.url} knows the token: of ada, submitter")
    monkeypatch.setenv("SLOTSWEEP_TOKEN", "slotsweep_wrong")
    assert not found().ok
    assert "does not take the token in SLOTSWEEP_TOKEN" in found().detail
    assert "slotsweep_wrong" not in found().detail
    monkeypatch.setattr("orchestrator.client.http.FIRST_SECONDS", 0.1)
    monkeypatch.setenv("SLOTSWEEP_SERVER", "http://127.0.0.1:1")
    assert "cannot be reached" in found().detail
    assert not list((tmp_path / "own").glob("*.db"))
