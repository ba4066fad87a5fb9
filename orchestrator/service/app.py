"""The service's application: routes, errors and headers put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from orchestrator.service.answers import TROUBLES, Described
from orchestrator.service.artist import Artist
from orchestrator.service.attempts import Attempts
from orchestrator.service.body_limit import BodyLimit
from orchestrator.service.errors import answer_errors
from orchestrator.service.glances import Glances
from orchestrator.service.headers import SecurityHeaders
from orchestrator.service.heads import Heads
from orchestrator.service.metrics import Metrics
from orchestrator.service.options import ServiceOptions
from orchestrator.service.planning import Planners
from orchestrator.service.request_metrics import Metered
from orchestrator.service.routes import (
    claims,
    compare,
    document,
    health,
    logs,
    me,
    metrics,
    pages,
    reports,
    results,
    specs,
    sweeps,
    tokens,
    webhooks,
    workers,
)
from orchestrator.service.routes.study_pages import remembered_fleet
from orchestrator.service.webhook_settings import Webhook
from orchestrator.settings import Settings
from orchestrator.software import library_version
from orchestrator.store.store import Store

API = "/api/v1"


def create_app(settings: Settings, store: Store, options: ServiceOptions) -> FastAPI:
    """The service over `store`. It runs no sweep: that is `orchestrator.service.duties`' part."""
    app = Described(
        title="slotsweep",
        summary="Benchmark sweeps of memory mechanisms, of many users, over one store.",
        version=library_version("slotsweep") or "unknown",
        openapi_url=None,  # the document needs a token, too: see `routes.document`
        docs_url=None,
        redoc_url=None,
        webhooks=webhooks.sent,
        lifespan=_closing,
    )
    app.state.settings, app.state.store, app.state.options = settings, store, options
    app.state.attempts = Attempts(store)
    app.state.planners = Planners(settings, options.plan_seconds)
    app.state.artist = Artist(settings)
    app.state.glances = Glances()
    app.state.fleet = remembered_fleet(settings, store)
    app.state.metrics = Metrics(store, [Webhook.at(address).name for address in options.webhooks])
    app.add_middleware(BodyLimit, most=options.spec_bytes + (options.plugin_bytes if options.allow_plugins else 0))
    app.add_middleware(Heads)
    app.add_middleware(SecurityHeaders, https=options.secure)
    app.add_middleware(Metered, metrics=app.state.metrics.requests)
    for router in (health.router, pages.router):
        app.include_router(router)
    app.include_router(metrics.router, responses=TROUBLES)
    for router in (
        *(document.router, me.router, tokens.router, specs.router, sweeps.router),
        *(results.router, reports.router, logs.router, compare.router, claims.router, workers.router, webhooks.router),
    ):
        app.include_router(router, prefix=API, responses=TROUBLES)
    answer_errors(app)
    return app


@asynccontextmanager
async def _closing(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.planners.close()
    app.state.artist.close()
