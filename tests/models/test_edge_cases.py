"""Cases that a memory rule leaves open: what was decided for each, and that it holds."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models.mechanism import ABSTAINED, read_best, read_softmax
from models.mechanisms.h2o import evict_unnoticed
from models.similarity import Similarities
from models.stream import StreamError, unit

ITEM_CACHES = ["item_lru", "item_lfu", "item_arc", "item_2q", "item_s3_fifo", "item_sieve", "item_wtinylfu"]
BOUNDED = ["recency", "streaming_llm", "random_eviction", "h2o", "snapkv", "tova", *ITEM_CACHES]


def circle(*degrees: float) -> np.ndarray:
    """Unit keys in the plane at these angles: the cosine of two is that of the angle between them."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


# --- tau = 0 ---


def test_exact_duplicates_merge_at_tau_0_at_any_length(lab: SimpleNamespace) -> None:
    rng = np.random.default_rng(0)
    keys = np.concatenate([scale * rng.standard_normal((20, 32)).repeat(3, axis=0) for scale in (1e-3, 1.0, 1e3)])
    for keys_from in ("first", "centroid"):
        assert lab.read_one("dp_cache", lab.stream(keys), tau=0.0, keys=keys_from).counts == [60]


def test_a_key_just_off_opens_a_slot_at_tau_0(lab: SimpleNamespace) -> None:
    assert lab.read_one("dp_cache", lab.stream(circle(0.0, 0.1)), tau=0.0).counts == [2]


def test_a_novelty_equal_to_tau_merges(lab: SimpleNamespace) -> None:
    """Entries of +-1/2 make the cosine exactly 1/2: `>` is strict."""
    stream = lab.stream([[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, -0.5]])
    assert lab.read_one("dp_cache", stream, tau=0.5).counts == [1]
    assert lab.read_one("dp_cache", stream, tau=0.5 - 1e-9).counts == [2]


def test_keys_within_rounding_of_two_slots_merge_into_the_older(lab: SimpleNamespace) -> None:
    """The slots differ by 1.5e-9, just enough; the third key is within 1e-9 of both, and nearer to the second."""
    stream = lab.stream(circle(0, 0.00314, 0.0018), [0, 1, 2])
    assert lab.read_one("dp_cache", stream, tau=0.0, keep="last").values == [[2, 1]]


# --- extreme thresholds ---


@pytest.mark.parametrize("tau", [2.0, 3.0])
def test_everything_merges_into_the_first_token_from_tau_2_on(lab: SimpleNamespace, tau: float) -> None:
    reading = lab.read_one("dp_cache", lab.stream(circle(0, 180, 90, 270)), tau=tau)
    assert reading.tokens == [[0]]


def test_every_token_opens_a_slot_below_tau_0(lab: SimpleNamespace) -> None:
    assert lab.read_one("dp_cache", lab.stream(np.ones((5, 2))), tau=-0.01).tokens == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize("name", ["dp_cache", "item_lru", "item_lfu"])
def test_the_first_token_always_opens_a_slot(lab: SimpleNamespace, name: str) -> None:
    fields = {"tau": 3.0} if name == "dp_cache" else {"tau": 3.0, "budget": 1}
    assert lab.read_one(name, lab.stream([[0.0, 0.0], [1.0, 0.0]]), **fields).tokens == [[0]]


# --- zero vectors, numbers that are none ---


def test_a_zero_key_is_unlike_everything_itself_included(lab: SimpleNamespace) -> None:
    stream = lab.stream([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    assert lab.read_one("dp_cache", stream, tau=0.9).tokens == [[0, 1, 2]]
    assert lab.read_one("dp_cache", stream, tau=1.0).tokens == [[0]]


def test_a_zero_query_weighs_all_slots_alike(lab: SimpleNamespace) -> None:
    stream = lab.stream(circle(0, 90, 180), [1, 0, 1], queries=[[0.0, 0.0]], answers=[1])
    assert lab.read_one("full_attention", stream).answers[0].tolist() == [1.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_keys_and_queries_that_are_not_finite_are_refused(lab: SimpleNamespace, bad: float) -> None:
    with pytest.raises(StreamError, match="token 1"):
        lab.stream([[1.0, 0.0], [bad, 0.0]], queries=[[1.0, 0.0]])
    with pytest.raises(StreamError, match="query"):
        lab.stream([[1.0, 0.0]], queries=[[bad, 0.0]])


# --- one key, several values ---


@pytest.mark.parametrize(
    ("keep", "values", "kept"),
    [
        ("first", [2, 1, 1, 1], 2),
        ("last", [2, 2, 2, 1], 1),
        ("majority", [2, 1, 1, 0], 1),
        ("majority", [2, 1, 0, 1], 1),
        ("majority", [2, 1], 2),  # a tie keeps what is held
        ("majority", [1, 2, 2, 1], 2),  # also when it is the newcomer that draws level
    ],
)
def test_conflicting_values_of_one_key(lab: SimpleNamespace, keep: str, values: list[int], kept: int) -> None:
    stream = lab.stream(np.ones((len(values), 2)), values, classes=3)
    assert lab.read_one("dp_cache", stream, keep=keep).values == [[kept]]


@pytest.mark.parametrize("name", ITEM_CACHES)
def test_item_caches_keep_the_first_value(lab: SimpleNamespace, name: str) -> None:
    assert lab.read_one(name, lab.stream(np.ones((3, 2)), [2, 1, 1]), budget=4).values == [[2]]


# --- ties in the nearest slot ---


def test_a_token_between_two_slots_merges_into_the_older(lab: SimpleNamespace) -> None:
    stream = lab.stream(circle(0, 90, 45), [0, 1, 2])
    assert lab.read_one("dp_cache", stream, tau=0.4, keep="last").values == [[2, 1]]


def test_reads_settle_ties_by_slot_and_by_class() -> None:
    """Rounding must not decide: the second slot is nearer by one bit, the second vote larger by one bit."""
    almost = np.nextafter(0.5, 0.0)
    cosines = np.array([[almost, 0.5]])
    tokens, values, counts = np.array([[0, 1]]), np.array([[1, 0]]), np.array([2])
    predicted = np.empty((1, 1), dtype=np.int64)
    read_best(cosines, tokens, values, counts, predicted)
    assert predicted.tolist() == [[1]]
    read_softmax(cosines[:, ::-1].copy(), tokens, values, counts, 2, predicted)
    assert predicted.tolist() == [[0]]


# --- degenerate streams ---


@pytest.mark.parametrize("name", [*BOUNDED, "full_attention", "knn", "dp_cache", "optimal"])
def test_one_item_one_token_one_dimension_one_class(lab: SimpleNamespace, name: str) -> None:
    fields = {"budget": 1} if name in [*BOUNDED, "optimal"] else {}
    reading = lab.read_one(name, lab.stream([[1.0]], [0]), **fields)
    assert reading.counts == [1]
    assert reading.answers[0].tolist() == [1.0]


def test_one_dimension_has_room_for_two_slots(lab: SimpleNamespace) -> None:
    stream = lab.stream(np.random.default_rng(0).standard_normal((50, 1)))
    assert lab.read_one("dp_cache", stream, tau=1.9).counts == [2]


def test_without_redundancy_a_cache_saves_nothing(lab: SimpleNamespace) -> None:
    stream = lab.recall_stream(0, items=60, repeats=1, dim=64)
    assert lab.read_one("dp_cache", stream, similarity=0.6).counts == [60]


@pytest.mark.parametrize("name", BOUNDED)
def test_one_class_is_always_right(lab: SimpleNamespace, name: str) -> None:
    stream = lab.recall_stream(0, items=9, classes=1)
    assert lab.read_one(name, stream, budget=2).answers[0].tolist() == [1.0] * 9


# --- budgets ---


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("recency", [4]),
        ("streaming_llm", [4]),  # no sink: the window keeps the one slot
        ("h2o", [0]),  # the oldest has drawn most
        ("snapkv", [4]),
        ("tova", [4]),  # the newest attends to itself most
        ("item_lru", [4]),
        ("item_lfu", [4]),
        ("optimal", None),
    ],
)
def test_budget_1(lab: SimpleNamespace, name: str, kept: list[int] | None) -> None:
    reading = lab.read_one(name, lab.stream(np.eye(5)), budget=1)
    assert reading.counts == [1]
    assert kept is None or reading.tokens == [kept]


@pytest.mark.parametrize(
    ("budget", "kept"),
    [(1, [9]), (2, [0, 9]), (3, [0, 1, 9]), (4, [0, 1, 2, 9]), (5, [0, 1, 2, 3, 9]), (6, [0, 1, 2, 3, 8, 9])],
)
def test_a_small_budget_shortens_the_sink_first(lab: SimpleNamespace, budget: int, kept: list[int]) -> None:
    assert lab.read_one("streaming_llm", lab.stream(np.eye(10)), budget=budget).tokens == [kept]


@pytest.mark.parametrize("budget", [1, 3, 4])
def test_snapkv_within_its_window_is_recency(lab: SimpleNamespace, budget: int) -> None:
    stream = lab.recall_stream(0, items=5)
    snapkv = lab.read_one("snapkv", stream, budget=budget, window=4)
    assert snapkv.tokens == lab.read_one("recency", stream, budget=budget).tokens


# --- thresholds that do not fit the noise ---


def test_repeats_further_apart_than_tau_open_duplicates_and_recall_stays(lab: SimpleNamespace) -> None:
    stream = lab.recall_stream(0, items=32, repeats=6, dim=64, noise=0.5)
    reading = lab.read_one("dp_cache", stream, similarity=0.9)
    assert reading.counts[0] > 4 * 32
    assert reading.answers[0].mean() == 1.0


def test_items_closer_than_tau_merge_as_often_as_two_random_directions_meet(lab: SimpleNamespace) -> None:
    """P(cos > s) = BetaSF(s^2; 1/2, (d-1)/2) / 2; a slot lost for each item that meets an earlier slot."""
    from scipy.stats import beta

    items, dim, similarity = 60, 32, 0.5
    pairs = items * (items - 1) / 2 * 0.5 * beta.sf(similarity**2, 0.5, (dim - 1) / 2)
    lost = [
        items
        - lab.read_one(
            "dp_cache", lab.recall_stream(s, items=items, repeats=1, noise=0.0), similarity=similarity
        ).counts[0]
        for s in range(60)
    ]
    assert np.mean(lost) == pytest.approx(pairs, abs=4 * np.std(lost) / math.sqrt(len(lost)))


# --- keys that are not normalised ---


@pytest.mark.parametrize("name", [*BOUNDED, "full_attention", "knn", "dp_cache"])
def test_lengths_of_keys_and_queries_do_not_matter(lab: SimpleNamespace, name: str) -> None:
    fields = {"budget": 9} if name in BOUNDED else {}
    plain = lab.recall_stream(0, items=12)
    scales = 2.0 ** np.random.default_rng(0).integers(-3, 4, size=(len(plain), 1))
    phase = plain.phases[0]
    scaled = lab.stream(
        plain.keys * scales,
        plain.values,
        items=plain.items,
        queries=phase.queries * 8.0,
        answers=phase.answers,
        asked_items=phase.items,
        classes=plain.classes,
    )
    one, other = lab.read_one(name, plain, **fields), lab.read_one(name, scaled, **fields)
    assert one.tokens == other.tokens
    assert one.answers[0].tolist() == other.answers[0].tolist()


def test_centroids_are_normalised_sums(lab: SimpleNamespace) -> None:
    reading = lab.read_one("dp_cache", lab.stream(5.0 * circle(0, 30, 60)), tau=0.9, keys="centroid")
    np.testing.assert_allclose(reading.keys[0], circle(30.0), atol=1e-6)


@pytest.mark.parametrize("degrees", [(0.0, 180.0), (0.0, 120.0, 240.0)])
def test_a_centroid_whose_members_cancel_is_a_zero_key(lab: SimpleNamespace, degrees: tuple[float, ...]) -> None:
    """Also where rounding leaves something of the sum."""
    cache = lab.mechanism("dp_cache", {"tau": 2.0, "keys": "centroid"})
    [reading] = lab.read(cache, lab.stream(circle(*degrees)), dtype="float64")
    assert reading.keys[0].tolist() == [[0.0, 0.0]]
    assert not np.isnan(reading.answers[0]).any()


# --- narrow types ---


@pytest.mark.parametrize(("dtype", "bits"), [("float16", 11), ("bfloat16", 8), ("float32", 24)])
def test_narrow_keys_are_rounded_once_and_arithmetic_is_float64(lab: SimpleNamespace, dtype: str, bits: int) -> None:
    stream = lab.recall_stream(0, items=8)
    keys = Similarities(stream, dtype).keys
    assert keys.dtype == np.float64
    error = np.abs(keys - unit(stream.keys)).max()
    assert 2.0 ** -(bits + 6) < error < 2.0**-bits


# --- order ---


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.9])
def test_slots_are_far_apart_and_every_token_is_near_one(lab: SimpleNamespace, tau: float) -> None:
    stream = lab.recall_stream(1, items=30, dim=8)
    similarities = unit(stream.keys.astype(np.float32).astype(np.float64))
    slots = lab.read_one("dp_cache", stream, tau=tau).tokens[0]
    between = 1.0 - similarities[slots] @ similarities[slots].T + 9.0 * np.eye(len(slots))
    assert between.min() > tau
    for token in range(len(stream)):
        earlier = [slot for slot in slots if slot <= token]
        assert 1.0 - (similarities[earlier] @ similarities[token]).max() <= tau


def test_slots_of_a_prefix_are_a_prefix_of_the_slots(lab: SimpleNamespace) -> None:
    stream = lab.recall_stream(2, items=30, dim=8)
    whole = lab.stream(stream.keys, stream.values, ends=range(1, len(stream) + 1))
    history = lab.read_one("dp_cache", whole, tau=0.5).tokens
    assert all(later[: len(slots)] == slots for slots, later in pairwise(history))


def test_a_permutation_changes_the_slots(lab: SimpleNamespace) -> None:
    keys = circle(0, 50, 100)
    assert lab.read_one("dp_cache", lab.stream(keys), similarity=0.6).counts == [2]
    assert lab.read_one("dp_cache", lab.stream(keys[[1, 0, 2]]), similarity=0.6).counts == [1]


# --- eviction ---


def test_usage_neither_under_nor_overflows_and_full_decay_is_lru(lab: SimpleNamespace) -> None:
    """0.001^600 is far below float64; a counter that forgets at once ranks slots by their last use."""
    stream = lab.recall_stream(3, items=50, repeats=12)
    capped = lab.read_one("dp_cache", stream, cap=20, decay=0.001)
    lru = lab.read_one("item_lru", stream, budget=20)
    assert capped.tokens == lru.tokens
    assert not np.isnan(capped.answers[0]).any()


def test_equal_usage_gives_up_the_oldest_slot(lab: SimpleNamespace) -> None:
    assert lab.read_one("dp_cache", lab.stream(np.eye(4)), cap=3).tokens == [[1, 2, 3]]


def test_without_decay_slots_used_long_ago_shut_out_the_new(lab: SimpleNamespace) -> None:
    keys = np.eye(6)[[0, 0, 1, 1, 2, 3, 4, 5]]
    assert lab.read_one("dp_cache", lab.stream(keys), cap=2, decay=1.0).tokens == [[0, 2]]
    assert lab.read_one("dp_cache", lab.stream(keys), cap=2, decay=0.5).tokens == [[6, 7]]
    assert lab.read_one("item_lfu", lab.stream(keys), budget=2).tokens == [[2, 7]]


# --- H2O ---


def test_a_tokens_own_mass_counts(lab: SimpleNamespace) -> None:
    """By hand, at temperature 1 with w = exp(-1) for orthogonal keys and 1 for equal ones.

    Tokens a a b a, budget 2. After b: scores 1 + 1/2 + w/(2w+1), 1/2 + w/(2w+1), 1/(2w+1): .576 < .712 < 1.712, so b
    leaves by its own mass. Without it b would have 0, and everything new would leave at once.
    """
    stream = lab.stream(np.eye(2)[[0, 0, 1, 0]], ends=(2, 3, 4))
    reading = lab.read_one("h2o", stream, budget=2, temperature=1.0)
    assert reading.tokens == [[0, 1], [0, 1], [0, 1]]
    stream = lab.stream(np.eye(2)[[0, 1, 1, 1]], ends=(2, 3, 4))
    reading = lab.read_one("h2o", stream, budget=2, temperature=1.0)
    # a: 1 + w/(1+w) + w/(2+w) = 1.424; first b: 1/(1+w) + 1/(2+w) = 1.153; second b: 1/(2+w) = .422
    assert reading.tokens == [[0, 1], [0, 1], [0, 1]]


def test_a_recent_window_protects_the_newest_half(lab: SimpleNamespace) -> None:
    stream = lab.stream(np.eye(12))
    assert lab.read_one("h2o", stream, budget=6, variant="half_recent").tokens[0][3:] == [9, 10, 11]


def test_equal_scores_give_up_the_oldest() -> None:
    """Each token attends to itself alone, so all scores are 1; the oldest has a rounding error more."""
    weights = np.eye(3)
    weights[1, 0] = 1e-13
    tokens, score = np.zeros((1, 3), dtype=np.int64), np.zeros((1, 3))
    evict_unnoticed(weights, 0, np.array([2]), np.array([0]), True, tokens, score)
    assert tokens[0, :2].tolist() == [1, 2]


@pytest.mark.parametrize("temperature", [0.005, 100.0])
def test_softmax_neither_over_nor_underflows(lab: SimpleNamespace, temperature: float) -> None:
    stream = lab.stream(np.concatenate([circle(0, 180, 90), np.zeros((1, 2))]), ends=(1, 2, 3, 4))
    for variant in ("heavy_hitter", "half_recent", "no_own_mass", "observed_mean"):
        reading = lab.read_one(
            "h2o", stream, budget=2, variant=variant, temperature=temperature, read_temperature=temperature
        )
        assert reading.counts == [1, 2, 2, 2]
        assert not any(np.isnan(answers).any() for answers in reading.answers)


def test_an_empty_memory_abstains() -> None:
    predicted = np.empty((1, 2), dtype=np.int64)
    nothing = np.zeros((1, 1), dtype=np.int64)
    read_best(np.ones((2, 1)), nothing, nothing, np.zeros(1, dtype=np.int64), predicted)
    assert predicted.tolist() == [[ABSTAINED, ABSTAINED]]
    read_softmax(np.ones((2, 1)), nothing, nothing, np.zeros(1, dtype=np.int64), 3, predicted)
    assert predicted.tolist() == [[ABSTAINED, ABSTAINED]]


# --- streams that no memory can be given ---


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"values": [0, 3]}, "0..2"),
        ({"values": [0, -1]}, "0..2"),
        ({"values": [0, 1, 2]}, "values"),
        ({"queries": [[1.0]]}, "queries"),
        ({"answers": [0]}, "answers"),
        ({"ends": (0,)}, "phase ends"),
        ({"ends": (2, 1)}, "phase ends"),
        ({"ends": (3,)}, "phase ends"),
    ],
)
def test_streams_that_do_not_fit_together_are_refused(
    lab: SimpleNamespace, change: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(StreamError, match=complaint):
        lab.stream(**{"keys": np.eye(2), "values": [0, 1], "classes": 3, **change})
