"""What the service needs of a store, as tests: subclass `ServiceContract` as `orchestrator.store.contract` tells."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from sqlalchemy import select, update

from orchestrator.errors import NotThereError
from orchestrator.store import schema
from orchestrator.store.browsing import FailureRow, Shape
from orchestrator.store.contract import (
    CODE,
    WORKER,
    asked,
    dead_orchestrator,
    failure,
    new_sweep,
    result,
    trials_of,
    with_worker,
)
from orchestrator.store.records import Counts
from orchestrator.store.serving import OutlookRow
from orchestrator.store.states import EventKind, Role, SweepState
from orchestrator.store.store import Store
from orchestrator.store.submitting import AskedSweep, TrialAsked

HOOK = "http://example.org #1"


class ServiceContract:
    """What every backend must do for the service."""

    def test_a_token_holds_until_it_is_revoked_or_runs_out(self, store: Store) -> None:
        """And only its hash is stored."""
        row, secret = store.create_token("ada", Role.SUBMITTER)
        brief, brief_secret = store.create_token("bob", Role.VIEWER, -1.0)
        found = store.token_of(secret)
        assert found is not None
        assert (found.id, found.user, found.role, found.state) == (row.id, "ada", Role.SUBMITTER, "active")
        assert store.token_of(brief_secret) is None
        assert store.token_of(secret[:-1]) is None
        with store.engine.connect() as connection:
            stored = str(connection.execute(select(schema.tokens)).all())
        assert secret not in stored
        assert store.revoke_token(row.id).state == "revoked"
        assert store.token_of(secret) is None
        assert {one.id: one.state for one in store.tokens()} == {row.id: "revoked", brief.id: "expired"}
        assert next(one.last_used for one in store.tokens() if one.id == row.id) is not None
        told = None
        try:
            store.revoke_token("nobody")
        except NotThereError as error:
            told = str(error)
        assert told == "there is no token `nobody`: `slotsweep token list` lists them"

    def test_a_session_ends_with_its_token(self, store: Store) -> None:
        """Or when it is closed, or has run out."""
        row, _ = store.create_token("ada", Role.ADMIN)
        secrets = [store.open_session(row.id, seconds) for seconds in (60, 60, 60, -1)]
        assert [store.session_token(secret) is not None for secret in secrets] == [True, True, True, False]
        store.close_session(secrets[0])
        assert [store.session_token(secret) is not None for secret in secrets] == [False, True, True, False]
        store.revoke_token(row.id)
        assert all(store.session_token(secret) is None for secret in secrets)

    def test_one_process_at_a_time_has_a_duty(self, store: Store) -> None:
        """Its lease is renewed, runs out, is given back, or ends with the process."""
        one, two = store.register_orchestrator(), store.register_orchestrator()
        assert store.take_duty("run sweeps", one, 60)
        assert store.take_duty("run sweeps", one, 60)
        assert not store.take_duty("run sweeps", two, 60)
        assert store.take_duty("something else", two, 60)
        store.leave_duty("run sweeps", two)
        assert not store.take_duty("run sweeps", two, 60)
        assert store.take_duty("run sweeps", one, -1)
        assert store.take_duty("run sweeps", two, 60)
        store.leave_duty("run sweeps", two)
        assert store.take_duty("run sweeps", dead_orchestrator(store), 60)
        assert store.take_duty("run sweeps", one, 60)

    def test_the_latest_outlook_is_kept(self, store: Store) -> None:
        """One a sweep."""
        sweep = store.submit(new_sweep(), asked(1, 1)).sweep
        assert store.outlooks([sweep]) == {}
        store.set_outlook(OutlookRow(sweep, 1.0, waiting="no worker"))
        store.set_outlook(OutlookRow(sweep, 2.0, seconds_left=5.0))
        assert store.outlooks([sweep, "another"]) == {sweep: OutlookRow(sweep, 2.0, 5.0)}
        other = store.submit(new_sweep(), asked(1, 1)).sweep
        store.set_outlooks([OutlookRow(sweep, 3.0, waiting="its turn"), OutlookRow(other, 3.0, growth="one of two")])
        store.set_outlooks([])
        assert store.outlooks([sweep, other]) == {
            sweep: OutlookRow(sweep, 3.0, waiting="its turn"),
            other: OutlookRow(other, 3.0, growth="one of two"),
        }

    def test_pages_are_told_how_a_sweep_is_built_and_why_trials_failed(self, store: Store) -> None:
        """Failures by reason and message, with the first trial of each."""
        with_worker(store)
        text = replace(new_sweep(), spec={"name": "name", "description": "What it is."})
        sweep = store.submit(text, asked(2, 3)).sweep
        assert (store.sweep_text(sweep).description, store.sweep_text(sweep).spec) == ("What it is.", "name: name")
        assert store.shape(sweep) == Shape(2, 3, {"cpu": 6})
        lease = store.claim(sweep, trials_of(store, sweep), WORKER, 60)
        assert lease is not None
        assert store.batches(sweep) == (1, 1)
        good, *bad = lease.trials
        told = [replace(failure(trial), message=f"boom {index % 2}") for index, trial in enumerate(bad)]
        store.accept(lease.attempt, WORKER, [result(good), *told])
        assert store.failures(sweep) == [
            FailureRow("user_error", "boom 0", 3, bad[0], 1),
            FailureRow("user_error", "boom 1", 2, bad[1], 2),
        ]
        assert store.batches(sweep) == (1, 0)

    def test_time_without_a_batch_counts_for_nothing(self, store: Store) -> None:
        """Nor does that of several batches at once count twice; an open one counts until now."""
        with_worker(store)
        sweep = store.submit(new_sweep(), asked(2, 3)).sweep
        assert store.computing_seconds(sweep) == 0.0
        spans = [(0.0, 10.0), (2.0, 3.0), (8.0, 12.0), (100.0, 105.0), (time.time() - 50.0, None)]
        for (started, finished), trial in zip(spans, trials_of(store, sweep), strict=False):
            lease = store.claim(sweep, [trial], WORKER, 60)
            assert lease is not None
            columns, values = schema.attempts.c, {"started": started, "finished": finished}
            with store.engine.begin() as connection:
                connection.execute(update(schema.attempts).where(columns.id == lease.attempt).values(**values))
        assert 67.0 <= store.computing_seconds(sweep) < 77.0

    def test_sweeps_are_found_by_words_in_their_name(self, store: Store) -> None:
        """Or by the beginning of their id; nothing in the words is a pattern."""
        changed = [store.last_change()]
        names = ("recall 100%", "recall_all", "Cost")
        ids = [store.submit(replace(new_sweep(), name=name), asked(1, 1)).sweep for name in names]
        changed.append(store.last_change())
        found = {words: {one.name for one in store.statuses(words=words)} for words in ("cost", "RECALL", "0%", "l_a")}
        assert found == {"cost": {"Cost"}, "RECALL": set(names[:2]), "0%": {names[0]}, "l_a": {names[1]}}
        assert [one.id for one in store.statuses(words=ids[0])] == [ids[0]]
        assert [store.count_sweeps(words=words) for words in ("", "recall", "%")] == [3, 2, 1]
        store.set_sweep_state(ids[0], SweepState.CANCELLED)
        assert len({*changed, store.last_change()}) == 3

    def test_what_there_is_to_run_comes_by_priority_and_age(self, store: Store) -> None:
        """With what tells which sweeps run together."""
        plain = store.submit(new_sweep(), asked(1, 1)).sweep
        spec = {"name": "name", "plugins": ["rules.py"]}
        urgent = store.submit(replace(new_sweep(), priority=3, user="ada", spec=spec), asked(1, 1)).sweep
        done = store.submit(new_sweep(), asked(1, 1)).sweep
        store.set_sweep_state(done, SweepState.CANCELLED)
        found = store.to_run([SweepState.QUEUED, SweepState.RUNNING])
        assert [(one.id, one.plugins, one.user, one.priority) for one in found] == [
            (urgent, ("rules.py",), "ada", 3),
            (plain, (), None, 0),
        ]
        assert {(one.code, one.kind, one.state) for one in found} == {(CODE.digest, "frontier", SweepState.QUEUED)}
        store.set_sweep_state(urgent, SweepState.RUNNING)
        assert [one.id for one in store.to_run([SweepState.QUEUED])] == [plain]

    def test_a_state_changes_only_from_the_one_it_was_seen_in(self, store: Store) -> None:
        """Who paused a sweep meanwhile is not overruled."""
        sweep = store.submit(new_sweep(), asked(1, 1)).sweep
        store.set_sweep_state(sweep, SweepState.PAUSED)
        assert not store.set_sweep_state(sweep, SweepState.RUNNING, was=SweepState.QUEUED)
        assert store.sweep(sweep).state == SweepState.PAUSED
        assert store.set_sweep_state(sweep, SweepState.RUNNING, was=SweepState.PAUSED)

    def test_sweeps_are_attended_by_living_processes_that_hold_their_batches(self, store: Store) -> None:
        """Not by those that are dead, nor by those that hold nothing any more."""
        with_worker(store)
        mine, left = (store.submit(new_sweep(use_cache=False), asked(1, 1)).sweep for _ in range(2))
        lease = store.claim(mine, trials_of(store, mine), WORKER, 60, store.register_orchestrator())
        store.claim(left, trials_of(store, left), WORKER, 60, dead_orchestrator(store))
        assert store.attended() == {mine: {os.getpid()}}
        assert store.leased([mine, left, "another"]) == {mine, left}
        assert lease is not None
        store.accept(lease.attempt, WORKER, [result(trial) for trial in lease.trials])
        assert store.attended() == {}
        assert store.leased([mine]) == set()

    def test_why_a_sweep_is_paused_is_told_until_it_is_resumed(self, store: Store) -> None:
        """And not of one that its user pauses."""
        sweep = store.submit(new_sweep(), asked(1, 1)).sweep
        store.set_outlook(OutlookRow(sweep, 1.0, 5.0, "no node has cuda"))
        store.set_sweep_state(sweep, SweepState.PAUSED)
        assert store.status(sweep).waiting is None
        store.set_sweep_state(sweep, SweepState.QUEUED)
        store.set_sweep_state(sweep, SweepState.PAUSED, why="its data are gone")
        assert (store.status(sweep).waiting, store.status(sweep).seconds_left) == ("its data are gone", None)
        store.set_sweep_state(sweep, SweepState.QUEUED)
        assert store.status(sweep).waiting is None

    def test_a_sweep_is_one_orchestrators_from_its_submission_on(self, store: Store) -> None:
        """Until it leaves it, or is dead."""
        mine, other = store.register_orchestrator(), store.register_orchestrator()
        [submitted] = store.submit_all([AskedSweep(new_sweep(), asked(1, 1), {})], owner=mine)
        sweep = submitted.sweep
        assert store.owned() == store.owned(os.getpid() + 1) == {sweep}
        assert store.owned(os.getpid()) == set()
        assert not store.is_served()
        assert not store.own_sweep(sweep, other)
        store.keep_sweeps(mine)
        store.leave_sweep(sweep, other)
        assert store.own_sweep(sweep, mine)
        store.leave_sweeps(mine)
        assert store.own_sweep(sweep, dead_orchestrator(store))
        assert store.owned() == set()
        assert store.own_sweep(sweep, other)
        assert store.duties() == []

    def test_several_sweeps_are_submitted_together_or_not_at_all(self, store: Store) -> None:
        def broken() -> Iterator[TrialAsked]:
            yield from asked(1, 1)
            raise ArithmeticError

        with suppress(ArithmeticError):
            store.submit_all([AskedSweep(new_sweep(), asked(1, 1), {}), AskedSweep(new_sweep(), broken(), {})])
        assert store.sweeps() == []

    def test_a_request_that_comes_again_submits_nothing(self, store: Store) -> None:
        wanted = [AskedSweep(new_sweep(use_cache=False), asked(1, seeds), {}) for seeds in (2, 3)]
        first = store.submit_all(wanted, key="ada's request")
        assert store.submit_all(wanted, key="ada's request") == first
        assert [one.trials for one in first] == [2, 3]
        assert len(store.sweeps()) == 2
        assert len(store.submit_all(wanted, key="another") + first) == 4

    def test_others_write_while_a_sweep_is_planned(self, store: Store) -> None:
        """And a trial that they spoil is computed anew."""

        def planned() -> Iterator[TrialAsked]:
            yield from asked(1, 2000)
            other.set_sweep_state(before, SweepState.CANCELLED)
            other.cancel_pending(before)
            yield from list(asked(1, 2001))[2000:]

        other = Store(store.engine)
        before = store.submit(new_sweep(), asked(1, 3)).sweep
        submitted = store.submit(new_sweep(), planned())
        assert submitted.trials == 2001
        assert store.sweep(submitted.sweep).counts == Counts(pending=2001)

    def test_reports_are_missed_of_ended_sweeps_that_have_results(self, store: Store) -> None:
        """Until one is drawn."""
        with_worker(store)
        sweep, empty = (store.submit(new_sweep(use_cache=False), asked(1, 2)).sweep for _ in range(2))
        lease = store.claim(sweep, trials_of(store, sweep)[:1], WORKER, 60)
        assert lease is not None
        store.accept(lease.attempt, WORKER, [result(trial) for trial in lease.trials])
        assert store.undrawn() == []
        for one in (sweep, empty):
            store.set_sweep_state(one, SweepState.CANCELLED)
        assert [one.id for one in store.undrawn()] == [sweep]
        store.set_report(sweep, "report.html")
        assert store.undrawn() == []

    def test_events_are_noted_with_what_happens(self, store: Store) -> None:
        """Once each, in order."""
        with_worker(store)
        first, second = (store.submit(new_sweep(), asked(1, 1)).sweep for _ in range(2))
        assert store.set_sweep_state(first, SweepState.CANCELLED)
        assert not store.set_sweep_state(first, SweepState.CANCELLED)
        store.set_worker_state(WORKER, "quarantined")
        store.set_worker_state(WORKER, "quarantined")
        store.set_sweep_state(second, SweepState.RUNNING)
        told = [(one.kind, one.sweep, one.worker) for one in store.events(0, 10)]
        assert told == [(EventKind.CANCELLED, first, None), (EventKind.QUARANTINED, None, WORKER)]
        [later] = store.events(store.events(0, 1)[0].id, 10)
        assert later.kind == EventKind.QUARANTINED

    def test_a_webhook_hears_of_every_event_after_it_was_added(self, store: Store) -> None:
        """Until it took it, or no further attempt is to be made."""
        sweeps = [store.submit(new_sweep(), asked(1, 1)).sweep for _ in range(3)]
        store.set_sweep_state(sweeps[0], SweepState.CANCELLED)
        store.add_webhook(HOOK)
        store.set_sweep_state(sweeps[1], SweepState.CANCELLED)
        store.set_sweep_state(sweeps[2], SweepState.CANCELLED)
        store.add_webhook(HOOK)
        first, second = store.due_deliveries([HOOK], 10)
        assert [first.event.sweep, second.event.sweep] == sweeps[1:]
        assert store.due_deliveries(["http://example.org #2"], 10) == []
        store.note_delivery(first, None, None)
        store.note_delivery(second, "refused", 0.0)
        [again] = store.due_deliveries([HOOK], 10)
        assert (again.event, again.attempts, again.error) == (second.event, 1, "refused")
        store.note_delivery(again, "refused again", None)
        assert store.due_deliveries([HOOK], 10) == []
        with store.engine.begin() as connection:
            connection.execute(update(schema.deliveries).values(next_attempt=0.0))
        assert [one.attempts for one in store.due_deliveries([HOOK], 10)] == [1, 2]

    def test_what_became_of_events_is_told(self, store: Store) -> None:
        """The newest first; those never tried are not among them."""
        for hook in (HOOK, "another"):
            store.add_webhook(hook)
        for _ in range(2):
            store.set_sweep_state(store.submit(new_sweep(), asked(1, 1)).sweep, SweepState.CANCELLED)
        first, second = store.due_deliveries([HOOK], 10)
        store.note_delivery(first, "refused", 5.0)
        store.note_delivery(second, None, None)
        newest, oldest = store.told(10)
        assert (newest.event, newest.webhook, newest.attempts, newest.error) == (second.event, HOOK, 1, None)
        assert newest.delivered is not None
        assert (oldest.event, oldest.next_attempt, oldest.error) == (first.event, 5.0, "refused")
        assert store.told(1) == [newest]

    def test_events_that_a_webhook_has_done_with_are_skipped(self, store: Store) -> None:
        """But none that it has still to take, nor those of a moment ago."""
        store.add_webhook(HOOK)
        for _ in range(3):
            store.set_sweep_state(store.submit(new_sweep(), asked(1, 1)).sweep, SweepState.CANCELLED)
        first, second, third = store.due_deliveries([HOOK], 10)
        store.note_delivery(first, None, None)
        store.note_delivery(third, None, None)
        for before, since in ((0.0, 0), (first.event.at + 60, first.event.id)):
            store.skip_told(HOOK, before)
            assert _since(store) == since
        assert store.due_deliveries([HOOK], 10) == [second]
        store.note_delivery(second, "refused", None)
        store.skip_told(HOOK, first.event.at + 60)
        assert _since(store) == third.event.id


def _since(store: Store) -> int:
    with store.engine.connect() as connection:
        return int(connection.execute(select(schema.webhooks.c.since)).scalar_one())
