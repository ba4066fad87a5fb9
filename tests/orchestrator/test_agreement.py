"""A worker whose device disagrees with the references is refused, in the store and in what the user is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from orchestrator.settings import Settings
from orchestrator.store import schema
from orchestrator.store.store import Store
from tests.orchestrator.specs import SMALL

Ran = Any

WRONG_MEMORY = '''\
"""A sliding window whose kernel keeps one token fewer than its reference."""

from typing import Literal

from models.mechanism import MECHANISMS, mechanism

Recency = MECHANISMS.implementation("recency")
RecencyConfig = MECHANISMS.config_class("recency")


class ShortConfig(RecencyConfig):
    name: Literal["short"] = "short"


@mechanism(ShortConfig)
class Short(Recency):
    def __init__(self, configs):
        super().__init__([config.model_copy(update={"budget": config.budget - OFF}) for config in configs])
'''


@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize("executor", ["inline", "ray"])
def test_a_wrong_kernel_is_refused_before_it_computes_anything(
    slotsweep: Callable[..., Ran], settings: Settings, tmp_path: Path, executor: str
) -> None:
    (tmp_path / "wrong_memory.py").write_text(WRONG_MEMORY.replace("OFF", "1"))
    text = SMALL.replace("seeds: 4", "seeds: 2\nplugins: [wrong_memory.py]").replace("name: recency", "name: short")
    (tmp_path / "spec.yaml").write_text(text)
    ran = slotsweep("run", "spec.yaml", "--executor", executor)
    assert ran.code == 3
    assert "disagrees with the float64 references" in ran.err
    assert "short: slots is 3, its reference has 4" in ran.err
    store = Store.open(settings.database_url)
    with store.engine.connect() as connection:
        workers = connection.execute(select(schema.workers)).mappings().all()
    assert {worker["state"] for worker in workers} == {"refused"}
    assert all(not worker["agreement"]["ok"] for worker in workers)
    [sweep] = store.sweeps()
    assert (sweep.state, sweep.counts.done, sweep.counts.pending) == ("paused", 0, 12)
    store.close()


def test_a_right_kernel_is_noted_as_such(slotsweep: Callable[..., Ran], settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "wrong_memory.py").write_text(WRONG_MEMORY.replace("OFF", "0"))
    text = SMALL.replace("seeds: 4", "seeds: 2\nplugins: [wrong_memory.py]").replace("name: recency", "name: short")
    (tmp_path / "spec.yaml").write_text(text)
    ran = slotsweep("run", "spec.yaml", "--executor", "inline")
    assert ran.code == 0, ran.err
    store = Store.open(settings.database_url)
    with store.engine.connect() as connection:
        [agreement] = connection.execute(select(schema.workers.c.agreement)).scalars()
    assert (agreement["ok"], agreement["kinds"], agreement["left_out"]) == (True, 3, 0)
    assert agreement["compared"] == 3 * 4 * 5
    store.close()
    rows = slotsweep("results", "last", "--json").json
    assert {row["agreement"] for row in rows} == {"60 numbers agree beyond 1e-06 of a tie"}
    assert all(row["energy_joules"] is not None or row["energy_reason"] for row in rows)
    assert {row["device_memory_reason"] for row in rows} == {"main memory is all there is"}
