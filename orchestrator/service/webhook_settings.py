"""Which webhooks a service tells, as the environment says: addresses may hold secrets, so no command line has them."""

from __future__ import annotations

import hashlib
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from orchestrator.errors import RequestError
from orchestrator.service.webhook_payload import key_of

WEBHOOKS = "SLOTSWEEP_WEBHOOKS"
SECRET = "SLOTSWEEP_WEBHOOK_SECRET"
PUBLIC_URL = "SLOTSWEEP_PUBLIC_URL"
LEAST_BYTES = 16


@dataclass(frozen=True)
class Webhook:
    """A webhook. name: says where it is without what may be secret of its address, and is as unique as that."""

    name: str
    url: str = field(repr=False)

    @classmethod
    def at(cls, url: str) -> Webhook:
        """The webhook at `url`, which was checked."""
        parts = urlsplit(url)
        where = parts.netloc.rpartition("@")[2]
        return cls(f"{parts.scheme}://{where} #{hashlib.sha256(url.encode()).hexdigest()[:8]}", url)


def take_webhooks(environment: MutableMapping[str, str]) -> tuple[tuple[str, ...], str | None]:
    """The addresses of the webhooks and the secret that signs what they are sent.

    Both are taken out of `environment`: processes that are started later, workers with users' code among them, do not
    get them. Raises RequestError, which quotes no address.
    """
    addresses = tuple(dict.fromkeys(environment.pop(WEBHOOKS, "").replace(",", " ").split()))
    secret = environment.pop(SECRET, None) or None
    for number, address in enumerate(addresses, 1):
        if not is_address(address):
            raise RequestError(f"address {number} of {WEBHOOKS} is none: write http://... or https://...")
    if not addresses:
        return (), None
    if secret is None:
        raise RequestError(
            f"{WEBHOOKS} names webhooks, and {SECRET} no secret to sign what they are sent with: set it, for one to "
            "the output of `openssl rand -hex 32`"
        )
    try:
        long_enough = len(key_of(secret)) >= LEAST_BYTES
    except ValueError as error:
        raise RequestError(f"what follows whsec_ in {SECRET} is no base64") from error
    if not long_enough:
        raise RequestError(f"{SECRET} is too short: let it have {LEAST_BYTES} bytes at least")
    return addresses, secret


def read_public_url(environment: MutableMapping[str, str]) -> str | None:
    """Where users reach the service. Raises RequestError if that is no address."""
    address = environment.get(PUBLIC_URL)
    if address and not is_address(address):
        raise RequestError(f"{PUBLIC_URL}={address} is no address: write https://... as users open it in a browser")
    return address.rstrip("/") if address else None


def is_address(text: str) -> bool:
    """Whether `text` is the address of something on a server."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
