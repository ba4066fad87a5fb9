"""Item caches of several queues against the simulator of their field, the offline bound, and what they reduce to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.mechanisms.belady import next_tokens
from models.stream import Ints, Stream, unit

CACHES = ["item_lru", "item_lfu", "item_arc", "item_2q", "item_s3_fifo", "item_sieve", "item_wtinylfu"]


def clean_stream(lab: SimpleNamespace, items: Ints) -> Stream:
    """Items as orthogonal keys: a key is its item. Every token ends a phase, so that all that is held can be seen."""
    numbered = np.unique(items, return_inverse=True)[1]
    keys = np.eye(int(numbered.max()) + 1)[numbered]
    ends = range(1, len(items) + 1)
    stream: Stream = lab.stream(keys, numbered, items=numbered, ends=ends, queries=np.zeros((0, keys.shape[1])))
    return stream


def each_hits(lab: SimpleNamespace, name: str, items: Ints, *group: dict[str, Any]) -> list[list[bool]]:
    """Whether each token but the first finds its item held, for each config of a group."""
    stream = clean_stream(lab, items)
    wanted = stream.items[1:].tolist()
    histories = [reading.tokens for reading in lab.read(lab.mechanism(name, *group), stream)]
    return [
        [item in stream.items[tokens] for tokens, item in zip(history, wanted, strict=False)] for history in histories
    ]


def hits(lab: SimpleNamespace, name: str, items: Ints, **fields: Any) -> list[bool]:
    return each_hits(lab, name, items, fields)[0]


def zipf(seed: int) -> Ints:
    return np.minimum(np.random.default_rng(seed).zipf(1.2, size=600), 90)


def uniform(seed: int) -> Ints:
    return np.random.default_rng(seed).integers(70, size=600)


def loops(seed: int) -> Ints:
    """Loops longer than the budgets, each a few times: what LRU has no hit on."""
    lengths = np.random.default_rng(seed).integers(3, 75, size=4)
    return np.concatenate([np.tile(np.arange(length), 3) for length in lengths])[:600]


def scans(seed: int) -> Ints:
    """Items used again and again, between scans of items that come once."""
    rng = np.random.default_rng(seed)
    hot = rng.integers(12, size=600)
    return np.where(np.arange(600) % 100 < 40, 100 + np.arange(600), hot)


def moving(seed: int) -> Ints:
    """A working set that moves on."""
    return np.arange(600) // 75 * 9 + np.random.default_rng(seed).integers(25, size=600)


TRAFFIC = (zipf, uniform, loops, scans, moving)


# --- libCacheSim ---


def simulated(cache: Any, items: Ints) -> list[bool]:
    lcs = pytest.importorskip("libcachesim", reason="libcachesim is not installed")
    request = lcs.Request()
    request.obj_size = 1
    found = []
    for item in items.tolist():
        request.obj_id = item
        found.append(bool(cache.get(request)))
    return found[1:]


@pytest.mark.parametrize("traffic", TRAFFIC)
@pytest.mark.parametrize(
    ("name", "simulator"), [("item_arc", "ARC"), ("item_sieve", "Sieve"), ("item_lru", "LRU"), ("item_lfu", "LFU")]
)
def test_hits_are_those_of_libcachesim(lab: SimpleNamespace, name: str, simulator: str, traffic: Any) -> None:
    lcs = pytest.importorskip("libcachesim", reason="libcachesim is not installed")
    budgets = (1, 2, 7, 20, 50)
    found = each_hits(lab, name, traffic(0), *({"budget": budget} for budget in budgets))
    for budget, ours in zip(budgets, found, strict=True):
        assert ours == simulated(getattr(lcs, simulator)(cache_size=budget), traffic(0))


@pytest.mark.parametrize("traffic", TRAFFIC)
@pytest.mark.parametrize(("entry", "memory"), [(0.25, 0.5), (0.5, 2.0)])
def test_2q_has_the_hits_of_libcachesim(lab: SimpleNamespace, entry: float, memory: float, traffic: Any) -> None:
    """With fewer than 4 slots the simulator's queue of fresh items has no room, and it holds nothing."""
    lcs = pytest.importorskip("libcachesim", reason="libcachesim is not installed")
    group = [{"budget": budget, "entry": entry, "memory": memory} for budget in (4, 7, 20, 50)]
    for fields, ours in zip(group, each_hits(lab, "item_2q", traffic(1), *group), strict=True):
        cache = lcs.TwoQ(cache_size=fields["budget"], a_in_size_ratio=entry, a_out_size_ratio=memory)
        assert ours == simulated(cache, traffic(1))


@pytest.mark.parametrize("traffic", TRAFFIC)
@pytest.mark.parametrize("small", [0.1, 0.4])
def test_s3_fifo_has_the_hits_of_libcachesim(lab: SimpleNamespace, small: float, traffic: Any) -> None:
    """The simulator's later form differs until it has evicted; asked to evict when it is empty, it takes it for done.

    With a small queue of one slot, it holds nothing.
    """
    lcs = pytest.importorskip("libcachesim", reason="libcachesim is not installed")
    group = [{"budget": budget, "small": small} for budget in (20, 39, 50)]
    request = lcs.Request()
    request.obj_size = 1
    for fields, ours in zip(group, each_hits(lab, "item_s3_fifo", traffic(2), *group), strict=True):
        budget = int(fields["budget"])
        ghosts = budget - int(small * budget) + 0.5
        cache = lcs.S3FIFO(cache_size=budget, small_size_ratio=small, ghost_size_ratio=ghosts / budget)
        cache.evict(request)
        assert ours == simulated(cache, traffic(2))


def foretold(budget: int, items: Ints) -> int:
    """Hits of the simulator's Belady, which goes by the time of each item's next request."""
    lcs = pytest.importorskip("libcachesim", reason="libcachesim is not installed")
    cache, request = lcs.Belady(cache_size=budget), lcs.Request()
    request.obj_size = 1
    following = next_tokens(items)[1].tolist()
    hits = 0
    for item, upcoming in zip(items.tolist(), following, strict=True):
        request.obj_id = item
        request.next_access_vtime = upcoming if upcoming < len(items) else 2**62
        hits += bool(cache.get(request))
    return hits


@pytest.mark.parametrize("traffic", TRAFFIC)
def test_belady_lies_between_those_of_libcachesim(lab: SimpleNamespace, traffic: Any) -> None:
    """The simulator takes in every item, ours may turn one away: as much as one slot more is worth at most."""
    items = traffic(4)
    budgets = (1, 2, 7, 20, 50)
    ours = [sum(found) for found in each_hits(lab, "belady", items, *({"budget": budget} for budget in budgets))]
    least, most = ([foretold(budget + more, items) for budget in budgets] for more in (0, 1))
    assert all(low <= hits <= high for low, hits, high in zip(least, ours, most, strict=True))
    assert max(least) > 0


def test_wtinylfu_is_not_what_libcachesim_has_under_the_name(lab: SimpleNamespace) -> None:
    """Below a budget of 100 that holds nothing. Above, hits differ: of Zipf traffic ours are more, LRU has fewest."""
    lcs = pytest.importorskip("libcachesim", reason="libcachesim is not installed")
    shares = 1.0 / np.arange(1, 401)
    items = np.random.default_rng(0).choice(400, size=2500, p=shares / shares.sum())
    assert not any(simulated(lcs.WTinyLFU(cache_size=99), items))
    ours, theirs = hits(lab, "item_wtinylfu", items, budget=100), simulated(lcs.WTinyLFU(cache_size=100), items)
    lru = hits(lab, "item_lru", items, budget=100)
    assert sum(lru) < sum(theirs) < sum(ours)


# --- Belady ---


@pytest.mark.parametrize("traffic", TRAFFIC)
def test_no_item_cache_has_more_hits_than_belady(lab: SimpleNamespace, traffic: Any) -> None:
    group = [{"budget": budget} for budget in (1, 3, 10, 24, 60)]
    best = [sum(found) for found in each_hits(lab, "belady", traffic(3), *group)]
    for name in CACHES:
        found = [sum(found) for found in each_hits(lab, name, traffic(3), *group)]
        assert all(ours <= most for ours, most in zip(found, best, strict=True))


NOISY = {
    **{name: {} for name in (*CACHES, "knn", "recency", "h2o", "tova")},
    "dp_cache": {"decay": 0.95},
}
"""Memories that keep no more than so many tokens' keys at a time."""


@pytest.mark.parametrize("noise", [0.6, 1.0, 2.0])
@pytest.mark.parametrize("name", NOISY)
def test_no_memory_of_as_many_slots_has_more_hits_than_belady_on_noisy_keys(
    lab: SimpleNamespace, name: str, noise: float
) -> None:
    """Noise makes one item many slots, and many items one: a bound that went by keys would not hold."""
    rng = np.random.default_rng(4)
    items = np.minimum(rng.zipf(1.3, size=500), 60)
    keys = unit(rng.standard_normal((61, 64)))[items] + noise * rng.standard_normal((500, 64)) / 8.0
    stream = lab.stream(keys, items, items=items, ends=range(1, 501), queries=np.zeros((0, 64)))
    for budget in (3, 12):
        limit = {"cap": budget} if name == "dp_cache" else {"budget": budget}
        [best], [found] = (
            lab.read(lab.mechanism(one, fields), stream)
            for one, fields in (("belady", {"budget": budget}), (name, NOISY[name] | limit))
        )
        most, ours = (
            sum(item in items[held] for held, item in zip(one.tokens, items[1:], strict=False)) for one in (best, found)
        )
        assert 0 < ours <= most


@pytest.mark.parametrize("name", [*CACHES, "belady", "item_ttl"])
def test_the_metric_of_hits_counts_tokens_whose_item_is_held(lab: SimpleNamespace, name: str) -> None:
    """Of 600 tokens with noisy keys, 200 a phase: the caches count them as one who looks at what they hold."""
    rng = np.random.default_rng(5)
    items = zipf(5)
    keys = unit(rng.standard_normal((91, 32)))[items] + rng.standard_normal((600, 32)) / 6.0
    group = [{"window": 9}, {"window": 40}] if name == "item_ttl" else [{"budget": budget} for budget in (0, 2, 15)]
    made = lab.mechanism(name, *group)
    every = lab.read(made, lab.stream(keys, items, items=items, ends=range(1, 601), queries=np.zeros((0, 32))))
    expected = [
        sum(item in items[held] for held, item in zip(one.tokens, items[1:], strict=False)) / 600 for one in every
    ]
    assert made.extras()["hits"].tolist() == expected
    assert max(expected) > 0
    lab.read(made, lab.stream(keys, items, items=items, ends=(200, 400, 600)))
    assert made.extras()["hits"].tolist() == expected


@settings(max_examples=40, deadline=None)
@given(items=st.lists(st.integers(0, 7), min_size=2, max_size=60), budget=st.integers(1, 6))
def test_no_item_cache_has_more_hits_than_belady_on_anything(
    lab: SimpleNamespace, items: list[int], budget: int
) -> None:
    best = sum(hits(lab, "belady", np.array(items), budget=budget))
    assert all(sum(hits(lab, name, np.array(items), budget=budget)) <= best for name in CACHES)


def test_a_scan_drives_no_used_item_out_of_caches_that_resist_scans(lab: SimpleNamespace) -> None:
    """Ten items used four times each, then a hundred that come once: LRU has lost the ten.

    2Q too: it takes uses in quick succession for one.
    """
    items = np.concatenate([np.tile(np.arange(10), 4), 100 + np.arange(100), np.arange(10)])
    kept = {name: sum(hits(lab, name, items, budget=20)[-10:]) for name in CACHES}
    assert kept == {**dict.fromkeys(CACHES, 10), "item_lru": 0, "item_2q": 0}


# --- what they reduce to ---


def test_2q_without_memory_is_first_in_first_out(lab: SimpleNamespace) -> None:
    items = zipf(3)
    queue: list[int] = []
    expected = []
    for item in items.tolist():
        expected.append(item in queue)
        if item not in queue:
            queue = [*queue, item][-15:]
    assert hits(lab, "item_2q", items, budget=15, memory=0.0) == expected[1:]


@pytest.mark.parametrize("budget", [1, 9, 40])
def test_wtinylfu_that_is_all_window_is_lru(lab: SimpleNamespace, budget: int) -> None:
    items = moving(4)
    assert hits(lab, "item_wtinylfu", items, budget=budget, window=1.0) == hits(lab, "item_lru", items, budget=budget)


def test_wtinylfu_admits_what_was_used_more_often(lab: SimpleNamespace) -> None:
    """One slot of window, two of main cache: items 0 and 1. Item 0 is its oldest, and was used once.

    Each miss lets the window's item compete with item 0: in vain at its first use, with success at its second.
    """
    stream = clean_stream(lab, np.array([0, 1, 1, 2, 3, 2, 3]))
    held = [stream.items[tokens].tolist() for tokens in lab.read_one("item_wtinylfu", stream, budget=3).tokens]
    assert held == [[0], [0, 1], [0, 1], [0, 1, 2], [0, 1, 3], [0, 1, 2], [1, 2, 3]]


def test_wtinylfu_protects_four_fifths_of_its_main_cache(lab: SimpleNamespace) -> None:
    """One slot of window, five of main cache. Of items 0 to 4, used twice each, the protected segment has room for 4.

    So item 0 gives way to item 5, used three times, and then item 5 to item 6, used four times, though it is recent.
    """
    items = np.array([0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 6, 7])
    stream = clean_stream(lab, items)
    held = [set(stream.items[tokens]) for tokens in lab.read_one("item_wtinylfu", stream, budget=6).tokens]
    assert held[12:14] == [{0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5, 6}]
    assert held[-1] == {1, 2, 3, 4, 6, 7}


def test_wtinylfu_forgets_by_halves(lab: SimpleNamespace) -> None:
    """With a sample of 2 slots times 4, item 0's six uses are worth 3 after 8 tokens, 1 after 12 and none after 16."""
    group = lab.mechanism("item_wtinylfu", {"budget": 2, "sample": 4})
    lab.read(group, lab.stream(np.eye(40)[[0] * 6 + [1, 2]]))
    assert group.queues.uses[0, 0] == 3
    lab.read(group, lab.stream(np.eye(40)[[0] * 6 + list(range(1, 7))]))
    assert group.queues.uses[0, 0] == 1
    lab.read(group, lab.stream(np.eye(40)[[0] * 6 + list(range(1, 11))]))
    assert (group.queues.uses[0, 0], group.queues.haunted[0]) == (0, 0)


# --- ghosts ---


def test_ghosts_are_counted_in_bytes_and_answer_nothing(lab: SimpleNamespace) -> None:
    """Of ten items a cache of four holds four; ARC remembers as many ghosts, none if nothing was used twice."""
    items = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9])
    stream = lab.stream(np.eye(10)[items], items, queries=np.eye(10), answers=np.arange(10), asked_items=np.arange(10))
    arc, sieve = (lab.mechanism(name, {"budget": 4}) for name in ("item_arc", "item_sieve"))
    for group in (arc, sieve):
        [reading] = lab.read(group, stream)
        assert reading.counts == [4]
        assert reading.answers[0].sum() == 4.0
    assert arc.queues.most.tolist() == [4]
    body, noted = arc.bytes_per_slot(dim=10, key_bytes=2)
    assert (body, noted.tolist()) == (10 * 2 + 4, [1 + 4 + (10 * 2 + 1)])
    body, noted = sieve.bytes_per_slot(dim=10, key_bytes=2)
    assert (body, noted.tolist(), sieve.bytes_fixed()) == (10 * 2 + 4, [1], 4)


@pytest.mark.parametrize("name", ["item_arc", "item_2q", "item_s3_fifo", "item_wtinylfu"])
def test_ghosts_stay_within_their_room(lab: SimpleNamespace, name: str) -> None:
    for budget in (1, 2, 5, 30):
        group = lab.mechanism(name, {"budget": budget})
        lab.read(group, clean_stream(lab, zipf(5)))
        room = {"item_arc": budget, "item_2q": budget // 2, "item_s3_fifo": budget - max(1, budget // 10)}
        assert group.queues.most[0] <= room.get(name, 10 * budget - 1)
