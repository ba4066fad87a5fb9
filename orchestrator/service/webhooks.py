"""Telling webhooks of events: each by a thread of its own, so that a slow one delays no other.

What is still to be told is in the store, so that a service that was killed goes on where it was. One process at a time
tells. An event may come twice (the process dies between the request and its note of it), never not at all; its id tells
receivers.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from orchestrator.service.options import ServiceOptions
from orchestrator.service.webhook_payload import headers, payload
from orchestrator.service.webhook_settings import Webhook
from orchestrator.software import library_version
from orchestrator.store.engine import reason_of
from orchestrator.store.serving import DeliveryRow
from orchestrator.store.store import Store

if TYPE_CHECKING:
    import httpx2

DUTY = "tell webhooks"
LONGEST_WAIT_SECONDS = 86_400.0
"""How long a receiver can put the next attempt off with Retry-After."""

SKIP_SECONDS = 3600.0
"""How old events must be to be looked at no more, and how often that is seen to."""

AT_ONCE = 20
GONE = 410

log = logging.getLogger("slotsweep.webhooks")


@dataclass(frozen=True)
class Schedule:
    """When what a webhook did not take is sent again: after `first` seconds, then twice as long each time up to `most`.

    Waiting times vary by a fifth, so that many do not come at once. With `attempts` as here, the last is made a day
    after the event.

    timeout  most seconds without a word from the receiver
    poll     seconds between looks for new events
    lease    seconds after which another process may take over from one that is not heard of
    """

    first: float = 5.0
    most: float = 3600.0
    attempts: int = 33
    timeout: float = 10.0
    poll: float = 2.0
    lease: float = 60.0

    def wait(self, failed: int) -> float:
        """Seconds until the next attempt after `failed` ones."""
        doubled = self.first * 2.0 ** min(failed - 1, 30)
        return min(doubled, self.most) * random.uniform(0.8, 1.2)


@contextmanager
def telling_webhooks(store: Store, options: ServiceOptions) -> Iterator[None]:
    """Tell the webhooks that `options` name, if they name any, until the block ends."""
    if not options.webhooks or options.webhook_secret is None:
        yield
        return
    webhooks = [Webhook.at(address) for address in options.webhooks]
    teller = Teller(store, store.register_orchestrator(), webhooks, options.webhook_secret, options.public_url)
    teller.start()
    try:
        yield
    finally:
        teller.stop()


@dataclass(frozen=True)
class Answer:
    """How a webhook answered. error: None if it took the event; retry_after: seconds it asks to wait, if it does."""

    error: str | None = None
    gone: bool = False
    retry_after: float | None = None


class Teller:
    """Tells `webhooks` of events while it has the duty to. holder: this process, as a registered orchestrator."""

    def __init__(
        self,
        store: Store,
        holder: str,
        webhooks: Sequence[Webhook],
        secret: str,
        public_url: str | None = None,
        schedule: Schedule = Schedule(),
    ) -> None:
        self._store, self._holder, self._webhooks, self._secret = store, holder, webhooks, secret
        self._public_url, self._schedule = public_url, schedule
        self._on_duty, self._stopped = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._keep_duty, name=DUTY, daemon=True),
            *(threading.Thread(target=self._follow, args=(one,), name=one.name, daemon=True) for one in webhooks),
        ]

    def start(self) -> None:
        """Begin; webhooks that are new are told of what happens from now on."""
        for webhook in self._webhooks:
            self._store.add_webhook(webhook.name)
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float = 1.0) -> None:
        """Tell nothing more; what is on its way has `seconds` to arrive, or is sent again by the next service."""
        self._stopped.set()
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _keep_duty(self) -> None:
        while True:
            with self._told_of_errors(DUTY):
                if self._store.take_duty(DUTY, self._holder, self._schedule.lease):
                    self._on_duty.set()
                else:
                    self._on_duty.clear()
            if self._stopped.wait(self._schedule.lease / 4):
                break
        self._on_duty.clear()
        with self._told_of_errors(DUTY):
            self._store.leave_duty(DUTY, self._holder)

    def _follow(self, webhook: Webhook) -> None:
        import httpx2

        timeout = httpx2.Timeout(self._schedule.timeout)
        agent = {"User-Agent": f"slotsweep/{library_version('slotsweep')}"}
        skipped = float("-inf")
        with httpx2.Client(timeout=timeout, headers=agent, follow_redirects=False) as client:
            while not self._stopped.wait(self._schedule.poll):
                with self._told_of_errors(webhook.name):
                    self._tell_due(client, webhook)
                    if self._may_tell() and time.monotonic() - skipped > SKIP_SECONDS:
                        self._store.skip_told(webhook.name, time.time() - SKIP_SECONDS)
                        skipped = time.monotonic()

    def _tell_due(self, client: httpx2.Client, webhook: Webhook) -> None:
        if self._may_tell():
            for delivery in self._store.due_deliveries([webhook.name], AT_ONCE):
                if self._may_tell():
                    self._note(delivery, self._tell(client, webhook, delivery))

    def _may_tell(self) -> bool:
        return self._on_duty.is_set() and not self._stopped.is_set()

    @contextmanager
    def _told_of_errors(self, where: str) -> Iterator[None]:
        """Whatever goes wrong is told, and tried again: an error must not end a thread that nobody looks at."""
        try:
            yield
        except Exception as error:
            told = reason_of(error) if isinstance(error, SQLAlchemyError) else str(error)
            for webhook in self._webhooks:
                told = told.replace(webhook.url, webhook.name)
            log.warning("%s: %s: %s", where, type(error).__name__, told)

    def _tell(self, client: httpx2.Client, webhook: Webhook, delivery: DeliveryRow) -> Answer:
        import httpx2

        told = payload(self._store, delivery.event, self._public_url)
        body = told.model_dump_json().encode()
        signed = headers(told.id, int(time.time()), body, self._secret)
        try:
            with client.stream("POST", webhook.url, content=body, headers=signed) as response:  # its body is not read
                return _answer(response)
        except httpx2.HTTPError as error:
            return Answer(f"{type(error).__name__}: {error}".replace(webhook.url, webhook.name))

    def _note(self, delivery: DeliveryRow, answer: Answer) -> None:
        if answer.error is None:
            self._store.note_delivery(delivery, None, None)
            return
        failed = delivery.attempts + 1
        if answer.gone or failed >= self._schedule.attempts:
            log.warning("%s was not told of event %d: %s", delivery.webhook, delivery.event.id, answer.error)
            self._store.note_delivery(delivery, answer.error, None)
            return
        wait = max(self._schedule.wait(failed), answer.retry_after or 0.0)
        self._store.note_delivery(delivery, answer.error, time.time() + wait)


def _answer(response: httpx2.Response) -> Answer:
    if response.is_success:
        return Answer()
    error = f"it answered {response.status_code}"
    if response.is_redirect:
        error += ", a redirect, and none is followed"
    return Answer(error, response.status_code == GONE, _retry_after(response.headers.get("Retry-After")))


def _retry_after(value: str | None) -> float | None:
    """Seconds that a Retry-After header asks for, a day at most; None if it asks for none."""
    if value is None:
        return None
    try:
        seconds = float(value) if value.isdigit() else parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)
