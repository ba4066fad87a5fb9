"""Memories whose size follows the stream, and the offline bound on hits, against closed forms and brute force."""

from __future__ import annotations

import math
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.mechanisms.adaptive_dp_cache import adaptive_cap
from models.mechanisms.belady import next_tokens
from models.stream import Ints, Stream, unit


def clean_stream(lab: SimpleNamespace, items: Ints) -> Stream:
    """Items as orthogonal keys: a key is its item. Every token ends a phase, so that all that is held can be seen."""
    keys = np.eye(int(items.max()) + 1)[items]
    ends = range(1, len(items) + 1)
    return lab.stream(keys, items, items=items, ends=ends, queries=np.zeros((0, keys.shape[1])))


def working_sets(seed: int, length: int = 400) -> Ints:
    """Items of a working set that moves on and changes its size."""
    rng = np.random.default_rng(seed)
    size = np.repeat(rng.choice([3, 25], size=length // 50), 50)
    return np.repeat(np.arange(length // 50) * 12, 50) + rng.integers(size)


def held_items(lab: SimpleNamespace, name: str, items: Ints, **fields: float) -> list[set[int]]:
    return [set(items[tokens].tolist()) for tokens in lab.read_one(name, clean_stream(lab, items), **fields).tokens]


def hits(held: list[set[int]], items: Ints) -> int:
    return sum(item in before for before, item in zip(held, items[1:].tolist(), strict=False))


# --- adaptive ---


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 99), cap=st.integers(1, 12), decay=st.sampled_from([1.0, 0.97, 0.5]), eta=st.floats(0, 1))
def test_an_adaptive_cache_that_does_not_adapt_is_a_cache_with_a_cap(
    lab: SimpleNamespace, seed: int, cap: int, decay: float, eta: float
) -> None:
    stream = lab.recall_stream(seed, items=20, dim=8)
    adaptive = lab.read_one("adaptive_dp_cache", stream, beta=0.0, m0=cap, decay=decay, eta=eta)
    fixed = lab.read_one("dp_cache", stream, cap=cap, decay=decay)
    assert (adaptive.tokens, adaptive.held, adaptive.peak) == (fixed.tokens, fixed.held, fixed.peak)
    assert adaptive.answers[0].tobytes() == fixed.answers[0].tobytes()


def test_an_adaptive_cache_with_room_for_all_is_a_cache_without_cap(lab: SimpleNamespace) -> None:
    stream = lab.recall_stream(1, items=30)
    adaptive = lab.read_one("adaptive_dp_cache", stream, m0=1e9, beta=1e9)
    assert adaptive.tokens == lab.read_one("dp_cache", stream).tokens


def test_full_surprise_of_nothing_to_start_from_keeps_one_slot(lab: SimpleNamespace) -> None:
    """eta = 1, m0 = 0: the cap is beta after a novel token and 1 after any other."""
    items = np.array([0, 1, 2, 3, 3, 4, 5])
    held = held_items(lab, "adaptive_dp_cache", items, eta=1.0, m0=0.0, beta=3.0, decay=0.9)
    assert held == [{0}, {0, 1}, {0, 1, 2}, {1, 2, 3}, {3}, {3, 4}, {3, 4, 5}]


def test_the_novelty_rate_has_a_closed_form(lab: SimpleNamespace) -> None:
    """T_t = sum over j <= t of eta (1 - eta)^(t - j) [token j is novel]: seen in the caps of a cache of huge beta."""
    items, eta, beta = working_sets(0), 0.07, 40.0
    group = lab.mechanism("adaptive_dp_cache", {"eta": eta, "beta": beta, "m0": 2.5, "decay": 0.9})
    held = [
        set[int](),
        *(set(items[tokens].tolist()) for tokens in lab.read(group, clean_stream(lab, items))[0].tokens),
    ]
    novel = np.array([item not in before for before, item in zip(held, items.tolist(), strict=False)])
    ages = np.arange(len(items))[:, None] - np.arange(len(items))
    rate = np.where(ages >= 0, eta * (1.0 - eta) ** np.maximum(ages, 0), 0.0) @ novel
    assert group.rate[0] == pytest.approx(rate[-1], rel=1e-9)
    caps = np.floor(2.5 + beta * rate)
    assert (np.array([len(items) for items in held[1:]]) <= caps).all()
    assert sum(len(items) == cap for items, cap in zip(held[1:], caps, strict=True)) > 100


def test_a_cap_is_never_below_1_and_rounding_does_not_lower_it() -> None:
    assert [adaptive_cap(*given) for given in ((0.0, 0.0, 1.0), (0.7, 1.0, 0.2), (2.0, 0.1, 0.99))] == [1, 1, 2]
    assert adaptive_cap(0.0, 3.0, 0.1 + 0.2 - 1e-17 + 0.7) == 3
    assert adaptive_cap(0.7, 1.0, 0.1 + 0.2) == 1
    assert adaptive_cap(8.0, 10.0, math.nextafter(0.1, 0.0)) == 9


# --- working set ---


@pytest.mark.parametrize("window", [1, 3, 17, 1000])
def test_item_ttl_holds_the_working_set(lab: SimpleNamespace, window: int) -> None:
    items = working_sets(1)
    expected = [set(items[max(0, t - window + 1) : t + 1].tolist()) for t in range(len(items))]
    assert held_items(lab, "item_ttl", items, window=window) == expected


# --- Belady ---


@settings(max_examples=60, deadline=None)
@given(items=st.lists(st.integers(0, 4), min_size=1, max_size=9), budget=st.integers(1, 3))
def test_belady_has_the_most_hits_there_are(lab: SimpleNamespace, items: list[int], budget: int) -> None:
    """By trying every choice of what to keep after every token, the newcomer included."""

    @cache
    def most(t: int, held: frozenset[int]) -> int:
        if t == len(items):
            return 0
        after = held | {items[t]}
        choices = [after] if len(after) <= budget else [after - {item} for item in after]
        return (items[t] in held) + max(most(t + 1, choice) for choice in choices)

    numbers = np.array(items)
    assert hits(held_items(lab, "belady", numbers, budget=budget), numbers) == most(0, frozenset())


@pytest.mark.parametrize("budget", [1, 2, 5, 9, 20])
def test_no_item_cache_has_more_hits_than_belady(lab: SimpleNamespace, budget: int) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        for items in (working_sets(seed), np.minimum(rng.zipf(1.3, size=300), 40), rng.integers(25, size=300)):
            best = hits(held_items(lab, "belady", items, budget=budget), items)
            for name in ("item_lru", "item_lfu"):
                assert hits(held_items(lab, name, items, budget=budget), items) <= best
            for decay in (1.0, 0.9):
                assert hits(held_items(lab, "dp_cache", items, cap=budget, decay=decay), items) <= best


def test_next_tokens_of_each_item() -> None:
    items, following = next_tokens(np.array([7, 3, 7, 7, 9, 3]))
    assert items.tolist() == [1, 0, 1, 1, 2, 0]
    assert following.tolist() == [2, 5, 3, 6, 6, 6]


# --- the published comparison ---


def phased_stream(lab: SimpleNamespace, seed: int) -> Stream:
    """Eight phases that show 6 and 30 fresh items in turn, each six times; a phase's end asks its items (Fig. 8)."""
    rng = np.random.default_rng(seed)
    sizes = (6, 30) * 4
    base = unit(rng.standard_normal((sum(sizes), 32)))
    labels = rng.integers(16, size=len(base))
    shown = np.split(np.arange(len(base)), np.cumsum(sizes)[:-1])
    order = np.concatenate([rng.permutation(np.repeat(items, 6)) for items in shown])
    keys = unit(base[order] + 0.3 * rng.standard_normal((len(order), 32)) / math.sqrt(32))
    ends = (6 * np.cumsum(sizes)).tolist()
    stream = lab.stream(keys, labels[order], items=order, classes=16)
    phase = type(stream.phases[0])
    phases = tuple(
        phase(end, base[items], labels[items], items, np.arange(len(items)))
        for end, items in zip(ends, shown, strict=True)
    )
    return Stream(stream.keys, stream.values, stream.items, phases, 16, 1.0 / 16)


@pytest.mark.parametrize(
    ("name", "fields", "slots", "recall"),
    [
        ("full_attention", {}, 450.0, 1.0),
        ("dp_cache", {"cap": 30, "decay": 0.95}, 27.0, 0.993),
        ("dp_cache", {"cap": 18, "decay": 0.95}, 16.5, 0.8125),
        ("dp_cache", {}, 74.5, 0.995),
        ("adaptive_dp_cache", {"eta": 0.1, "m0": 8, "beta": 40, "decay": 0.99}, 17.5, 0.889),
        ("adaptive_dp_cache", {"eta": 0.1, "m0": 12, "beta": 30, "decay": 0.98}, 17.3, 0.896),
    ],
)
def test_phases_of_changing_size(
    lab: SimpleNamespace, name: str, fields: dict[str, float], slots: float, recall: float
) -> None:
    """Table 7 of arXiv 2607.09889 and a rerun of it: slots at phase ends, and recall, averaged over phases."""
    if name != "full_attention":
        fields = {"similarity": 0.6, **fields}
    readings = [lab.read_one(name, phased_stream(lab, seed), **fields) for seed in range(20)]
    measured_slots = np.mean([reading.counts for reading in readings])
    measured = np.mean([[answers.mean() for answers in reading.answers] for reading in readings])
    exact = name == "full_attention" or "cap" in fields
    assert measured_slots == pytest.approx(slots, abs=0.15 if exact else 0.8)
    assert measured == pytest.approx(recall, abs=0.01)


def test_without_forgetting_a_cap_keeps_the_first_phases(lab: SimpleNamespace) -> None:
    """A cap of 30: .99 with decay 0.95, .88 with 0.99, .28 with 1: counters that never fade shut out what is new."""
    recall = [
        np.mean(
            [
                [
                    answers.mean()
                    for answers in lab.read_one("dp_cache", phased_stream(lab, seed), cap=30, decay=decay).answers
                ]
                for seed in range(10)
            ]
        )
        for decay in (0.99, 1.0)
    ]
    assert recall == pytest.approx([0.877, 0.28], abs=0.03)
