"""Slowing down whoever tries tokens that are none, without a lock-out of others who come from the same address."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from orchestrator.store.access import TokenRow, digest_of
from orchestrator.store.store import Store

BURST = 20
"""Wrong tokens from one address before it has to wait."""

SECONDS_EACH = 3.0
"""After this long another one is let through."""

MOST_ADDRESSES = 10_000
MOST_TOKENS = 10_000

LATELY_SECONDS = 1.0
"""How long what the store said of a token holds: a token that is revoked elsewhere may be used that much longer."""

IPV6_PREFIX = 64
"""Bits of an IPv6 address that are one's own: whoever has one has all that begin with these."""


T = TypeVar("T")


class TooManyAttemptsError(Exception):
    """Too many wrong tokens came from an address; another try is let through after `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many wrong tokens came from your address; try again in {seconds:.0f} s")
        self.seconds = seconds


@dataclass
class _Allowance:
    left: float
    at: float


@dataclass(frozen=True)
class _Known:
    token: TokenRow
    until: float


class Attempts:
    """Looks tokens up. Those that were right lately are looked up whatever others do at the same address."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._allowances: OrderedDict[str, _Allowance] = OrderedDict()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lock = threading.Lock()

    def lately(self, secret: str) -> TokenRow | None:
        """The token whose secret this is, if the store said so within LATELY_SECONDS; it is not asked."""
        known = self._known.get(digest_of(secret))
        return known.token if known is not None and self._clock() < known.until else None

    def forget(self, identity: str) -> None:
        """A token (an id) was revoked through this process."""
        with self._lock:
            for digest in [digest for digest, known in self._known.items() if known.token.id == identity]:
                del self._known[digest]

    def token_of(self, secret: str, address: str) -> TokenRow | None:
        """The active token whose secret this is, as the store says now. Raises TooManyAttemptsError."""
        digest, network = digest_of(secret), network_of(address)
        known = digest in self._known
        if not known:
            self._spend(network)
        token = self._store.token_of(secret)
        with self._lock:
            if token is None:
                self._known.pop(digest, None)
            else:
                _remember(self._known, digest, _Known(token, self._clock() + LATELY_SECONDS), MOST_TOKENS)
                self._allowance(network).left += 0.0 if known else 1.0
        return token

    def _spend(self, network: str) -> None:
        """Take one of the tries that `network` has left; it is given back if the token is right."""
        with self._lock:
            allowance = self._allowance(network)
            if allowance.left < 1.0:
                raise TooManyAttemptsError((1.0 - allowance.left) * SECONDS_EACH)
            allowance.left -= 1.0

    def _allowance(self, network: str) -> _Allowance:
        """What an address may still do, grown by the time that has passed."""
        now = self._clock()
        found = self._allowances.get(network, _Allowance(BURST, now))
        grown = _Allowance(min(BURST, found.left + (now - found.at) / SECONDS_EACH), now)
        _remember(self._allowances, network, grown, MOST_ADDRESSES)
        return grown


def _remember(kept: OrderedDict[str, T], key: str, value: T, most: int) -> None:
    """Keep `value` as the latest, and forget the oldest of too many."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)


def network_of(address: str) -> str:
    """Where `address` belongs to: itself, of an IPv6 address what its owner has."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped or ipaddress.ip_network((parsed, IPV6_PREFIX), strict=False))
    return str(parsed)
