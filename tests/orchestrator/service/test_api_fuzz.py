"""The API against its own OpenAPI document: every operation, with made-up requests, with a token and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

import pytest
import requests
from fastapi.routing import iter_route_contexts
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis.errors import Unsatisfiable

from orchestrator.service.app import create_app
from orchestrator.service.options import ServiceOptions
from orchestrator.settings import Settings
from orchestrator.store.states import Role
from orchestrator.store.store import Store
from tests.orchestrator.service.conftest import API, Service, Serving, bearer
from tests.orchestrator.specs import SMALL

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

EXAMPLES = 12
"""Requests of an operation, of each kind: of the form that the document says, of another one, about a sweep."""

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
]

OPEN = {"/health", "/login", "/static/{name}", "/favicon.ico"}
"""What answers without a token."""


@pytest.fixture
def serving(slotsweep_serve: Callable[..., AbstractContextManager[Serving]]) -> Iterator[Serving]:
    with slotsweep_serve("--no-run") as serving:
        yield serving


@pytest.fixture
def document(settings: Settings, store: Store) -> dict[str, Any]:
    """The API's own description."""
    return create_app(settings, store, ServiceOptions()).openapi()


@pytest.mark.slow
def test_no_request_breaks_the_service_or_gets_what_the_document_does_not_say(
    serving: Serving, store: Store, document: dict[str, Any]
) -> None:
    from schemathesis import GenerationMode, checks

    checks.load_all_checks()
    wanted = checks.CHECKS.get_by_names(CHECKS)
    _, admin = store.create_token("admin", Role.ADMIN)
    sweep = _submitted(serving.url, admin)

    def ask(case: Any) -> None:
        case.call_and_validate(base_url=serving.url, headers=bearer(admin), checks=wanted, timeout=60)

    for operation in _operations(document):
        _for_examples(operation.as_strategy(), ask)
        with suppress(Unsatisfiable):  # whatever is asked of some has the form that it should
            _for_examples(operation.as_strategy(GenerationMode.NEGATIVE), ask)
        if "{sweep}" in operation.path:
            _for_examples(operation.as_strategy(path_parameters={"sweep": sweep}), ask)
    assert requests.get(f"{serving.url}/health", timeout=10).json() == {"status": "ok"}
    assert "Traceback" not in serving.log.read_text()


@pytest.mark.slow
def test_no_operation_answers_without_a_token_that_holds(
    serving: Serving, store: Store, document: dict[str, Any]
) -> None:
    row, revoked = store.create_token("eve", Role.ADMIN)
    store.revoke_token(row.id)
    for operation in _operations(document):
        expected = {200} if operation.path == "/health" else {401, 422, 429}
        for headers in ({}, bearer(revoked), {"Authorization": "Basic YWRtaW46YWRtaW4="}):
            ask = partial(_expect, serving.url, headers, expected)
            _for_examples(operation.as_strategy(), ask, 2)


def _expect(url: str, headers: dict[str, str], expected: set[int], case: Any) -> None:
    answer = case.call(base_url=url, headers=headers, timeout=60)
    assert answer.status_code in expected, (case.operation.label, answer.status_code)


def _operations(document: dict[str, Any]) -> Iterator[Any]:
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        yield found.ok()


def _for_examples(strategy: Any, ask: Callable[[Any], None], count: int = EXAMPLES) -> None:
    """The same cases every time."""
    settings = hypothesis_settings(
        max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )

    @settings
    @given(strategy)
    def test(case: Any) -> None:
        ask(case)

    test()


def _submitted(url: str, token: str) -> str:
    answer = requests.post(
        f"{url}{API}/sweeps", headers=bearer(token), json={"specs": [{"name": "a", "text": SMALL}]}, timeout=60
    )
    return str(answer.json()["submitted"]["a"]["sweep"])


def test_no_route_answers_without_a_token(service: Service) -> None:
    """Not only those that the document tells of: pages lead to the login, everything else is refused."""
    contexts = list(iter_route_contexts(service.client.app.routes))  # type: ignore[attr-defined]
    asked = 0
    for context in contexts:
        route = str(context.path_format)
        path = route.replace("{", "").replace("}", "")
        for method in () if route in OPEN else context.methods or ():
            answer = service.client.request(method, path, follow_redirects=False)
            asked += 1
            if path.startswith((API, "/metrics")):
                assert answer.status_code in (401, 422), (method, path, answer.status_code)
            else:
                assert answer.status_code == 303, (method, path, answer.status_code)
                assert answer.headers["location"].startswith("/login"), path
    assert asked > 20
