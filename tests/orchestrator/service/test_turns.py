"""Which group of sweeps runs, of several that cannot run together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.alike import Group, group_from
from orchestrator.service.turns import LONGEST_REST_SECONDS, TURN_SECONDS, Candidate, Turns

PLAIN = Group("code", (), "untimed")
TIMED = Group("code", (), "timed")
OTHER = Group("other", ("rules",), "untimed")


def sweep(name: str, group: Group, priority: int = 0, created: float = 0.0) -> Candidate:
    return Candidate(name, group, priority, created)


def test_a_group_is_told_to_another_process_as_text() -> None:
    assert group_from(str(OTHER)) == OTHER


def test_the_oldest_sweep_begins_and_nobody_waits_for_a_turn_alone() -> None:
    turns = Turns()
    waiting = [sweep("b", TIMED, created=2.0), sweep("a", PLAIN, created=1.0)]
    assert turns.choose([], None, 0.0, 0.0) is None
    assert turns.choose(waiting, None, 0.0, 0.0) == PLAIN
    assert turns.choose(waiting[1:], PLAIN, 0.0, 10 * TURN_SECONDS) == PLAIN


def test_equals_take_turns_of_a_stated_length() -> None:
    turns = Turns()
    waiting = [sweep("a", PLAIN, created=1.0), sweep("b", TIMED, created=2.0), sweep("c", OTHER, created=3.0)]
    present, since, order = PLAIN, 0.0, []
    for now in range(0, 1200, 5):
        chosen = turns.choose(waiting, present, since, float(now))
        if chosen is not None and chosen != present:
            turns.end(present, float(now))
            order.append((now, chosen))
            present, since = chosen, float(now)
    assert [when for when, _ in order] == [int(TURN_SECONDS) * turn for turn in range(1, 20)]
    assert [group for _, group in order[:6]] == [TIMED, OTHER, PLAIN] * 2


def test_a_higher_priority_goes_first_at_once_and_lower_ones_wait() -> None:
    turns = Turns()
    low, high = sweep("a", PLAIN), sweep("b", TIMED, priority=1, created=9.0)
    assert turns.choose([low, high], PLAIN, 0.0, 1.0) == TIMED
    assert turns.choose([low, high], TIMED, 1.0, 500.0) == TIMED
    assert turns.choose([low], TIMED, 1.0, 501.0) == PLAIN


def test_sweeps_without_workers_hold_up_nobody_who_can_run() -> None:
    """However high their priority; but they are tried again, less and less often, and at once if nobody else waits."""
    turns = Turns()
    stuck, other = sweep("stuck", PLAIN, priority=9), sweep("other", TIMED)
    tries = []
    turns.shelve(["stuck"], 0.0)
    assert turns.choose([stuck], None, 0.0, 0.0) == PLAIN
    for now in range(0, 3600, 10):
        if turns.choose([stuck, other], TIMED, 0.0, float(now)) == PLAIN:
            tries.append(now)
            turns.shelve(["stuck"], float(now))
    assert tries[:3] == [60, 180, 420]
    assert 600 <= tries[-1] - tries[-2] <= 610
    turns.forget(["stuck"])
    assert turns.choose([stuck, other], TIMED, 0.0, 3600.0) == PLAIN


def test_a_sweep_that_can_run_has_its_group_run_at_its_own_priority() -> None:
    turns = Turns()
    turns.shelve(["stuck"], 0.0)
    waiting = [sweep("stuck", PLAIN, priority=9), sweep("a", PLAIN), sweep("b", TIMED, priority=1)]
    assert turns.choose(waiting, PLAIN, 0.0, 1.0) == TIMED


def test_groups_that_fail_rest_for_growing_times() -> None:
    turns = Turns()
    waiting = [sweep("a", PLAIN)]
    now, rests = 0.0, []
    for _ in range(9):
        rests.append(turns.rest(PLAIN, now))
        assert turns.choose(waiting, None, 0.0, now) is None
        now += rests[-1]
        assert turns.choose(waiting, None, 0.0, now) == PLAIN
    assert rests == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *[LONGEST_REST_SECONDS] * 3]
    turns.is_well(PLAIN)
    assert turns.rest(PLAIN, now) == 1.0


@given(st.lists(st.tuples(st.sampled_from([PLAIN, TIMED, OTHER]), st.integers(0, 2)), min_size=1, max_size=8))
def test_no_group_of_the_highest_priority_waits_for_more_than_a_turn_of_each_other(
    sweeps: list[tuple[Group, int]],
) -> None:
    turns = Turns()
    waiting = [sweep(str(index), group, priority, float(index)) for index, (group, priority) in enumerate(sweeps)]
    top = max(one.priority for one in waiting)
    entitled = {one.group for one in waiting if one.priority == top}
    present, since, last = None, 0.0, dict.fromkeys(entitled, 0.0)
    for now in range(0, 1000, 5):
        chosen = turns.choose(waiting, present, since, float(now))
        assert chosen in entitled
        if chosen != present:
            if present is not None:
                turns.end(present, float(now))
            present, since = chosen, float(now)
        last[chosen] = float(now)
        assert all(now - then <= len(entitled) * (TURN_SECONDS + 5.0) for then in last.values())
