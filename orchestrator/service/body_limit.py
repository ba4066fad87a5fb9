"""Bodies of requests that are too large are refused before all of them has been read."""

from __future__ import annotations

import json

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """Answers 413 to a body of more than `most` bytes, said or sent, and hands every other request to `app`."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        said = headers.get("content-length", "")
        if not said and "transfer-encoding" not in headers:
            await self._app(scope, receive, send)
            return
        body = None if said.isdecimal() and int(said[:20]) > self._most else await self._read(receive)
        if body is None:
            await _refuse(send, self._most)
        else:
            await self._app(scope, _again(body, receive), send)

    async def _read(self, receive: Receive) -> list[Message] | None:
        """The whole body as it came, or None as soon as it is too large."""
        messages: list[Message] = []
        size = 0
        while not messages or messages[-1].get("more_body", False):
            messages.append(await receive())
            size += len(messages[-1].get("body", b""))
            if size > self._most:
                return None
        return messages


def _again(messages: list[Message], receive: Receive) -> Receive:
    """Gives `messages`, then what comes after them."""
    left = messages[::-1]

    async def receive_again() -> Message:
        return left.pop() if left else await receive()

    return receive_again


async def _refuse(send: Send, most: int) -> None:
    message = f"this request is too large; expected a body of {most:,} bytes at most"
    body = json.dumps({"message": message, "problems": []}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
