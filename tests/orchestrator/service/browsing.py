"""Somebody who looks at pages: a session, and the forms that they are offered."""

from __future__ import annotations

import re
from dataclasses import dataclass

from httpx2 import Response
from starlette.testclient import TestClient

from orchestrator.store.states import Role
from tests.orchestrator.service.conftest import Service


@dataclass(frozen=True)
class Reader:
    """A logged in user, and their token for forms."""

    client: TestClient
    csrf: str

    def get(self, address: str) -> Response:
        """A page; redirections are not followed."""
        return self.client.get(address, follow_redirects=False)

    def text(self, address: str) -> str:
        """A page that is there."""
        answer = self.get(address)
        assert answer.status_code == 200, answer.text
        return answer.text

    def send(self, address: str, **fields: str) -> Response:
        """A form, with the session's own token unless told otherwise."""
        return self.client.post(address, data={"csrf": self.csrf, **fields}, follow_redirects=False)

    def offers(self, address: str) -> set[str]:
        """What the page at `address` offers to do to its sweep."""
        return set(re.findall(r'(?:action|href)="/sweeps/\w+/(pause|resume|cancel|retry)"', self.text(address)))


def log_in(service: Service, token: str) -> Reader:
    """A session of `token`, with cookies of its own."""
    client = TestClient(service.client.app, raise_server_exceptions=False)
    answer = client.post("/login", data={"token": token}, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', client.get("/").text)
    assert found is not None
    return Reader(client, found[1])


def reader(service: Service, role: Role) -> Reader:
    """A session of the user who has `role` and is named like it."""
    return log_in(service, service.tokens[role])
