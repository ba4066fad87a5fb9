"""Policies that judge a slot by its key alone, against what their papers say."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from models.mechanisms.expected_attention import ExpectedAttention, ExpectedAttentionConfig
from models.mechanisms.leverage_scores import LeverageScores, LeverageScoresConfig
from models.stream import Floats, unit


def rounded(keys: Floats) -> Floats:
    """Unit keys as a memory of float32 stores them."""
    return unit(keys.astype(np.float32).astype(np.float64))


# --- Knorm ---


@pytest.mark.parametrize("budget", [1, 7, 40])
def test_knorm_keeps_the_shortest_keys_of_all(lab: SimpleNamespace, budget: int) -> None:
    keys = np.random.default_rng(0).standard_normal((90, 5))
    shortest = np.argsort(np.linalg.norm(keys, axis=1))[:budget]
    assert lab.read_one("knorm", lab.stream(keys), budget=budget).tokens == [sorted(shortest.tolist())]


def test_knorm_of_unit_keys_is_recency(lab: SimpleNamespace) -> None:
    """Lengths that differ by their rounding alone tie."""
    stream = lab.recall_stream(0, items=20)
    assert len(set(np.linalg.norm(stream.keys, axis=1))) > 1
    knorm, recency = (lab.read_one(name, stream, budget=9) for name in ("knorm", "recency"))
    assert knorm.tokens == recency.tokens


# --- KeyDiff ---


@pytest.mark.parametrize("budget", [2, 5, 30])
def test_keydiff_evicts_by_the_published_similarity_token_by_token(lab: SimpleNamespace, budget: int) -> None:
    torch = pytest.importorskip("torch")
    stream = lab.recall_stream(1, items=20, dim=8, noise=1.0)
    keys = torch.from_numpy(rounded(stream.keys))
    held: list[int] = []
    for token in range(len(stream)):
        held.append(token)
        if len(held) > budget:
            anchor = torch.nn.functional.normalize(keys[held], dim=-1).mean(dim=0, keepdim=True)
            held.pop(int(torch.nn.functional.cosine_similarity(keys[held], anchor, dim=-1).argmax()))
    assert lab.read_one("keydiff", stream, budget=budget).tokens == [held]


def test_keydiff_keeps_what_is_unlike_the_rest(lab: SimpleNamespace) -> None:
    """Nine copies of one key and three others, in any order: the others stay."""
    for seed in range(5):
        keys = np.eye(4)[[0] * 9 + [1, 2, 3]]
        order = np.random.default_rng(seed).permutation(12)
        held = lab.read_one("keydiff", lab.stream(keys[order]), budget=4).tokens[0]
        assert sorted(np.argmax(keys[order][held], axis=1).tolist()) == [0, 1, 2, 3]


def test_keys_that_cancel_tie_and_the_oldest_leaves(lab: SimpleNamespace) -> None:
    """Also where rounding leaves something of their sum."""
    angles = np.radians([0.0, 120.0, 240.0])
    keys = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    [reading] = lab.read(lab.mechanism("keydiff", {"budget": 2}), lab.stream(keys), dtype="float64")
    assert reading.tokens == [[1, 2]]


# --- expected attention ---


def test_expected_attention_is_the_expectation_over_gaussian_queries() -> None:
    rng = np.random.default_rng(2)
    keys, theta = unit(rng.standard_normal((40, 3)) + 0.3), 0.6
    queries = rng.multivariate_normal(keys.mean(axis=0), np.cov(keys.T, bias=True), size=400_000)
    drawn = np.exp(queries @ keys.T / theta).mean(axis=0)
    scores = ExpectedAttention.scores(keys, ExpectedAttentionConfig(budget=1, temperature=theta))
    np.testing.assert_allclose(scores / scores.sum(), drawn / drawn.sum(), rtol=0.03)


@pytest.mark.parametrize("sinks", [0, 4])
def test_expected_attention_keeps_what_the_published_softmax_ranks_first(lab: SimpleNamespace, sinks: int) -> None:
    torch = pytest.importorskip("torch")
    stream = lab.recall_stream(3, items=30)
    keys = torch.from_numpy(rounded(stream.keys))[sinks:]
    covariance = torch.cov(keys.T, correction=0)
    logits = keys @ keys.mean(dim=0) / 0.13 + torch.einsum("ni,ij,nj->n", keys, covariance, keys) / 0.13**2 / 2
    best = sinks + logits.softmax(dim=0).topk(25 - sinks).indices.sort().values
    reading = lab.read_one("expected_attention", stream, budget=25, sinks=sinks)
    assert reading.tokens == [[*range(sinks), *best.tolist()]]
    assert (reading.peak, reading.counts) == (120, [25])


def test_a_budget_within_the_sinks_keeps_sinks_alone(lab: SimpleNamespace) -> None:
    assert lab.read_one("expected_attention", lab.recall_stream(0, items=5), budget=3).tokens == [[0, 1, 2]]


# --- leverage ---


def test_leverage_is_the_diagonal_of_the_projection_on_centred_keys() -> None:
    """Up to the ridge of 0.01 beside a scatter of about 200 / 6 in each direction."""
    keys = unit(np.random.default_rng(4).standard_normal((200, 6)))
    basis, _ = np.linalg.qr(keys - keys.mean(axis=0))
    scores = LeverageScores.scores(keys, LeverageScoresConfig(budget=1))
    np.testing.assert_allclose(scores, (basis**2).sum(axis=1), rtol=2e-3)
    assert scores.sum() == pytest.approx(6.0, rel=1e-3)


def test_copies_of_a_key_share_its_leverage(lab: SimpleNamespace) -> None:
    """Items come 1, 2, 3 and 9 times: what came once has most, what came nine times least."""
    items = np.repeat(np.arange(4), [1, 2, 3, 9])
    order = np.random.default_rng(5).permutation(len(items))
    stream = lab.stream(np.eye(6)[items[order]], items[order])
    for budget, kept in ((1, {0}), (3, {0, 1}), (6, {0, 1, 2}), (7, {0, 1, 2, 3})):
        assert set(lab.read_one("leverage_scores", stream, budget=budget).values[0]) == kept


def test_leverage_keeps_the_highest_of_all_that_is_held(lab: SimpleNamespace) -> None:
    """At the second phase end these are the survivors of the first and the tokens since."""
    keys = np.random.default_rng(6).standard_normal((60, 4))
    first, second = lab.read_one("leverage_scores", lab.stream(keys, ends=(40, 60)), budget=10).tokens
    config = LeverageScoresConfig(budget=10)
    held = np.arange(40)
    for kept, after in ((first, np.arange(40, 60)), (second, np.arange(0))):
        best = held[np.argsort(-LeverageScores.scores(rounded(keys)[held], config))[:10]]
        assert kept == sorted(best.tolist())
        held = np.concatenate([kept, after])
