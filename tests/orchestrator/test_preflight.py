"""What is refused before anything starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.errors import RequestError
from orchestrator.plan import Plan
from orchestrator.preflight import check_before_submitting
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from tests.orchestrator.specs import SMALL


@pytest.mark.parametrize(
    ("tracking", "database"),
    [
        ("sqlite:////a/x.db", "sqlite:////a/x.db"),
        ("postgresql://me@h:1/db", "postgresql+psycopg://you@h:1/db"),
        ("file:///tmp/mlruns", "sqlite:///x.db"),
        ("nonsense", "sqlite:///x.db"),
    ],
)
def test_settings_that_cannot_work(settings: Settings, tracking: str, database: str) -> None:
    plan = Plan(read_spec(SMALL))
    check_before_submitting(plan, settings)
    with pytest.raises(RequestError, match="SLOTSWEEP_TRACKING_URI"):
        check_before_submitting(plan, replace(settings, tracking_uri=tracking, database_url=database))


def test_streams_that_no_memory_holds(settings: Settings) -> None:
    plan = Plan(read_spec(SMALL.replace("items: 8", "items: 1000000").replace("repeats: 2", "repeats: 10000")))
    with pytest.raises(RequestError, match=r"has 10,000,000,000 tokens and needs 1,280 GB"):
        check_before_submitting(plan, settings)


def test_a_device_that_no_worker_offers(settings: Settings) -> None:
    """Scenario 6: refused, never silent."""
    plan = Plan(read_spec(SMALL + "device: cuda\n"))
    with pytest.raises(RequestError, match="no worker offers cuda"):
        check_before_submitting(plan, settings)
