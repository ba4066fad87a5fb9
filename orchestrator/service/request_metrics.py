"""What this replica answered, and how quickly: counted by route, never by address, so that there are few series."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 10.0)


class RequestMetrics:
    """Requests by route, method and status, and the seconds until their answers began."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # Times of creation double the series, and counters that begin anew are known without them.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._requests = Counter(
            "slotsweep_http_requests",
            "Requests that this replica answered.",
            ["route", "method", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "slotsweep_http_request_duration_seconds",
            "Seconds until this replica's answer to a request began.",
            ["route", "method"],
            buckets=BUCKETS,
            registry=registry,
        )

    def note(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route, method).observe(seconds)


class Metered:
    """Notes what `app` answers in `metrics`."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status, ended = 500, None

        async def send_and_note(message: Message) -> None:
            nonlocal status, ended
            if message["type"] == "http.response.start":
                status, ended = message["status"], time.perf_counter()
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._metrics.note(route_of(scope), method, status, (ended or time.perf_counter()) - began)


def route_of(scope: Scope) -> str:
    """The template of the route that took a request, such as /api/v1/sweeps/{sweep}; `unmatched` if none did."""
    template = getattr(scope.get("route"), "path_format", None)
    if template is not None:
        # A route knows its path in its own router: what stands before is the prefix under which that is included.
        path = str(scope["path"])
        own = template.format(**scope.get("path_params", {}))
        return path.removesuffix(own) + str(template) if path.endswith(own) else str(template)
    mounted = scope.get("root_path", "") if "endpoint" in scope else ""
    return f"{mounted}/{{path}}" if mounted else "unmatched"
