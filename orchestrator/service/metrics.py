"""The service's metrics: those of the store, which every replica tells alike, and those of this replica's requests."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, generate_latest

from orchestrator.service.request_metrics import RequestMetrics
from orchestrator.service.store_metrics import StoreMetrics
from orchestrator.store.store import Store


class Metrics:
    """A registry of its own, so that no library's metrics come in unasked."""

    def __init__(self, store: Store, webhooks: Sequence[str]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(StoreMetrics(store, webhooks))
        self.requests = RequestMetrics(self._registry)

    def text(self) -> bytes:
        """Every metric in Prometheus's text format."""
        return generate_latest(self._registry)
