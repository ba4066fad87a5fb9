"""What trials, streams and the start of workers took so far. One SQL for SQLite and Postgres, whichever driver asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from orchestrator.store.records import CellCost, CellRow, StreamCost

Run = Callable[[str, dict[str, Any]], Iterable[Sequence[Any]]]
"""Runs a query with named parameters."""

CELL = "c.digest, c.kind, c.workload, c.mechanism, c.episodes, c.dtype, c.device, c.fingerprint, c.machine"

CELL_COSTS = f"""
SELECT {CELL}, m.device, m.trials, m.attempts, m.wall, m.own, m.peak
FROM (
    SELECT trials.cell AS cell, workers.device AS device, count(*) AS trials,
           count(DISTINCT results.attempt) AS attempts, avg(results.wall_seconds) AS wall,
           avg(results.own_seconds) AS own, max(results.peak_memory_bytes) AS peak
    FROM trials JOIN results ON results.trial = trials.id JOIN workers ON workers.id = results.worker
    WHERE trials.cell IN (
        SELECT id FROM cells WHERE mechanism ->> 'name' IN (<names>) ORDER BY id DESC LIMIT :most
    )
    GROUP BY trials.cell, workers.device
) AS m JOIN cells AS c ON c.id = m.cell
ORDER BY c.id DESC
"""

STREAM_COSTS = f"""
SELECT {CELL}, m.device, m.runs, m.seconds
FROM (
    SELECT cell, device, count(*) AS runs, avg(seconds) AS seconds
    FROM (
        SELECT min(trials.cell) AS cell, min(workers.device) AS device,
               sum(results.wall_seconds - results.own_seconds) AS seconds
        FROM results JOIN trials ON trials.id = results.trial JOIN workers ON workers.id = results.worker
        WHERE results.own_seconds IS NOT NULL AND results.trial > (SELECT max(trial) FROM results) - :most
        GROUP BY results.attempt, trials.seed
    ) AS runs
    GROUP BY cell, device
) AS m JOIN cells AS c ON c.id = m.cell
ORDER BY c.id DESC
"""

STARTS = """
SELECT min(attempts.started) - max(orchestrators.started)
FROM attempts JOIN orchestrators ON orchestrators.id = attempts.orchestrator
     JOIN workers ON workers.id = attempts.worker
WHERE workers.executor <> 'inline'
GROUP BY orchestrators.id
ORDER BY max(orchestrators.started) DESC
LIMIT :most
"""


def cell_costs(run: Run, mechanisms: Collection[str], most: int) -> list[CellCost]:
    """Of the newest `most` cells of `mechanisms` (names): what their finished trials took, by device class."""
    names = {f"name{index}": name for index, name in enumerate(sorted(mechanisms))}
    query = CELL_COSTS.replace("<names>", ", ".join(f":{key}" for key in names) or "NULL")
    return [CellCost(_cell(row), *row[9:]) for row in run(query, {**names, "most": most})]


def stream_costs(run: Run, most: int) -> list[StreamCost]:
    """Among the newest `most` results: what was done once for all trials that read the same streams."""
    return [StreamCost(_cell(row), *row[9:]) for row in run(STREAM_COSTS, {"most": most})]


def starts(run: Run, most: int) -> list[float]:
    """Seconds that each of the last `most` commands took from their beginning to their first batch."""
    return [float(row[0]) for row in run(STARTS, {"most": most})]


def _cell(row: Sequence[Any]) -> CellRow:
    digest, kind, workload, mechanism, *rest = row[:9]
    return CellRow(digest, kind, _tree(workload), _tree(mechanism), *rest)


def _tree(value: Any) -> dict[str, Any]:
    """A JSON column: text from SQLite, decoded already from Postgres."""
    tree: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
    return tree
