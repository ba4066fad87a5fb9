"""A receiver of webhooks: a real HTTP server in a thread, which answers as it is told to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = tuple[int, dict[str, str]]
"""Status and headers."""


class Receiver:
    """Answers the n-th request with the n-th of `answers`, and all after that with the last one."""

    def __init__(self, *answers: Answer | Callable[[], Answer]) -> None:
        self.requests: list[Request] = []
        self._answers = answers or ((204, {}),)
        self._came = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = receiver._note(Request(self.path, dict(self.headers), body, time.time()))
                status, headers = answer() if callable(answer) else answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST  # noqa: N815 (http.server names it so)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}/hook"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait_for(self, number: int, seconds: float = 30.0) -> list[Request]:
        """The requests so far, once there are `number`."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.requests) >= number, seconds), f"{len(self.requests)} came"
            return list(self.requests)

    def _note(self, request: Request) -> Answer | Callable[[], Answer]:
        with self._came:
            self.requests.append(request)
            self._came.notify_all()
            return self._answers[min(len(self.requests), len(self._answers)) - 1]
