"""Fixtures for tests of clients: the service on a free port, in a thread of this process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest
import uvicorn

from orchestrator.service.app import create_app
from orchestrator.service.options import ServiceOptions
from orchestrator.settings import Settings
from orchestrator.store.states import Role
from orchestrator.store.store import Store

Served = Callable[..., AbstractContextManager[str]]


@contextmanager
def serving(settings: Settings, store: Store, port: int = 0, **options: object) -> Iterator[str]:
    """The service over `store`: its address. It runs no sweep."""
    app = create_app(settings, store, ServiceOptions(**options))  # type: ignore[arg-type]
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def as_user(settings: Settings, store: Store) -> Callable[..., Settings]:
    """`as_user(url, role)`: settings of somebody who works with the service at `url`, on a machine of their own."""

    def make(url: str, role: Role = Role.SUBMITTER) -> Settings:
        _, secret = store.create_token(f"{role}-user", role)
        home = settings.home.with_name(f"home-of-{role}")
        return replace(settings, server=url, token=secret, home=home)

    return make
