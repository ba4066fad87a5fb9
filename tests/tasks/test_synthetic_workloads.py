"""Facts about the synthetic workloads that the paper's numbers rest on."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
import pytest

from models.stream import Floats
from tasks.keys import noisy, random_keys
from tasks.workloads.associative_recall import AssociativeRecall, AssociativeRecallConfig
from tasks.workloads.zipf_recall import ZipfRecall, ZipfRecallConfig

EPISODES = 300
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
