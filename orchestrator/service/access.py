"""Who is asking, and whether they may: a bearer token for the API, a session's cookie for pages.

The API takes no cookie, so that no other site's page can make a browser use it. Pages that change something ask for the
session's CSRF token beside its cookie.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Form, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from orchestrator.service.attempts import Attempts
from orchestrator.service.planning import Planners
from orchestrator.store.access import TokenRow
from orchestrator.store.states import Role
from orchestrator.store.store import Store

COOKIE = "slotsweep_session"

bearer = HTTPBearer(auto_error=False, description="a token that `slotsweep token create` made")


class UnauthenticatedError(Exception):
    """Nobody we know is asking."""


class ForbiddenError(Exception):
    """Who is asking may not do that; the message says what they would need."""


@dataclass(frozen=True)
class Caller:
    """Who is asking: their token, and the secret of their session if they ask through a page."""

    token: TokenRow
    session: str | None = None

    @property
    def user(self) -> str:
        """Their name."""
        return self.token.user

    @property
    def csrf(self) -> str:
        """What forms of this session must send back."""
        return csrf_of(self.session or "")

    def may(self, role: Role) -> bool:
        """Whether they may do what `role` may."""
        return self.token.role.covers(role)

    def may_steer(self, owner: str | None) -> bool:
        """Whether they may pause, resume, cancel or retry a sweep of `owner`."""
        return self.may(Role.ADMIN) or (self.may(Role.SUBMITTER) and owner == self.user)


def csrf_of(session: str) -> str:
    """A session's CSRF token: nobody can tell it who does not know the session's secret, and it does not tell that."""
    return hashlib.sha256(b"csrf of " + session.encode()).hexdigest()


async def store_of(request: Request) -> Store:
    """The service's store."""
    store: Store = request.app.state.store
    return store


def attempts_of(request: Request) -> Attempts:
    """What looks the service's tokens up."""
    attempts: Attempts = request.app.state.attempts
    return attempts


def token_given(request: Request, secret: str) -> TokenRow | None:
    """The active token whose secret came with `request`. Raises TooManyAttemptsError."""
    return attempts_of(request).token_of(secret, request.client.host if request.client else "")


async def api_caller(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Caller:
    """Who asks the API. Raises UnauthenticatedError or TooManyAttemptsError."""
    if given is None:
        raise UnauthenticatedError
    # Whoever asks again and again is known without a thread, which costs more than all the rest of a short answer.
    token = attempts_of(request).lately(given.credentials)
    token = token or await run_in_threadpool(token_given, request, given.credentials)
    if token is None:
        raise UnauthenticatedError
    return Caller(token)


def page_caller(request: Request, store: Annotated[Store, Depends(store_of)]) -> Caller:
    """Who looks at a page. Raises UnauthenticatedError."""
    session = request.cookies.get(COOKIE)
    token = None if session is None else store.session_token(session)
    if token is None:
        raise UnauthenticatedError
    return Caller(token, session)


def form_caller(caller: Annotated[Caller, Depends(page_caller)], csrf: Annotated[str, Form()] = "") -> Caller:
    """Who sends a page's form. Raises UnauthenticatedError; ForbiddenError if the form is not of their session."""
    if not hmac.compare_digest(csrf.encode(), caller.csrf.encode()):
        raise ForbiddenError("this form is not of your session: load the page again")
    return caller


def requiring(role: Role, caller: Callable[..., Caller | Awaitable[Caller]]) -> Callable[..., Awaitable[Caller]]:
    """`caller`, who must have `role`."""

    async def check(found: Caller = Depends(caller)) -> Caller:  # noqa: B008 (FastAPI cannot resolve `caller` in a string)
        if not found.may(role):
            raise ForbiddenError(f"this needs the role {role}; {found.user}'s token has the role {found.token.role}")
        return found

    return check


Viewer = Annotated[Caller, Depends(requiring(Role.VIEWER, api_caller))]
Submitter = Annotated[Caller, Depends(requiring(Role.SUBMITTER, api_caller))]
Admin = Annotated[Caller, Depends(requiring(Role.ADMIN, api_caller))]
"""Who asks the API, and has the role."""

PageViewer = Annotated[Caller, Depends(requiring(Role.VIEWER, page_caller))]
FormSubmitter = Annotated[Caller, Depends(requiring(Role.SUBMITTER, form_caller))]
"""Who looks at a page, and who sends a page's form, and has the role."""

StoreOf = Annotated[Store, Depends(store_of)]
"""The service's store."""


async def _planners_of(request: Request) -> Planners:
    planners: Planners = request.app.state.planners
    return planners


PlannersOf = Annotated[Planners, Depends(_planners_of)]
"""What reads, plans and submits specs for the service."""
