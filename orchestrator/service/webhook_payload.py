"""What webhooks are sent, and how it is signed: a contract with programs that are not ours (README, "Webhooks").

Headers and signature are those of the Standard Webhooks specification 1.0 (standardwebhooks.com), so that receivers may
use its libraries.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, Field

from orchestrator.store.records import SweepRow, WorkerRow
from orchestrator.store.serving import EventRow
from orchestrator.store.states import EventKind
from orchestrator.store.store import Store

CONTENT_TYPE = "application/json"
BASE64_SECRET = "whsec_"
"""How a secret begins whose bytes are written in base64."""


class ToldSweep(BaseModel):
    """The sweep that ended, as it is when its end is told."""

    id: str
    name: str
    kind: str
    user: str | None = Field(description="whose token submitted it; null: it was submitted without the service")
    state: str = Field(description="as it is now: an ended sweep that was retried may be queued again")
    trials: int
    done: int
    failed: int
    cancelled: int
    reused: int = Field(description="those of `done` whose results were there at submission")
    reasons: dict[str, int] = Field(description="failed trials by reason")
    created: float = Field(description="seconds since the epoch, as all times here")
    finished: float | None
    page: str | None = Field(description="address of its page; null: the service does not know its own")
    report: str | None = Field(description="address of its report, which may still be being drawn; null as `page`")


class ToldWorker(BaseModel):
    """The worker that was quarantined, because trials failed on it in a row."""

    id: str
    device: str
    machine: str = Field(description="its GPU, or on a CPU the CPU's model")
    state: str


class Told(BaseModel):
    """The body of a request to a webhook."""

    version: Literal[1] = Field(1, description="of this form; fields may be added without a new one")
    id: str = Field(description="of the event, the same however often it is sent: drop those you know")
    event: EventKind = Field(
        description="what happened: a sweep ended done, failed or cancelled; quarantined: a worker"
    )
    at: float = Field(description="when it happened")
    sweep: ToldSweep | None = None
    worker: ToldWorker | None = None


def payload(store: Store, event: EventRow, public_url: str | None) -> Told:
    """What to tell of `event`; links lead to `public_url`."""
    told = Told(id=event_id(event), event=event.kind, at=event.at)
    if event.sweep is not None:
        sweep = store.sweep(event.sweep)
        reasons: Counter[str] = Counter()
        for failure in store.failures(sweep.id):
            reasons[failure.reason] += failure.trials
        told.sweep = _sweep(sweep, reasons, public_url)
    if event.worker is not None:
        told.worker = next((_worker(row) for row in store.workers() if row.id == event.worker), None)
    return told


def event_id(event: EventRow) -> str:
    """Names the event among those of all services, whatever their databases number."""
    of = f"{event.id} {event.kind} {event.sweep} {event.worker} {event.at!r}"
    return f"evt_{hashlib.sha256(of.encode()).hexdigest()[:32]}"


def headers(identity: str, at: int, body: bytes, secret: str) -> dict[str, str]:
    """Headers of a request with `body` that is sent at `at` (seconds since the epoch)."""
    return {
        "Content-Type": CONTENT_TYPE,
        "webhook-id": identity,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{signature(identity, at, body, secret)}",
    }


def signature(identity: str, at: int, body: bytes, secret: str) -> str:
    """HMAC-SHA256 over the event's id, the time of sending and the body, in base64."""
    signed = f"{identity}.{at}.".encode() + body
    return base64.b64encode(hmac.new(key_of(secret), signed, hashlib.sha256).digest()).decode()


def key_of(secret: str) -> bytes:
    """The key that a secret stands for. Raises ValueError if it begins as one in base64 and is none."""
    if secret.startswith(BASE64_SECRET):
        return base64.b64decode(secret.removeprefix(BASE64_SECRET), validate=True)
    return secret.encode()


def _sweep(sweep: SweepRow, reasons: Mapping[str, int], public_url: str | None) -> ToldSweep:
    page = None if public_url is None else f"{public_url}/sweeps/{sweep.id}"
    return ToldSweep(
        id=sweep.id,
        name=sweep.name,
        kind=sweep.kind,
        user=sweep.user,
        state=sweep.state,
        trials=sweep.trials,
        done=sweep.counts.done,
        failed=sweep.counts.failed,
        cancelled=sweep.counts.cancelled,
        reused=sweep.reused,
        reasons=dict(reasons),
        created=sweep.created,
        finished=sweep.finished,
        page=page,
        report=None if page is None else f"{page}/report",
    )


def _worker(row: WorkerRow) -> ToldWorker:
    machine = row.record.get("cpu_model" if row.device == "cpu" else "gpu")
    return ToldWorker(id=row.id, device=row.device, machine=str(machine or "unknown"), state=row.state)
