"""Facts about the synthetic workloads that the paper's numbers rest on."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from models.mechanism import MECHANISMS
from models.stream import Floats
from tasks.checkpoints import checkpoints
from tasks.evaluate import evaluate
from tasks.keys import noisy, random_keys
from tasks.workloads.associative_recall import AssociativeRecall, AssociativeRecallConfig
from tasks.workloads.chinese_restaurant import ChineseRestaurant, ChineseRestaurantConfig, seat
from tasks.workloads.conflicting_values import ConflictingValues, ConflictingValuesConfig, said
from tasks.workloads.drifting_keys import DriftingKeys, DriftingKeysConfig
from tasks.workloads.fresh_keys import FreshKeys, FreshKeysConfig
from tasks.workloads.near_duplicates import NearDuplicatesConfig, family_keys
from tasks.workloads.phased_recall import PhasedRecall, PhasedRecallConfig
from tasks.workloads.zipf_recall import ZipfRecall, ZipfRecallConfig

EPISODES = 300
seeds = st.integers(0, 2**32 - 1)
Leader = Callable[[Floats, float], list[int]]


def test_noise_is_the_expected_length_of_the_noise() -> None:
    rng = np.random.default_rng(0)
    base = random_keys(4000, 64, rng)
    keys = noisy(base, 0.3, rng)
    cosines = np.einsum("ij,ij->i", base, keys)
    # base + noise of length 0.3 at right angles to it, but for 1/d of it, has cosine 1 / √(1 + 0.09).
    assert cosines.mean() == pytest.approx(1 / np.sqrt(1.09), abs=0.002)


def test_noise_zero_writes_the_clean_key() -> None:
    stream = AssociativeRecall(AssociativeRecallConfig(noise=0.0)).stream(0, 0)
    np.testing.assert_array_equal(stream.keys, stream.phases[0].queries[stream.items])


def test_every_item_comes_exactly_as_often_as_asked_in_random_order() -> None:
    workload = AssociativeRecall(AssociativeRecallConfig(items=64, repeats=4))
    streams = [workload.stream(0, episode) for episode in range(EPISODES)]
    for stream in streams:
        np.testing.assert_array_equal(np.bincount(stream.items), np.full(64, 4))
    places = np.array([np.flatnonzero(stream.items == 0) for stream in streams])
    assert places.mean() == pytest.approx(255 / 2, abs=4 * 74 / np.sqrt(4 * EPISODES))


def test_labels_and_the_query_that_counts_are_uniform() -> None:
    workload = AssociativeRecall(AssociativeRecallConfig())
    streams = [workload.stream(1, episode) for episode in range(EPISODES)]
    labels = np.bincount(np.concatenate([stream.phases[0].answers for stream in streams]), minlength=16)
    expected = EPISODES * 64 / 16
    assert np.sum((labels - expected) ** 2 / expected) < 37.7  # chi² with 15 degrees of freedom, p = 0.001
    asked = np.concatenate([stream.phases[0].asked for stream in streams])
    assert len(asked) == EPISODES
    assert asked.mean() == pytest.approx(31.5, abs=4 * 18.5 / np.sqrt(EPISODES))


def test_the_last_64_of_256_tokens_hold_the_closed_form_share_of_items() -> None:
    workload = AssociativeRecall(AssociativeRecallConfig(items=64, repeats=4))
    covered = [
        len(np.unique(workload.stream(seed, episode).items[-64:])) / 64 for seed in range(3) for episode in range(100)
    ]
    assert np.mean(covered) == pytest.approx(1 - comb(252, 64) / comb(256, 64), abs=4 * 0.04 / np.sqrt(300))


@pytest.mark.parametrize("similarity", [0.5, 0.6, 0.7, 0.8])
def test_one_slot_opens_per_item_on_the_plateau_of_thresholds(leader: Leader, similarity: float) -> None:
    """At d = 64 and noise 0.3, copies of an item are alike and items are not, for any threshold in this range."""
    config = AssociativeRecallConfig(items=1682, repeats=12, dim=64, noise=0.3)
    stream = AssociativeRecall(config).stream(0, 0)
    assert len(leader(stream.keys, similarity)) / 1682 == pytest.approx(1.0, abs=0.005)


def test_zipf_draws_items_in_proportion_to_a_power_of_their_rank() -> None:
    config = ZipfRecallConfig(items=10, events=50_000, exponent=1.5, dim=2)
    counts = np.bincount(ZipfRecall(config).stream(0, 0).items, minlength=10)
    weights = np.arange(1, 11) ** -1.5
    expected = 50_000 * weights / weights.sum()
    assert np.sum((counts - expected) ** 2 / expected) < 27.9  # chi² with 9 degrees of freedom, p = 0.001


def test_zipf_asks_only_for_items_that_were_seen() -> None:
    stream = ZipfRecall(ZipfRecallConfig(items=5000, events=200)).stream(0, 0)
    assert stream.distinct < 200
    np.testing.assert_array_equal(stream.phases[0].items, np.unique(stream.items))
    assert len(stream.phases[0].asked) == 1


def test_full_attention_holds_the_published_tokens_at_phase_ends() -> None:
    workload = PhasedRecall(PhasedRecallConfig())
    stream = workload.stream(0, 0)
    ends = [phase.end for phase in stream.phases]
    assert ends == [36, 216, 252, 432, 468, 648, 684, 864]
    assert np.mean(ends) == 450.0
    assert [len(phase.items) for phase in stream.phases] == [6, 30] * 4
    start = 0
    for phase in stream.phases:
        counts = np.bincount(stream.items[start : phase.end], minlength=stream.distinct)
        np.testing.assert_array_equal(np.flatnonzero(counts), phase.items)
        assert set(counts[phase.items].tolist()) == {6}
        start = phase.end
    everything = MECHANISMS.config_class("full_attention").model_validate({})
    [outcome] = evaluate(workload, [everything], 0, 3, "float32")
    assert outcome.metrics is not None
    assert outcome.metrics["slots_phase_end"] == 450.0
    assert outcome.metrics["recall"] > 0.99


def expected_items(alpha: float, events: int) -> float:
    """E K_N of a Chinese restaurant process: α (ψ(α + N) - ψ(α)) (Antoniak 1974)."""
    special = pytest.importorskip("scipy.special")
    return float(alpha * (special.digamma(alpha + events) - special.digamma(alpha)))


@pytest.mark.parametrize("alpha", [0.5, 10.0, 50.0])
def test_the_restaurant_has_the_expected_number_of_items_at_every_checkpoint(alpha: float) -> None:
    workload = ChineseRestaurant(ChineseRestaurantConfig(alpha=alpha, events=5000, dim=1, checkpoints=4))
    runs = [[len(phase.items) for phase in workload.stream(0, episode).phases] for episode in range(EPISODES)]
    ends = [phase.end for phase in workload.stream(0, 0).phases]
    assert ends == [100, 368, 1357, 5000]
    for end, counts in zip(ends, np.transpose(runs), strict=True):
        opens = alpha / (alpha + np.arange(end))
        sd = float(np.sqrt((opens * (1 - opens)).sum() / EPISODES))
        assert opens.sum() == pytest.approx(expected_items(alpha, end))
        assert counts.mean() == pytest.approx(opens.sum(), abs=4 * sd)


def test_popular_items_of_the_restaurant_grow_by_their_popularity() -> None:
    """After N tokens the share of the first item is Beta(1, α) distributed, whose mean is 1 / (1 + α)."""
    shares = [np.mean(seat(3.0, 400, np.random.default_rng(seed)) == 0) for seed in range(2000)]
    sd = np.sqrt(3.0 / (16.0 * 5.0) / 2000)
    assert np.mean(shares) == pytest.approx((1 + 399 / 4.0) / 400, abs=5 * sd)


def test_the_threshold_rule_saturates_on_fresh_keys(leader: Leader) -> None:
    stream = FreshKeys(FreshKeysConfig(events=4000, dim=3)).stream(0, 0)
    counts = [len(leader(stream.keys[:end], 0.8)) for end in (1000, 2000, 4000)]
    assert counts[2] - counts[1] <= 2
    assert counts[2] <= 41  # caps of half the angle arccos 0.8 are disjoint: 2 / (1 - cos(arccos(0.8) / 2)) of them fit
    assert stream.distinct == 4000


@given(twins=st.integers(1, 5), families=st.integers(1, 6), cosine=st.floats(0, 1), extra=st.integers(1, 9), seed=seeds)
def test_twins_have_the_cosine_asked_for(twins: int, families: int, cosine: float, extra: int, seed: int) -> None:
    keys = family_keys(families, twins, cosine, twins + extra, np.random.default_rng(seed))
    for family in keys.reshape(families, twins, -1):
        np.testing.assert_allclose(family @ family.T, cosine + (1 - cosine) * np.eye(twins), atol=1e-12)


def test_families_are_unrelated_and_uniform() -> None:
    keys = family_keys(4000, 2, 0.8, 8, np.random.default_rng(0))
    assert np.abs(keys.mean(axis=0)).max() < 0.03
    assert np.einsum("ij,ij->i", keys[:-2:2], keys[2::2]).mean() == pytest.approx(0.0, abs=0.03)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"items": 5}, "5 items are no whole number of families of 2 twins"), ({"dim": 2}, "2 twins need keys wider")],
)
def test_families_that_do_not_fit_are_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        NearDuplicatesConfig.model_validate(fields)


@given(tokens=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=30))
def test_what_tokens_said(tokens: list[tuple[int, int]]) -> None:
    tokens = [(item, 0) for item in range(5)] + tokens
    items, values = np.array(tokens).T
    each = [[value for item, value in tokens if item == wanted] for wanted in range(5)]
    assert said("first", items, values, 4).tolist() == [said_of[0] for said_of in each]
    assert said("last", items, values, 4).tolist() == [said_of[-1] for said_of in each]
    majority = [max(range(4), key=lambda value, s=said_of: (s.count(value), -value)) for said_of in each]  # type: ignore[misc]
    assert said("majority", items, values, 4).tolist() == majority


def test_conflicts_come_as_often_as_asked() -> None:
    workload = ConflictingValues(ConflictingValuesConfig(items=2000, repeats=5, conflict=0.3, answer="own", dim=1))
    stream = workload.stream(0, 0)
    other = stream.values != stream.phases[0].answers[stream.items]
    assert other.mean() == pytest.approx(0.3, abs=4 * np.sqrt(0.21 / 10_000))
    wrong = np.bincount((stream.values - stream.phases[0].answers[stream.items])[other] % 16, minlength=16)
    expected = other.sum() / 15
    assert wrong[0] == 0
    assert np.sum((wrong[1:] - expected) ** 2 / expected) < 36.1  # chi² with 14 degrees of freedom, p = 0.001


def test_an_own_class_that_never_shows_is_refused() -> None:
    with pytest.raises(ValidationError, match="no token carries its item's own class"):
        ConflictingValuesConfig(conflict=1.0, answer="own")


def test_keys_drift_step_by_step_and_queries_ask_where_they_are() -> None:
    workload = DriftingKeys(DriftingKeysConfig(items=500, repeats=6, drift=0.4, noise=0.0, dim=64))
    stream = workload.stream(0, 0)
    occurrences = np.argsort(stream.items, kind="stable").reshape(500, 6)
    keys = stream.keys[occurrences]
    from_first = np.einsum("id,ird->ir", keys[:, 0], keys).mean(axis=0)
    np.testing.assert_allclose(from_first, 1.16 ** (-np.arange(6) / 2), atol=0.01)
    np.testing.assert_array_equal(keys[:, -1], stream.phases[0].queries)
    still = DriftingKeys(DriftingKeysConfig(drift=0.0, noise=0.0)).stream(0, 0)
    np.testing.assert_array_equal(still.keys, still.phases[0].queries[still.items])


def test_no_redundancy_is_one_token_an_item(leader: Leader) -> None:
    stream = AssociativeRecall(AssociativeRecallConfig(repeats=1, dim=64)).stream(0, 0)
    assert len(leader(stream.keys, 0.6)) == len(stream) == stream.distinct == 64


def test_checkpoints_are_log_spaced_and_end_with_the_stream() -> None:
    assert checkpoints(10_000, 3) == [100, 1000, 10_000]
    assert checkpoints(10_000, 1) == [10_000]
    assert checkpoints(50, 3) == [50]
    assert checkpoints(103, 9) == [100, 101, 102, 103]
