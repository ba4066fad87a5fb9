"""Running the service: its application on a port, and its duties beside it."""

from __future__ import annotations

import gc
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from orchestrator.errors import RequestError
from orchestrator.service.options import ServiceOptions
from orchestrator.settings import Settings
from orchestrator.store.store import Store

if TYPE_CHECKING:
    import uvicorn

BACKLOG = 2048

GRACEFUL_SECONDS = 3
"""How long requests that are being answered may take when the service ends."""


def serve(settings: Settings, options: ServiceOptions, tell: Callable[[str], None]) -> None:
    """Answer requests until SIGINT or SIGTERM; `tell` hears where.

    Raises StoreError if the database cannot be used, RequestError if the port cannot.
    """
    import uvicorn

    from orchestrator.service.app import create_app
    from orchestrator.service.duties import running_sweeps
    from orchestrator.service.webhooks import telling_webhooks

    gc.enable()
    store = Store.open(settings.database_url)
    app = create_app(settings, store, options)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=GRACEFUL_SECONDS
    )
    with (
        _listener(options) as listener,
        telling_webhooks(store, options),
        running_sweeps(settings, store, options) as supervisor,
    ):
        tell(f"listening at {_address(listener)}")
        server = _server(config, lambda: None) if supervisor is None else _server(config, supervisor.stop)
        for number in (signal.SIGINT, signal.SIGTERM):  # the server raises them again when it has stopped
            signal.signal(number, lambda *_: None)
        server.run(sockets=[listener])


def _server(config: uvicorn.Config, on_exit: Callable[[], None]) -> uvicorn.Server:
    """A server that calls `on_exit` as soon as it is told to stop."""
    import uvicorn

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            on_exit()
            super().handle_exit(sig, frame)

    return Server(config)


def _listener(options: ServiceOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise RequestError(
            f"cannot listen at {options.host}, port {options.port}: {error.strerror or error}; name another with "
            "--host and --port"
        ) from error


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
