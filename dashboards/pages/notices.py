"""Pages of a few words: logging in, and what went wrong."""

from __future__ import annotations

from dashboards.pages.frame import Visitor, page


def login_page(problem: str, onward: str, leads_on: bool) -> str:
    """The form that takes a token. onward: where to go then; leads_on: whether it is worth to try that without one."""
    return page("login.html.j2", None, "", problem=problem, onward=onward, leads_on=leads_on)


def error_page(status: int, message: str, title: str, visitor: Visitor | None) -> str:
    """What went wrong; `title` is the name of the HTTP status."""
    return page("error.html.j2", visitor, "", status=status, title=title, message=message)
