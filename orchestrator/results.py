"""A sweep's results as flat rows with dotted columns: the machine-readable contract of `slotsweep results`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from models.config import Config
from models.mechanism import MECHANISMS
from models.registry import Registry
from orchestrator.store.records import SweepRow
from orchestrator.store.store import Store
from tasks.kind import KINDS
from tasks.workload import WORKLOADS
from workers.system_metrics import SYSTEM

LEADING = ("sweep", "trial", "key", "kind", "state", "reason", "attempts", "reused", "seed", "device", "worker")
TRAILING = (
    "message",
    "generation",
    "episodes",
    "dtype",
    "fingerprint",
    "started",
    "finished",
    "wall_seconds",
    "cpu_seconds",
    "batch",
    "peak_memory_bytes",
    "device_memory_bytes",
    "device_memory_reason",
    "energy_joules",
    "energy_reason",
    "shared",
    "agreement",
)
"""`batch`: trials of the batch that it was computed in; `*_reason`: why a result has no such number; `shared`: which
costs are not its own; `agreement`: how its worker was compared with the references."""

PROPOSED = ("study", "proposal", "best")
"""What trials that a study proposed have besides: which study, which of its proposals, and whether it is a best one."""


def result_rows(
    store: Store, sweep: SweepRow, trials: Sequence[int] | None = None, *, system: bool = False
) -> Iterator[dict[str, Any]]:
    """One flat row a trial, in plan order (only those of `trials`, row ids, if given).

    system: with the series that tell of the machine, which differ whenever a trial is computed again
    """
    return (row for _, row in numbered_rows(store, sweep, store.trial_rows(sweep.id, trials), system=system))


def numbered_rows(
    store: Store, sweep: SweepRow, stored: Iterable[dict[str, Any]], *, system: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The flat row of each of the `stored` ones, as `Store.trial_rows` gives them, with its trial's row id."""
    hardware = {id_: _prefixed("hw", record) for id_, record in store.hardware_records().items()}
    agreements = {worker: _agreement(found) for worker, found in store.agreements().items()}
    configs: dict[str, dict[str, Any]] = {}
    tunes = KINDS.implementation(sweep.kind).proposes
    proposed = store.proposed_cells(sweep.id) if tunes else {}
    for row in stored:
        text = json.dumps([row["workload"], row["mechanism"]])
        if text not in configs:
            configs[text] = _shown("workload", WORKLOADS, row["workload"]) | _shown(
                "mechanism", MECHANISMS, row["mechanism"]
            )
        machine = hardware.get(row["hardware"], {})
        values = {**row, "sweep": sweep.id, "kind": sweep.kind, "trial": row["position"], "reused": bool(row["reused"])}
        values |= _unread(row, machine) | {"shared": _shared(row), "agreement": agreements.get(row["worker"])}
        flat = {
            **{name: values[name] for name in LEADING},
            **configs[text],
            **_prefixed("metrics", row["metrics"] or {}),
            **_prefixed("series", _series(row["series"] or {}, system=system)),
            **machine,
            **{name: values[name] for name in TRAILING},
            **(dict(zip(PROPOSED, proposed.get(row["cell"], (None, None, None)), strict=True)) if tunes else {}),
        }
        yield row["id"], flat


def _series(series: dict[str, Any], *, system: bool) -> dict[str, Any]:
    return series if system else {name: values for name, values in series.items() if not name.startswith(SYSTEM)}


def _agreement(found: dict[str, Any] | None) -> str | None:
    """A worker's agreement in a few words; None where nobody has compared it."""
    if not found or not found["compared"]:
        return None
    if not found["ok"]:
        return "refused"
    not_compared = found.get("not_compared")  # earlier versions did not record it
    text = f"{found['compared']} numbers agree beyond {found['tolerance']:g} of a tie"
    return f"{text}; not compared: {', '.join(not_compared)}" if not_compared else text


def _unread(row: dict[str, Any], machine: dict[str, Any]) -> dict[str, str | None]:
    """Why a result has no energy or device memory; nothing where it has, or where there is no result."""
    if row["metrics"] is None:
        return {"energy_reason": None, "device_memory_reason": None}
    energy = memory = None
    if row["energy_joules"] is None:
        energy = row["energy_reason"] or machine.get("hw.energy_reason", "not recorded by the slotsweep that ran it")
    if row["device_memory_bytes"] is None:
        device = machine.get("hw.device", row["device"])
        memory = "main memory is all there is" if device == "cpu" else f"torch keeps no peak on {device}"
    return {"energy_reason": energy, "device_memory_reason": memory}


def _shared(row: dict[str, Any]) -> str | None:
    """Which costs a result shares with others; None where it was computed alone."""
    if row["metrics"] is None or (row["batch"] or 1) == 1:
        return None
    energy = (
        "" if row["energy_joules"] is None else f"energy: a share, by time, of its batch's {row['batch']} trials'; "
    )
    return f"{energy}peak memory: of all trials computed in one call with it"


def _shown(prefix: str, registry: Registry[Any], tree: dict[str, Any]) -> dict[str, Any]:
    """A config's fields as dotted columns, derived ones included where a class that takes them is at hand."""
    name = tree["name"]
    fields = tree
    if name in registry:
        with suppress(ValidationError):  # of a version whose configs had other fields
            config: Config = registry.config_class(name).model_validate(tree)
            fields = {"name": name, **config.flat()}
    return _prefixed(prefix, fields)


def _prefixed(prefix: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in fields.items()}


def columns_of(rows: Iterable[dict[str, Any]]) -> list[str]:
    """All columns of `rows`: leading ones, then workload, mechanism, metrics and hw in order of appearance."""
    seen: dict[str, None] = {}
    for row in rows:
        seen.update(dict.fromkeys(row))
    order = {"workload": 1, "mechanism": 2, "metrics": 3, "series": 4, "hw": 5}

    def rank(column: str) -> int:
        if column in LEADING:
            return 0
        return order.get(column.split(".", maxsplit=1)[0], 6)

    return sorted(seen, key=rank)


def write_csv(rows: list[dict[str, Any]], path: Path | None) -> str:
    """`rows` as CSV, to `path` if given; the text. Missing values are empty."""
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns_of(rows), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    if path is not None:
        path.write_text(buffer.getvalue(), encoding="utf-8")
    return buffer.getvalue()


def write_parquet(rows: list[dict[str, Any]], path: Path) -> None:
    """`rows` as a Parquet file; a column that mixes types is stored as text."""
    import pyarrow
    import pyarrow.parquet

    arrays = {}
    for column in columns_of(rows):
        values = [row.get(column) for row in rows]
        try:
            arrays[column] = pyarrow.array(values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            arrays[column] = pyarrow.array([None if value is None else str(value) for value in values])
    pyarrow.parquet.write_table(pyarrow.table(arrays), path)
