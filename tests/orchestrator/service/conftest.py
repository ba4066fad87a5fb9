"""Fixtures for tests of the service: its application in this process, and the command that serves it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from orchestrator.service.app import create_app
from orchestrator.service.options import ServiceOptions
from orchestrator.settings import Settings
from orchestrator.store.states import Role
from orchestrator.store.store import Store
from tests.orchestrator.conftest import SLOTSWEEP

API = "/api/v1"


@dataclass(frozen=True)
class Service:
    """The application over a store, and a token of each role."""

    client: TestClient
    store: Store
    settings: Settings
    tokens: dict[Role, str]

    def headers(self, role: Role) -> dict[str, str]:
        """What a request of somebody with `role` has."""
        return bearer(self.tokens[role])


def bearer(token: str) -> dict[str, str]:
    """What a request with `token` has."""
    return {"Authorization": f"Bearer {token}"}


def tokens_of(store: Store) -> dict[Role, str]:
    """A token of each role, of a user named like it."""
    return {role: store.create_token(str(role), role)[1] for role in Role}


StartService = Callable[..., AbstractContextManager[Service]]


@pytest.fixture
def start_service(settings: Settings, store: Store) -> StartService:
    """`with start_service(allow_plugins=True) as service`: the application with these options."""

    @contextmanager
    def start(options: ServiceOptions | None = None, **changes: object) -> Iterator[Service]:
        made = replace(options or ServiceOptions(), **changes)  # type: ignore[arg-type]
        app = create_app(settings, store, made)
        with TestClient(app, base_url="http://testserver", raise_server_exceptions=False) as client:
            yield Service(client, store, settings, tokens_of(store))

    return start


@pytest.fixture
def service(start_service: StartService) -> Iterator[Service]:
    """The application with the options that it has unless told otherwise."""
    with start_service() as service:
        yield service


@dataclass(frozen=True)
class Serving:
    """A process that serves: where, and what it writes to stderr."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path


@pytest.fixture
def slotsweep_serve(settings: Settings, tmp_path: Path) -> Callable[..., AbstractContextManager[Serving]]:
    """`with slotsweep_serve("--no-run") as serving`: the command as an admin would start it, on a free port."""

    @contextmanager
    def serve(*arguments: str, **environment: str) -> Iterator[Serving]:
        log = tmp_path / "serve.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*SLOTSWEEP, "serve", "--port", "0", *arguments],
                cwd=tmp_path,
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=output,
            )
        try:
            yield Serving(_told_address(process, log), process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)

    return serve


def _told_address(process: subprocess.Popen[bytes], log: Path) -> str:
    """What the process says it listens at."""
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if found := re.search(r"listening at (\S+)", log.read_text()):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"the service did not start: {log.read_text()}")
