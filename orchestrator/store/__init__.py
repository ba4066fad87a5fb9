"""The database: tables, states, leases, and every question asked of it."""

from orchestrator.store.engine import StoreError
from orchestrator.store.store import Store

__all__ = ["Store", "StoreError"]
