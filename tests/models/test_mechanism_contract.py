"""What every mechanism promises: its kernel does what its reference says, alone and in a group, on any stream."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from models.cluster_memory import ClusterMemory
from models.config import canonical_json
from models.fixed_state import FixedSize
from models.log_parsing import LogParser
from models.mechanism import MECHANISMS, SlotMemory
from models.reference import unit_keys
from models.similarity import Similarities
from models.stream import Floats, Phase, Stream, unit

DECIDED = 1e-6
"""Decisions closer than this may fall either way."""

BUDGETS: list[dict[str, Any]] = [{"budget": budget} for budget in (0, 1, 2, 3, 7, 20, 1000)]

GROUPS: dict[str, list[list[dict[str, Any]]]] = {
    "full_attention": [[{}], [{"temperature": 1.0}], [{"temperature": "argmax"}]],
    "knn": [
        [{"k": k} for k in (1, 2, 3, 8, 1000)],
        [{"k": k, **fields} for k in (2, 30) for fields in BUDGETS],
        [{"k": 3, "budget": budget, "temperature": "argmax"} for budget in (None, 7)],
    ],
    "modern_hopfield": [[{"steps": steps} for steps in (1, 2, 5)], [{"temperature": "argmax"}]],
    "landmark_attention": [
        [{"block_size": size, "blocks": blocks} for size, blocks in ((1, 3), (4, 1), (4, 2), (5, 30))],
        [{"block_size": 3, "blocks": 2, "temperature": "argmax"}],
    ],
    "em_llm": [
        [
            {},
            {"gamma": 0.0, "window": 5, "representatives": 1, "events": 2, "contiguity": 0},
            {"gamma": 0.5, "window": 1000, "representatives": 2, "events": 1, "contiguity": 2},
            {"gamma": -1.0, "window": 8, "refine": False, "events": 3},
            {"gamma": 3.0, "refine": False, "representatives": 3, "events": 1, "contiguity": 10**9},
        ],
        [{"gamma": 0.2, "events": 1, "contiguity": 0, "temperature": "argmax"}],
    ],
    "lsh_attention": [
        [{"buckets": 16, "hashes": 1}],
        [{"buckets": 4, "hashes": 2}],
        [{"buckets": 2, "hashes": 1, "temperature": "argmax"}],
    ],
    "routing_attention": [
        [{"clusters": 3, "window": 5, "decay": decay} for decay in (0.5, 0.999, 1.0)],
        [{"clusters": 1, "window": 4, "decay": 0.9}],
        [{"clusters": 4, "window": 3, "decay": 0.9, "temperature": "argmax"}],
    ],
    "clustered_attention": [
        [{"clusters": clusters, "bits": 12, "recomputed": r} for clusters in (1, 3) for r in (0, 2, 1000)],
        [{"clusters": 1000, "iterations": 0}, {"clusters": 3, "iterations": 1}],
        [{"clusters": 2, "recomputed": recomputed, "temperature": "argmax"} for recomputed in (0, 3)],
    ],
    "recency": [BUDGETS],
    "streaming_llm": [BUDGETS, [{"budget": 6, "sinks": sinks} for sinks in (0, 1, 5, 6, 9)]],
    "random_eviction": [BUDGETS],
    "h2o": [
        BUDGETS,
        [{**fields, "temperature": 1.0} for fields in BUDGETS],
        [{**fields, "variant": "half_recent"} for fields in BUDGETS],
        [{**fields, "variant": "no_own_mass"} for fields in BUDGETS],
        [{**fields, "variant": "observed_mean", "read_temperature": "argmax"} for fields in BUDGETS],
    ],
    "snapkv": [
        BUDGETS,
        [{**fields, "window": 2} for fields in BUDGETS],
        [{**fields, "window": 1, "pooling": False, "temperature": 1.0} for fields in BUDGETS],
    ],
    "tova": [BUDGETS],
    "knorm": [BUDGETS],
    "keydiff": [BUDGETS],
    "expected_attention": [
        BUDGETS,
        [{**fields, "sinks": 0, "temperature": 1.0, "read_temperature": "argmax"} for fields in BUDGETS],
    ],
    "leverage_scores": [BUDGETS],
    "dp_cache": [
        [{"tau": tau} for tau in (-0.5, 0.0, 0.2, 0.5, 1.0, 2.0)],
        [{"tau": 0.5, "cap": cap, "decay": decay} for cap in (1, 2, 5) for decay in (1.0, 0.9, 0.01)],
        [{"tau": tau, "keep": "last"} for tau in (0.1, 0.5, 1.5)],
        [{"tau": tau, "cap": cap, "keep": "majority"} for tau in (0.1, 0.5) for cap in (3, 1000)],
        [{"tau": tau, "keys": "centroid"} for tau in (0.1, 0.5, 1.5)],
        [{"tau": 0.3, "keys": "centroid", "cap": cap, "decay": 0.9, "keep": "majority"} for cap in (1, 4)],
    ],
    "item_lru": [BUDGETS, [{"budget": 3, "tau": tau} for tau in (-0.5, 0.0, 0.9, 2.0)]],
    "item_lfu": [BUDGETS, [{"budget": 3, "tau": tau} for tau in (-0.5, 0.0, 0.9, 2.0)]],
    "item_arc": [BUDGETS, [{"budget": 3, "tau": tau} for tau in (-0.5, 0.0, 0.9, 2.0)]],
    "item_2q": [BUDGETS, [{"budget": budget, "entry": 0.5, "memory": 2.0, "tau": 0.1} for budget in (2, 5)]],
    "item_s3_fifo": [BUDGETS, [{"budget": budget, "small": 0.5, "tau": 0.1} for budget in (2, 5)]],
    "item_sieve": [BUDGETS, [{"budget": 3, "tau": tau} for tau in (-0.5, 0.0, 0.9, 2.0)]],
    "item_wtinylfu": [BUDGETS, [{"budget": budget, "window": 0.5, "sample": 2, "tau": 0.1} for budget in (1, 3, 6)]],
    "optimal": [BUDGETS],
    "superposition": [[{"decay": decay} for decay in (1.0, 0.995, 0.9, 0.01)]],
    "linear_attention": [[{"feature_map": name}] for name in ("elu", "relu", "identity")],
    "delta_rule": [[{"beta": beta} for beta in (0.01, 0.5, 1.0, 2.0)]],
    "gated_delta_rule": [[{"alpha": alpha, "beta": beta} for alpha in (1.0, 0.99, 0.1) for beta in (0.1, 1.0, 1.5)]],
    "neural_episodic_control": [BUDGETS, [{"budget": 4, "k": k, "alpha": 1.0, "delta": 0.1} for k in (1, 2, 3, 1000)]],
    "product_key_memory": [
        [{"side": 4, "k": k} for k in (1, 3, 10, 1000)],
        [{"side": 3, "k": 2, "keep": "last", "temperature": temperature} for temperature in (0.05, 1.0)],
    ],
    "sparse_pointer_memory": [
        BUDGETS,
        [{"budget": 5, "merge_above": above, "k": k} for above in (-0.5, 0.3, 1.0) for k in (1, 2, 1000)],
        [{"budget": budget, "temperature": "argmax"} for budget in (1, 6)],
    ],
    "kanerva_machine": [
        [{"size": 6, "noise": noise} for noise in (1e-2, 1.0, 30.0)],
        [{"size": 1}],
        [{"size": 20, "temperature": 0.5}],
    ],
    "titans_linear": [
        [{"theta": 0.1, "eta": eta, "alpha": alpha} for eta in (0.1, 0.6) for alpha in (0.0, 0.1)],
        [{"theta": theta, "eta": 0.0} for theta in (0.01, 0.5)],
    ],
    "titans_mlp": [
        [{"hidden": 5, "theta": 0.2, "eta": eta, "alpha": alpha} for eta in (0.1, 0.6) for alpha in (0.0, 0.1)],
        [{"hidden": 8, "theta": theta, "eta": 0.0} for theta in (0.01, 0.5)],
    ],
    "infinite_former": [
        [
            {"basis": 6, "chunk": 25, "samples": 15, "sticky": sticky, "density": density, "tau": tau}
            for sticky in (False, True)
            for density, tau in (("softmax", 0.6), ("gaussian", 0.8))
        ],
        [{"basis": 10, "chunk": 7, "samples": 30, "spread": 0.7, "temperature": 0.5}],
        [{"basis": 64, "chunk": 10, "samples": 1, "spread": 0.2}],  # read where no bump is near
        [{"basis": 40, "chunk": 1, "samples": 1, "spread": 0.1, "ridge": 1e6}],
    ],
    "ridge_memory": [[{"ridge": ridge} for ridge in (1e-3, 1.0, 30.0)]],
    "dp_parser": [
        [{"similarity": s, "count_wildcards": c} for s in (0.0, 0.5, 0.7, 1.0) for c in (True, False)],
        [{"mask_numbers": True, "mask_addresses": True, "mask_paths": True}],
    ],
    "drain_parser": [[{"similarity": s, "depth": depth} for s in (0.0, 0.5, 0.7, 1.0) for depth in (3, 4, 6)]],
    "quadratic_memory": [[{}], [{"ridge": ridge} for ridge in (1e-3, 1.0, 30.0)]],
    "adaptive_dp_cache": [
        [
            {"tau": 0.1, "eta": 0.1, "beta": 40.0, "m0": 8.0, "decay": 0.99},
            {"tau": 0.5, "eta": 0.3, "beta": 8.5, "m0": 0.0, "decay": 0.9},
            {"tau": 0.2, "eta": 1.0, "beta": 3.0, "m0": 0.7, "decay": 0.5},
            {"tau": 0.5, "eta": 0.0, "beta": 9.0, "m0": 3.2, "decay": 1.0},
            {"tau": 0.3, "eta": 0.5, "beta": 0.0, "m0": 2.0, "decay": 0.9},
        ]
    ],
    "item_ttl": [
        [{"window": window, "tau": 0.4} for window in (1, 2, 5, 20, 1000)],
        [{"window": 4, "tau": tau} for tau in (-0.5, 0.0, 0.9, 2.0)],
    ],
    "belady": [BUDGETS],
    "dp_means": [
        [{"tau": tau} for tau in (-0.5, 0.0, 0.2, 0.5, 1.0)],
        [{"tau": 0.3, "iterations": iterations} for iterations in (0, 1, 3)],
    ],
    "kmeans_keys": [
        [{"clusters": clusters, "iterations": 4} for clusters in (1, 2, 5, 20)],
        [{"clusters": clusters, "init": "kmeans++", "restarts": 2, "iterations": 3} for clusters in (1, 3, 8)],
    ],
}

ONE_SHOT = ("snapkv", "expected_attention", "leverage_scores")
"""What holds all of a phase until its end."""

EVERY_GROUP = [pytest.param(name, group, id=f"{name}-{n}") for name in GROUPS for n, group in enumerate(GROUPS[name])]
every_group = pytest.mark.parametrize(("name", "group"), EVERY_GROUP)


def test_every_mechanism_is_tested_here() -> None:
    """Those that learn have a contract of their own, in `test_trained_contract.py`."""
    ours = {
        name for name, _, made in MECHANISMS if made.__module__.startswith("models.mechanisms.") and not made.trained
    }
    assert set(GROUPS) == ours


# --- streams ---


def random_keys(rng: np.random.Generator, length: int) -> Floats:
    return rng.standard_normal((length, int(rng.integers(1, 7))))


def noisy_items(rng: np.random.Generator, length: int) -> Floats:
    base = rng.standard_normal((max(1, length // 4), 6))
    return base[rng.integers(len(base), size=length)] + 0.2 * rng.standard_normal((length, 6))


def duplicates(rng: np.random.Generator, length: int) -> Floats:
    """Few keys, many copies, at any length: copies tie, whatever the rounding of their products."""
    base = rng.standard_normal((max(1, length // 5), 3))
    return base[rng.integers(len(base), size=length)] * rng.uniform(0.5, 2.0, size=(length, 1))


def all_equal(rng: np.random.Generator, length: int) -> Floats:
    return np.repeat(rng.standard_normal((1, 5)), length, axis=0)


def orthogonal(rng: np.random.Generator, length: int) -> Floats:
    return np.eye(8)[rng.integers(8, size=length)]


def antipodal(rng: np.random.Generator, length: int) -> Floats:
    return rng.choice([-1.0, 1.0], size=(length, 1)) * rng.standard_normal((1, 4))


def halves(rng: np.random.Generator, length: int) -> Floats:
    """Entries of +-1/2 in four dimensions: cosines are exactly -1, -1/2, 0, 1/2 or 1."""
    return rng.choice([-0.5, 0.5], size=(length, 4))


def with_zeros(rng: np.random.Generator, length: int) -> Floats:
    return rng.standard_normal((length, 3)) * (rng.random((length, 1)) > 0.3)


def near_threshold(rng: np.random.Generator, length: int) -> Floats:
    """Cosines with the first key straddle 1/2, by little (all decidable) or by next to nothing."""
    closest = rng.choice([-5.0, -12.0])
    gaps = rng.choice([-1.0, 1.0], size=length) * 10.0 ** rng.uniform(closest, -2.0, size=length)
    cosines = np.concatenate([[1.0], 0.5 + gaps[1:]])
    sides = rng.choice([-1.0, 1.0], size=length)
    return np.stack([cosines, sides * np.sqrt(1.0 - cosines**2)], axis=1)


KINDS = (
    random_keys, noisy_items, duplicates, all_equal, orthogonal, antipodal, halves, with_zeros, near_threshold,
)  # fmt: skip
EXACT = (orthogonal, halves)


@st.composite
def drawn_streams(draw: st.DrawFn, kinds: tuple[Any, ...] = KINDS, longest: int = 36) -> dict[str, Any]:
    """Arguments of `lab.stream`: keys of one kind, values that may conflict, one to four phases, some unread tokens."""
    kind = draw(st.sampled_from(kinds))
    length = draw(st.integers(1, longest))
    ends = sorted(draw(st.sets(st.integers(1, length), min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    keys = kind(rng, length)
    queries = np.concatenate([keys[rng.integers(length, size=3)], rng.standard_normal((3, keys.shape[1]))])
    return {
        "keys": keys,
        "values": rng.integers(3, size=length),
        "items": rng.integers(max(1, length // 3), size=length),
        "ends": ends,
        "queries": queries,
        "answers": rng.integers(3, size=len(queries)),
        "asked_items": rng.integers(max(1, length // 3), size=len(queries)),
        "classes": 3,
    }


def long_stream(lab: SimpleNamespace, seed: int, *, ends: tuple[int, ...] = (130, 256, 300, 513, 540)) -> Stream:
    """Phases on, before and after the borders of the 256-token blocks, and a tail that no phase reads."""
    rng = np.random.default_rng(seed)
    base = rng.standard_normal((40, 8))
    items = rng.integers(40, size=560)
    keys = base[items] + 0.25 * rng.standard_normal((560, 8))
    return lab.stream(keys, items % 5, items=items, ends=ends, queries=base, answers=np.arange(40) % 5, classes=5)


# --- the kernel does what the reference says ---


def assert_equals_reference(
    lab: SimpleNamespace, name: str, group: list[dict[str, Any]], stream: Stream, dtype: str = "float32"
) -> int:
    """Compare each config with its reference; returns how many were far enough from any tie to compare."""
    compared = 0
    made = MECHANISMS.implementation(name)
    for fields, fast in zip(group, lab.read(lab.mechanism(name, *group), stream, dtype=dtype), strict=True):
        config = lab.config(name, **fields)
        plain = made.reference(stream, config, np.random.default_rng(0), dtype)
        if issubclass(made, FixedSize):
            assert_state(lab, name, fields, stream, plain, fast)
            compared += 1
            continue
        for answers, count in zip(fast.answers, fast.counts, strict=True):
            assert count == 0 or not np.isnan(answers).any() or plain.scores or issubclass(made, LogParser)
        if plain.margin <= DECIDED:
            continue
        compared += 1
        assert (fast.held, fast.peak) == (plain.held, plain.peak)
        assert fast.counts == [len(tokens) for tokens in plain.tokens]
        if plain.scores:
            for phase, scores, answers in zip(stream.phases, plain.scores, fast.answers, strict=True):
                assert_choices(phase, [lab.plain_read_scores(row) for row in scores], answers)
        if issubclass(made, SlotMemory):
            assert fast.tokens == plain.tokens
            assert fast.values == plain.values
        if issubclass(made, SlotMemory) and not plain.scores:
            assert_answers(lab, config, stream, plain, fast, dtype)
    return compared


def assert_answers(lab: SimpleNamespace, config: Any, stream: Stream, plain: Any, fast: Any, dtype: str) -> None:
    keys = unit_keys(stream, dtype)
    for n, phase in enumerate(stream.phases):
        slot_keys = plain.keys[n] if plain.keys is not None else keys[plain.tokens[n]]
        if plain.keys is not None:
            np.testing.assert_allclose(fast.keys[n], slot_keys, atol=1e-9)
        for query, answer, credit in zip(unit(phase.queries), phase.answers, fast.answers[n], strict=True):
            if len(slot_keys) == 0:
                assert math.isnan(credit)
                continue
            value, gap = lab.plain_read(query, slot_keys, plain.values[n], config.reading, getattr(config, "k", None))
            assert gap <= DECIDED or credit == (value == answer)


def assert_state(
    lab: SimpleNamespace, name: str, fields: dict[str, Any], stream: Stream, plain: Any, fast: Any
) -> None:
    """A memory of fixed size has the reference's state, up to rounding, and answers as a plain read of it does."""
    assert (fast.held, fast.peak) == (plain.held, plain.peak)
    assert fast.counts == [len(state) for state in plain.states]
    features = lab.mechanism(name, fields).features
    for n, (phase, state, held) in enumerate(zip(stream.phases, plain.states, fast.states, strict=True)):
        np.testing.assert_allclose(held, state, rtol=0.0, atol=1e-8 * max(1.0, np.abs(state).max()))
        if plain.scores:
            choices = [lab.plain_read_scores(row) for row in plain.scores[n]]
        else:
            queries = plain.query_features[n] if plain.query_features else features(unit(phase.queries))
            values = state[:, -stream.classes :] if plain.query_features else state
            choices = [lab.plain_read_state(query, values) for query in queries]
        assert_choices(phase, choices, fast.answers[n])


def assert_choices(phase: Phase, choices: list[tuple[int | None, float]], answers: Floats) -> None:
    """Each of the `answers` [Q] is what a plain read chose, unless by next to nothing; NaN where it chose None."""
    for (value, gap), answer, credit in zip(choices, phase.answers, answers, strict=True):
        assert math.isnan(credit) == (value is None)
        assert value is None or gap <= DECIDED or credit == (value == answer)


@every_group
@settings(max_examples=20, deadline=None)
@given(drawn=drawn_streams())
def test_kernel_equals_reference(
    lab: SimpleNamespace, name: str, group: list[dict[str, Any]], drawn: dict[str, Any]
) -> None:
    assert_equals_reference(lab, name, group, lab.stream(**drawn))


@every_group
def test_kernel_equals_reference_across_blocks_and_phases(
    lab: SimpleNamespace, name: str, group: list[dict[str, Any]]
) -> None:
    assert assert_equals_reference(lab, name, group[-3:], long_stream(lab, 1)) > 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", GROUPS)
def test_kernel_equals_reference_in_every_dtype(lab: SimpleNamespace, name: str, dtype: str) -> None:
    rng = np.random.default_rng(2)
    stream = lab.stream(noisy_items(rng, 40), rng.integers(3, size=40), ends=(25, 40))
    assert assert_equals_reference(lab, name, GROUPS[name][0], stream, dtype) > 0


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("name", GROUPS)
def test_ties_are_settled_by_the_stated_rule(lab: SimpleNamespace, name: str, kind: Any) -> None:
    """Arithmetic is exact here, so most decisions are exact ties; several streams must be free of near ties."""
    compared = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        stream = lab.stream(kind(rng, 24), rng.integers(3, size=24), ends=(13, 24))
        for group in GROUPS[name]:
            compared += assert_equals_reference(lab, name, group, stream)
    assert compared >= 6


# --- causality ---


@every_group
def test_what_comes_later_changes_no_answer(lab: SimpleNamespace, name: str, group: list[dict[str, Any]]) -> None:
    """A stream that ends with its first phase has the answers there that the whole of it has; bounds may know more."""
    if MECHANISMS.implementation(name).role == "bound":
        pytest.skip("a bound knows what comes")
    for seed in range(2):
        whole = long_stream(lab, seed)
        first = whole.phases[0]
        end = first.end
        cut = replace(
            whole,
            keys=whole.keys[:end],
            values=whole.values[:end],
            items=whole.items[:end],
            phases=(first,),
            lines=(whole.lines or ())[:end],
        )
        made = lab.mechanism(name, *group)
        for before, after in zip(lab.read(made, cut), lab.read(made, whole), strict=True):
            np.testing.assert_array_equal(before.answers[0], after.answers[0])
            assert before.counts[0] == after.counts[0]


# --- grouping, order, chance ---


def assert_same_bits(one: Any, other: Any) -> None:
    assert (one.tokens, one.values, one.counts) == (other.tokens, other.values, other.counts)
    assert (one.held, one.peak) == (other.held, other.peak)
    arrays = ([*reading.answers, *reading.keys, *reading.states] for reading in (one, other))
    for left, right in zip(*arrays, strict=True):
        assert left.tobytes() == right.tobytes()


@every_group
def test_a_group_gives_each_config_what_it_gets_alone(
    lab: SimpleNamespace, name: str, group: list[dict[str, Any]]
) -> None:
    stream = long_stream(lab, 3)
    together = lab.read(lab.mechanism(name, *group), stream, seed=5)
    for fields, reading in zip(group, together, strict=True):
        assert_same_bits(reading, lab.read(lab.mechanism(name, fields), stream, seed=5)[0])
    for fields, reading in zip(
        reversed(group), lab.read(lab.mechanism(name, *reversed(group)), stream, seed=5), strict=True
    ):
        assert_same_bits(reading, together[group.index(fields)])


@every_group
def test_configs_of_a_test_group_do_run_as_one_group(
    lab: SimpleNamespace, name: str, group: list[dict[str, Any]]
) -> None:
    keys = {MECHANISMS.implementation(name).group_key(lab.config(name, **fields)) for fields in group}
    assert len(keys) == 1


def test_slots_of_different_size_do_not_share_a_group(lab: SimpleNamespace) -> None:
    """Under a cap each slot carries a usage counter."""
    key = MECHANISMS.implementation("dp_cache").group_key
    assert key(lab.config("dp_cache", cap=5)) == key(lab.config("dp_cache", cap=6, tau=0.1))
    assert key(lab.config("dp_cache", cap=5)) != key(lab.config("dp_cache"))


@every_group
def test_nothing_is_left_of_a_stream_when_the_next_is_read(
    lab: SimpleNamespace, name: str, group: list[dict[str, Any]]
) -> None:
    used = lab.mechanism(name, *group)
    lab.read(used, long_stream(lab, 4), seed=1)
    second = long_stream(lab, 5, ends=(40, 300))
    for one, other in zip(lab.read(used, second, 2), lab.read(lab.mechanism(name, *group), second, 2), strict=True):
        assert_same_bits(one, other)


@pytest.mark.parametrize("name", GROUPS)
def test_a_seed_matters_exactly_where_the_mechanism_says_so(lab: SimpleNamespace, name: str) -> None:
    stream, group = long_stream(lab, 6), GROUPS[name][0]
    one, other = (lab.read(lab.mechanism(name, *group), stream, seed) for seed in (1, 2))
    told = [[(a.tokens, [made.tobytes() for made in (*a.states, *a.answers)]) for a in read] for read in (one, other)]
    same = told[0] == told[1]
    assert same == MECHANISMS.implementation(name).seed_free


# --- sizes ---


@every_group
@settings(max_examples=5, deadline=None)
@given(drawn=drawn_streams())
def test_no_budget_is_exceeded_and_usage_adds_up(
    lab: SimpleNamespace, name: str, group: list[dict[str, Any]], drawn: dict[str, Any]
) -> None:
    stream = lab.stream(**drawn)
    read = stream.phases[-1].end
    made = lab.mechanism(name, *group)
    for fields, reading in zip(group, lab.read(made, stream), strict=True):
        if isinstance(made, FixedSize):
            assert reading.counts == [made.rows(stream.dim)] * len(stream.phases)
            continue
        limit = next((fields[name] for name in ("budget", "cap") if fields.get(name) is not None), read)
        assert all(
            0 <= count <= min(limit, phase.end) for count, phase in zip(reading.counts, stream.phases, strict=True)
        )
        assert max(reading.counts) <= reading.peak <= read
        assert reading.peak <= reading.held <= reading.peak * read
        for tokens, values in zip(reading.tokens, reading.values, strict=True):
            assert tokens == sorted(set(tokens))
            if "keep" not in fields and not isinstance(made, ClusterMemory):
                assert values == stream.values[tokens].tolist()


@pytest.mark.parametrize(
    "name", [name for name in GROUPS if not issubclass(MECHANISMS.implementation(name), FixedSize | LogParser)]
)
def test_bytes_grow_with_the_key_and_name_their_metadata(lab: SimpleNamespace, name: str) -> None:
    stream = long_stream(lab, 7)
    metadata = {
        "h2o": [4, 4, 4, 4, 8], "item_lru": [4, 4], "item_lfu": [8, 8], "dp_cache": [0, 4, 0, 4 + 5 * 4, 0, 4 + 5 * 4],
        "adaptive_dp_cache": [4], "item_ttl": [4, 4], "knorm": [4],
        "lsh_attention": [4, 2 * 4, 4],
        "neural_episodic_control": [4, 4], "sparse_pointer_memory": [4, 4, 4],
        "item_arc": [5, 5], "item_2q": [5, 5], "item_s3_fifo": [5, 5], "item_sieve": [1, 1], "item_wtinylfu": [5, 5],
    }  # fmt: skip
    value = {"neural_episodic_control": 5 * 4}.get(name, 4)
    for n, group in enumerate(GROUPS[name]):
        made = lab.mechanism(name, *group)
        made.start(stream, np.random.default_rng(0))
        extra = metadata.get(name, [0] * len(GROUPS[name]))[n]
        for dim, key_bytes in ((8, 4), (64, 2)):
            body, more = made.bytes_per_slot(dim, key_bytes)
            assert (body, np.max(more)) == (dim * key_bytes + value, extra)


WHOLE = [
    ("knn", {"k": 540}),
    ("knn", {"k": 540, "budget": 540}),
    ("modern_hopfield", {}),
    ("landmark_attention", {"block_size": 50, "blocks": 11}),
    ("em_llm", {"events": 540}),
    ("em_llm", {"events": 1, "contiguity": 540}),
    ("routing_attention", {"clusters": 1, "window": 540}),
    ("clustered_attention", {"clusters": 3, "recomputed": 540}),
    ("recency", {"budget": 540}),
    ("streaming_llm", {"budget": 540}),
    ("random_eviction", {"budget": 540}),
    ("h2o", {"budget": 540}),
    ("h2o", {"budget": 541, "variant": "half_recent"}),
    ("h2o", {"budget": 10**9, "variant": "observed_mean"}),
    ("snapkv", {"budget": 540}),
    ("snapkv", {"budget": 541, "pooling": False}),
    ("tova", {"budget": 540}),
    ("knorm", {"budget": 540}),
    ("keydiff", {"budget": 540}),
    ("expected_attention", {"budget": 540}),
    ("leverage_scores", {"budget": 540}),
    ("dp_cache", {"tau": -0.01}),
    ("dp_cache", {"tau": -0.01, "cap": 540}),
    ("item_lru", {"tau": -0.01, "budget": 540}),
    ("item_lfu", {"tau": -0.01, "budget": 10**9}),
    ("item_ttl", {"tau": -0.01, "window": 540}),
    *(
        (name, {"tau": -0.01, "budget": 540})
        for name in ("item_arc", "item_2q", "item_s3_fifo", "item_sieve", "item_wtinylfu")
    ),
    ("adaptive_dp_cache", {"tau": -0.01, "m0": 540}),
]


@pytest.mark.parametrize(("name", "fields"), WHOLE)
def test_room_for_every_token_is_full_attention_bit_for_bit(
    lab: SimpleNamespace, name: str, fields: dict[str, Any]
) -> None:
    stream = long_stream(lab, 8)
    assert_same_bits(lab.read_one(name, stream, **fields), lab.read_one("full_attention", stream))


@pytest.mark.parametrize("name", [name for name in GROUPS if "budget" in GROUPS[name][0][0]])
def test_budget_0_is_no_memory(lab: SimpleNamespace, name: str) -> None:
    stream = long_stream(lab, 9)
    for group in GROUPS[name]:
        reading = lab.read_one(name, stream, **{**group[0], "budget": 0})
        assert reading.counts == [0] * 5
        one_shot = name in ONE_SHOT or group[0].get("variant") == "observed_mean"
        assert (reading.peak > 0) == one_shot
        if name == "optimal":
            assert all((answers == stream.chance).all() for answers in reading.answers)
        else:
            assert all(np.isnan(answers).all() for answers in reading.answers)


@every_group
def test_cosines_of_tokens_are_asked_for_only_by_those_that_say_so(
    lab: SimpleNamespace, name: str, group: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    rows = Similarities.rows
    monkeypatch.setattr(Similarities, "rows", lambda self, *block: asked.append(block) or rows(self, *block))
    made, stream = lab.mechanism(name, *group), long_stream(lab, 10)
    lab.read(made, stream)
    assert made.compares(stream) or not asked


# --- configs ---


@pytest.mark.parametrize("name", GROUPS)
def test_every_field_is_described(name: str) -> None:
    cls = MECHANISMS.config_class(name)
    assert cls.__doc__
    assert cls.__doc__ != cls.__base__.__doc__
    assert all(field.description for key, field in cls.model_fields.items() if key != "name")


ABSENT = [("dp_cache", "cap", None), ("knn", "budget", None), ("quadratic_memory", "ridge", None)]
"""Fields that may be absent."""


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("junk", ["junk", None, [], {}, float("nan"), float("inf"), -(10**12), 10**12])
def test_configs_reject_junk(lab: SimpleNamespace, name: str, junk: Any) -> None:
    good = GROUPS[name][0][-1]
    for key in MECHANISMS.config_class(name).model_fields:
        if (name, key, junk) not in ABSENT:
            with pytest.raises(ValidationError):
                MECHANISMS.config_class(name)(**{**good, key: junk})
    with pytest.raises(ValidationError, match="unheard_of"):
        lab.config(name, **good, unheard_of=junk)


@every_group
def test_identity_is_the_same_however_a_config_is_written(
    lab: SimpleNamespace, name: str, group: list[dict[str, Any]]
) -> None:
    for fields in group:
        config = lab.config(name, **fields)
        again = lab.config(**dict(reversed(config.identity().items())))
        assert canonical_json(again.identity()) == canonical_json(config.identity())
        assert MECHANISMS.implementation(name).group_key(again) == MECHANISMS.implementation(name).group_key(config)


def test_identities_do_not_change(lab: SimpleNamespace) -> None:
    """Results are found again by these; a change makes every stored one unfindable."""
    assert lab.config("h2o", budget=64).identity() == {
        "name": "h2o", "budget": 64, "variant": "heavy_hitter", "temperature": 0.13, "read_temperature": 0.05,
    }  # fmt: skip
    assert lab.config("snapkv", budget=64).identity() == {
        "name": "snapkv", "budget": 64, "window": 64, "pooling": True, "temperature": 0.13, "read_temperature": 0.05,
    }  # fmt: skip
    assert lab.config("item_lru", budget=8, similarity=0.7).identity() == {
        "name": "item_lru", "budget": 8, "tau": 0.3, "temperature": 0.05,
    }  # fmt: skip
    assert lab.config("knn").identity() == {"name": "knn", "k": 32, "budget": None, "temperature": 0.05}
    assert lab.config("streaming_llm", budget=9).identity() == {
        "name": "streaming_llm", "budget": 9, "sinks": 4, "temperature": 0.05,
    }  # fmt: skip
