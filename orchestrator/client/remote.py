"""A service: what commands ask is asked of it over HTTP, and sweeps that it runs are watched."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from orchestrator.caps import UNCAPPED, Caps
from orchestrator.client.base import Changed, Compared, Drawing, Outcome, Submission, SweepLog
from orchestrator.client.carrying import upload_of
from orchestrator.client.http import Connection
from orchestrator.client.unpacking import unpack_files
from orchestrator.errors import NotThereError, RequestError, ServiceError
from orchestrator.spec.problems import visible
from orchestrator.store.states import ENDED, Role, SweepState

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from rich.console import RenderableType

    from orchestrator.claims import Measurements
    from orchestrator.client.base import Comparing
    from orchestrator.job import Progress
    from orchestrator.logs import Entry
    from orchestrator.plan_summary import PlanSummary
    from orchestrator.requests import SpecFile
    from orchestrator.roster import Roster
    from orchestrator.scheduler import StopRequest
    from orchestrator.settings import Settings
    from orchestrator.store.access import TokenRow
    from orchestrator.store.status import SweepStatus
    from tasks.certificate import Certificate

T = TypeVar("T")

PAGE = 500
SPECS_AT_ONCE = 50
POLL_SECONDS = 1.0
POSITION = "Slotsweep-Log-Position"
ELSEWHERE = "Slotsweep-Log-Elsewhere"
NARROWEST, WIDEST, USUAL = 40, 1000, 100

UNFINISHED = (SweepState.QUEUED, SweepState.RUNNING, SweepState.PAUSED)


class RemoteClient:
    """Asks the service that `settings` name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._http = Connection(settings)

    def describe(self, specs: Sequence[SpecFile], *, explained: bool) -> list[PlanSummary]:
        from orchestrator.plan_summary import PlanSummary

        found: list[PlanSummary] = []
        for first in range(0, len(specs), SPECS_AT_ONCE):
            some = [upload_of(one) for one in specs[first : first + SPECS_AT_ONCE]]
            response = self._http.plan("/plans", {"specs": some, "explained": explained})
            found += self._http.read(_adapter(list[PlanSummary]), response)
        return found

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
        caps.check()
        tree = {
            "specs": [upload_of(one) for one in specs],
            "use_cache": use_cache,
            "wait": wait,
            "max_hours": caps.hours,
            "max_cost": caps.cost,
            "prices": dict(caps.prices),
            "check_data": check_data,
        }
        try:
            response = self._http.plan("/sweeps", tree)
        except ServiceError as error:
            raise ServiceError(f"{error}; whether it was queued all the same, `slotsweep status` shows") from error
        return self._http.read(_adapter(Submission), response)

    def sweeps(self, *, mine: bool = False) -> list[SweepStatus]:
        user = self._http.tree(self._http.get("/me"))["user"] if mine else None
        return self._listed(user=user)

    def sweep(self, name: str) -> SweepStatus:
        return self._sweep(name)

    def sweep_now(self, name: str) -> SweepStatus:
        """One sweep as it is now: `sweep` may give what somebody else was told a moment ago."""
        return self._sweep(name, fresh=True)

    def _sweep(self, name: str, fresh: bool | None = None) -> SweepStatus:
        from orchestrator.store.status import SweepStatus

        response = self._http.get(_of(name), fresh=fresh)
        return self._ours(self._http.read(_adapter(SweepStatus), response))

    def pause(self, name: str) -> SweepStatus:
        return self._steer(name, "pause").sweep

    def cancel(self, name: str) -> SweepStatus:
        return self._steer(name, "cancel").sweep

    def resume(self, name: str, *, as_submitted: bool = False) -> Changed:
        return replace(self._steer(name, "resume"), trials=0)

    def retry(self, name: str) -> Changed:
        return self._steer(name, "retry")

    def run(
        self,
        sweeps: Sequence[str] | None,
        *,
        on_progress: Callable[[Progress], None],
        stop: StopRequest,
        tell: Callable[[str], None],
    ) -> list[Outcome]:
        from orchestrator.client.watching import Watch, refuse_unable

        statuses = self._mine() if sweeps is None else list(map(self.sweep, sweeps))
        for status in statuses:
            if status.state == SweepState.PAUSED:
                self.resume(status.id)
        return refuse_unable(Watch(self, on_progress, stop).until_over([status.id for status in statuses]))

    def outcome(self, sweep: SweepStatus, seconds: float) -> Outcome:
        """How a sweep was left after it was watched for so many seconds."""
        from orchestrator.client.watching import unable, used_up

        tables = None
        with suppress(RequestError, ServiceError):  # its results are there all the same
            tables = self.summary(sweep.id)
        page = f"{self._http.url}/sweeps/{sweep.id}"
        report = f"{page}/report/" if sweep.state in ENDED else None
        return Outcome(sweep, seconds, report, tables, broken=unable(sweep), capped=used_up(sweep), page=page)

    def results(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._http.tree(self._http.get(f"{_of(name)}/results"))
        return rows

    def summary(self, name: str) -> RenderableType:
        return _as_is(self._http.get(f"{_of(name)}/summary", width=_width()).text)

    def report(self, name: str, folder: Path | None) -> Drawing:
        sweep = self.sweep(name)
        archive = self._http.get(f"{_of(sweep.id)}/report.zip").content
        if folder is None:
            folder = self._settings.report_folder(sweep.id)
            for left_over in folder.iterdir() if folder.exists() else ():
                if left_over.is_file():
                    left_over.unlink()
        unpack_files(archive, folder)
        return Drawing(sweep.id, folder / "report.html")

    def log(self, name: str, *, tail: int | None = None, follow: bool = False) -> SweepLog:
        sweep = self.sweep(name)
        rest: list[str] = []
        entries = self._entries(sweep.id, tail, follow, rest)
        return SweepLog(sweep.id, entries, "on the machine that answers for the service", lambda: rest)

    def workers(self, *, every: bool) -> Roster:
        from orchestrator.roster import Roster

        return self._http.read(_adapter(Roster), self._http.get("/workers", all=every))

    def compare(self, asked: Comparing) -> Compared:
        tree = self._http.tree(self._http.get("/compare", **_compared(asked), width=_width()))
        return Compared(
            sweeps=tuple(tree["sweeps"]),
            records=tree["comparisons"],
            rows=tree["rows"],
            tables=_as_is(tree["tables"]),
            agree=tree["agree"],
        )

    def comparison_page(self, asked: Comparing, folder: Path) -> Path:
        unpack_files(self._http.get("/compare/page.zip", **_compared(asked)).content, folder)
        return folder / "report.html"

    def measurements(self, paper: str, *, submit: bool) -> Measurements:
        from orchestrator.claims import known_paper
        from orchestrator.requests import spec_files
        from tasks.claims import sweeps_of

        found, _ = self._judged(paper)
        wanted = [name for name in sweeps_of(known_paper(paper).claims, everywhere=False) if name not in found.sweeps]
        for name in wanted if submit else ():
            try:
                submission = self.submit(spec_files(name))
            except RequestError as error:
                found.lacking[name] = str(error)
                continue
            for one in submission.submitted.values():
                found.sweeps[name] = one.sweep
                found.missing.append(one.sweep)
        return found

    def certificate(self, paper: str, measured: Measurements, folder: Path, seconds: float | None) -> Certificate:
        from orchestrator.claims import with_reason

        _, certificate = self._judged(paper)
        return replace(
            certificate,
            seconds=seconds,
            judgements=tuple(with_reason(one, measured.lacking) for one in certificate.judgements),
            reports={name: self._http.url + place for name, place in certificate.reports.items()},
        )

    def tokens(self) -> list[TokenRow]:
        from orchestrator.store.access import TokenRow

        return self._http.read(_adapter(list[TokenRow]), self._http.get("/tokens"))

    def create_token(self, user: str, role: Role, days: float | None) -> tuple[TokenRow, str]:
        from orchestrator.store.access import TokenRow

        response = self._http.post("/tokens", {"user": user, "role": role, "days": days}, repeatable=False)
        return self._http.read(_adapter(TokenRow), response), str(self._http.tree(response)["token"])

    def revoke_token(self, identity: str) -> TokenRow:
        from orchestrator.store.access import TokenRow

        return self._http.read(_adapter(TokenRow), self._http.delete(f"/tokens/{quote(identity, safe='')}"))

    def _steer(self, name: str, action: str) -> Changed:
        response = self._http.post(f"{_of(name)}/{action}", repeatable=True)
        changed = self._http.read(_adapter(Changed), response)
        return replace(changed, sweep=self._ours(changed.sweep))

    def _ours(self, sweep: SweepStatus) -> SweepStatus:
        """With the whole address of its report."""
        return sweep if sweep.report is None else replace(sweep, report=self._http.url + sweep.report)

    def _listed(self, **asked: Any) -> list[SweepStatus]:
        from orchestrator.store.status import SweepStatus

        found: list[SweepStatus] = []
        while True:
            tree = self._http.tree(self._http.get("/sweeps", limit=PAGE, offset=len(found), **asked))
            page = self._http.understood(_adapter(list[SweepStatus]), json.dumps(tree["sweeps"]).encode())
            known = {one.id for one in found}  # one that was submitted meanwhile moves others to the next page
            found += [self._ours(one) for one in page if one.id not in known]
            if len(page) < PAGE:
                return found

    def _mine(self) -> list[SweepStatus]:
        """Unfinished sweeps that the user may steer."""
        me = self._http.tree(self._http.get("/me"))
        user = None if me["role"] == Role.ADMIN else me["user"]
        return self._listed(state=list(UNFINISHED), user=user)

    def _judged(self, paper: str) -> tuple[Measurements, Certificate]:
        from orchestrator.claims import Measurements
        from tasks.certificate import Certificate

        tree = self._http.tree(self._http.get(f"/claims/{quote(paper, safe='')}"))
        found = json.dumps(tree["measurements"]).encode()
        judged = json.dumps(tree["certificate"]).encode()
        return (
            self._http.understood(_adapter(Measurements), found),
            self._http.understood(_adapter(Certificate), judged),
        )

    def _entries(self, sweep: str, tail: int | None, follow: bool, rest: list[str]) -> Iterator[Entry]:
        """Entries of a log; `rest` is given the other hosts that have some."""
        position = ""
        over = False
        while True:
            before, over = over, follow and self.sweep(sweep).state in ENDED
            while True:
                response = self._http.get(f"{_of(sweep)}/log", after=position, tail=tail)
                position, tail = response.headers.get(POSITION, ""), None
                rest[:] = filter(None, response.headers.get(ELSEWHERE, "").split(", "))
                lines = response.content.splitlines()
                yield from map(json.loads, lines)
                if not lines:
                    break
            if not follow or (before and over):
                return
            time.sleep(POLL_SECONDS)


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    adapter: TypeAdapter[T] = _made(cast("Hashable", kind))
    return adapter


@cache
def _made(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _of(sweep: str) -> str:
    """Where a sweep is. Raises NotThereError for what cannot be the beginning of an id."""
    if not (sweep.isascii() and sweep.isalnum()):
        raise NotThereError(f"there is no sweep `{sweep}`: `slotsweep status` lists them")
    return f"/sweeps/{sweep}"


def _compared(asked: Comparing) -> dict[str, Any]:
    prices = [f"{device}={price!r}" for device, price in (asked.prices or {}).items()]
    return {"sweep": list(asked.sweeps), "by": asked.by, "price": prices or None, "tolerance": asked.tolerance}


def _width() -> int:
    """Columns that tables may take."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else USUAL
    return min(max(columns, NARROWEST), WIDEST)


def _as_is(text: str) -> RenderableType:
    from rich.text import Text

    return Text("\n".join(map(visible, text.splitlines())), no_wrap=True, overflow="ignore")
