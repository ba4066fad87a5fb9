"""The store's contract as tests: subclass `StoreContract`, give it a `store` fixture, and a backend is checked.

class TestMyBackend(StoreContract):
    @pytest.fixture
    def store(self): ...
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

from sqlalchemy import update
from sqlalchemy.exc import DBAPIError

from orchestrator.code_snapshot import CodeSnapshot
from orchestrator.store import schema
from orchestrator.store.growing import GrownElsewhereError
from orchestrator.store.records import (
    Accepted,
    AttemptReport,
    CellRow,
    Claim,
    Counts,
    NewSweep,
    ProposalRow,
    TrialResult,
    Verdict,
)
from orchestrator.store.states import SweepState, TrialState
from orchestrator.store.store import Store

WORKER = "worker-1"
CODE = CodeSnapshot("digest", b"archive")


def cell(name: str = "a") -> CellRow:
    """A cell whose digest is `name`."""
    mechanism = {"name": "recency", "budget": 4, "tag": name}
    workload = {"name": "associative_recall", "items": 8}
    return CellRow(name, "frontier", workload, mechanism, 2, "float32", "cpu", "code")


def asked(cells: int = 2, seeds: int = 3) -> Iterator[tuple[CellRow, int, str]]:
    """Trials of `cells` cells with `seeds` seeds each, seed by seed."""
    for seed in range(seeds):
        for index in range(cells):
            yield cell(f"cell-{index}"), seed, f"cell-{index}:{seed}"


def new_sweep(*, use_cache: bool = True) -> NewSweep:
    """A sweep to submit."""
    return NewSweep("name", "frontier", {"name": "name"}, "name: name", None, CODE, {"slotsweep": "0"}, use_cache)


def result(trial: int, recall: float = 0.5) -> TrialResult:
    """A good result of `trial`."""
    return TrialResult(trial, {"recall": recall}, None, "", 1.0, 2.0, 1.0, 0.9, 1000)


def failure(trial: int, reason: str = "user_error") -> TrialResult:
    """A failed result of `trial`."""
    return TrialResult(trial, None, reason, "boom", 1.0, 2.0, 1.0, 0.9, 1000)


def with_worker(store: Store) -> Store:
    """`store` with a worker registered."""
    store.register_worker(WORKER, "machine", {"cpu_model": "x"}, executor="inline", device="cpu", pid=1)
    return store


def dead_orchestrator(store: Store) -> str:
    """An orchestrator whose process is gone: another one has its id since."""
    identity = store.register_orchestrator()
    with store.engine.begin() as connection:
        orchestrators = schema.orchestrators
        connection.execute(update(orchestrators).where(orchestrators.c.id == identity).values(process_started=-100.0))
    return identity


def trials_of(store: Store, sweep: str) -> list[int]:
    """Row ids of the sweep's pending trials."""
    return [pending.trial for pending in store.pending(sweep, -1, 10_000)]


class StoreContract:
    """What every backend must do."""

    def test_submitting_stores_every_trial_in_order(self, store: Store) -> None:
        """Positions follow the plan, and pages continue where the last one ended."""
        submitted = store.submit(new_sweep(), asked())
        first = store.pending(submitted.sweep, -1, 4)
        rest = store.pending(submitted.sweep, first[-1].position, 10)
        assert [pending.position for pending in first + rest] == list(range(6))
        assert [pending.seed for pending in first + rest] == [0, 0, 1, 1, 2, 2]
        waiting = [(one.first, one.last, one.trials) for one in store.waiting_cells(submitted.sweep)]
        assert waiting == [(0, 4, 3), (1, 5, 3)]
        assert store.sweep(submitted.sweep).counts == Counts(pending=6)
        assert len(store.cells(submitted.sweep)) == 2
        assert store.code(store.sweep(submitted.sweep)) == CODE

    def test_a_finished_trial_is_reused(self, store: Store) -> None:
        """A second sweep of the same keys has nothing left to compute."""
        with_worker(store)
        first = store.submit(new_sweep(), asked())
        lease = store.claim(first.sweep, trials_of(store, first.sweep), WORKER, 60)
        assert lease is not None
        store.accept(lease.attempt, WORKER, [result(trial) for trial in lease.trials])
        second = store.submit(new_sweep(), asked(seeds=4))
        assert (second.trials, second.reused) == (8, 6)
        assert len(trials_of(store, second.sweep)) == 2
        assert store.done_keys(key for _, _, key in asked(seeds=4)) == {key for _, _, key in asked()}

    def test_many_claims_are_granted_together_and_each_trial_once(self, store: Store) -> None:
        """Two workers that ask for one trial at once do not both have it; who comes too late has no attempt."""
        with_worker(store)
        sweep = store.submit(new_sweep(), asked(2, 3)).sweep
        trials = trials_of(store, sweep)
        claims = [
            Claim(sweep, trials_asked, WORKER)
            for trials_asked in (tuple(trials[:3]), tuple(trials[2:5]), tuple(trials[:2]), tuple(trials[5:]))
        ]
        first, second, third, fourth = store.claim_all(claims, 60)
        assert first is not None
        assert second is not None
        assert fourth is not None
        assert (first.trials, second.trials, third, fourth.trials) == (
            tuple(trials[:3]),
            tuple(trials[3:5]),
            None,
            tuple(trials[5:]),
        )
        assert first.attempt < second.attempt < fourth.attempt
        assert [(one.id, one.trials) for one in store.attempts_of(trials[3])] == [(second.attempt, 2)]
        assert store.claim_all(claims, 60) == [None] * 4
        assert store.attempt_numbers() == {("open", None): 3}

    def test_many_reports_are_taken_together_each_by_its_own_lease(self, store: Store) -> None:
        """What one attempt lost, or sent twice, takes nothing from the others."""
        with_worker(store)
        sweep = store.submit(new_sweep(), asked(2, 3)).sweep
        trials = trials_of(store, sweep)
        claims = [Claim(sweep, tuple(trials[start : start + 2]), WORKER) for start in (0, 2, 4)]
        leases = [lease.attempt for lease in store.claim_all(claims, 60) if lease is not None]
        store.lose(leases[1], "preempted")
        reports = [
            AttemptReport(leases[0], WORKER, (result(trials[0]), result(trials[5]))),
            AttemptReport(leases[1], WORKER, (result(trials[2]), result(trials[3])), "late"),
            AttemptReport(leases[2], WORKER, (result(trials[4]), failure(trials[5])), "a line", second_opinion=True),
            AttemptReport(leases[2], WORKER, (result(trials[5]),)),
        ]
        taken = [Accepted(1, 1, 0, 1), Accepted(stale=2), Accepted(1, 0, 1, 0), Accepted(stale=1)]
        assert store.accept_all(reports) == taken
        assert store.counts(sweep) == Counts(done=2, failed=1, pending=3)
        told = [notice.trial for notice in store.notices(sweep, 100) if notice.trial is not None]
        assert told == [trials[0], trials[4], trials[1]]
        assert store.accept_all(reports) == [Accepted(stale=len(report.results)) for report in reports]
        assert store.counts(sweep) == Counts(done=2, failed=1, pending=3)
        assert [one.log for one in store.attempts_of(trials[5])] == ["a line"]

    def test_many_attempts_are_given_up_together(self, store: Store) -> None:
        """Their trials wait again; one that has ended stays ended."""
        with_worker(store)
        sweep = store.submit(new_sweep(), asked(2, 3)).sweep
        trials = trials_of(store, sweep)
        claims = [Claim(sweep, tuple(trials[start : start + 2]), WORKER) for start in (0, 2, 4)]
        leases = [lease.attempt for lease in store.claim_all(claims, 60) if lease is not None]
        store.accept(leases[0], WORKER, [result(trial) for trial in trials[:2]])
        assert store.lose_all(leases, "preempted", "it was stopped") == Accepted(retried=4)
        assert store.counts(sweep) == Counts(done=2, pending=4)
        assert store.lose_all(leases, "preempted") == Accepted()

    def test_a_sweep_grows_by_trials_and_proposals_in_one_step(self, store: Store) -> None:
        """What is there already is shared, positions go on, and a verdict is noted with what follows from it."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 2))
        trials = [(cell("cell-9"), seed, f"cell-9:{seed}") for seed in (5, 6)]
        made = [ProposalRow(0, n, 0, {"mechanism.tau": n / 2}, {"trial": {"x": [n]}}, "cell-9") for n in (0, 1)]
        added = store.grow(submitted.sweep, trials, [(one, cell("cell-9")) for one in made])
        assert [(one.position, one.seed, one.state) for one in added] == [(2, 5, "pending"), (3, 6, "pending")]
        assert store.sweep(submitted.sweep).trials == 4
        assert store.grow(submitted.sweep, [], (), {(0, 1): Verdict("failed", "no metric")}) == []
        assert store.proposals(submitted.sweep) == [made[0], replace(made[1], state="failed", error="no metric")]
        lease = store.claim(submitted.sweep, [added[0].trial], WORKER, 60)
        assert lease is not None
        assert store.ended([one.trial for one in added]) == {}
        store.accept(lease.attempt, WORKER, [result(added[0].trial, 0.75)])
        assert store.ended([one.trial for one in added]) == {added[0].trial: {"recall": 0.75}}
        listed = store.sweep_trials(submitted.sweep)
        assert [one.position for one in listed] == [0, 1, 2, 3]
        assert [one.metrics for one in listed] == [None, None, {"recall": 0.75}, None]
        assert store.sweep_trials(submitted.sweep, [added[1].trial]) == [listed[3]]

    def test_a_trial_is_added_once_however_often_it_is_asked_for(self, store: Store) -> None:
        """The answer may have been lost: it is given again, in the order asked."""
        submitted = store.submit(new_sweep(), asked(1, 1))
        trials = [(cell("cell-9"), seed, f"cell-9:{seed}") for seed in range(4)]
        first = store.grow(submitted.sweep, trials[1:3])
        again = store.grow(submitted.sweep, trials)
        assert [one.seed for one in again] == [0, 1, 2, 3]
        assert again[1:3] == first
        assert store.sweep(submitted.sweep).trials == len(store.sweep_trials(submitted.sweep)) == 5

    def test_the_best_change_and_their_trials_are_told_again(self, store: Store) -> None:
        """Of a study whose best are others now, those before are told too."""
        with_worker(store)
        submitted = store.submit(new_sweep(), [])
        trials = [(cell(name), 0, f"{name}:0") for name in ("x", "y")]
        made = [(ProposalRow(0, number, 0, {}, {}, name), cell(name)) for number, name in enumerate(("x", "y"))]
        added = store.grow(submitted.sweep, trials, made)
        lease = store.claim(submitted.sweep, [one.trial for one in added], WORKER, 60)
        assert lease is not None
        store.accept(lease.attempt, WORKER, [result(trial) for trial in lease.trials])
        store.delivered([notice.id for notice in store.notices(submitted.sweep, 100)])
        told = []
        for best in ([0], [1]):
            store.grow(submitted.sweep, [], best={0: best})
            assert [one.number for one in store.proposals(submitted.sweep) if one.best] == best
            notices = store.notices(submitted.sweep, 100)
            told.append(sorted(notice.trial or 0 for notice in notices))
            store.delivered([notice.id for notice in notices])
        assert told == [[added[0].trial], [added[0].trial, added[1].trial]]
        assert [flag for _, _, flag in store.proposed_cells(submitted.sweep).values()] == [False, True]

    def test_a_decision_is_taken_once(self, store: Store) -> None:
        """The second process that comes to it adds nothing, neither the proposal nor its trials."""
        submitted = store.submit(new_sweep(), asked(1, 1))
        made = [(ProposalRow(0, 0, 0, {}, {}, "cell-9"), cell("cell-9"))]
        store.grow(submitted.sweep, [(cell("cell-9"), 0, "cell-9:0")], made)
        try:
            store.grow(submitted.sweep, [(cell("cell-9"), 1, "cell-9:1")], made)
        except GrownElsewhereError:
            refused = True
        else:
            refused = False
        assert refused
        assert store.sweep(submitted.sweep).trials == 2

    def test_a_sweep_that_ended_does_not_grow(self, store: Store) -> None:
        """A cancelled one has no trials that wait."""
        submitted = store.submit(new_sweep(), asked(1, 1))
        store.set_sweep_state(submitted.sweep, SweepState.CANCELLED)
        assert store.grow(submitted.sweep, [(cell("cell-9"), 0, "cell-9:0")]) == []
        assert store.sweep(submitted.sweep).trials == 1

    def test_without_cache_a_new_generation_is_computed_and_history_stays(self, store: Store) -> None:
        """Both generations have their own results."""
        with_worker(store)
        values = {}
        for recall in (0.25, 0.75):
            submitted = store.submit(new_sweep(use_cache=False), asked(1, 1))
            lease = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
            assert lease is not None
            store.accept(lease.attempt, WORKER, [result(trial, recall) for trial in lease.trials])
            values[recall] = submitted.sweep
        for recall, sweep in values.items():
            [row] = store.trial_rows(sweep)
            assert row["metrics"] == {"recall": recall}

    def test_series_come_back_as_they_were_given(self, store: Store) -> None:
        """And are absent where a trial has none."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 2))
        lease = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
        assert lease is not None
        bare, rich = lease.trials
        given = {"loss": [2.0, 0.5], "phase_slots": [36.0, 216.0]}
        store.accept(lease.attempt, WORKER, [result(bare), replace(result(rich), series=given)])
        assert [row["series"] for row in store.trial_rows(submitted.sweep)] == [None, given]

    def test_workers_are_listed_with_what_they_hold_and_have_done(self, store: Store) -> None:
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 3))
        first, *others = trials_of(store, submitted.sweep)
        lease = store.claim(submitted.sweep, [first], WORKER, 60)
        assert lease is not None
        store.accept(lease.attempt, WORKER, [replace(result(0), trial=first)])
        assert store.claim(submitted.sweep, others, WORKER, 60) is not None
        [worker] = store.workers()
        assert (worker.id, worker.device, worker.state, worker.record) == (WORKER, "cpu", "ready", {"cpu_model": "x"})
        assert (worker.batches, worker.trials, worker.done) == (1, 2, 1)
        store.see_workers([WORKER])
        assert store.workers()[0].last_seen > worker.last_seen
        store.retire_workers([WORKER])
        assert store.workers()[0].state == "stopped"
        store.set_worker_state(WORKER, "quarantined")
        store.retire_workers([WORKER])
        assert store.workers()[0].state == "quarantined"

    def test_a_result_keeps_what_it_cost_and_the_size_of_its_batch(self, store: Store) -> None:
        """Energy and the memory of a device where there are any; nothing, not 0, where there are none."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 3))
        *pair, alone = trials_of(store, submitted.sweep)
        measured = replace(result(0), energy_joules=1.5, device_memory_bytes=4096)
        for trials, told in ((pair, measured), ([alone], replace(result(0), energy_reason="too short"))):
            lease = store.claim(submitted.sweep, trials, WORKER, 60)
            assert lease is not None
            store.accept(lease.attempt, WORKER, [replace(told, trial=trial) for trial in trials])
        names = ("energy_joules", "energy_reason", "device_memory_bytes", "batch")
        kept = [tuple(row[name] for name in names) for row in store.trial_rows(submitted.sweep)]
        assert kept == [(1.5, None, 4096, 2), (1.5, None, 4096, 2), (None, "too short", None, 1)]

    def test_a_finished_generation_is_reused_though_a_newer_one_waits(self, store: Store) -> None:
        """Asking for a new computation takes nothing from those who are content with the old one."""
        with_worker(store)
        first = store.submit(new_sweep(), asked(1, 1))
        lease = store.claim(first.sweep, trials_of(store, first.sweep), WORKER, 60)
        assert lease is not None
        store.accept(lease.attempt, WORKER, [result(lease.trials[0])])
        assert store.submit(new_sweep(use_cache=False), asked(1, 1)).reused == 0
        assert store.submit(new_sweep(), asked(1, 1)).reused == 1
        assert len(store.done_keys(key for _, _, key in asked(1, 1))) == 1

    def test_a_pending_trial_of_two_sweeps_is_computed_once(self, store: Store) -> None:
        """The row is shared, and both sweeps see its result and hear of it."""
        with_worker(store)
        first, second = store.submit(new_sweep(), asked(1, 1)), store.submit(new_sweep(), asked(1, 1))
        lease = store.claim(first.sweep, trials_of(store, first.sweep), WORKER, 60)
        assert lease is not None
        assert trials_of(store, second.sweep) == []
        store.accept(lease.attempt, WORKER, [result(lease.trials[0])])
        for sweep in (first.sweep, second.sweep):
            assert store.counts(sweep) == Counts(done=1)
            assert [notice.trial for notice in store.notices(sweep, 10)] == [None, lease.trials[0]]

    def test_a_trial_is_leased_to_one_attempt_at_a_time(self, store: Store) -> None:
        """Claims that race share the trials out, each to one."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(10, 10))
        trials = trials_of(store, submitted.sweep)
        leases = []
        racers = [
            threading.Thread(target=lambda: leases.append(store.claim(submitted.sweep, trials, WORKER, 60)))
            for _ in range(4)
        ]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        taken = [trial for lease in leases if lease is not None for trial in lease.trials]
        assert sorted(taken) == sorted(trials)

    def test_a_repeated_result_changes_nothing(self, store: Store) -> None:
        """The second delivery is counted as stale and dropped."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 2))
        lease = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
        assert lease is not None
        assert store.accept(lease.attempt, WORKER, [result(t, 0.5) for t in lease.trials]).done == 2
        assert store.accept(lease.attempt, WORKER, [result(t, 0.9) for t in lease.trials]).stale == 2
        assert {row["metrics"]["recall"] for row in store.trial_rows(submitted.sweep)} == {0.5}
        assert len(store.notices(submitted.sweep, 10)) == 3

    def test_a_late_result_of_a_lost_attempt_changes_nothing(self, store: Store) -> None:
        """The trial belongs to the attempt that holds it now."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 1))
        first = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
        assert first is not None
        assert store.lose(first.attempt, "worker_lost").retried == 1
        second = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
        assert second is not None
        assert second.attempt > first.attempt
        assert store.accept(first.attempt, WORKER, [result(first.trials[0], 0.1)]).stale == 1
        assert store.accept(second.attempt, WORKER, [result(second.trials[0], 0.9)]).done == 1
        [row] = store.trial_rows(submitted.sweep)
        assert (row["metrics"], row["attempts"]) == ({"recall": 0.9}, 2)

    def test_an_expired_lease_gives_its_trials_back(self, store: Store) -> None:
        """Renewed leases stay."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(2, 1))
        trials = trials_of(store, submitted.sweep)
        short = store.claim(submitted.sweep, trials[:1], WORKER, -1)
        kept = store.claim(submitted.sweep, trials[1:], WORKER, -1)
        assert short is not None
        assert kept is not None
        store.renew([kept.attempt], 60)
        assert store.expire() == 1
        assert trials_of(store, submitted.sweep) == trials[:1]

    def test_infrastructure_failures_are_retried_a_few_times(self, store: Store) -> None:
        """Then the trial fails with its reason."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 1))
        for _ in range(new_sweep().infrastructure_retries + 1):
            lease = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
            assert lease is not None
            store.lose(lease.attempt, "worker_lost", "gone")
        assert store.counts(submitted.sweep) == Counts(failed=1)
        [row] = store.trial_rows(submitted.sweep)
        assert (row["state"], row["reason"], row["message"]) == ("failed", "worker_lost", "gone")

    def test_a_failing_trial_fails_alone(self, store: Store) -> None:
        """One of a batch fails, one is missing from the report, one is done."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(3, 1))
        lease = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
        assert lease is not None
        good, bad, silent = lease.trials
        accepted = store.accept(lease.attempt, WORKER, [result(good), failure(bad, "not_a_number")])
        assert (accepted.done, accepted.failed) == (1, 2)
        reasons = {row["id"]: row["reason"] for row in store.trial_rows(submitted.sweep)}
        assert reasons == {good: None, bad: "not_a_number", silent: "no_result"}

    def test_a_failed_trial_is_computed_anew_by_the_next_sweep(self, store: Store) -> None:
        """The first sweep keeps its failure."""
        with_worker(store)
        first = store.submit(new_sweep(), asked(1, 1))
        lease = store.claim(first.sweep, trials_of(store, first.sweep), WORKER, 60)
        assert lease is not None
        store.accept(lease.attempt, WORKER, [failure(lease.trials[0])])
        second = store.submit(new_sweep(), asked(1, 1))
        assert store.counts(first.sweep) == Counts(failed=1)
        assert store.counts(second.sweep) == Counts(pending=1)

    def test_only_allowed_changes_of_state_happen(self, store: Store) -> None:
        """A change that is not allowed leaves the sweep as it was."""
        submitted = store.submit(new_sweep(), asked(1, 1))
        assert not store.set_sweep_state(submitted.sweep, SweepState.DONE)
        assert store.sweep(submitted.sweep).state == SweepState.QUEUED
        for state in (SweepState.RUNNING, SweepState.PAUSED, SweepState.RUNNING):
            assert store.set_sweep_state(submitted.sweep, state)
        assert not store.set_sweep_state(submitted.sweep, SweepState.DONE), "a trial still waits"
        store.cancel_pending(submitted.sweep)
        assert store.set_sweep_state(submitted.sweep, SweepState.DONE)
        assert not store.set_sweep_state(submitted.sweep, SweepState.RUNNING)
        assert store.sweep(submitted.sweep).finished is not None

    def test_cancelling_spares_trials_that_another_sweep_waits_for(self, store: Store) -> None:
        """Only the cancelled sweep's own trials are cancelled."""
        first, second = store.submit(new_sweep(), asked(2, 1)), store.submit(new_sweep(), asked(1, 1))
        assert store.cancel_pending(first.sweep) == 1
        assert store.counts(first.sweep) == Counts(pending=1, cancelled=1)
        assert store.counts(second.sweep) == Counts(pending=1)

    def test_the_tracker_is_told_again_of_trials_and_of_those_it_was_told_of_twice(self, store: Store) -> None:
        """What was once told again may have to be taken back; what waits to be told is not told twice."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 3))

        def told() -> list[int | None]:
            notices = store.notices(submitted.sweep, 100)
            store.delivered([notice.id for notice in notices])
            return sorted((notice.position for notice in notices if notice.trial is not None), key=str)

        lease = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
        assert lease is not None
        store.accept(lease.attempt, WORKER, [result(trial) for trial in lease.trials])
        store.tell_again(submitted.sweep, [0, 1, 2])
        assert told() == [0, 1, 2]
        store.tell_again(submitted.sweep, [1])
        assert told() == [1]
        store.tell_again(submitted.sweep, [2])
        assert told() == [1, 2]
        store.remind(submitted.sweep)
        assert [notice.trial for notice in store.notices(submitted.sweep, 100)] == [None]

    def test_notices_are_delivered_once_and_in_order(self, store: Store) -> None:
        """What was delivered is not offered again."""
        submitted = store.submit(new_sweep(), asked(1, 1))
        store.set_sweep_state(submitted.sweep, SweepState.RUNNING)
        first, second = store.notices(submitted.sweep, 10)
        assert first.id < second.id
        store.delivered([first.id])
        assert store.notices(submitted.sweep, 10) == [second]
        assert store.undelivered(submitted.sweep) == 1

    def test_a_refused_notice_is_kept_with_its_reason(self, store: Store) -> None:
        """It is offered again only when refusals are forgotten, and counts as undelivered."""
        submitted = store.submit(new_sweep(), asked(1, 1))
        [notice] = store.notices(submitted.sweep, 10)
        store.refuse(notice.id, "no such place")
        assert store.notices(submitted.sweep, 10) == []
        assert store.sweeps_to_tell_of() == []
        assert (store.undelivered(submitted.sweep), store.refusal(submitted.sweep)) == (1, "no such place")
        store.forget_refusals()
        assert store.notices(submitted.sweep, 10) == [notice]
        assert store.refusal(submitted.sweep) is None

    def test_hardware_is_known_for_each_result(self, store: Store) -> None:
        """The machine that computed a trial is named in its row and in the sweep's list."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 1))
        assert store.hardware_of(submitted.sweep) == []
        lease = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
        assert lease is not None
        store.accept(lease.attempt, WORKER, [result(lease.trials[0])])
        assert store.hardware_of(submitted.sweep) == [{"cpu_model": "x"}]
        [row] = store.trial_rows(submitted.sweep)
        assert store.hardware_records()[row["hardware"]] == {"cpu_model": "x"}

    def test_a_trial_that_failed_names_where_and_when_it_ran(self, store: Store) -> None:
        """Machine, worker, batch and times are those of the last attempt; one that was never begun has none."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 2))
        failed, never = trials_of(store, submitted.sweep)
        lease = store.claim(submitted.sweep, [failed], WORKER, 60)
        assert lease is not None
        store.accept(lease.attempt, WORKER, [failure(failed)])
        store.set_sweep_state(submitted.sweep, SweepState.CANCELLED)
        assert store.cancel_pending(submitted.sweep) == 1
        ran, unbegun = store.trial_rows(submitted.sweep)
        [attempt] = store.attempts_of(failed)
        assert (ran["worker"], ran["batch"], ran["hardware"]) == (WORKER, 1, "machine")
        assert (ran["started"], ran["finished"]) == (attempt.started, attempt.finished)
        assert unbegun["id"] == never
        assert {unbegun[name] for name in ("worker", "batch", "hardware", "started", "finished")} == {None}
        assert store.hardware_of(submitted.sweep) == [{"cpu_model": "x"}]

    def test_costs_are_told_by_cell_and_by_stream(self, store: Store) -> None:
        """What is a trial's own, what trials of a seed share, and how long workers took to start."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(2, 2))
        lease = store.claim(
            submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60, store.register_orchestrator()
        )
        assert lease is not None
        own = [0.25, 0.75, 0.5, None]
        results = [
            replace(result(t), wall_seconds=2.0, own_seconds=2 * s if s else None, cpu_seconds=1.0)
            for t, s in zip(lease.trials, own, strict=True)
        ]
        store.accept(lease.attempt, WORKER, results)
        second, first = store.cell_costs({"recency", "h2o"}, 10)
        assert (first.cell, first.device, first.trials, first.attempts) == (cell("cell-0"), "cpu", 2, 1)
        assert (first.wall_seconds, first.own_seconds, first.peak_memory_bytes) == (1.0, 0.375, 1000)
        assert (second.cell.digest, second.own_seconds) == ("cell-1", 0.75)
        assert [one.cell.digest for one in store.cell_costs({"recency"}, 1)] == ["cell-1"]
        assert store.cell_costs({"h2o"}, 10) == store.cell_costs((), 10) == []
        [shared] = store.stream_costs(10)
        assert (shared.cell.digest, shared.device, shared.runs) == ("cell-0", "cpu", 2)
        assert shared.seconds == (0.75 + 0.25 + 0.5) / 2
        assert store.runs(5) == [], "nothing starts where everything runs in one process"
        assert store.crew_seen() == []
        orchestrator = store.register_orchestrator()
        store.register_worker("worker-2", "machine", {"cpu_model": "x"}, executor="ray", device="cpu", pid=2)
        again = store.submit(new_sweep(use_cache=False), asked(1, 2))
        for trial in trials_of(store, again.sweep):
            assert store.claim(again.sweep, [trial], "worker-2", 60, orchestrator) is not None
        [ran] = store.runs(5)
        assert 0.0 <= ran.start < 60.0
        assert (ran.trials, ran.beside) == (0, None), "nothing came back yet"
        [seen] = store.crew_seen()
        assert (seen.device, seen.workers, seen.machines) == ("cpu", 1, 1)

    def test_attempts_keep_their_history(self, store: Store) -> None:
        """Worker, reason, log and stale results of every attempt at a trial."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 1))
        first = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
        assert first is not None
        [trial] = first.trials
        store.lose(first.attempt, "worker_lost", "gone", log="last words")
        second = store.claim(submitted.sweep, [trial], WORKER, 60)
        assert second is not None
        store.accept(first.attempt, WORKER, [result(trial, 0.1)])
        store.accept(second.attempt, WORKER, [result(trial)], log="all well")
        store.accept(second.attempt, WORKER, [result(trial), result(trial)])
        history = store.attempts_of(trial)
        assert [(a.state, a.reason, a.worker, a.log, a.stale) for a in history] == [
            ("lost", "worker_lost", WORKER, "last words", 1),
            ("done", None, WORKER, "all well", 2),
        ]

    def test_the_database_itself_refuses_illegal_changes(self, store: Store) -> None:
        """Whoever writes: a finished trial stays finished, and nothing is done before it was leased."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 2))
        first, second = trials_of(store, submitted.sweep)
        lease = store.claim(submitted.sweep, [first], WORKER, 60)
        assert lease is not None
        store.accept(lease.attempt, WORKER, [result(first)])
        forbidden = [
            f"UPDATE trials SET state = 'pending' WHERE id = {first}",
            f"UPDATE trials SET state = 'done' WHERE id = {second}",
            f"UPDATE trials SET state = 'leased' WHERE id = {second}",
            f"UPDATE trials SET reason = 'bad luck' WHERE id = {second}",
            f"UPDATE sweeps SET state = 'done' WHERE id = '{submitted.sweep}'",
        ]
        for statement in forbidden:
            try:
                with store.engine.begin() as connection:
                    connection.exec_driver_sql(statement)
            except DBAPIError:
                continue
            raise AssertionError(f"the database took: {statement}")
        assert store.counts(submitted.sweep) == Counts(pending=1, done=1)

    def test_a_batch_out_of_memory_is_split_before_a_trial_is_blamed(self, store: Store) -> None:
        """Four, two, one at a time; then the trial fails, with its peak memory."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(4, 1))
        sizes = []
        while waiting := store.pending(submitted.sweep, -1, 10):
            limit = waiting[0].batch_limit or len(waiting)
            sizes.append(limit)
            lease = store.claim(submitted.sweep, [p.trial for p in waiting[:limit]], WORKER, 60)
            assert lease is not None
            store.accept(lease.attempt, WORKER, [failure(trial, "out_of_memory") for trial in lease.trials])
        assert sizes == [4, 2, 1, 1, 2, 1, 1]
        messages = {row["message"] for row in store.trial_rows(submitted.sweep)}
        assert store.counts(submitted.sweep) == Counts(failed=4)
        assert all("peak memory" in message for message in messages)

    def test_retries_of_code_failures_have_a_budget_of_their_own(self, store: Store) -> None:
        """Spending it leaves the other budget alone; a second opinion costs nothing of it."""
        with_worker(store)
        submitted = store.submit(replace(new_sweep(), code_retries=1), asked(1, 1))
        for second_opinion in (True, False):
            lease = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
            assert lease is not None
            accepted = store.accept(lease.attempt, WORKER, [failure(lease.trials[0])], second_opinion=second_opinion)
            assert accepted.retried == (1 if second_opinion else 0)
        assert store.counts(submitted.sweep) == Counts(failed=1)

    def test_preempted_work_is_given_back_without_spending_retries(self, store: Store) -> None:
        """However often it happens."""
        with_worker(store)
        submitted = store.submit(replace(new_sweep(), infrastructure_retries=0), asked(1, 1))
        for _ in range(5):
            lease = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
            assert lease is not None
            assert store.lose(lease.attempt, "preempted").retried == 1
        assert store.counts(submitted.sweep) == Counts(pending=1)

    def test_retrying_opens_a_new_generation_of_what_failed(self, store: Store) -> None:
        """What is done stays; the sweep is queued again; the failure stays in history."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(2, 1))
        lease = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
        assert lease is not None
        good, bad = lease.trials
        store.set_sweep_state(submitted.sweep, SweepState.RUNNING)
        store.accept(lease.attempt, WORKER, [result(good), failure(bad)])
        assert store.set_sweep_state(submitted.sweep, SweepState.FAILED)
        assert store.retry(submitted.sweep, [TrialState.FAILED]) == 1
        assert store.sweep(submitted.sweep).state == SweepState.QUEUED
        assert store.counts(submitted.sweep) == Counts(pending=1, done=1)
        assert {row["generation"] for row in store.trial_rows(submitted.sweep)} == {1, 2}
        [replaced] = store.replaced_rows(submitted.sweep, [good, bad])
        assert (replaced["id"], replaced["position"], replaced["state"]) == (bad, 1, TrialState.FAILED)
        assert store.notices(submitted.sweep, 10)[-2].trial == bad
        assert store.attempts_of(bad)[0].state == "done"

    def test_a_sweep_can_be_extended(self, store: Store) -> None:
        """New trials follow the old ones; those that exist are shared."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 2))
        added = store.extend(submitted.sweep, {"spec_text": "new"}, [t for t in asked(2, 2) if t[0] != cell("cell-0")])
        assert (added.trials, added.reused) == (2, 0)
        row = store.sweep(submitted.sweep)
        assert (row.trials, row.spec_text, row.counts) == (4, "new", Counts(pending=4))
        assert [key for _, _, key in store.asked(submitted.sweep)] == ["cell-0:0", "cell-0:1", "cell-1:0", "cell-1:1"]

    def test_the_time_of_workers_is_that_in_which_they_were_at_a_sweep(self, store: Store) -> None:
        """Batches that a worker holds are computed one after another; a lost one as long as the worker was seen."""
        with_worker(store)
        mine, other = (store.submit(new_sweep(use_cache=False), asked(2, 2)).sweep for _ in range(2))
        held = (mine, other, mine, mine)
        leases = [store.claim(sweep, trials_of(store, sweep)[:1], WORKER, 60) for sweep in held]
        attempts = [lease.attempt for lease in leases if lease is not None]
        assert len(attempts) == 4
        for attempt in attempts[:3]:
            store.accept(attempt, WORKER, [])
        store.lose(attempts[3], "worker_lost")
        columns = schema.attempts.c
        spans = [(100.0, 110.0), (100.0, 150.0), (100.0, 155.0), (160.0, 9000.0)]
        with store.engine.begin() as connection:
            for attempt, (started, finished) in zip(attempts, spans, strict=True):
                times = {"started": started, "finished": finished}
                connection.execute(update(schema.attempts).where(columns.id == attempt).values(**times))
            connection.execute(update(schema.workers).values(last_seen=180.0))
        assert store.worker_seconds(mine) == {"cpu": 10.0 + 5.0 + 20.0}
        assert store.worker_seconds(other) == {"cpu": 40.0}
        assert store.worker_seconds("none") == {}

    def test_the_leases_of_a_dead_orchestrator_expire_at_once(self, store: Store) -> None:
        """Those of a living one stay."""
        with_worker(store)
        submitted = store.submit(new_sweep(), asked(1, 2))
        first, second = trials_of(store, submitted.sweep)
        living, dead = store.register_orchestrator(), dead_orchestrator(store)
        store.claim(submitted.sweep, [first], WORKER, 60, living)
        store.claim(submitted.sweep, [second], WORKER, 60, dead)
        assert store.expire() == 1
        assert trials_of(store, submitted.sweep) == [second]

    def test_however_many_orchestrators_die_no_retry_is_spent(self, store: Store) -> None:
        """What they held waits again: their death is not the trials' fault."""
        with_worker(store)
        submitted = store.submit(replace(new_sweep(), infrastructure_retries=0), asked(1, 1))
        [trial] = trials_of(store, submitted.sweep)
        for _ in range(5):
            assert store.claim(submitted.sweep, [trial], WORKER, 60, dead_orchestrator(store)) is not None
            assert store.expire() == 1
        assert store.counts(submitted.sweep) == Counts(pending=1)
        assert {(a.state, a.reason) for a in store.attempts_of(trial)} == {("lost", "preempted")}

    def test_one_process_at_a_time_tells_the_tracker(self, store: Store) -> None:
        """Its lease is renewed, runs out, or is given back."""
        sweep = store.submit(new_sweep(), asked(1, 1)).sweep
        assert store.lease_tracking(sweep, "one", 60)
        assert store.lease_tracking(sweep, "one", 60)
        assert not store.lease_tracking(sweep, "two", 60)
        store.stop_tracking(sweep, "two")
        assert not store.lease_tracking(sweep, "two", 60)
        assert store.lease_tracking(sweep, "one", -1)
        assert store.lease_tracking(sweep, "two", 60)
        store.stop_tracking(sweep, "two")
        assert store.lease_tracking(sweep, "one", 60)
        assert store.sweeps_to_tell_of() == [sweep]

    def test_a_dead_process_does_not_keep_others_from_telling_the_tracker(self, store: Store) -> None:
        """A living one does."""
        sweep = store.submit(new_sweep(), asked(1, 1)).sweep
        assert store.lease_tracking(sweep, dead_orchestrator(store), 60)
        assert store.lease_tracking(sweep, store.register_orchestrator(), 60)
        assert not store.lease_tracking(sweep, "another", 60)

    def test_sweeps_wait_by_priority_then_by_age(self, store: Store) -> None:
        """The order in which a queue is worked off."""
        ids = [store.submit(replace(new_sweep(), priority=p), asked(1, 1)).sweep for p in (0, 5, 0, 5)]
        assert store.waiting_sweeps([SweepState.QUEUED]) == [ids[1], ids[3], ids[0], ids[2]]
        assert store.sweep_states(ids[:1]) == {ids[0]: SweepState.QUEUED}
