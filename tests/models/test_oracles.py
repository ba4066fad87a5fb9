"""Mechanisms against independent implementations and closed forms."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from types import SimpleNamespace

import numpy as np
import pytest

from models.allocation_memory import NoveltyConfig
from models.mechanism import TIE
from models.stream import Floats, Ints, Phase, Stream, unit
from models.token_memory import largest


def with_answers(stream: Stream, answers: Ints) -> Stream:
    """`stream` whose right answers are `answers`: a mechanism that reads the same classes is always right."""
    phase = stream.phases[0]
    return Stream(
        stream.keys,
        stream.values,
        stream.items,
        (Phase(phase.end, phase.queries, answers, phase.items, phase.asked),),
        stream.classes,
        stream.chance,
    )


def rounded(keys: Floats) -> Floats:
    """Unit keys as a memory of float32 stores them."""
    return unit(keys.astype(np.float32).astype(np.float64))


@pytest.mark.parametrize("temperature", [0.05, 0.2, 1.0])
def test_full_attention_is_scaled_dot_product_attention(lab: SimpleNamespace, temperature: float) -> None:
    torch = pytest.importorskip("torch")
    for seed in range(5):
        stream = lab.recall_stream(seed, items=20, classes=5, noise=1.0)
        votes = torch.nn.functional.scaled_dot_product_attention(
            torch.from_numpy(unit(stream.phases[0].queries)),
            torch.from_numpy(rounded(stream.keys)),
            torch.eye(5, dtype=torch.float64)[torch.from_numpy(stream.values)],
            scale=1.0 / temperature,
        ).numpy()
        first, second = np.sort(votes, axis=1)[:, [-1, -2]].T
        assert (first > second * (1.0 + 1e-6)).all()
        reading = lab.read_one("full_attention", with_answers(stream, votes.argmax(axis=1)), temperature=temperature)
        assert reading.answers[0].tolist() == [1.0] * 20


@pytest.mark.parametrize("k", [1, 2, 5, 17, 80])
def test_knn_is_brute_force(lab: SimpleNamespace, k: int) -> None:
    stream = lab.recall_stream(0, items=20, classes=5, noise=1.5)
    keys, queries = rounded(stream.keys), unit(stream.phases[0].queries)
    expected = []
    for query in queries:
        cosines = keys @ query
        nearest = sorted(range(len(keys)), key=lambda slot: -cosines[slot])[:k]
        votes = np.bincount(stream.values[nearest], np.exp(cosines[nearest] / 0.3), minlength=5)
        expected.append(votes.argmax())
    reading = lab.read_one("knn", with_answers(stream, np.array(expected)), k=k, temperature=0.3)
    assert reading.answers[0].tolist() == [1.0] * 20


def test_knn_of_one_is_argmax_and_of_all_is_full_attention(lab: SimpleNamespace) -> None:
    stream = lab.recall_stream(1, items=40, classes=5, noise=1.5)
    one, argmax = lab.read_one("knn", stream, k=1), lab.read_one("full_attention", stream, temperature="argmax")
    everything = lab.read_one("knn", stream, k=160, temperature=1.0)
    full = lab.read_one("full_attention", stream, temperature=1.0)
    assert one.answers[0].tolist() == argmax.answers[0].tolist()
    assert everything.answers[0].tobytes() == full.answers[0].tobytes()
    assert one.answers[0].tolist() != full.answers[0].tolist()


def test_knn_reads_the_lowest_slots_of_a_tie(lab: SimpleNamespace) -> None:
    """Six copies, classes 0 0 1 1 1 1: the first three are 0 0 1, all of them 1."""
    stream = lab.stream(np.ones((6, 3)), [0, 0, 1, 1, 1, 1], queries=[[1.0, 1.0, 1.0]], answers=[0])
    assert lab.read_one("knn", stream, k=3).answers[0].tolist() == [1.0]
    assert lab.read_one("knn", stream, k=6).answers[0].tolist() == [0.0]


@pytest.mark.parametrize("budget", [1, 7, 50])
def test_recency_is_a_deque(lab: SimpleNamespace, budget: int) -> None:
    stream = lab.recall_stream(0, items=20)
    assert lab.read_one("recency", stream, budget=budget).tokens == [list(deque(range(80), maxlen=budget))]


def history(lab: SimpleNamespace, name: str, stream: Stream, **fields: float) -> list[set[int]]:
    """Items held after each token."""
    nothing = np.zeros((0, stream.dim))
    every = lab.stream(stream.keys, stream.values, items=stream.items, ends=range(1, len(stream) + 1), queries=nothing)
    return [set(stream.items[tokens].tolist()) for tokens in lab.read_one(name, every, **fields).tokens]


def hits(held: list[set[int]], items: Ints) -> list[bool]:
    return [item in before for before, item in zip([set(), *held], items.tolist(), strict=False)]


def skewed_stream(lab: SimpleNamespace, seed: int) -> Stream:
    rng = np.random.default_rng(seed)
    items = np.minimum(rng.zipf(1.3, size=600) - 1, 59)
    base = unit(rng.standard_normal((60, 64)))
    return lab.stream(base[items] + 0.2 * rng.standard_normal((600, 64)) / 8.0, items, items=items)


@pytest.mark.parametrize("budget", [1, 5, 20, 60])
def test_item_lru_is_an_ordered_dict(lab: SimpleNamespace, budget: int) -> None:
    stream = skewed_stream(lab, 0)
    cache: OrderedDict[int, None] = OrderedDict()
    expected = []
    for item in stream.items.tolist():
        expected.append(item in cache)
        cache[item] = None
        cache.move_to_end(item)
        if len(cache) > budget:
            cache.popitem(last=False)
    held = history(lab, "item_lru", stream, budget=budget)
    assert hits(held, stream.items) == expected
    assert held[-1] == set(cache)


@pytest.mark.parametrize("budget", [1, 5, 20, 60])
def test_item_lru_hits_as_libcachesim(lab: SimpleNamespace, budget: int) -> None:
    lcs = pytest.importorskip("libcachesim", reason="libcachesim is not installed")
    stream = skewed_stream(lab, 1)
    cache, request = lcs.LRU(cache_size=budget), lcs.Request()
    request.obj_size = 1
    expected = []
    for item in stream.items.tolist():
        request.obj_id = item
        expected.append(bool(cache.get(request)))
    assert hits(history(lab, "item_lru", stream, budget=budget), stream.items) == expected


def test_item_lfu_is_a_counter(lab: SimpleNamespace) -> None:
    stream = skewed_stream(lab, 2)
    uses: dict[int, tuple[int, int]] = {}
    expected = []
    for t, item in enumerate(stream.items.tolist()):
        expected.append(item in uses)
        if item not in uses and len(uses) == 9:
            del uses[min(uses, key=lambda held: uses[held])]
        uses[item] = (uses.get(item, (0, 0))[0] + 1, t)
    assert hits(history(lab, "item_lfu", stream, budget=9), stream.items) == expected


def test_random_eviction_holds_each_token_alike(lab: SimpleNamespace) -> None:
    """400 draws: each of 24 tokens is held with probability 1/3; chi-squared with 23 degrees of freedom."""
    from scipy.stats import chisquare

    stream, group = lab.stream(np.ones((24, 1))), lab.mechanism("random_eviction", {"budget": 8})
    held = [token for seed in range(400) for token in lab.read(group, stream, seed)[0].tokens[0]]
    # Draws without replacement vary less than independent ones, by 1 - 8/24.
    statistic = chisquare(np.bincount(held, minlength=24)).statistic / (1.0 - 8.0 / 24.0)
    assert 9.3 < statistic < 41.6  # 0.5% and 99% points


def test_random_eviction_shares_draws_between_budgets(lab: SimpleNamespace) -> None:
    stream = lab.stream(np.ones((50, 1)))
    one, other = lab.read(lab.mechanism("random_eviction", {"budget": 49}, {"budget": 50}), stream)
    assert len(set(other.tokens[0]) - set(one.tokens[0])) == 1


@pytest.mark.parametrize("budget", [0, 1, 16, 63, 64, 1000])
def test_optimal_is_its_formula_for_every_query(lab: SimpleNamespace, budget: int) -> None:
    reading = lab.read_one("optimal", lab.recall_stream(0), budget=budget)
    share = min(1.0, budget / 64)
    assert reading.counts == [min(budget, 64)]
    assert (reading.answers[0] == share + (1.0 - share) / 16).all()


def test_optimal_counts_what_each_phase_asks(lab: SimpleNamespace) -> None:
    """Items 0 0 1 | 2 3 2; the first phase asks 0 and 1, the second 2 twice, 3, and 9, which it has never seen."""
    keys = np.eye(8)
    phases = tuple(
        Phase(end, keys[asked], np.array(asked), np.array(asked), np.arange(len(asked)))
        for end, asked in ((3, [0, 1]), (6, [2, 2, 3, 7]))
    )
    items = np.array([0, 0, 1, 2, 3, 2])
    stream = Stream(keys[items], items, items, phases, classes=8, chance=0.1)
    one, two, five = lab.read(lab.mechanism("optimal", *({"budget": budget} for budget in (1, 2, 5))), stream)
    assert [reading.counts for reading in (one, two, five)] == [[1, 1], [2, 2], [2, 2]]
    assert [five.held, five.peak] == [1 + 1 + 2 + 1 + 2 + 2, 2]
    for reading, shares in ((one, (0.5, 0.5)), (two, (1.0, 0.75)), (five, (1.0, 0.75))):
        for answers, share in zip(reading.answers, shares, strict=True):
            assert (answers == share + (1.0 - share) * 0.1).all()


def test_observed_mean_is_the_column_mean_of_causal_attention(lab: SimpleNamespace) -> None:
    stream = lab.recall_stream(2, items=20)
    weights = np.tril(np.exp(rounded(stream.keys) @ rounded(stream.keys).T / 0.13))
    attention = weights / weights.sum(axis=1, keepdims=True)
    means = attention.sum(axis=0) / np.arange(80, 0, -1)
    reading = lab.read_one("h2o", stream, budget=30, variant="observed_mean")
    assert reading.tokens == [sorted(np.argsort(-means)[:30].tolist())]
    assert (reading.peak, reading.held) == (80, 80 * 81 // 2)


@pytest.mark.parametrize("pooling", [True, False])
def test_snapkv_is_the_published_pooling_of_window_attention(lab: SimpleNamespace, pooling: bool) -> None:
    torch = pytest.importorskip("torch")
    stream = lab.recall_stream(3, items=30)
    keys = torch.from_numpy(rounded(stream.keys))
    logits = (keys @ keys.T / 0.13).masked_fill(torch.ones(120, 120).triu(1).bool(), -math.inf)
    scores = logits.softmax(dim=1)[-16:, :-16].sum(dim=0)
    if pooling:
        scores = torch.nn.functional.avg_pool1d(scores[None], kernel_size=5, padding=2, stride=1)[0]
    kept = [*scores.topk(40 - 16).indices.sort().values.tolist(), *range(104, 120)]
    reading = lab.read_one("snapkv", stream, budget=40, window=16, pooling=pooling)
    assert reading.tokens == [kept]
    assert (reading.peak, reading.counts) == (120, [40])


def test_snapkv_scores_a_window_longer_than_a_block(lab: SimpleNamespace) -> None:
    stream = lab.recall_stream(4, items=100)
    weights = np.tril(np.exp(rounded(stream.keys) @ rounded(stream.keys).T / 0.13))
    scores = (weights / weights.sum(axis=1, keepdims=True))[-300:, :-300].sum(axis=0)
    kept = [*sorted(np.argsort(-scores)[:20].tolist()), *range(100, 400)]
    assert lab.read_one("snapkv", stream, budget=320, window=300, pooling=False).tokens == [kept]


def test_largest_keeps_the_oldest_of_a_tie() -> None:
    scores = np.array([1.0, 3.0, 2.0, 2.0 * (1.0 + TIE / 2.0), 2.0, 5.0])
    assert largest(scores, 0).tolist() == []
    assert largest(scores, 1).tolist() == [5]
    assert largest(scores, 3).tolist() == [1, 2, 5]
    assert largest(scores, 4).tolist() == [1, 2, 3, 5]
    assert largest(scores, 5).tolist() == [1, 2, 3, 4, 5]
    assert largest(scores, 9).tolist() == [0, 1, 2, 3, 4, 5]


def test_one_threshold_two_names(lab: SimpleNamespace) -> None:
    by_tau, by_similarity = lab.config("dp_cache", tau=0.3), lab.config("dp_cache", similarity=0.7)
    assert isinstance(by_tau, NoveltyConfig)
    assert by_tau == by_similarity
    assert by_tau.flat()["similarity"] == 0.7
    assert "similarity" not in by_tau.identity()
    with pytest.raises(ValueError, match="give one of them"):
        lab.config("dp_cache", tau=0.3, similarity=0.7)
