"""What webhooks are sent, for the OpenAPI document, and what became of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from orchestrator.service.access import Admin, StoreOf
from orchestrator.service.webhook_payload import Told, event_id
from orchestrator.store.states import EventKind

router = APIRouter(tags=["webhooks"])

sent = APIRouter(tags=["webhooks"])
"""What the service asks of others."""

MOST = 500


class Delivery(BaseModel):
    """An event at a webhook that was tried at least once. Times are seconds since the epoch."""

    webhook: str = Field(description="scheme and host of its address, and what tells it from others there")
    id: str = Field(description="of the event, as the webhook gets it")
    event: EventKind
    sweep: str | None
    worker: str | None
    at: float = Field(description="when it happened")
    attempts: int
    delivered: float | None = Field(description="when the webhook took it; null: it did not")
    next_attempt: float | None = Field(description="null: there will be none")
    error: str | None = Field(description="why the last attempt failed")


@router.get("/webhooks")
def webhooks(_: Admin, store: StoreOf, limit: Annotated[int, Query(ge=1, le=MOST)] = 100) -> list[Delivery]:
    """What became of the newest events at each webhook, newest first. Needs the role admin."""
    return [
        Delivery(
            webhook=row.webhook,
            id=event_id(row.event),
            event=row.event.kind,
            sweep=row.event.sweep,
            worker=row.event.worker,
            at=row.event.at,
            attempts=row.attempts,
            delivered=row.delivered,
            next_attempt=row.next_attempt,
            error=row.error,
        )
        for row in store.told(limit)
    ]


@sent.post("event", status_code=204)
def event(told: Told) -> None:
    """Sent to each address of SLOTSWEEP_WEBHOOKS when a sweep ended or a worker was quarantined.

    Headers webhook-id, webhook-timestamp and webhook-signature are as in Standard Webhooks 1.0. Any status from 200 to
    299 takes the event; after another it is sent again for a day, after 410 no more.
    """
