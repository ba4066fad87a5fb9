"""Fair shares of workers' time: who is served next, by examples and by simulated workers."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.shares import Shares, User


def serve(
    shares: Shares, lengths: dict[User, float], workers: int, start: float, seconds: float, begun: int = 0
) -> dict[User, float]:
    """Keep `workers` busy from `start` on, batch by batch, with users whose batches take so long; seconds each had."""
    busy: list[tuple[float, int, User]] = []
    had = dict.fromkeys(lengths, 0.0)
    now, attempt = start, begun
    shares.attend(lengths, now)
    while now < start + seconds:
        while len(busy) < workers:
            user = shares.order(list(lengths), now)[0]
            attempt += 1
            shares.begin(attempt, user, now)
            heapq.heappush(busy, (now + lengths[user], attempt, user))
        now, ended, user = heapq.heappop(busy)
        shares.end(ended, lengths[user], now)
        had[user] += lengths[user]
    for _, ended, _user in busy:
        shares.end(ended, 0.0, now)
    return had


def test_batches_handed_out_at_one_moment_are_shared_too() -> None:
    """What runs counts before it has taken any time."""
    shares = Shares()
    shares.attend(["ada", "bob"], 0.0)
    served = []
    for attempt in range(4):
        [first, _] = shares.order(["ada", "bob"], 0.0)
        shares.begin(attempt, first, 0.0)
        served.append(first)
    assert served == ["ada", "bob", "ada", "bob"]


def test_a_newcomer_has_no_claim_on_what_was_used_before() -> None:
    """An hour of one user alone is not owed to the next one, nor forgotten of who has had more than others."""
    shares = Shares()
    serve(shares, {"ada": 1.0}, 2, 0.0, 3600.0)
    had = serve(shares, {"ada": 1.0, "bob": 1.0}, 2, 3600.0, 60.0, begun=10_000)
    assert had["ada"] == pytest.approx(had["bob"], abs=4.0)


def test_who_comes_back_is_level_with_who_came_meanwhile() -> None:
    shares = Shares()
    serve(shares, {"ada": 1.0}, 2, 0.0, 600.0)
    serve(shares, {"bob": 1.0}, 2, 600.0, 60.0, begun=10_000)
    had = serve(shares, {"ada": 1.0, "bob": 1.0}, 2, 660.0, 60.0, begun=20_000)
    assert had["ada"] == pytest.approx(had["bob"], abs=4.0)


def test_leaving_and_coming_back_wins_nothing() -> None:
    """A user whose sweeps are short and many is no newcomer each time."""
    shares = Shares()
    had = {"ada": 0.0, "bob": 0.0}
    for turn in range(50):
        now = turn * 4.0
        for user, seconds in serve(shares, {"ada": 1.0, "bob": 1.0}, 1, now, 2.0, begun=turn * 100).items():
            had[user] += seconds
        had["ada"] += serve(shares, {"ada": 1.0}, 1, now + 2.0, 2.0, begun=turn * 100 + 50)["ada"]
    assert had["bob"] >= had["ada"] / 4
    assert had["ada"] >= had["bob"]


def test_use_long_ago_counts_less() -> None:
    shares = Shares(half_life=100.0)
    shares.attend(["ada", "bob"], 0.0)
    shares.begin(1, "ada", 0.0)
    shares.end(1, 80.0, 0.0)
    assert shares.used("ada", 0.0) == 80.0
    assert shares.used("ada", 200.0) == pytest.approx(20.0)
    assert shares.order(["ada", "bob"], 200.0) == ["bob", "ada"]


def test_a_batch_that_runs_long_counts_as_long_as_it_runs() -> None:
    shares = Shares()
    shares.attend(["ada", "bob"], 0.0)
    shares.begin(1, "ada", 0.0)
    shares.begin(2, "bob", 90.0)
    assert shares.order(["ada", "bob"], 100.0) == ["bob", "ada"]
    shares.end(1, 0.0, 100.0)
    assert shares.order(["ada", "bob"], 100.0) == ["ada", "bob"]


def test_one_user_alone_is_one_order() -> None:
    shares = Shares()
    assert shares.order([None], 5.0) == [None]
    shares.end(7, 3.0, 5.0)
    assert shares.used(None, 5.0) == 0.0


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.floats(0.05, 20.0), min_size=2, max_size=5),
    workers=st.integers(1, 8),
    alone=st.floats(0.0, 2000.0),
)
def test_whatever_batches_take_all_have_the_same_time(lengths: list[float], workers: int, alone: float) -> None:
    """Within a few batches, whoever was there before; nobody is left out for longer than the others' batches take."""
    shares = Shares(half_life=1e9)
    users: dict[User, float] = {f"user-{index}": length for index, length in enumerate(lengths)}
    if alone > 0:
        serve(shares, {"user-0": lengths[0]}, workers, 0.0, alone)
    longest = max(lengths)
    had = serve(shares, users, workers, alone + longest, 60 * longest, begun=1_000_000)
    assert max(had.values()) - min(had.values()) <= 2 * (workers + 1) * longest
