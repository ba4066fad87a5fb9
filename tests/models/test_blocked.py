"""The blocked build decides as the scalar float64 rule does: also at ties, thresholds and their rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import blocked
from models.blocked import Built, build_slots, clear_cosine, naive_build_slots, reference_build_slots, rounding_margin
from models.mechanisms import dp_cache
from models.similarity import Similarities
from models.stream import Floats, unit

TAUS = (-0.5, 0.0, 1e-9, 1e-7, 1e-5, 1e-4, 1e-3, 0.1, 0.4, 0.5, 0.6, 1.0, 1.5, 2.0, 3.0)


def random_keys(rng: np.random.Generator, length: int) -> Floats:
    return rng.standard_normal((length, int(rng.integers(1, 70))))


def noisy_items(rng: np.random.Generator, length: int) -> Floats:
    base = rng.standard_normal((max(1, length // 4), 24))
    return base[rng.integers(len(base), size=length)] + rng.choice([0.0, 0.1, 0.5]) * rng.standard_normal((length, 24))


def copies(rng: np.random.Generator, length: int) -> Floats:
    """Copies at any length: their cosines are 1 but for rounding."""
    base = rng.standard_normal((max(1, length // 5), 9))
    return base[rng.integers(len(base), size=length)] * rng.uniform(0.1, 10.0, size=(length, 1))


def twins(rng: np.random.Generator, length: int) -> Floats:
    """Keys that differ by about the rounding of float32."""
    base = rng.standard_normal((max(1, length // 6), 33))
    return base[rng.integers(len(base), size=length)] + 10.0 ** rng.uniform(-9, -3) * rng.standard_normal((length, 33))


def halves(rng: np.random.Generator, length: int) -> Floats:
    """Cosines are exactly -1, -1/2, 0, 1/2 or 1: every decision is a tie or on a threshold."""
    return rng.choice([-0.5, 0.5], size=(length, 4))


def with_zeros(rng: np.random.Generator, length: int) -> Floats:
    return rng.standard_normal((length, 3)) * (rng.random((length, 1)) > 0.3)


def on_the_threshold(rng: np.random.Generator, length: int) -> Floats:
    """Cosines with the first key are 1/2 give or take up to 1e-12 to 1e-4, on every side of it."""
    gaps = rng.choice([-1.0, 1.0], size=length) * 10.0 ** rng.uniform(-12.0, -4.0, size=length)
    cosines = np.concatenate([[1.0], 0.5 + gaps[1:]])
    sides = unit(rng.standard_normal((length, 20)))
    return np.concatenate([cosines[:, None], np.sqrt(1.0 - cosines**2)[:, None] * sides], axis=1)


def between_slots(rng: np.random.Generator, length: int) -> Floats:
    """Sums of two far items, weighted alike but for rounding: which is nearer is decided by the last bits."""
    base = np.eye(12)
    pairs = base[rng.integers(12, size=length)] + base[rng.integers(12, size=length)]
    return np.concatenate([base, pairs + 1e-8 * rng.standard_normal((length, 12))])[: max(length, 12)]


KINDS = (random_keys, noisy_items, copies, twins, halves, with_zeros, on_the_threshold, between_slots)


def assert_same(one: Built, other: Built) -> None:
    assert one.slots.tolist() == other.slots.tolist()
    assert one.assignment.tolist() == other.assignment.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=400, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32 - 1),
    length=st.integers(1, 90),
    tau=st.sampled_from(TAUS),
    block=st.sampled_from([1, 3, 16, 64, 512]),
    width=st.sampled_from([1, 5, 256]),
    most=st.sampled_from([40, 1 << 23]),
)
def test_every_decision_is_the_scalar_rules(
    dtype: type, kind: Callable[..., Floats], seed: int, length: int, tau: float, block: int, width: int, most: int
) -> None:
    keys = kind(np.random.default_rng(seed), length).astype(dtype)
    expected = reference_build_slots(keys, tau)
    with patch.multiple(blocked, CHUNK_SLOTS=width, MOST_COSINES=most):
        assert_same(build_slots(keys, tau, block), expected)
    assert_same(naive_build_slots(keys, tau), expected)


@pytest.mark.parametrize(("noise", "tau"), [(0.3, 0.5), (0.8, 0.5), (0.3, 0.15), (0.0, 0.0)])
def test_long_streams_whose_slots_fill_many_chunks(noise: float, tau: float) -> None:
    rng = np.random.default_rng(4)
    base = unit(rng.standard_normal((700, 64)))
    keys = base[rng.integers(700, size=5000)] + noise * rng.standard_normal((5000, 64)) / 8.0
    keys = keys.astype(np.float32)
    built = build_slots(keys, tau)
    assert_same(built, naive_build_slots(keys, tau))
    exact = unit(keys.astype(np.float64))
    cosines = exact @ exact[built.slots].T
    assert (np.abs(1.0 - cosines[np.arange(5000), built.assignment]) <= tau + 1e-9).all()
    apart = cosines[built.slots] - 2.0 * np.eye(len(built.slots))
    assert apart.max() < 1.0 - tau


def test_reading_in_parts_is_reading_at_once() -> None:
    keys = noisy_items(np.random.default_rng(1), 600).astype(np.float32)
    parts = blocked.BlockedBuild(keys, 0.4, 64)
    for start, stop in ((0, 1), (1, 130), (130, 140), (140, 600)):
        parts.read(start, stop)
    assert_same(Built(parts.slots, parts.assignment), build_slots(keys, 0.4))


def test_the_cache_opens_the_same_slots(lab: SimpleNamespace) -> None:
    stream = lab.recall_stream(0, items=90, repeats=5, dim=24, noise=0.5)
    for similarity in (0.3, 0.5, 0.7, 0.9):
        slots = lab.read_one("dp_cache", stream, similarity=similarity).tokens[0]
        assert build_slots(stream.keys.astype(np.float32), 1.0 - similarity).slots.tolist() == slots


@pytest.mark.parametrize("keep", ["first", "last", "majority"])
def test_the_cache_reads_long_streams_as_it_reads_short_ones(
    lab: SimpleNamespace, keep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slots, values, answers and use of slots; without a cosine of two tokens being asked for."""
    rng = np.random.default_rng(0)
    base = unit(rng.standard_normal((60, 24)))
    items = rng.integers(60, size=1500)
    keys = base[items] + 0.4 * rng.standard_normal((1500, 24)) / math.sqrt(24)
    values = np.where(rng.random(1500) < 0.3, rng.integers(5, size=1500), items % 5)
    stream = lab.stream(keys, values, ends=(3, 700, 1400), queries=base, answers=np.arange(60) % 5, classes=5)
    group = lab.mechanism("dp_cache", *({"similarity": s, "keep": keep} for s in (0.3, 0.6, 0.9)))
    assert group.compares(stream)
    shared = lab.read(group, stream)
    monkeypatch.setattr(dp_cache, "LONG_STREAM", 1500)
    monkeypatch.delattr(Similarities, "rows")
    assert not group.compares(stream)
    for one, other in zip(lab.read(group, stream), shared, strict=True):
        assert (one.tokens, one.values, one.counts) == (other.tokens, other.values, other.counts)
        assert (one.held, one.peak) == (other.held, other.peak)
        assert [a.tobytes() for a in one.answers] == [a.tobytes() for a in other.answers]


def test_products_stay_within_the_rounding_margin() -> None:
    rng = np.random.default_rng(0)
    for dim in (1, 3, 16, 64, 500):
        keys = rng.standard_normal((300, dim)) * 10.0 ** rng.uniform(-6, 6, size=(300, 1))
        _, rough = blocked.scaled(keys)
        error = np.abs(rough @ rough.T - unit(keys) @ unit(keys).T).max()
        assert error < rounding_margin(dim) / 2.0


@pytest.mark.parametrize("tau", [1e-7, 1e-5, 1e-4, 1e-3, 0.1, 0.5, 1.0, 1.9, 2.0])
def test_no_other_slot_is_near_a_clear_one(tau: float) -> None:
    """In the plane, the other slot as close as slots can be, on the token's side, and all rounding against us."""
    margin = rounding_margin(64)
    clear, apart = clear_cosine(tau, margin) - margin / 2.0, math.acos(1.0 - tau)
    for angle in np.linspace(0.0, math.acos(min(1.0, clear)), 50):
        if math.cos(angle) >= clear:
            assert math.cos(angle) - math.cos(apart - angle) > 2.0 * margin
            assert 1.0 - math.cos(angle) <= tau - margin
    assert clear > 2.0 * margin  # no zero key is near


def test_nothing_is_clear_where_slots_may_coincide() -> None:
    margin = rounding_margin(64)
    assert clear_cosine(0.0, margin) > 1.0 + margin
    assert clear_cosine(-1.0, margin) > 1.0 + margin
    assert clear_cosine(0.5, margin) < 0.867


def test_no_token_opens_no_slot() -> None:
    built = build_slots(np.empty((0, 8), dtype=np.float32), 0.5)
    assert (len(built.slots), len(built.assignment)) == (0, 0)
