"""Talking to a service over HTTP: who asks, patience while it restarts, and one clear line when it does not work."""

from __future__ import annotations

import json
import ssl
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.errors import NotThereError, RequestError, ServiceError
from orchestrator.spec.problems import Place, Problem, Source, SpecError, visible

if TYPE_CHECKING:
    import httpx2
    from pydantic import TypeAdapter

    from orchestrator.settings import Settings

T = TypeVar("T")

API = "/api/v1"

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 150.0
"""The service itself gives up drawing after a minute."""

PLANNING_SECONDS = 3600.0
"""How long planning may take is for the service to say, and whoever asks may wait for others' turns before."""

FIRST_SECONDS = 3.0
"""How long a service that has never answered is tried."""

RESTART_SECONDS = 60.0
"""How long a service that has answered before may be away."""

AWAY = frozenset({429, 502, 503, 504})
"""Not now, but in a moment."""


class Connection:
    """The service that `settings` name. Raises RequestError if its address or token cannot be used."""

    def __init__(self, settings: Settings) -> None:
        import httpx2

        if settings.server is None:
            raise RequestError("SLOTSWEEP_SERVER names no service")
        self.url = _checked(settings.server)
        if settings.token is None:
            raise RequestError(
                f"the service at {self.url} wants to know who asks: set SLOTSWEEP_TOKEN to a token that its admin made "
                "with `slotsweep token create`"
            )
        if not settings.token.isascii() or not settings.token.isprintable() or " " in settings.token:
            raise RequestError("SLOTSWEEP_TOKEN is no token: a token has letters, digits, - and _ only")
        self._has_answered = False
        self._client = httpx2.Client(
            base_url=self.url + API,
            headers={"Authorization": f"Bearer {settings.token}", "Accept": "*/*"},
            timeout=httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            verify=ssl.create_default_context(),
        )

    def get(self, path: str, **params: Any) -> httpx2.Response:
        """What the service answers; `params` that are None are left out. See `_ask` for what is raised."""
        return self._ask("GET", path, params=_given(params))

    def post(self, path: str, tree: Any = None, *, repeatable: bool) -> httpx2.Response:
        """The same. repeatable: whether asking twice does no more than asking once."""
        return self._ask("POST", path, repeatable=repeatable, json=tree)

    def plan(self, path: str, tree: Any) -> httpx2.Response:
        """The same, for what is planned there first. It has a mark by which the service knows it if it is repeated."""
        import httpx2

        mark = {"Idempotency-Key": uuid.uuid4().hex}
        patience = httpx2.Timeout(PLANNING_SECONDS, connect=CONNECT_SECONDS)
        return self._ask("POST", path, json=tree, headers=mark, timeout=patience)

    def delete(self, path: str) -> httpx2.Response:
        """The same."""
        return self._ask("DELETE", path)

    def _ask(self, method: str, path: str, *, repeatable: bool = True, **options: Any) -> httpx2.Response:
        """Raises RequestError (SpecError, NotThereError) for what the user can mend, ServiceError for the rest."""
        import httpx2
        import tenacity

        lost = (httpx2.TransportError, _AwayError) if repeatable else (httpx2.ConnectError, httpx2.ConnectTimeout)
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(lost),
            wait=tenacity.wait_exponential(0.1, 2.0),
            stop=tenacity.stop_after_delay(RESTART_SECONDS if self._has_answered else FIRST_SECONDS),
            reraise=True,
        )
        try:
            response = attempts(self._once, method, path, **options)
        except _AwayError as error:
            raise self._refusal(error.response) from None
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise ServiceError(f"the service at {self.url} cannot be reached: {_reason(error)}") from error
        if response.is_success:
            return response
        raise self._refusal(response)

    def _once(self, method: str, path: str, **options: Any) -> httpx2.Response:
        response = self._client.request(method, path, **options)
        if response.status_code in AWAY:
            raise _AwayError(response)
        self._has_answered = True
        return response

    def _refusal(self, response: httpx2.Response) -> Exception:
        """What the answer `response` means to the user."""
        status = response.status_code
        try:
            tree = response.json()
            message = "\n".join(map(visible, str(tree["message"]).splitlines()))
            problems = list(tree["problems"])
        except (ValueError, TypeError, KeyError):
            return ServiceError(f"what answers at {self.url} is no slotsweep service: it says HTTP {status} to {API}")
        if status == 401:
            return RequestError(
                f"the service at {self.url} does not take the token in SLOTSWEEP_TOKEN: it is unknown there, has "
                "expired or was revoked"
            )
        if problems:
            return SpecError([_problem(one, rank) for rank, one in enumerate(problems)])
        if status == 404:
            return NotThereError(message)
        if 400 <= status < 500:
            return RequestError(message)
        return ServiceError(f"the service at {self.url} cannot do that now: {message}")

    def read(self, adapter: TypeAdapter[T], response: httpx2.Response) -> T:
        """The records that an answer holds. Raises ServiceError if it is of another form."""
        return self.understood(adapter, response.content)

    def understood(self, adapter: TypeAdapter[T], content: bytes) -> T:
        """As `read`, of a part of an answer."""
        from pydantic import ValidationError

        try:
            return adapter.validate_json(content)
        except ValidationError as error:
            raise ServiceError(
                f"the service at {self.url} answers in another form than this slotsweep knows: are both of one version?"
            ) from error

    def tree(self, response: httpx2.Response) -> Any:
        """The JSON of an answer. Raises ServiceError."""
        try:
            return json.loads(response.content)
        except ValueError as error:
            raise ServiceError(f"the service at {self.url} sent an answer that is no JSON") from error


class _AwayError(Exception):
    """The service, or what stands before it, says that it cannot answer now."""

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(response.status_code)
        self.response = response


def _checked(url: str) -> str:
    """The address without a slash at its end."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
        fits = fits and (parts.port is None or parts.port > 0)
    except ValueError:
        fits = False
    if not fits or "@" in url:
        raise RequestError("SLOTSWEEP_SERVER is no address of a service, such as https://slotsweep.example.org")
    return url.rstrip("/")


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _reason(error: Exception) -> str:
    """What went wrong, in one line."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _problem(tree: Mapping[str, Any], rank: int) -> Problem:
    """A problem of a spec, as the service tells it. Its line is all that is known of its source."""
    line = int(tree["line"])
    source = Source(str(tree["file"]), "\n" * (line - 1) + str(tree["text"]), rank if _is_override(tree) else 0)
    return Problem(Place(source, line, int(tree["column"])), str(tree["message"]), tree["expected"], tree["hint"])


def _is_override(tree: Mapping[str, Any]) -> bool:
    return str(tree["file"]).startswith("--set ")
