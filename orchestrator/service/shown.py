"""What pages show, made of what the store knows: rows become the dataclasses that `dashboards.pages` draws."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping

from dashboards.pages.frame import Live, Visitor, headline, iso
from dashboards.pages.log import LogLine
from dashboards.pages.sweep import MOST_GROUPS, Drawing, Fact, Failure, SweepState, grouped
from dashboards.pages.sweeps import Progress, SweepLine
from dashboards.text import duration
from orchestrator.logs import Entry
from orchestrator.service.access import Caller
from orchestrator.service.actions import open_actions
from orchestrator.service.artist import Drawn
from orchestrator.store.states import ENDED
from orchestrator.store.status import SweepStatus
from orchestrator.store.store import Store

OFTEN, SELDOM = 2.0, 20.0
"""Seconds after which what moves is looked at again, and what does not move now but may be moved by others."""

LOG_CHARACTERS = 4000
"""Of what a failed trial printed, the end that is shown."""

PLACED = frozenset({"time", "level", "event", "sweep", "message", "lines"})
"""Fields of a log's entry that have a place of their own, or go without saying."""


def visitor_of(caller: Caller) -> Visitor:
    """Who looks."""
    return Visitor(caller.user, caller.token.role, caller.csrf)


def line_of(sweep: SweepStatus) -> SweepLine:
    """A sweep in a list."""
    counts = sweep.counts
    return SweepLine(
        id=sweep.id,
        name=sweep.name,
        kind=sweep.kind,
        user=sweep.user,
        state=sweep.state,
        progress=Progress(sweep.trials, counts.done, counts.failed, counts.leased, sweep.reused),
        created=iso(sweep.created),
        seconds_left=sweep.seconds_left,
        waiting=sweep.waiting,
        growth=sweep.growth,
    )


def pace(sweep: SweepStatus) -> float:
    """After how many seconds it is worth to look at a sweep again."""
    return SELDOM if sweep.state in ENDED else OFTEN


def state_of(store: Store, caller: Caller, sweep: SweepStatus) -> SweepState:
    """How a sweep stands, for `caller`."""
    failures = _failures(store, sweep) if sweep.counts.failed else []
    return SweepState(
        line=line_of(sweep),
        facts=tuple(_facts(store, sweep)),
        failures=tuple(_with_log(store, one, trial) for one, trial in failures[:MOST_GROUPS]),
        more=len(failures[MOST_GROUPS:]),
        actions=tuple(action.value for action in open_actions(caller, sweep)),
        live=Live(f"/sweeps/{sweep.id}/parts/state", pace(sweep)),
    )


def _facts(store: Store, sweep: SweepStatus) -> list[Fact]:
    counts = sweep.counts
    numbers = {"trials": sweep.trials, "done": counts.done}
    if sweep.state in ENDED:  # what is left is kept for sweeps that want it too
        numbers["left to others"] = counts.open
    else:
        numbers |= {"running": counts.leased, "waiting": counts.pending}
    numbers |= {"failed": counts.failed, "cancelled": counts.cancelled, "reused": sweep.reused}
    always = ("trials", "done", "failed", "reused")
    facts = [Fact(name, f"{number:,}") for name, number in numbers.items() if number or name in always]
    batches, on_their_way = store.batches(sweep.id)
    if batches:
        facts.append(Fact("batches", f"{batches:,}" + (f", {on_their_way:,} open" if on_their_way else "")))
        facts.append(Fact("computing", duration(store.computing_seconds(sweep.id))))
    return facts


def _failures(store: Store, sweep: SweepStatus) -> list[tuple[Failure, int]]:
    """Failures in groups, each with the row of the trial that speaks for it."""
    rows = store.failures(sweep.id)
    trials = {row.position: row.trial for row in rows}
    groups = grouped(Failure(row.reason, row.message, row.trials, row.position) for row in rows)
    return [(group, trials[group.first]) for group in groups]


def _with_log(store: Store, failure: Failure, trial: int) -> Failure:
    """`failure` with the last lines that its trial's last attempt printed."""
    logs = [attempt.log for attempt in store.attempts_of(trial) if attempt.log]
    return Failure(**{**vars(failure), "log": logs[-1][-LOG_CHARACTERS:]}) if logs else failure


def drawing_of(drawn: Drawn | None, shows: Hashable, address: str, seconds: float) -> Drawing:
    """A drawing on a page, fetched anew from `address` after so many seconds; sooner while none is there.

    It says as of when it is, unless it `shows` what is so now.
    """
    if drawn is None:
        return Drawing(None, None, "", Live(address, 1.0))
    as_of = None if drawn.version == shows else iso(drawn.as_of)
    return Drawing(drawn.html, drawn.error, str(drawn.at), Live(address, seconds), as_of)


def log_line(entry: Entry) -> LogLine:
    """An entry of a sweep's log."""
    message = str(entry.get("message", "")).strip()
    lines = [str(line) for line in entry.get("lines", [])]
    below = "\n".join([*([message] if "\n" in message else []), *lines])
    return LogLine(
        key=" ".join(str(entry.get(name, "")) for name in ("time", "event", "batch", "trial")),
        time=str(entry.get("time", "")).replace("T", " ").rstrip("Z"),
        level=str(entry.get("level", "")),
        event=str(entry.get("event", "")),
        fields=tuple((name, _short(item)) for name, item in entry.items() if name not in PLACED),
        message=headline(message),
        below=below,
    )


def _short(item: object) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def devices_told(devices: Mapping[str, int]) -> str:
    """Trials by device class, in words."""
    return (
        ", ".join(f"{trials:,} on {'any device' if device == 'any' else device}" for device, trials in devices.items())
        or "none yet"
    )
