"""Finding what to compare in the store: the devices or machines of one sweep, or two sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from orchestrator.errors import RequestError
from orchestrator.results import result_rows
from orchestrator.store.explaining import recorded_modules
from orchestrator.store.records import SweepRow
from orchestrator.store.store import Store
from tasks.cells import Row
from tasks.comparing import Comparison, NothingInCommonError, Side, compare_sides, uncompared
from tasks.comparing_sections import comparison_sections
from tasks.summary import ReportInput, Section, Summary
from workers.hardware import machine_id

By = Literal["device", "machine"]

Prices = Mapping[str, float]
"""What a worker of a device class costs for an hour."""


def compare_sweeps(
    store: Store,
    sweeps: Sequence[SweepRow],
    by: By | None = None,
    prices: Prices | None = None,
    tolerance: float | None = None,
) -> list[Comparison]:
    """Compare the devices or machines of one sweep, each with the first, or two sweeps, device by device.

    by: what one sweep is split by; None: devices, if it ran on several, else machines. Raises RequestError.
    """
    prices = prices or {}
    unpaired: list[tuple[Side, Side]] = []
    sides = [split(store, sweep, by or "device") for sweep in sweeps]
    if len(sweeps) == 1:
        if by is None and len(sides[0]) < 2:
            sides = [split(store, sweeps[0], "machine")]
        if len(sides[0]) < 2:
            raise RequestError(_one_side(store, sweeps[0], by))
        first, *others = sides[0].values()
        pairs = [(first, other) for other in others]
    else:
        pairs = _pairs(sweeps, *sides)
        unpaired = _unpaired(sweeps, *sides) if all(a.device == b.device for a, b in pairs) else []
    _check_prices(prices, [side for pair in pairs for side in pair])
    code = recorded_modules(store.engine, {row["fingerprint"] for pair in pairs for side in pair for row in side.rows})
    try:
        compared = [compare_sides(_priced(a, prices), _priced(b, prices), tolerance, code) for a, b in pairs]
    except NothingInCommonError as error:
        raise RequestError(str(error)) from error
    return [*compared, *(uncompared(a, b, tolerance) for a, b in unpaired)]


def split(store: Store, sweep: SweepRow, by: By) -> dict[str, Side]:
    """A sweep's finished trials by device class, or by machine, in plan order."""
    parts: dict[str, list[Row]] = {}
    for row in result_rows(store, sweep):
        if row["state"] == "done":
            parts.setdefault(device_of(row) if by == "device" else _machine(row), []).append(row)
    names = _machine_names(parts) if by == "machine" else {device: device for device in parts}
    return {key: Side(names[key], device_of(rows[0]), rows) for key, rows in parts.items()}


def device_of(row: Row) -> str:
    """The class of the device that computed a trial; of a trial that none has, the one asked for."""
    return str(row.get("hw.device") or row["device"])


def _machine(row: Row) -> str:
    return machine_id({name.removeprefix("hw."): value for name, value in row.items() if name.startswith("hw.")})


def _machine_names(parts: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    """Machines by their GPU or CPU; those that share a name, with the beginning of their id."""
    named = {}
    for key, rows in parts.items():
        on_cpu = device_of(rows[0]) == "cpu"
        named[key] = str(rows[0].get("hw.cpu_model" if on_cpu else "hw.gpu") or "unknown machine")
    count = Counter(named.values())
    return {key: name if count[name] == 1 else f"{name} ({key[:6]})" for key, name in named.items()}


def _pairs(sweeps: Sequence[SweepRow], a: dict[str, Side], b: dict[str, Side]) -> list[tuple[Side, Side]]:
    """Sides of two sweeps that ran on one device class; the only sides they have, where these are of two classes."""
    common = [device for device in a if device in b]
    if not common and len(a) == len(b) == 1:
        [mine], [other] = a.values(), b.values()
        return [(_named(mine, sweeps[0], sweeps), _named(other, sweeps[1], sweeps))]
    for sweep, sides in zip(sweeps, (a, b), strict=True):
        if not sides:
            raise RequestError(f"sweep {sweep.id} has no finished trial yet: there is nothing to compare")
    if not common:
        raise RequestError(
            f"sweeps {sweeps[0].id} (on {', '.join(a)}) and {sweeps[1].id} (on {', '.join(b)}) have no device class in "
            "common, and several to choose from: compare one of them with itself"
        )
    return [(_named(a[device], sweeps[0], sweeps), _named(b[device], sweeps[1], sweeps)) for device in common]


def _unpaired(sweeps: Sequence[SweepRow], a: dict[str, Side], b: dict[str, Side]) -> list[tuple[Side, Side]]:
    """What one of two sweeps has on device classes that the other has nothing on, beside that nothing."""
    lacking = [device for device in (*a, *b) if device not in a or device not in b]
    sides = [[one.get(device, Side(device, device, ())) for device in lacking] for one in (a, b)]
    return [(_named(x, sweeps[0], sweeps), _named(y, sweeps[1], sweeps)) for x, y in zip(*sides, strict=True)]


def _named(side: Side, sweep: SweepRow, sweeps: Sequence[SweepRow]) -> Side:
    name = sweep.name if sweeps[0].name != sweeps[1].name else sweep.id
    return Side(f"{name} on {side.device}", side.device, side.rows)


def _one_side(store: Store, sweep: SweepRow, by: By | None) -> str:
    """Why one sweep alone has nothing to compare."""
    rows = list(result_rows(store, sweep))
    asked = list(dict.fromkeys(row["device"] for row in rows))
    done = Counter(row["device"] for row in rows if row["state"] == "done")
    cure = "give a second sweep, or run it with `device: [cpu, cuda]`"
    if len(asked) > 1 and by != "machine":
        counts = ", ".join(f"{done[device]} on {device}" for device in asked)
        return f"sweep {sweep.id} has finished {counts}: `slotsweep resume {sweep.id}` computes the rest, or {cure}"
    what = {"device": "one device class", "machine": "one machine", None: "one device class and one machine"}[by]
    return f"sweep {sweep.id} ran on {what}: {cure}" if done else f"sweep {sweep.id} has no finished trial yet: {cure}"


def _check_prices(prices: Prices, sides: Sequence[Side]) -> None:
    devices = list(dict.fromkeys(side.device for side in sides))
    unknown = [device for device in prices if device not in devices]
    if unknown:
        raise RequestError(f"--price names {', '.join(unknown)}; what is compared ran on {', '.join(devices)}")
    missing = [device for device in devices if device not in prices]
    if prices and missing:
        raise RequestError(f"costs need a price for each device: add --price {missing[0]}=PRICE")


def _priced(side: Side, prices: Prices) -> Side:
    return Side(side.name, side.device, side.rows, prices.get(side.device))


def sections_of(comparisons: Sequence[Comparison]) -> tuple[Section, ...]:
    """What to show of several comparisons."""
    return tuple(
        section
        for number, comparison in enumerate(comparisons, start=1)
        for section in comparison_sections(comparison, number)
    )


def write_comparison(store: Store, sweeps: Sequence[SweepRow], comparisons: Sequence[Comparison], folder: Path) -> Path:
    """Draw a page of comparisons into `folder`; the HTML file's path."""
    from dashboards.report import render_report
    from orchestrator.reporting import report_input

    inputs = [report_input(store, sweep) for sweep in sweeps]
    hardware: list[dict[str, Any]] = []
    for one in inputs:
        hardware += [record for record in one.hardware if record not in hardware]
    page = ReportInput(
        sweep=", ".join(one.sweep for one in inputs),
        name=f"comparison of {' and '.join(dict.fromkeys(one.name for one in inputs))}",
        kind=inputs[0].kind,
        state=inputs[-1].state,
        created=inputs[0].created,
        finished=inputs[-1].finished,
        seconds=None,
        counts={name: sum(one.counts[name] for one in inputs) for name in inputs[0].counts},
        failures=dict(sum((Counter(one.failures) for one in inputs), Counter())),
        spec="\n".join(one.spec for one in inputs),
        summary=Summary((), sections=sections_of(comparisons)),
        hardware=tuple(hardware),
        reproduce=(f"slotsweep compare {' '.join(one.sweep for one in inputs)}",),
        software=inputs[0].software,
    )
    folder.mkdir(parents=True, exist_ok=True)
    return render_report(page, folder)
