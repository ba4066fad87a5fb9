"""What the service does beside answering: it has a conductor run sweeps, and a tracker tell MLflow of them.

One replica at a time has the duty to; others stand by, and take over when it is gone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from orchestrator.alike import Group, group_of
from orchestrator.exit_codes import ALL_DONE, SYSTEM_FAILED
from orchestrator.job import GETTING_READY
from orchestrator.logs import ServiceLog
from orchestrator.service.conductor_process import ConductorProcess
from orchestrator.service.options import ServiceOptions
from orchestrator.service.sweep_queue import TO_RUN
from orchestrator.service.turns import LONGEST_REST_SECONDS, TURN_SECONDS, Candidate, Turns
from orchestrator.settings import Settings
from orchestrator.store.conducting import WaitingSweep
from orchestrator.store.owning import RUN_SWEEPS
from orchestrator.store.serving import OutlookRow
from orchestrator.store.store import Store
from orchestrator.tracker_process import TrackerProcess

DUTY = RUN_SWEEPS
DUTY_SECONDS = 15.0
RENEW_SECONDS = 3.0
TICK_SECONDS = 0.5
BUSY_TICK_SECONDS = 1.0

TIDY_SECONDS = 5.0
"""How often to look for reports that are missing, and for batches whose holder is dead."""

STUCK_SECONDS = 10.0
"""How long sweeps may find no worker before others are let in."""

LONGEST_START_SECONDS = 600.0
"""How long a group may take to get ready before its turn begins."""

RETELL_SECONDS = 30.0
TRACKER_IDLE_SECONDS = 60.0
TRACKER_GRACE_SECONDS = 3.0
END_SECONDS = 8.5
"""Within which everything is ended that was started."""

UNDRAWN_PRIORITY = -(2**31)
"""A report that is missing is drawn when there is nothing to run."""

ITS_TURN = "other sweeps are being run before it"


@contextmanager
def running_sweeps(settings: Settings, store: Store, options: ServiceOptions) -> Iterator[Supervisor | None]:
    """Have sweeps run, if `options` say so, until the block ends."""
    if not options.runs_sweeps:
        yield None
        return
    supervisor = Supervisor(settings, store)
    supervisor.start()
    try:
        yield supervisor
    finally:
        supervisor.end()


class Supervisor:
    """A thread that keeps a conductor at work while there is something to run, and a tracker while there is something
    to tell, as long as this process has the duty to."""

    def __init__(self, settings: Settings, store: Store, turn_seconds: float = TURN_SECONDS) -> None:
        self._settings = settings
        self._store = store
        self._log = ServiceLog(settings)
        self._turns = Turns(turn_seconds)
        self._conductor: ConductorProcess | None = None
        self._tracker: TrackerProcess | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="duties", daemon=True)
        self._holder: str | None = None
        self._on_duty = False
        self._held_until = self._renewed = self._tidied = self._told_last = float("-inf")
        self._undrawn: list[WaitingSweep] = []
        self._to_be_drawn: set[str] = set()
        self._given_up_drawing: set[str] = set()
        self._worked_since: float | None = None
        self._stuck_since: dict[str, float] = {}
        self._told_of_turn: dict[str, float] = {}
        self._is_away = False

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Begin to end: what runs is handed back. Returns at once."""
        self._stopped.set()

    def end(self) -> None:
        """End everything that was started, within seconds."""
        self.stop()
        self._thread.join(END_SECONDS + 1.0)  # what hangs longer, for want of a database, is left to the closing pipes

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.tick(time.monotonic())
                self._is_away = False
            except SQLAlchemyError as error:
                self._note_absence(error)
            except Exception as error:  # this thread is all there is to run sweeps: it goes on
                self._log.error("duties disturbed", message=f"{type(error).__name__}: {error}")
            self._stopped.wait(TICK_SECONDS if self._conductor is None else BUSY_TICK_SECONDS)
        self._end_all()

    def _note_absence(self, error: Exception) -> None:
        """The database is away for a moment, or for longer."""
        if not self._is_away:
            self._is_away = True
            self._log.warning("the database does not answer", message=str(error))
        if time.monotonic() > self._held_until:
            self._stand_by()

    def tick(self, now: float) -> None:
        """See to everything once; `now` is on the monotonic clock."""
        if not self._keep_duty(now):
            self._stand_by()
            return
        if now - self._tidied >= TIDY_SECONDS:
            self._tidied = now
            self._store.expire()
            self._undrawn = [one for one in self._store.undrawn() if one.id not in self._given_up_drawing]
        self._keep_tracker(now)
        self._keep_conductor(now)

    # -- the duty ----------------------------------------------------------------------------------------------------

    def _keep_duty(self, now: float) -> bool:
        """Take the duty, or keep it; whether this process has it."""
        if now - self._renewed >= RENEW_SECONDS:
            if self._holder is None:
                self._holder = self._store.register_orchestrator()
            self._renewed = now
            has_it = self._store.take_duty(DUTY, self._holder, DUTY_SECONDS)
            if has_it:
                self._held_until = now + DUTY_SECONDS
            if has_it != self._on_duty:
                self._log.info("on duty: runs sweeps" if has_it else "stands by: another process runs sweeps")
            self._on_duty = has_it
        return self._on_duty

    def _stand_by(self) -> None:
        """Another process has the duty, or may have it."""
        self._on_duty = False
        if self._conductor is not None:
            self._conductor.leave()
            if self._conductor.exit_code is not None:
                self._conductor = None
        if self._tracker is not None:
            self._tracker.leave()
            self._tracker = None

    # -- the tracker -------------------------------------------------------------------------------------------------

    def _keep_tracker(self, now: float) -> None:
        """Have what MLflow is to hear told, whoever brought it about."""
        if self._conductor is not None or self._store.sweeps_to_tell_of():
            self._told_last = now
        if self._tracker is None and now == self._told_last:
            self._tracker = TrackerProcess(self._settings, TRACKER_GRACE_SECONDS)
            self._log.info("tracker started", pid=self._tracker.pid)
        elif self._tracker is not None and not self._tracker.is_alive:
            self._log.warning("tracker ended", pid=self._tracker.pid)
            self._tracker = None
        elif self._tracker is not None and now - self._told_last > TRACKER_IDLE_SECONDS:
            self._tracker.leave()
            self._tracker = None

    # -- the conductor -----------------------------------------------------------------------------------------------

    def _keep_conductor(self, now: float) -> None:
        """Have those sweeps run whose turn it is."""
        if self._conductor is not None and self._conductor.exit_code is not None:
            self._bury(self._conductor, self._conductor.exit_code, now)
        candidates = self._candidates()
        present = self._conductor
        if present is not None:
            self._look_at_work(present, candidates, now)
        group, since = None, now
        if present is not None:
            group, since = present.group, self._worked_since or min(now, present.since + LONGEST_START_SECONDS)
        chosen = self._turns.choose(candidates, group, since, now)
        if present is None and chosen is not None:
            self._conductor = ConductorProcess(self._settings, chosen)
            self._to_be_drawn = {one.id for one in self._undrawn if group_of(one) == chosen}
            waiting = [one.id for one in candidates if one.group == chosen]
            self._log.info("conductor started", pid=self._conductor.pid, sweeps=waiting[:20], count=len(waiting))
        elif present is not None and chosen not in (None, present.group) and not present.gives_way:
            present.give_way()
            self._log.info("conductor gives way", pid=present.pid)
        self._tell_of_turns(chosen if present is None else present.group, candidates, now)

    def _candidates(self) -> list[Candidate]:
        """What there is to run, or to draw, that no other process is at."""
        mine = set() if self._conductor is None else {self._conductor.pid}
        attended = {sweep for sweep, processes in self._store.attended().items() if processes - mine}
        attended |= self._store.owned(None if self._conductor is None else self._conductor.pid)
        found = [one for one in self._store.to_run(TO_RUN) if one.id not in attended]
        draws = [Candidate(one.id, group_of(one), UNDRAWN_PRIORITY, one.created) for one in self._undrawn]
        return [*(Candidate(one.id, group_of(one), one.priority, one.created) for one in found), *draws]

    def _bury(self, conductor: ConductorProcess, code: int, now: float) -> None:
        """A conductor has ended: as it should, or it has failed, and is started again after a while."""
        self._conductor = self._worked_since = None
        self._turns.end(conductor.group, now)
        self._stuck_since.clear()
        self._tidied = float("-inf")
        if code == ALL_DONE:
            self._turns.is_well(conductor.group)
            self._log.info("conductor ended", pid=conductor.pid)
            self._given_up_drawing |= self._to_be_drawn
            self._undrawn = [one for one in self._undrawn if one.id not in self._given_up_drawing]
            return
        if now - conductor.since > LONGEST_REST_SECONDS:
            self._turns.is_well(conductor.group)
        seconds = self._turns.rest(conductor.group, now)
        self._log.error("conductor failed", pid=conductor.pid, code=code, again_in=seconds)
        if code != SYSTEM_FAILED:  # else it has told why
            why = f"the process that runs it ended ({_told(code)}); it is tried again"
            self._tell([one.id for one in self._candidates() if one.group == conductor.group], why)

    def _look_at_work(self, present: ConductorProcess, candidates: Sequence[Candidate], now: float) -> None:
        """Notice when work begins, and sweeps that find no worker, while others wait that may."""
        mine = [one.id for one in candidates if one.group == present.group]
        if len(mine) == len(candidates):
            self._stuck_since.clear()
            return
        outlooks = self._store.outlooks(mine)
        at_work = self._store.leased(mine)
        if at_work and self._worked_since is None:
            self._worked_since = now  # getting ready may take longer than a turn
        self._turns.forget(at_work)
        told = {
            one
            for one, outlook in outlooks.items()
            if outlook.waiting and outlook.updated > present.began and not outlook.waiting.startswith(GETTING_READY)
        }
        stuck = told - at_work
        self._stuck_since = {one: self._stuck_since.get(one, now) for one in stuck}
        long = [one for one, since in self._stuck_since.items() if now - since > STUCK_SECONDS]
        self._turns.shelve([one for one in long if not self._turns.is_shelved(one, now)], now)

    def _tell_of_turns(self, group: Group | None, candidates: Sequence[Candidate], now: float) -> None:
        """Say of sweeps that could run, if others did not, that they wait for their turn."""
        waiting = [
            one.id
            for one in candidates
            if one.group != group and one.priority != UNDRAWN_PRIORITY and self._turns.may_run(one, now)
        ]
        self._told_of_turn = {one: self._told_of_turn[one] for one in waiting if one in self._told_of_turn}
        news = [one for one in waiting if now - self._told_of_turn.get(one, float("-inf")) > RETELL_SECONDS]
        self._tell(news, ITS_TURN)
        self._told_of_turn |= dict.fromkeys(news, now)

    def _tell(self, sweeps: Sequence[str], why: str) -> None:
        self._store.set_outlooks([OutlookRow(one, time.time(), waiting=why) for one in sweeps])

    # -- the end -----------------------------------------------------------------------------------------------------

    def _end_all(self) -> None:
        """End in order: what runs is handed back, MLflow hears of what it can, another replica may take over."""
        self._log.info("service ends")
        until = time.monotonic() + END_SECONDS
        if self._conductor is not None:
            self._conductor.end(END_SECONDS)
        if self._tracker is not None:
            self._tracker.end(max(0.5, until - time.monotonic()))
        try:
            if self._holder is not None:
                self._store.leave_duty(DUTY, self._holder)
        except SQLAlchemyError as error:
            self._log.warning("the duty could not be left", message=str(error))


def _told(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
