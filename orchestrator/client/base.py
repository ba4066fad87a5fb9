"""The protocol between commands and whatever holds the sweeps: the store on this machine, or a service.

Sweeps are named by the beginning of their id, or `last`: the newest, of a service the newest that the user submitted.
Every method raises RequestError for what the user can mend (SpecError for a spec), and StoreError, ExecutorError or
ServiceError where what it needs does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from orchestrator.caps import UNCAPPED, Caps
from orchestrator.store.records import Submitted
from orchestrator.store.status import SweepStatus

if TYPE_CHECKING:
    from rich.console import RenderableType

    from orchestrator.claims import Measurements
    from orchestrator.job import Progress
    from orchestrator.logs import Entry
    from orchestrator.plan_summary import PlanSummary
    from orchestrator.requests import SpecFile
    from orchestrator.roster import Roster
    from orchestrator.scheduler import StopRequest
    from orchestrator.store.access import TokenRow
    from orchestrator.store.states import Role
    from tasks.certificate import Certificate


@dataclass(frozen=True)
class Submission:
    """What became of specs that were submitted, by name; `left_out` says why the others were not."""

    submitted: Mapping[str, Submitted]
    left_out: Mapping[str, str]


@dataclass(frozen=True)
class Changed:
    """A sweep after it was steered. trials: how many were added, or wait again."""

    sweep: SweepStatus
    trials: int = 0


@dataclass(frozen=True)
class Outcome:
    """How a command that ran sweeps, or watched them, left one.

    seconds      this command spent
    report       where its report is, a path or an address; None: there is none yet
    page         address of its page, from which links lead to its runs; None: there is none, and `dashboard` shows them
    tables       what it says, for a terminal; None if that could not be drawn up
    undelivered  MLflow runs still to be written; refusal: why the tracking store would not take them, if it said so
    unmirrored   why the studies of a sweep that tunes are not in Optuna's own store; None: they are, or there are none
    broken       why it could not be run at all, so that it waits; None: it was run
    capped       which cap it has used up, in words; None: none
    """

    sweep: SweepStatus
    seconds: float
    report: str | None
    tables: RenderableType | None
    undelivered: int = 0
    refusal: str | None = None
    unmirrored: str | None = None
    broken: str | None = None
    capped: str | None = None
    page: str | None = None


@dataclass(frozen=True)
class Drawing:
    """A sweep's report on this machine. unmirrored: as in `Outcome`"""

    sweep: str
    path: Path
    unmirrored: str | None = None


@dataclass(frozen=True)
class SweepLog:
    """Entries of a sweep's log as they are read.

    place  where it is looked for, in words
    rest   tells, once `entries` were read, which other hosts have parts of it
    """

    sweep: str
    entries: Iterator[Entry]
    place: str
    rest: Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Compared:
    """A comparison: ids of the sweeps, one record and any number of flat rows a pair of sides, and all as tables."""

    sweeps: tuple[str, ...]
    records: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    tables: RenderableType
    agree: bool


@dataclass(frozen=True)
class Comparing:
    """What is compared: the devices or machines of one sweep, or two sweeps; see `orchestrator.compare`."""

    sweeps: tuple[str, ...]
    by: Literal["device", "machine"] | None = None
    prices: Mapping[str, float] | None = None
    tolerance: float | None = None


class Client(Protocol):
    """The store on this machine, or a service."""

    def describe(self, specs: Sequence[SpecFile], *, explained: bool) -> list[PlanSummary]:
        """What each of `specs` would run, and what it may cost. Starts nothing."""

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
        """Queue `specs`, all that can run, or none.

        wait: minutes to wait for workers that nobody offers yet. caps: what each may take of its workers. check_data:
        refuse a spec whose data are lacking; of several, leave it out. to_run: `run` follows, so that nobody else takes
        them, unless they are run by a service
        """

    def sweeps(self, *, mine: bool = False) -> list[SweepStatus]:
        """All sweeps, newest first; none where there is no store yet. mine: of a service, those of the token's user."""

    def sweep(self, name: str) -> SweepStatus:
        """One sweep."""

    def pause(self, name: str) -> SweepStatus:
        """Hand out no more of a sweep's trials; what runs is finished."""

    def cancel(self, name: str) -> SweepStatus:
        """End a sweep: its waiting trials are cancelled, results stay."""

    def resume(self, name: str, *, as_submitted: bool = False) -> Changed:
        """Queue what is missing of a sweep; unless `as_submitted`, also what edits of its file add, if that is here."""

    def retry(self, name: str) -> Changed:
        """Queue a sweep's failed trials again."""

    def run(
        self,
        sweeps: Sequence[str] | None,
        *,
        on_progress: Callable[[Progress], None],
        stop: StopRequest,
        tell: Callable[[str], None],
    ) -> list[Outcome]:
        """See to it that `sweeps` (ids; None: all unfinished ones of the user) are computed, and how that went.

        A service runs them by itself, and so do others who run some of them already: then this resumes those that are
        paused, and watches.
        stop: drain pauses, cancel cancels. tell: is told what everything waits for at the end
        """

    def results(self, name: str) -> list[dict[str, Any]]:
        """A row per trial, with dotted columns."""

    def summary(self, name: str) -> RenderableType:
        """What a sweep says so far, for a terminal."""

    def report(self, name: str, folder: Path | None) -> Drawing:
        """Bring a sweep's report up to date, in `folder` (None: the sweep's own, under SLOTSWEEP_HOME)."""

    def log(self, name: str, *, tail: int | None = None, follow: bool = False) -> SweepLog:
        """A sweep's log from its oldest entry on, or its last `tail` ones; `follow`: until the sweep has ended."""

    def workers(self, *, every: bool) -> Roster:
        """The fleet; `every`: with workers and nodes that are gone."""

    def compare(self, asked: Comparing) -> Compared:
        """Compare cell by cell."""

    def comparison_page(self, asked: Comparing, folder: Path) -> Path:
        """Draw a page of the comparison into `folder`; the HTML file's path."""

    def measurements(self, paper: str, *, submit: bool) -> Measurements:
        """The sweeps that measure a paper's claims; `submit`: those that are lacking are queued."""

    def certificate(self, paper: str, measured: Measurements, folder: Path, seconds: float | None) -> Certificate:
        """What these sweeps say of each claim, for a page in `folder`; seconds: that measuring took."""

    def tokens(self) -> list[TokenRow]:
        """Every token of the service's users, newest first. A service wants an admin for all that concerns tokens."""

    def create_token(self, user: str, role: Role, days: float | None) -> tuple[TokenRow, str]:
        """A new token that holds for `days` (None: until it is revoked), and its secret, told only now."""

    def revoke_token(self, identity: str) -> TokenRow:
        """Let a token (an id) hold no more, nor the sessions that began with it."""
