"""Logging in with a token, and out: a session's cookie stands for the token afterwards."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from dashboards.pages.notices import login_page
from orchestrator.service.access import COOKIE, Caller, ForbiddenError, StoreOf, form_caller, token_given
from orchestrator.service.options import SESSION_SECONDS

router = APIRouter()

OURS = re.compile(r"/(?![/\\])[\w./%?&=+:-]*", re.ASCII)
"""Addresses that a login may lead on to: paths of this service."""


def onward_of(address: str) -> str:
    """`address` if it is one of ours, else the first page."""
    return address if OURS.fullmatch(address) and not address.startswith(("/login", "/logout")) else "/"


@router.get("/login")
def ask(onward: str = "/") -> HTMLResponse:
    """The form that takes a token."""
    return HTMLResponse(login_page("", onward_of(onward), leads_on=True))


@router.post("/login")
def log_in(
    request: Request, store: StoreOf, token: Annotated[str, Form()] = "", onward: Annotated[str, Form()] = "/"
) -> Response:
    """Begin a session of the token, and go on to `onward`."""
    _refuse_other_sites(request)
    found = token_given(request, token.strip()) if token.strip() else None
    if found is None:
        told = "No such token holds: it may be mistyped, expired or revoked." if token.strip() else "Give a token."
        return HTMLResponse(login_page(told, onward_of(onward), leads_on=False), 403)
    answer = RedirectResponse(onward_of(onward), 303)
    answer.set_cookie(
        COOKIE,
        store.open_session(found.id, SESSION_SECONDS),
        max_age=int(SESSION_SECONDS),
        secure=request.app.state.options.secure,
        httponly=True,
        samesite="strict",
    )
    return answer


@router.post("/logout")
def log_out(store: StoreOf, caller: Annotated[Caller, Depends(form_caller)]) -> Response:
    """End the session."""
    store.close_session(caller.session or "")
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE)
    return answer


def _refuse_other_sites(request: Request) -> None:
    """Raise ForbiddenError if another site's page sends the form, to make its reader somebody else here."""
    site = request.headers.get("sec-fetch-site")
    if site is None:  # browsers send it over HTTPS and to this machine, and where it comes from everywhere else
        origin = request.headers.get("origin")
        ours = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    else:
        ours = site in ("same-origin", "none")
    if not ours:
        raise ForbiddenError("this form is not of this service: open its login page yourself")
