"""What the service does with requests that are too large, too many, or of nobody it knows."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from orchestrator.service.app import create_app
from orchestrator.service.attempts import (
    BURST,
    LATELY_SECONDS,
    SECONDS_EACH,
    Attempts,
    TooManyAttemptsError,
    network_of,
)
from orchestrator.service.options import ServiceOptions
from orchestrator.settings import Settings
from orchestrator.store.states import Role
from orchestrator.store.store import Store
from tests.orchestrator.service.conftest import API, Service, StartService, bearer


def test_nothing_but_health_answers_without_a_token(service: Service) -> None:
    assert service.client.get("/health").json() == {"status": "ok"}
    for path in (f"{API}/tokens", f"{API}/openapi.json", "/metrics"):
        answer = service.client.get(path)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json() == {
            "message": "a token is needed: send `Authorization: Bearer TOKEN`",
            "problems": [],
        }
        assert service.client.get(path, headers=bearer("slotsweep_none")).status_code == 401


def test_admins_make_list_and_revoke_tokens(service: Service) -> None:
    admin = service.headers(Role.ADMIN)
    made = service.client.post(f"{API}/tokens", headers=admin, json={"user": "ada", "role": "viewer", "days": 1})
    assert made.status_code == 201
    token = made.json()
    assert service.client.get(f"{API}/openapi.json", headers=bearer(token["token"])).status_code == 200
    listed = service.client.get(f"{API}/tokens", headers=admin)
    assert {one["user"] for one in listed.json()} == {"ada", "viewer", "submitter", "admin"}
    assert token["token"] not in listed.text
    revoked = service.client.delete(f"{API}/tokens/{token['id']}", headers=admin)
    assert revoked.json()["state"] == "revoked"
    assert service.client.get(f"{API}/openapi.json", headers=bearer(token["token"])).status_code == 401


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SUBMITTER])
def test_nobody_else_does(service: Service, role: Role) -> None:
    headers = service.headers(role)
    assert service.client.get(f"{API}/tokens", headers=headers).status_code == 403
    assert service.client.post(f"{API}/tokens", headers=headers, json={"user": "eve"}).status_code == 403
    assert service.client.delete(f"{API}/tokens/01234567", headers=headers).status_code == 403


@pytest.mark.parametrize("user", ["", "a b", "a\n", "a\0", "x" * 101, "\ud800"])
def test_names_of_users_are_short_words(service: Service, user: str) -> None:
    headers = {**service.headers(Role.ADMIN), "Content-Type": "application/json"}
    answer = service.client.post(f"{API}/tokens", headers=headers, content=json.dumps({"user": user}))
    assert answer.status_code == 400


def test_a_token_that_is_not_there_cannot_be_revoked(service: Service) -> None:
    answer = service.client.delete(f"{API}/tokens/01234567", headers=service.headers(Role.ADMIN))
    assert answer.status_code == 404
    assert "there is no token `01234567`" in answer.json()["message"]


def test_a_body_that_says_it_is_too_large_is_not_read(start_service: StartService) -> None:
    with start_service(spec_bytes=1000) as service:
        headers = service.headers(Role.ADMIN)
        answer = service.client.post(f"{API}/tokens", headers=headers, content=b"x" * 1001)
        assert answer.status_code == 413
        assert answer.json()["message"] == "this request is too large; expected a body of 1,000 bytes at most"
        assert answer.headers["content-security-policy"]
        assert service.client.post(f"{API}/tokens", headers=headers, content=b"x" * 1000).status_code == 422


def test_a_body_without_a_length_is_read_no_further_than_the_limit(start_service: StartService) -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(1000):
            taken += 100
            yield b"x" * 100

    with start_service(spec_bytes=1000) as service:
        assert service.client.post(f"{API}/tokens", content=endless()).status_code == 413


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_wrong_tokens_are_slowed_down_and_right_ones_from_there_are_not(store: Store) -> None:
    clock = Clock()
    attempts = Attempts(store, clock)
    _, known = store.create_token("ada", Role.VIEWER)
    assert attempts.token_of(known, "10.0.0.1") is not None
    for number in range(BURST):
        assert attempts.token_of(f"guess {number}", "10.0.0.1") is None
    with pytest.raises(TooManyAttemptsError, match="try again in 3 s"):
        attempts.token_of("guess", "10.0.0.1")
    assert attempts.token_of(known, "10.0.0.1") is not None
    assert attempts.token_of("guess", "10.0.0.2") is None
    clock.now += SECONDS_EACH
    _, new = store.create_token("bob", Role.VIEWER)
    for _ in range(3):
        assert attempts.token_of(new, "10.0.0.1") is not None
    assert attempts.token_of("guess", "10.0.0.1") is None
    with pytest.raises(TooManyAttemptsError):
        attempts.token_of("guess", "10.0.0.1")


def test_a_token_that_was_revoked_is_known_no_more(store: Store) -> None:
    attempts = Attempts(store, Clock())
    row, secret = store.create_token("ada", Role.VIEWER)
    assert attempts.token_of(secret, "10.0.0.1") is not None
    store.revoke_token(row.id)
    assert attempts.token_of(secret, "10.0.0.1") is None
    assert attempts.lately(secret) is None


def test_what_the_store_said_of_a_token_holds_for_a_moment(store: Store) -> None:
    clock = Clock()
    attempts = Attempts(store, clock)
    (row, secret), (other, kept) = (store.create_token(name, Role.VIEWER) for name in ("ada", "bob"))
    assert attempts.lately(secret) is None, "the store was not asked yet"
    for one in (secret, kept):
        assert attempts.token_of(one, "10.0.0.1") == attempts.lately(one)
    store.revoke_token(row.id)
    attempts.forget(row.id)
    assert attempts.lately(secret) is None
    store.revoke_token(other.id)
    clock.now += LATELY_SECONDS
    assert attempts.lately(kept) is None


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_an_address_is_what_its_owner_has(address: str, network: str) -> None:
    assert network_of(address) == network


def test_the_api_says_how_long_to_wait(service: Service) -> None:
    began = time.monotonic()
    answers = [service.client.get(f"{API}/tokens", headers=bearer(f"guess{n}")) for n in range(BURST + 20)]
    late = [answer for answer in answers if answer.status_code == 429]
    assert len(late) >= 20 - (time.monotonic() - began) / SECONDS_EACH - 1
    assert int(late[0].headers["retry-after"]) <= SECONDS_EACH + 1
    assert late[0].json()["message"].startswith("too many wrong tokens came from your address; try again in ")


def test_logins_are_slowed_down_by_the_same_measure(service: Service) -> None:
    statuses = [service.client.post("/login", data={"token": f"guess{n}"}).status_code for n in range(BURST + 5)]
    assert statuses[:BURST] == [403] * BURST
    assert 429 in statuses[BURST:]
    assert service.client.post("/login", data={"token": ""}).status_code == 403


def test_what_no_database_can_hold_is_refused(settings: Settings, postgres_url: str) -> None:
    store = Store.open(postgres_url)
    _, token = store.create_token("ada", Role.VIEWER)
    app = create_app(replace(settings, database_url=postgres_url), store, ServiceOptions())
    with TestClient(app, raise_server_exceptions=False) as client:
        for path in (f"{API}/sweeps?user=%00", f"{API}/sweeps/%00", f"{API}/compare?sweep=%00", f"{API}/claims/%00"):
            assert 400 <= client.get(path, headers=bearer(token)).status_code < 500, path
        client.post("/login", data={"token": token})
        for path in ("/sweeps/%00", "/sweeps/%00/log", "/?user=%00", "/compare?a=%00", "/claims/%00"):
            assert 400 <= client.get(path).status_code < 500, path
    store.close()
