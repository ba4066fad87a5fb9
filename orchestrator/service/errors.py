"""Answers to what cannot be done: one clear message for what a user can mend; JSON from the API, a page from pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from sqlalchemy.exc import DataError, InterfaceError, OperationalError
from starlette.exceptions import HTTPException

from orchestrator.errors import ExecutorError, NotThereError, RequestError, StoreError
from orchestrator.secrecy import without_secrets
from orchestrator.service.access import COOKIE, Caller, ForbiddenError, UnauthenticatedError
from orchestrator.service.attempts import TooManyAttemptsError
from orchestrator.service.headers import HEADERS
from orchestrator.service.orders import RefusedError
from orchestrator.service.routes.taking import GoneError
from orchestrator.spec.problems import visible
from orchestrator.store.engine import lost

MACHINES = ("/api/", "/metrics", "/health")
"""Where programs ask, who want JSON."""

MOST_FAULTS = 10
"""Faults of a request's form that are told of."""

STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (ForbiddenError, 403),
    (NotThereError, 404),
    (RequestError, 400),
    (StoreError, 503),
    (ExecutorError, 503),
)


def answer_errors(app: FastAPI) -> None:
    """Let `app` answer errors; pages send who is not logged in to do so."""
    for kind, status in STATUSES:
        app.add_exception_handler(kind, _told(status))

    @app.exception_handler(UnauthenticatedError)
    def unauthenticated(request: Request, _: UnauthenticatedError) -> Response:
        if _asks_for_json(request):
            return _answer(
                request, 401, "a token is needed: send `Authorization: Bearer TOKEN`", {"WWW-Authenticate": "Bearer"}
            )
        onward = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        wanted = request.method == "GET" and onward != "/"
        return RedirectResponse(f"/login?{urlencode({'onward': onward})}" if wanted else "/login", 303)

    @app.exception_handler(TooManyAttemptsError)
    def too_many(request: Request, error: TooManyAttemptsError) -> Response:
        return _answer(request, 429, str(error), {"Retry-After": str(math.ceil(error.seconds))})

    @app.exception_handler(RefusedError)
    def refused(request: Request, error: RefusedError) -> Response:
        after = error.refusal.retry_after
        headers = None if after is None else {"Retry-After": str(after)}
        return _answer(request, error.refusal.status, error.refusal.message, headers, error.refusal.problems)

    @app.exception_handler(GoneError)
    def gone(request: Request, _: GoneError) -> Response:
        return _answer(request, 499, "whoever asked has gone")  # for nobody but the metrics

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> Response:
        wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:MOST_FAULTS])
        return _answer(request, 422, visible(wrong))

    @app.exception_handler(DataError)
    def unstorable(request: Request, _: DataError) -> Response:
        told = "this holds something that no value in the database can be, such as the character NUL"
        return _answer(request, 400, told)

    @app.exception_handler(OperationalError)
    @app.exception_handler(InterfaceError)
    def away(request: Request, error: Exception) -> Response:
        told = lost(error)
        return broken(request, error) if told is None else _answer(request, 503, told)

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> Response:
        told = f"there is nothing at {visible(request.url.path)}" if error.status_code == 404 else str(error.detail)
        return _answer(request, error.status_code, told, error.headers)

    @app.exception_handler(Exception)
    def broken(request: Request, _: Exception) -> Response:
        told = "this failed, and it is not your fault: the service's own log says why"
        return _answer(request, 500, told, HEADERS)  # such an answer passes no middleware


def _told(status: int) -> Any:
    def handle(request: Request, error: Exception) -> Response:
        return _answer(request, status, str(error))

    return handle


def _asks_for_json(request: Request) -> bool:
    return request.url.path.startswith(MACHINES)


def _answer(
    request: Request,
    status: int,
    message: str,
    headers: Mapping[str, str] | None = None,
    problems: Sequence[dict[str, Any]] = (),
) -> Response:
    given, message = None if headers is None else dict(headers), without_secrets(message)
    if _asks_for_json(request):
        return JSONResponse({"message": message, "problems": list(problems)}, status, given)
    from dashboards.pages.notices import error_page

    return HTMLResponse(error_page(status, message, _title(status), _visitor(request)), status, given)


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def _visitor(request: Request) -> Any:
    """Who looks, as far as that can be told now: an error page needs nobody."""
    from dashboards.pages.frame import Visitor

    session = request.cookies.get(COOKIE)
    try:
        token = None if session is None else request.app.state.store.session_token(session)
    except Exception:  # the store may be what is broken
        return None
    return None if token is None else Visitor(token.user, token.role, Caller(token, session).csrf)
