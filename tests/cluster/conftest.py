"""Fixtures for tests of clusters."""

from tests.orchestrator.conftest import settings, slotsweep_here, store

__all__ = ["settings", "slotsweep_here", "store"]
