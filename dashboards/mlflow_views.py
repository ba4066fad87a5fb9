"""Saved views of MLflow's table of runs: a sweep's trials by mechanism, and the best of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

METRICS = ("recall", "recall_all", "slots", "bytes", "loss", "bits_per_byte", "seconds", "wall_seconds")
TAGS = ("slotsweep.best", "hw.device", "hw.cpu_model", "hw.gpu")
FIRST_PARAMS = ("mechanism.name", "device")
LAST_PARAMS = ("seed",)

EVERYTHING = {
    "orderByKey": "attributes.start_time",
    "orderByAsc": False,
    "startTime": "ALL",
    "lifecycleFilter": "Active",
    "modelVersionFilter": "All Runs",
    "datasetsFilter": [],
}
"""What MLflow's page fills in by itself: with another order it would leave out the sweep's own run."""

BY_MECHANISM = {"aggregateFunction": "average", "groupByKeys": [{"mode": "param", "groupByData": "mechanism.name"}]}


def trials_view(sweep: str) -> str:
    """The key of the view of all trials of `sweep`."""
    return sweep


def sweep_views(sweep: str, created_ms: int, varied: Sequence[str]) -> dict[str, str]:
    """Views by key, in the form in which MLflow 3.17 saves those that a person makes.

    All trials of `sweep` by mechanism with their means, and its best trials; hardware, sizes and what varies are
    columns. Those that no run has are left out by MLflow's page. Runs that a retry replaced are not among the trials.

    created_ms  since when the sweep is there, milliseconds since the epoch
    varied      params that differ between trials, such as `mechanism.tau`
    """
    mine = f"tags.`slotsweep.sweep` = '{sweep}' AND tags.`slotsweep.replaced` = 'false'"
    best = f"{mine} AND tags.`slotsweep.best` = 'true'"
    columns = _columns(varied)
    return {
        trials_view(sweep): _saved(
            f"sweep {sweep}", created_ms, {"searchFilter": mine, "selectedColumns": columns, "groupBy": BY_MECHANISM}
        ),
        f"{sweep}-best": _saved(
            f"sweep {sweep}: best", created_ms, {"searchFilter": best, "selectedColumns": columns, "groupBy": None}
        ),
    }


def _columns(varied: Sequence[str]) -> list[str]:
    params = dict.fromkeys((*FIRST_PARAMS, *varied, *LAST_PARAMS))
    families = {"metrics": METRICS, "params": params, "tags": TAGS}
    return [f"{family}.`{name}`" for family, names in families.items() for name in names]


def _saved(name: str, created_ms: int, state: dict[str, Any]) -> str:
    view = json.dumps(EVERYTHING | state)
    return json.dumps({"name": name, "createdAt": created_ms, "updatedAt": created_ms, "state": view})
