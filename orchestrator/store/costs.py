"""What trials, streams and all that is beside them took so far, and who computed.

One SQL for SQLite and Postgres, whichever driver asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from orchestrator.store.records import CellCost, CellRow, CrewSeen, RunCost, StreamCost

Run = Callable[[str, dict[str, Any]], Iterable[Sequence[Any]]]
"""Runs a query with named parameters."""

CELL = "c.digest, c.kind, c.workload, c.mechanism, c.episodes, c.dtype, c.device, c.fingerprint, c.machine"

# A result's share of the time in which its worker had a processor: what others take is not its cost.
BUSY = """
CASE WHEN workers.device = 'cpu' AND results.cpu_seconds > 0 AND results.cpu_seconds < results.wall_seconds
     THEN results.cpu_seconds / results.wall_seconds ELSE 1.0 END
"""

# The first call of a worker also loads kernels and fills caches: it counts only where there is no other.
MEDIAN = """
CASE WHEN warm > 0 THEN place BETWEEN warm / 2.0 AND warm / 2.0 + 1 ELSE place BETWEEN n / 2.0 AND n / 2.0 + 1 END
"""

CELL_COSTS = f"""
SELECT {CELL}, m.device, m.trials, m.attempts, m.wall, m.own, m.peak, m.device_peak, m.bytes
FROM (
    SELECT cell, device, count(*) AS trials, count(DISTINCT attempt) AS attempts,
           avg(CASE WHEN {MEDIAN} THEN wall END) AS wall,
           coalesce(avg(CASE WHEN {MEDIAN} THEN own END), avg(own)) AS own,
           max(peak) AS peak, max(device_peak) AS device_peak, CAST(avg(bytes) AS FLOAT) AS bytes
    FROM (
        SELECT *, row_number() OVER (PARTITION BY cell, device ORDER BY first, wall) AS place,
               sum(1 - first) OVER (PARTITION BY cell, device) AS warm, count(*) OVER (PARTITION BY cell, device) AS n
        FROM (
            SELECT trials.cell AS cell, workers.device AS device, results.attempt AS attempt,
                   {BUSY} * results.wall_seconds AS wall, {BUSY} * results.own_seconds AS own,
                   results.peak_memory_bytes AS peak, results.device_memory_bytes AS device_peak,
                   length(CAST(results.metrics AS TEXT)) + coalesce(length(CAST(results.series AS TEXT)), 0) AS bytes,
                   CASE WHEN results.started > min(results.started) OVER (PARTITION BY results.worker)
                        THEN 0 ELSE 1 END AS first
            FROM trials JOIN results ON results.trial = trials.id JOIN workers ON workers.id = results.worker
            WHERE trials.cell IN (
                SELECT id FROM cells WHERE mechanism ->> 'name' IN (<names>) ORDER BY id DESC LIMIT :most
            )
        ) AS each
    ) AS placed
    GROUP BY cell, device
) AS m JOIN cells AS c ON c.id = m.cell
ORDER BY c.id DESC
"""

STREAM_COSTS = f"""
SELECT {CELL}, m.device, m.runs, m.seconds
FROM (
    SELECT cell, device, count(*) AS runs, avg(CASE WHEN {MEDIAN} THEN seconds END) AS seconds
    FROM (
        SELECT *, row_number() OVER (PARTITION BY cell, device ORDER BY first, seconds) AS place,
               sum(1 - first) OVER (PARTITION BY cell, device) AS warm, count(*) OVER (PARTITION BY cell, device) AS n
        FROM (
            SELECT cell, device, seconds,
                   CASE WHEN started > min(started) OVER (PARTITION BY worker) THEN 0 ELSE 1 END AS first
            FROM (
                SELECT min(trials.cell) AS cell, min(workers.device) AS device, min(results.worker) AS worker,
                       min(results.started) AS started,
                       sum({BUSY} * (results.wall_seconds - results.own_seconds)) AS seconds
                FROM results JOIN trials ON trials.id = results.trial JOIN workers ON workers.id = results.worker
                WHERE results.own_seconds IS NOT NULL AND results.trial > (SELECT max(trial) FROM results) - :most
                GROUP BY results.attempt, trials.seed
            ) AS runs
        ) AS each
    ) AS placed
    GROUP BY cell, device
) AS m JOIN cells AS c ON c.id = m.cell
ORDER BY c.id DESC
"""

RUNS = f"""
SELECT recent.start, done.trials, recent.workers, done.busy, recent.seconds,
       CASE WHEN recent.sweeps = 1 AND sweeps.state = 'done' THEN told.last - recent.ended END
FROM (
    SELECT orchestrators.id AS id, max(orchestrators.started) AS born, max(attempts.finished) AS ended,
           min(attempts.started) - max(orchestrators.started) AS start,
           max(attempts.finished) - min(attempts.started) AS seconds,
           min(attempts.sweep) AS sweep, count(DISTINCT attempts.sweep) AS sweeps,
           count(DISTINCT attempts.worker) AS workers
    FROM attempts JOIN orchestrators ON orchestrators.id = attempts.orchestrator
         JOIN workers ON workers.id = attempts.worker
    WHERE workers.executor <> 'inline'
    GROUP BY orchestrators.id
    ORDER BY born DESC
    LIMIT :most
) AS recent JOIN sweeps ON sweeps.id = recent.sweep
LEFT JOIN (
    SELECT attempts.orchestrator AS orchestrator, count(*) AS trials, sum({BUSY} * results.wall_seconds) AS busy
    FROM attempts JOIN attempt_trials ON attempt_trials.attempt = attempts.id
         JOIN results ON results.trial = attempt_trials.trial AND results.attempt = attempts.id
         JOIN workers ON workers.id = results.worker
    GROUP BY attempts.orchestrator
) AS done ON done.orchestrator = recent.id
LEFT JOIN (
    SELECT sweep, max(delivered) AS last FROM outbox GROUP BY sweep
) AS told ON told.sweep = recent.sweep
ORDER BY recent.born DESC
"""

# Those that were there when the last one joined.
SEEN = """
SELECT device, count(*), count(DISTINCT hardware), max(last_seen)
FROM workers
WHERE executor <> 'inline' AND state IN ('ready', 'stopped')
      AND last_seen >= (SELECT max(started) FROM workers WHERE executor <> 'inline') - :tolerance
GROUP BY device
ORDER BY device
"""
# A worker computes what it holds one after another. One that is lost computed as long as it was seen.
WORKER_SECONDS = """
SELECT device, sum(CASE WHEN ended > began THEN ended - began ELSE 0.0 END)
FROM (
    SELECT sweep, device, ended,
           CASE WHEN before > started THEN before ELSE started END AS began
    FROM (
        SELECT sweep, device, started, ended, lag(ended) OVER (PARTITION BY worker ORDER BY id) AS before
        FROM (
            SELECT attempts.id AS id, attempts.sweep AS sweep, attempts.worker AS worker, attempts.started AS started,
                   workers.device AS device,
                   CASE WHEN attempts.state = 'done' OR attempts.finished < workers.last_seen THEN attempts.finished
                        ELSE workers.last_seen END AS ended
            FROM attempts JOIN workers ON workers.id = attempts.worker
            WHERE attempts.worker IN (SELECT worker FROM attempts WHERE sweep = :sweep)
        ) AS held
    ) AS queued
) AS spans
WHERE sweep = :sweep
GROUP BY device
"""

TOLERANCE_SECONDS = 3.0
"""Workers of one start join within it, and the next start takes longer."""


def cell_costs(run: Run, mechanisms: Collection[str], most: int) -> list[CellCost]:
    """Of the newest `most` cells of `mechanisms` (names): what their finished trials took, by device class."""
    names = {f"name{index}": name for index, name in enumerate(sorted(mechanisms))}
    query = CELL_COSTS.replace("<names>", ", ".join(f":{key}" for key in names) or "NULL")
    return [CellCost(_cell(row), *row[9:]) for row in run(query, {**names, "most": most})]


def stream_costs(run: Run, most: int) -> list[StreamCost]:
    """Among the newest `most` results: what was done once for all trials that read the same streams."""
    return [StreamCost(_cell(row), *row[9:]) for row in run(STREAM_COSTS, {"most": most})]


def runs(run: Run, most: int) -> list[RunCost]:
    """What the last `most` commands that had workers took beside computing, the newest first."""
    return [
        RunCost(start, trials or 0, _beside(workers, busy, seconds, told))
        for start, trials, workers, busy, seconds, told in run(RUNS, {"most": most})
    ]


def _beside(workers: int, busy: float | None, seconds: float | None, told: float | None) -> float | None:
    return None if busy is None or seconds is None or told is None else seconds - busy / workers + told


def crew_seen(run: Run) -> list[CrewSeen]:
    """The workers, other than commands' own processes, that were there when the last one joined, by device class."""
    return [CrewSeen(*row) for row in run(SEEN, {"tolerance": TOLERANCE_SECONDS})]


def worker_seconds(run: Run, sweep: str) -> dict[str, float]:
    """Seconds in which workers held batches of a sweep (an id) that they were at, by device class."""
    return {device: float(seconds) for device, seconds in run(WORKER_SECONDS, {"sweep": sweep})}


def _cell(row: Sequence[Any]) -> CellRow:
    digest, kind, workload, mechanism, *rest = row[:9]
    return CellRow(digest, kind, _tree(workload), _tree(mechanism), *rest)


def _tree(value: Any) -> dict[str, Any]:
    """A JSON column: text from SQLite, decoded already from Postgres."""
    tree: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
    return tree
