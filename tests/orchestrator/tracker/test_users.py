"""MLflow servers that ask who is there: names and passwords from the environment, which are told to nobody else."""

from __future__ import annotations

import base64
import importlib.util
import json
import logging
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.tracker.opening import open_tracker
from orchestrator.tracker.tracker import Tracker, TrackerRefusedError, TrackerUnavailableError

if TYPE_CHECKING:
    from tests.orchestrator.tracker.conftest import Server

ADMIN, ADA, WRONG = "password-of-the-admin", "password-of-ada-0815", "password-of-nobody"

CONFIG = """\
[mlflow]
default_permission = READ
database_uri = sqlite:///{folder}/users.db
admin_username = admin
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
auth_cache_ttl_seconds = 60
"""


@pytest.fixture(scope="module")
def guarded(new_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server with two users: the admin, and ada, who may look at what is others'."""
    if importlib.util.find_spec("flask_wtf") is None:
        pytest.skip("MLflow's basic-auth needs Flask-WTF, which is not installed: pip install 'mlflow[auth]'")
    folder = tmp_path_factory.mktemp("users")
    (folder / "auth.ini").write_text(CONFIG.format(folder=folder))
    secret = {
        "MLFLOW_AUTH_ADMIN_PASSWORD": ADMIN,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "key",
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
    }
    server = new_server("--app-name", "basic-auth", **secret)
    request = urllib.request.Request(
        f"{server.uri}/api/2.0/mlflow/users/create",
        json.dumps({"username": "ada", "password": ADA}).encode(),
        {
            "Content-Type": "application/json",
            "Authorization": f"Basic {base64.b64encode(f'admin:{ADMIN}'.encode()).decode()}",
        },
    )
    with urllib.request.urlopen(request, timeout=120):
        return server


@pytest.fixture
def as_user(guarded: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Tracker]:
    """Opens a tracker on the server for a user, by the environment or (`in_address`) by the address."""

    def opened(user: str | None, password: str = "", *, in_address: bool = False) -> Tracker:
        for name in ("USERNAME", "PASSWORD", "TOKEN"):
            monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
        if user is not None and not in_address:
            monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", user)
            monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", password)
        uri = guarded.uri.replace("//", f"//{user}:{password}@") if in_address else guarded.uri
        return open_tracker(uri, str(tmp_path))

    return opened


@pytest.mark.parametrize("in_address", [False, True], ids=["environment", "address"])
def test_whoever_has_a_password_writes(in_address, as_user, parent, trial, tmp_path) -> None:
    page = tmp_path / "report.html"
    page.write_text("<p>report</p>")
    experiment = f"of the admin {in_address}"
    tracker = as_user("admin", ADMIN, in_address=in_address)
    tracker.prepare()
    tracker.write_parent(parent(experiment, experiment, artifacts={"report/report.html": page}))
    tracker.write_trials([trial(0, experiment, experiment), trial(1, experiment, experiment)])
    assert tracker.find(experiment, parent(experiment).run_id) is not None
    assert tracker.close_orphans(experiment, parent(experiment).run_id, "KILLED", 1) == 0


@pytest.mark.parametrize("in_address", [False, True], ids=["environment", "address"])
def test_a_wrong_password_is_refused_with_the_cure_and_not_told(in_address, as_user, parent, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(TrackerRefusedError, match="set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD") as told:
        as_user("admin", WRONG, in_address=in_address).write_parent(parent())
    assert WRONG not in f"{told.value} {caplog.text}"


def test_nobody_is_refused(as_user, parent) -> None:
    with pytest.raises(TrackerRefusedError, match="does not know who is writing"):
        as_user(None).write_parent(parent())


def test_users_write_to_experiments_of_their_own_and_not_to_those_of_others(as_user, parent, trial) -> None:
    as_user("admin", ADMIN).write_parent(parent("s1", "guarded"))
    ada = as_user("ada", ADA)
    with pytest.raises(TrackerRefusedError, match="does not let this user write there"):
        ada.write_trials([trial(0, "s1", "guarded")])
    ada.write_parent(parent("s2", "hers"))
    ada.write_trials([trial(0, "s2", "hers")])


def test_no_password_is_in_the_servers_log(guarded: Server, as_user, parent) -> None:
    as_user("ada", ADA).find("hers", parent().run_id)
    log = (guarded.folder / "server.log").read_text()
    assert not [secret for secret in (ADMIN, ADA, WRONG) if secret in log]


@pytest.fixture
def bearer() -> Iterator[tuple[str, list[str | None]]]:
    """The address of a server that knows nobody, and what it was told in `Authorization`."""
    told: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(self.headers.get("Authorization"))
            self.send_error(403)

        def log_message(self, format: str, *arguments: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", told
        server.shutdown()


def test_a_token_of_a_proxy_is_sent_and_not_told(bearer, monkeypatch, tmp_path) -> None:
    address, told = bearer
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret-of-the-proxy")
    with pytest.raises((TrackerRefusedError, TrackerUnavailableError)) as error:
        open_tracker(address, str(tmp_path)).prepare()
    assert told == ["Bearer secret-of-the-proxy"]
    assert "secret-of-the-proxy" not in str(error.value)
