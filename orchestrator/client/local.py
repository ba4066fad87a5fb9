"""The store on this machine: what commands ask is answered here, and sweeps run in the command's own process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.caps import UNCAPPED, Caps
from orchestrator.store.states import ENDED, SweepState

if TYPE_CHECKING:
    from rich.console import RenderableType

    from orchestrator.claims import Measurements
    from orchestrator.client.base import Changed, Compared, Comparing, Drawing, Outcome, Submission, SweepLog
    from orchestrator.job import Progress
    from orchestrator.logs import Entry, LogReader
    from orchestrator.owner import Owner
    from orchestrator.plan_summary import PlanSummary
    from orchestrator.requests import SpecFile
    from orchestrator.roster import Roster
    from orchestrator.runner import RunOutcome
    from orchestrator.scheduler import StopRequest
    from orchestrator.settings import Settings
    from orchestrator.store.access import TokenRow
    from orchestrator.store.records import SweepRow
    from orchestrator.store.states import Role
    from orchestrator.store.status import SweepStatus
    from orchestrator.store.store import Store
    from tasks.certificate import Certificate

DRAWING_SECONDS = 20.0
"""How long a report is waited for that others draw."""

DESERTED_SECONDS = 10.0
"""After this long, sweeps that others ran and run no more are run here: a service that starts again is quicker."""


class LocalClient:
    """Answers from the database that `settings` name. Opens it when it is asked for; `submit` makes one."""

    def __init__(self, settings: Settings, executor: Literal["ray", "inline"] = "ray") -> None:
        self._settings = settings
        self._executor = executor

    @cached_property
    def _store(self) -> Store:
        from orchestrator.requests import existing_store

        return existing_store(self._settings)

    def describe(self, specs: Sequence[SpecFile], *, explained: bool) -> list[PlanSummary]:
        from orchestrator.machines import planned
        from orchestrator.plan_summary import describe
        from orchestrator.spec import read_spec

        read = [read_spec(one.path, one.overrides) for one in specs]
        plans = [planned(one, self._settings, ask=False) for one in read]
        return [describe(plan, self._settings, explained=explained) for plan in plans]

    def submit(
        self,
        specs: Sequence[SpecFile],
        *,
        use_cache: bool = True,
        wait: float = 0.0,
        caps: Caps = UNCAPPED,
        check_data: bool = True,
        to_run: bool = False,
    ) -> Submission:
        from orchestrator.intake import submit_checked
        from orchestrator.spec import read_spec

        read = {one.name: read_spec(one.path, one.overrides) for one in specs}
        return submit_checked(
            self._settings,
            read,
            use_cache=use_cache,
            wait=wait,
            caps=caps,
            check_data=check_data,
            owner_in=self._owner_in if to_run else None,
        )

    def sweeps(self, *, mine: bool = False) -> list[SweepStatus]:
        file = self._settings.database_file
        return [] if file is not None and not file.exists() else self._store.statuses()

    def sweep(self, name: str) -> SweepStatus:
        from orchestrator.requests import find_status

        return find_status(self._store, name)

    def pause(self, name: str) -> SweepStatus:
        from orchestrator.steering import pause_sweep

        sweep = self.sweep(name)
        pause_sweep(self._store, sweep)
        return self._store.status(sweep.id)

    def cancel(self, name: str) -> SweepStatus:
        from orchestrator.steering import cancel_sweep
        from orchestrator.tracker_process import TrackerProcess

        sweep = self.sweep(name)
        cancel_sweep(self._store, sweep)
        TrackerProcess(self._settings).leave()
        return self._store.status(sweep.id)

    def resume(self, name: str, *, as_submitted: bool = False) -> Changed:
        from orchestrator.client.base import Changed
        from orchestrator.resuming import follow_edits
        from orchestrator.steering import resume_sweep

        sweep = self.sweep(name)
        row = self._store.sweep(sweep.id)
        added = 0 if as_submitted else follow_edits(self._store, row, self._settings)
        resume_sweep(self._store, sweep)
        return Changed(self._store.status(sweep.id), added)

    def retry(self, name: str) -> Changed:
        from orchestrator.client.base import Changed
        from orchestrator.steering import retry_sweep

        sweep = self.sweep(name)
        count = retry_sweep(self._store, sweep)
        return Changed(self._store.status(sweep.id), count)

    def run(
        self,
        sweeps: Sequence[str] | None,
        *,
        on_progress: Callable[[Progress], None],
        stop: StopRequest,
        tell: Callable[[str], None],
    ) -> list[Outcome]:
        from orchestrator.client.watching import refuse_unable

        outcomes: list[Outcome] = []

        def not_ended(sweeps: Sequence[str]) -> list[str]:
            ended = {outcome.sweep.id for outcome in outcomes}
            return [one for one in sweeps if one not in ended]

        left = sweeps
        try:
            while left is None or left:
                if not self._is_served(self._store):
                    outcomes += self._execute(left, on_progress, stop, tell)
                    if left is None:
                        break
                left = not_ended(self._unfinished() if left is None else left)
                if left and not stop.drain.is_set():
                    outcomes += self._watch(left, on_progress, stop, tell)
                    left = not_ended(left)
                if stop.drain.is_set():
                    break
        finally:
            if "_owner" in vars(self):
                vars(self).pop("_owner").end()
        return refuse_unable(outcomes)

    def _execute(
        self,
        sweeps: Sequence[str] | None,
        on_progress: Callable[[Progress], None],
        stop: StopRequest,
        tell: Callable[[str], None],
    ) -> list[Outcome]:
        """Run those of `sweeps` that nobody else runs, here."""
        from orchestrator.runner import execute

        outcomes = execute(
            self._settings,
            self._store,
            sweeps,
            executor=self._executor,
            on_progress=on_progress,
            stop=stop,
            owner=self._owner,
            on_wait=lambda: tell(f"waiting for MLflow at {self._settings.tracking_uri} to take the last runs"),
        )
        return list(map(_outcome, outcomes))

    def _watch(
        self,
        sweeps: Sequence[str],
        on_progress: Callable[[Progress], None],
        stop: StopRequest,
        tell: Callable[[str], None],
    ) -> list[Outcome]:
        """Watch sweeps that others run: a service, or another `slotsweep run`."""
        from orchestrator.client.watching import Watch
        from orchestrator.steering import resume_sweep

        for status in map(self._store.status, sweeps):
            if status.state == SweepState.PAUSED:
                resume_sweep(self._store, status)
        who = "a service runs the sweeps of this store" if self._is_served(self._store) else "another process runs it"
        tell(f"{who}: this watches ({', '.join(sweeps)})")
        return Watch(self, on_progress, stop).until_over(sweeps, self._deserted(sweeps))

    def _deserted(self, sweeps: Sequence[str]) -> Callable[[], bool]:
        """Tells whether nobody has been there for a while who runs any of `sweeps`."""
        import time

        seen = time.monotonic()

        def deserted() -> bool:
            nonlocal seen
            if self._is_served(self._store) or self._store.owned().intersection(sweeps):
                seen = time.monotonic()
            return time.monotonic() - seen > DESERTED_SECONDS

        return deserted

    def sweep_now(self, name: str) -> SweepStatus:
        """One sweep; here, whoever asks is always told how it is now."""
        return self.sweep(name)

    def outcome(self, sweep: SweepStatus, seconds: float) -> Outcome:
        """How a sweep that others ran was left after it was watched for so many seconds."""
        from orchestrator.client.base import Outcome
        from orchestrator.client.watching import unable, used_up

        tables = self.summary(sweep.id)
        report = self._report_of(sweep.id) if sweep.state in ENDED else None
        return Outcome(sweep, seconds, report, tables, broken=unable(sweep), capped=used_up(sweep))

    def _report_of(self, sweep: str) -> str:
        """Where the report of a sweep is that has ended: whoever ran it draws it, if it is here, in a moment."""
        import time

        from orchestrator.drawn_reports import whole_report

        until = time.monotonic() + DRAWING_SECONDS
        while time.monotonic() < until and (self._store.owned() or self._is_served(self._store)):
            if (path := whole_report(self.sweep(sweep))) is not None:
                return str(path)
            time.sleep(0.25)
        return str(self.report(sweep, None).path)

    def _is_served(self, store: Store) -> bool:
        """Whether a service runs the sweeps of `store`, so that this does not; who asks for `inline` means it."""
        return self._executor == "ray" and store.is_served()

    def _owner_in(self, store: Store) -> str | None:
        """Whom sweeps in `store` are to belong to that are run next."""
        return None if self._is_served(store) else self._owner.id

    @cached_property
    def _owner(self) -> Owner:
        from orchestrator.owner import Owner

        return Owner(self._store).begin()

    def _unfinished(self) -> list[str]:
        from orchestrator.runner import UNFINISHED

        return self._store.waiting_sweeps(UNFINISHED)

    def results(self, name: str) -> list[dict[str, Any]]:
        from orchestrator.results import result_rows

        return list(result_rows(self._store, self._row(name)))

    def summary(self, name: str) -> RenderableType:
        from dashboards.terminal import summary_tables
        from orchestrator.reporting import summary_of

        return summary_tables(summary_of(self._store, self._row(name)))

    def report(self, name: str, folder: Path | None) -> Drawing:
        from orchestrator.client.base import Drawing
        from orchestrator.reporting import write_own_report, write_report
        from tasks.kind import KINDS

        row = self._row(name)
        if folder is not None:
            path, _ = write_report(self._store, row, folder)
        else:
            path, _ = write_own_report(self._store, row, self._settings)
            self._store.set_report(row.id, str(path))
        if not KINDS.implementation(row.kind).proposes:
            return Drawing(row.id, path)
        from orchestrator.tuner.mirroring import catch_up

        return Drawing(row.id, path, catch_up(self._store, row, self._settings))

    def log(self, name: str, *, tail: int | None = None, follow: bool = False) -> SweepLog:
        from orchestrator.client.base import SweepLog
        from orchestrator.logs import LogReader, elsewhere, log_file

        sweep = self._row(name)
        path = log_file(self._settings, sweep.id)
        entries = _entries(LogReader(path), tail, _ended(self._store, sweep.id) if follow else None)
        return SweepLog(sweep.id, entries, f"in {path.parent}", lambda: elsewhere(self._store, sweep.id))

    def workers(self, *, every: bool) -> Roster:
        from orchestrator.roster import read_roster

        return read_roster(self._settings, every=every)

    def compare(self, asked: Comparing) -> Compared:
        from dashboards.terminal import summary_tables
        from orchestrator.client.base import Compared
        from orchestrator.compare import compare_sweeps, sections_of
        from tasks.comparing_sections import comparison_record, comparison_rows
        from tasks.summary import Summary

        rows = [self._row(name) for name in asked.sweeps]
        comparisons = compare_sweeps(self._store, rows, asked.by, asked.prices, asked.tolerance)
        return Compared(
            sweeps=tuple(row.id for row in rows),
            records=[comparison_record(comparison) for comparison in comparisons],
            rows=list(comparison_rows(comparisons)),
            tables=summary_tables(Summary((), sections=sections_of(comparisons))),
            agree=all(comparison.agree for comparison in comparisons),
        )

    def comparison_page(self, asked: Comparing, folder: Path) -> Path:
        from orchestrator.compare import compare_sweeps, write_comparison

        rows = [self._row(name) for name in asked.sweeps]
        comparisons = compare_sweeps(self._store, rows, asked.by, asked.prices, asked.tolerance)
        return write_comparison(self._store, rows, comparisons, folder)

    def measurements(self, paper: str, *, submit: bool) -> Measurements:
        from orchestrator.claims import find_measurements, known_paper
        from orchestrator.store.store import Store

        known = known_paper(paper)
        return find_measurements(Store.open(self._settings.database_url), self._settings, known, submit=submit)

    def certificate(self, paper: str, measured: Measurements, folder: Path, seconds: float | None) -> Certificate:
        from orchestrator.claims import judge_paper, known_paper

        return judge_paper(self._store, known_paper(paper), measured, folder, seconds)

    def tokens(self) -> list[TokenRow]:
        return self._store.tokens()

    def create_token(self, user: str, role: Role, days: float | None) -> tuple[TokenRow, str]:
        from orchestrator.store.access import token_seconds
        from orchestrator.store.store import Store

        seconds = token_seconds(days)
        return Store.open(self._settings.database_url).create_token(user, role, seconds)

    def revoke_token(self, identity: str) -> TokenRow:
        return self._store.revoke_token(identity)

    def _row(self, name: str) -> SweepRow:
        from orchestrator.requests import find_sweep

        return find_sweep(self._store, name)


def _outcome(left: RunOutcome) -> Outcome:
    from dashboards.terminal import summary_tables
    from orchestrator.client.base import Outcome

    return Outcome(
        sweep=_at_a_glance(left.sweep),
        seconds=left.seconds,
        report=None if left.drawn is None else str(left.drawn.path),
        tables=None if left.drawn is None else summary_tables(left.drawn.summary),
        undelivered=left.undelivered,
        refusal=left.refusal,
        unmirrored=left.unmirrored,
        broken=left.broken,
        capped=left.capped,
    )


def _at_a_glance(sweep: SweepRow) -> SweepStatus:
    from orchestrator.store.status import SweepStatus

    known = {one.name for one in fields(sweep)}
    return SweepStatus(**{one.name: getattr(sweep, one.name) for one in fields(SweepStatus) if one.name in known})


def _entries(reader: LogReader, tail: int | None, ended: Callable[[], bool] | None) -> Iterator[Entry]:
    try:
        yield from reader.entries() if tail is None else deque(reader.entries(), maxlen=tail)
        if ended is not None:
            yield from reader.follow(ended)
    finally:
        reader.close()


def _ended(store: Store, sweep: str) -> Callable[[], bool]:
    from sqlalchemy.exc import InterfaceError, OperationalError

    from orchestrator.store.states import ENDED

    def ended() -> bool:
        try:
            return store.sweep(sweep).state in ENDED
        except (InterfaceError, OperationalError):  # the database is away for a while
            return False

    return ended
