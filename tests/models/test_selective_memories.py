"""Memories that read some of their tokens, against full attention, nearest neighbours, other implementations."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from models.mechanism import ABSTAINED
from models.mechanisms.em_llm import refined, similarity, split_modularity
from models.mechanisms.modern_hopfield import update
from models.selective_memory import foremost, read_best_share, read_shares
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Stream, unit


def shares_of(lab: SimpleNamespace, name: str, stream: Stream, seed: int = 0, **fields: Any) -> Floats:
    """What the queries of the last phase read each token with, as fractions of 1 [Q, n]."""
    memory = lab.mechanism(name, fields)
    lab.read(memory, stream, seed)
    phase = stream.phases[-1]
    block = QueryBlock(0, unit(phase.queries), Similarities(stream).keys[: phase.end])
    shares: Floats = memory.shares(0, block, phase)
    fractions: Floats = shares / shares.sum(axis=1, keepdims=True)
    return fractions


def attention_of(stream: Stream, temperature: float = 0.05) -> Floats:
    """Full attention of the last phase's queries by torch [Q, n]."""
    torch = pytest.importorskip("torch")
    phase = stream.phases[-1]
    keys = unit(stream.keys[: phase.end].astype(np.float32).astype(np.float64))
    found: Floats = torch.nn.functional.scaled_dot_product_attention(
        torch.from_numpy(unit(phase.queries)),
        torch.from_numpy(keys),
        torch.eye(len(keys), dtype=torch.float64),
        scale=1.0 / temperature,
    ).numpy()
    return found


def seen_by(lab: SimpleNamespace, name: str, stream: Stream, seed: int = 0, **fields: Any) -> Floats:
    """Whether each query of the last phase reads each token [Q, n]: 0 or 1."""
    memory = lab.mechanism(name, fields)
    lab.read(memory, stream, seed)
    phase = stream.phases[-1]
    block = QueryBlock(0, unit(phase.queries), Similarities(stream).keys[: phase.end])
    seen: Floats = (memory.shares(0, block, phase) > 0.0).astype(np.float64)
    return seen


def timed_read(lab: SimpleNamespace, name: str, stream: Stream, seed: int = 0, **fields: Any) -> Ints:
    """Classes that the read which is timed gives the last phase's queries."""
    memory = lab.mechanism(name, fields)
    lab.read(memory, stream, seed)
    read = memory.reader()
    return np.array([read(query) for query in unit(stream.phases[-1].queries)])


def crowded(lab: SimpleNamespace, seed: int = 0) -> Stream:
    """Noisy items whose neighbours overlap, so that it matters which tokens are read."""
    stream: Stream = lab.recall_stream(seed, items=30, repeats=5, classes=6, dim=12, noise=1.0)
    return stream


# --- kNN with a budget: Memorizing Transformer ---


@pytest.mark.parametrize("budget", [150, 1000])
def test_knn_that_may_keep_every_token_is_knn(lab: SimpleNamespace, budget: int) -> None:
    stream = crowded(lab)
    capped, free = lab.read_one("knn", stream, k=5, budget=budget), lab.read_one("knn", stream, k=5)
    assert (capped.tokens, capped.held, capped.peak) == (free.tokens, free.held, free.peak)
    assert capped.answers[0].tobytes() == free.answers[0].tobytes()


@pytest.mark.parametrize("budget", [1, 20, 77])
def test_knn_with_a_budget_is_knn_of_the_newest_tokens(lab: SimpleNamespace, budget: int) -> None:
    stream = crowded(lab)
    phase = stream.phases[0]
    newest = lab.stream(
        stream.keys[-budget:], stream.values[-budget:], queries=phase.queries, answers=phase.answers, classes=6
    )
    capped, free = lab.read_one("knn", stream, k=5, budget=budget), lab.read_one("knn", newest, k=5)
    assert capped.answers[0].tolist() == free.answers[0].tolist()
    assert (capped.counts, capped.peak) == ([budget], budget)


# --- modern Hopfield network ---


@pytest.mark.parametrize("temperature", [0.05, 0.3, 1.0])
def test_hopfield_of_one_step_is_full_attention(lab: SimpleNamespace, temperature: float) -> None:
    stream = crowded(lab)
    attention = attention_of(stream, temperature)
    found = shares_of(lab, "modern_hopfield", stream, temperature=temperature)
    np.testing.assert_allclose(found, attention, atol=1e-6)
    keys = Similarities(stream).keys
    np.testing.assert_allclose(update(unit(stream.phases[0].queries), keys, temperature), attention @ keys, atol=1e-6)
    one = lab.read_one("modern_hopfield", stream, temperature=temperature)
    full = lab.read_one("full_attention", stream, temperature=temperature)
    assert one.answers[0].tobytes() == full.answers[0].tobytes()


def test_no_hopfield_step_increases_its_energy(lab: SimpleNamespace) -> None:
    """E = -T lse(X'xi / T) + |xi|^2 / 2 (arXiv 2008.02217, Eq. 2), and steps converge (Theorem 2)."""
    stream = crowded(lab)
    keys, states, energies = Similarities(stream).keys, unit(stream.phases[0].queries), []
    for _ in range(400):
        lse = np.log(np.exp((states @ keys.T - 1.0) / 0.1).sum(axis=1)) * 0.1
        energies.append(-lse + 0.5 * (states**2).sum(axis=1))
        before, states = states, update(states, keys, 0.1)
    assert np.diff(energies, axis=0).max() <= 1e-12
    assert np.abs(states - before).max() < 1e-6 < np.abs(states - unit(stream.phases[0].queries)).max()


def test_hopfield_retrieves_a_well_separated_pattern_in_one_step_and_stays(lab: SimpleNamespace) -> None:
    keys = np.eye(16)
    noisy = unit(keys + 0.05)
    one = update(noisy, keys, 0.05)
    assert np.abs(one - keys).max() < 1e-6
    assert np.abs(update(one, keys, 0.05) - one).max() < 1e-6


# --- landmark attention ---


@pytest.mark.parametrize("k", [1, 3, 32, 1000])
@pytest.mark.parametrize("temperature", [0.05, 1.0, "argmax"])
def test_landmarks_of_blocks_of_one_are_nearest_neighbours(lab: SimpleNamespace, k: int, temperature: Any) -> None:
    for seed in range(3):
        stream = crowded(lab, seed)
        blocks = lab.read_one("landmark_attention", stream, block_size=1, blocks=k, temperature=temperature)
        nearest = lab.read_one("knn", stream, k=k, temperature=temperature)
        assert blocks.answers[0].tolist() == nearest.answers[0].tolist()


def test_landmarks_of_all_blocks_are_full_attention(lab: SimpleNamespace) -> None:
    stream = crowded(lab)
    np.testing.assert_allclose(
        shares_of(lab, "landmark_attention", stream, block_size=7, blocks=22), attention_of(stream), atol=1e-6
    )


def test_a_query_reads_whole_blocks(lab: SimpleNamespace) -> None:
    stream = crowded(lab)
    read = shares_of(lab, "landmark_attention", stream, block_size=20, blocks=2) > 0.0
    assert (read.sum(axis=1) >= 30).all()
    assert set(read[:, :140].reshape(-1, 7, 20).mean(axis=2).ravel()) == {0.0, 1.0}


def test_landmarks_are_paid_for(lab: SimpleNamespace) -> None:
    """150 tokens in blocks of 20: eight landmarks of twelve numbers."""
    memory = lab.mechanism("landmark_attention", {"block_size": 20})
    lab.read(memory, crowded(lab))
    body, metadata = memory.bytes_per_slot(12, 4)
    assert (body, (150 * metadata).tolist()) == (52, [pytest.approx(8 * 12 * 4)])


# --- EM-LLM ---


@pytest.mark.parametrize("fields", [{"events": 150}, {"events": 1, "contiguity": 150}])
def test_em_llm_that_reads_every_event_is_full_attention(lab: SimpleNamespace, fields: dict[str, int]) -> None:
    stream = crowded(lab)
    np.testing.assert_allclose(shares_of(lab, "em_llm", stream, **fields), attention_of(stream), atol=1e-6)


def test_modularity_is_that_of_networkx() -> None:
    networkx = pytest.importorskip("networkx")
    weights = similarity(unit(np.random.default_rng(0).standard_normal((14, 5)) + 0.4))
    halved = weights - 0.5 * np.diag(np.diagonal(weights))  # it counts a loop twice
    graph = networkx.from_numpy_array(halved)
    found = split_modularity(weights)
    for split in range(1, 14):
        parts = [set(range(split)), set(range(split, 14))]
        assert found[split] == pytest.approx(networkx.community.modularity(graph, parts))
    assert found[[0, 14]] == pytest.approx(0.0)


def scenes(lab: SimpleNamespace, *lengths: int) -> Stream:
    """Tokens of one subject after another, alike within a scene and unlike those of others."""
    rng = np.random.default_rng(0)
    subjects = np.repeat(np.arange(len(lengths)), lengths)
    keys = np.eye(len(lengths))[subjects] + 0.05 * rng.standard_normal((len(subjects), len(lengths)))
    stream: Stream = lab.stream(keys, subjects, queries=np.eye(len(lengths)), answers=np.arange(len(lengths)))
    return stream


def events_of(lab: SimpleNamespace, stream: Stream, **fields: Any) -> list[int]:
    """Tokens at which events begin."""
    memory = lab.mechanism("em_llm", fields)
    lab.read(memory, stream)
    borders: list[int] = memory.blocks[0].borders[:-1].tolist()
    return borders


@pytest.mark.parametrize("refine", [True, False])
def test_events_begin_where_the_subject_changes(lab: SimpleNamespace, refine: bool) -> None:
    assert events_of(lab, scenes(lab, 12, 9, 20, 15), gamma=2.0, refine=refine) == [0, 12, 21, 41]


def test_refinement_moves_a_late_border_back_to_the_change() -> None:
    keys = np.eye(3)[np.repeat([0, 1, 2], [10, 10, 10])]
    assert refined(keys, np.array([0, 13, 20])).tolist() == [0, 10, 20]
    assert refined(np.ones((30, 1)), np.array([0, 13, 20])).tolist() == [0, 13, 20]


def test_no_event_is_longer_than_the_original_allows(lab: SimpleNamespace) -> None:
    stream = lab.stream(np.ones((300, 2)), np.zeros(300))
    assert events_of(lab, stream) == [0, 128, 256]


def test_events_are_read_with_their_neighbours_and_the_newest(lab: SimpleNamespace) -> None:
    stream = scenes(lab, 12, 9, 20, 15, 11)
    starts = [0, 12, 21, 41, 56, 67]
    for contiguity, read in ((0, {1, 4}), (1, {0, 1, 2, 4}), (2, {0, 1, 2, 3, 4})):
        seen = seen_by(lab, "em_llm", stream, gamma=2.0, events=1, contiguity=contiguity)[1]
        for event in range(5):
            assert set(seen[starts[event] : starts[event + 1]]) == {float(event in read)}


def test_events_are_paid_for(lab: SimpleNamespace) -> None:
    """67 tokens in five events: each has a key of five numbers and the token that begins it."""
    memory = lab.mechanism("em_llm", {"gamma": 2.0})
    lab.read(memory, scenes(lab, 12, 9, 20, 15, 11))
    body, metadata = memory.bytes_per_slot(5, 4)
    assert (body, (67 * metadata).tolist()) == (24, [pytest.approx(5 * (5 * 4 + 4))])


# --- LSH attention ---


def test_two_buckets_part_keys_by_the_angle_between_them(lab: SimpleNamespace) -> None:
    """P(same side of a random plane) = 1 - angle / pi, and of n rounds one at least: 1 - (angle / pi)^n."""
    angles = np.pi * np.array([0.0, 0.05, 0.2, 0.4, 0.5, 0.7, 0.9])
    keys = np.stack([np.cos(angles), np.sin(angles), np.zeros(7)], axis=1)
    stream = lab.stream(keys, queries=keys[:1], answers=[0])
    for hashes in (1, 3):
        seen = [seen_by(lab, "lsh_attention", stream, seed, buckets=2, hashes=hashes)[0] for seed in range(800)]
        expected = 1.0 - (angles / np.pi) ** hashes
        assert np.abs(np.mean(seen, axis=0) - expected).max() < 4.0 * np.sqrt(0.25 / 800)


def test_more_rounds_find_more_and_more_buckets_less(lab: SimpleNamespace) -> None:
    stream = crowded(lab)
    few, many = (seen_by(lab, "lsh_attention", stream, buckets=8, hashes=hashes).mean() for hashes in (1, 8))
    coarse, fine = (seen_by(lab, "lsh_attention", stream, buckets=buckets, hashes=4).mean() for buckets in (2, 64))
    assert few < many < 1.0
    assert fine < 0.3 * coarse


def test_a_query_whose_buckets_are_empty_abstains(lab: SimpleNamespace) -> None:
    """Of an antipodal pair neither is in the other's bucket, whatever the rotation."""
    stream = lab.stream([[1.0, 2.0, 3.0]], [0], queries=[[-1.0, -2.0, -3.0], [2.0, 4.0, 6.0]], answers=[0, 0])
    for temperature in (0.05, "argmax"):
        answers = lab.read_one("lsh_attention", stream, hashes=5, temperature=temperature).answers[0]
        assert np.array_equal(answers, [np.nan, 1.0], equal_nan=True)


def test_hashes_are_paid_for(lab: SimpleNamespace) -> None:
    memory = lab.mechanism("lsh_attention", {"buckets": 8, "hashes": 3})
    lab.read(memory, crowded(lab))
    assert memory.bytes_per_slot(12, 4) == (12 * 4 + 4, 3 * 4)
    assert memory.bytes_fixed() == 3 * 12 * 4 * 4


# --- routing attention ---


def test_one_cluster_of_all_tokens_is_full_attention(lab: SimpleNamespace) -> None:
    stream = crowded(lab)
    found = shares_of(lab, "routing_attention", stream, clusters=1, window=150)
    np.testing.assert_allclose(found, attention_of(stream), atol=1e-6)


def test_a_cluster_is_the_tokens_nearest_to_its_centroid(lab: SimpleNamespace) -> None:
    stream = crowded(lab)
    memory = lab.mechanism("routing_attention", {"clusters": 5, "window": 11, "decay": 0.9})
    lab.read(memory, stream)
    [centroids], [members] = memory.centroids, memory.members
    assert np.abs((centroids**2).sum(axis=1) - 1.0).max() < 1e-12
    nearest = np.argsort(-(centroids @ Similarities(stream).keys.T), axis=1)[:, :11]
    assert [tokens.tolist() for tokens in members] == np.sort(nearest, axis=1).tolist()
    routed = (unit(stream.phases[0].queries) @ centroids.T).argmax(axis=1)
    seen = seen_by(lab, "routing_attention", stream, clusters=5, window=11, decay=0.9)
    assert [np.flatnonzero(row).tolist() for row in seen] == [members[centroid].tolist() for centroid in routed]


def test_centroids_go_where_their_keys_are(lab: SimpleNamespace) -> None:
    """Keys about two opposite directions: two centroids end at their means; with decay 1 they stay where they were."""
    rng = np.random.default_rng(0)
    sides = rng.choice([-1.0, 1.0], size=(2000, 1))
    keys = unit(sides * np.eye(6)[0] + 0.05 * rng.standard_normal((2000, 6)))
    stream, ends = lab.stream(keys, queries=keys[:1]), []
    for decay in (0.98, 1.0):
        memory = lab.mechanism("routing_attention", {"clusters": 2, "window": 5, "decay": decay})
        start = np.random.default_rng(0)
        memory.start(stream, start)
        before = memory.centroids[0].copy()
        lab.read(memory, stream)
        ends.append((before, memory.centroids[0]))
    (before, moved), (_, stayed) = ends
    assert np.abs(stayed - before).max() < 1e-12
    assert sorted(np.round(moved[:, 0])) == [-1.0, 1.0]


def test_many_centroids_do_not_hold_their_products_with_all_tokens(lab: SimpleNamespace) -> None:
    """20,000 centroids and 2,000 tokens: the products alone would be 320 MB."""
    rng = np.random.default_rng(0)
    stream = lab.stream(rng.standard_normal((2000, 8)), rng.integers(4, size=2000), queries=rng.standard_normal((9, 8)))
    memory = lab.mechanism("routing_attention", {"clusters": 20_000, "window": 3})
    memory.start(stream, rng)
    tracemalloc.start()
    memory.settle(Similarities(stream), 2000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6
    assert [len(tokens) for tokens in memory.members[0]] == [3] * 20_000


@pytest.mark.parametrize(
    ("name", "fields", "cure"),
    [
        ("lsh_attention", {"buckets": 16384, "hashes": 17}, "set `buckets` or `hashes` lower"),
        ("infinite_former", {"basis": 1024, "samples": 65536}, "set `basis`, `samples` or `chunk` lower"),
    ],
)
def test_options_that_fill_the_memory_together_are_refused(
    lab: SimpleNamespace, name: str, fields: dict[str, Any], cure: str
) -> None:
    for field, value in fields.items():
        lab.config(name, **{field: value})
    with pytest.raises(ValidationError, match=cure):
        lab.config(name, **fields)


# --- clustered attention ---


def test_projections_are_paid_for(lab: SimpleNamespace) -> None:
    memory = lab.mechanism("clustered_attention", {"clusters": 4, "bits": 20})
    lab.read(memory, crowded(lab))
    assert memory.bytes_per_slot(12, 4) == (12 * 4 + 4, 0)
    assert memory.bytes_fixed() == 20 * 12 * 4


def test_a_cluster_a_query_is_full_attention(lab: SimpleNamespace) -> None:
    stream = crowded(lab)
    found = shares_of(lab, "clustered_attention", stream, clusters=30, bits=256)
    np.testing.assert_allclose(found, attention_of(stream), atol=1e-6)


@pytest.mark.parametrize("clusters", [1, 4, 30])
def test_recomputing_all_keys_is_full_attention(lab: SimpleNamespace, clusters: int) -> None:
    stream = crowded(lab)
    found = shares_of(lab, "clustered_attention", stream, clusters=clusters, recomputed=150)
    np.testing.assert_allclose(found, attention_of(stream), atol=1e-6)


def test_one_cluster_attends_with_the_mean_query(lab: SimpleNamespace) -> None:
    stream = crowded(lab)
    mean = unit(stream.phases[0].queries).mean(axis=0)
    logits = Similarities(stream).keys @ mean / 0.05
    expected = np.exp(logits) / np.exp(logits).sum()
    found = shares_of(lab, "clustered_attention", stream, clusters=1)
    np.testing.assert_allclose(found, np.tile(expected, (30, 1)), atol=1e-9)


def test_recomputed_keys_share_what_their_centroid_gave_them(lab: SimpleNamespace) -> None:
    """Improved clustered attention is never further from full attention than clustered (arXiv 2007.04825, Prop. 2)."""
    stream, full = crowded(lab), attention_of(crowded(lab))
    errors = []
    for recomputed in (0, 5, 32, 100, 150):
        found = shares_of(lab, "clustered_attention", stream, clusters=4, recomputed=recomputed)
        errors.append(np.abs(found - full).sum(axis=1))
    assert all((later <= errors[0] + 1e-12).all() for later in errors[1:])
    assert errors[-1].max() < 1e-9 < errors[0].min()
    plain = shares_of(lab, "clustered_attention", stream, clusters=4)
    improved = shares_of(lab, "clustered_attention", stream, clusters=4, recomputed=5)
    same = np.isclose(plain, improved, rtol=1e-9, atol=0.0)
    assert (same.sum(axis=1) >= 145).all()
    np.testing.assert_allclose(np.where(same, 0.0, plain).sum(axis=1), np.where(same, 0.0, improved).sum(axis=1))


def test_a_query_asked_alone_is_read_like_full_attention(lab: SimpleNamespace) -> None:
    stream = crowded(lab)
    alone = timed_read(lab, "clustered_attention", stream, clusters=2)
    assert alone.tolist() == timed_read(lab, "full_attention", stream).tolist()


# --- what they share ---


READS: list[tuple[str, dict[str, Any]]] = [
    ("modern_hopfield", {"steps": 3}),
    ("modern_hopfield", {"steps": 3, "temperature": "argmax"}),
    ("landmark_attention", {"block_size": 6, "blocks": 3}),
    ("landmark_attention", {"block_size": 6, "blocks": 3, "temperature": "argmax"}),
    ("em_llm", {"gamma": 0.2, "events": 1, "contiguity": 0}),
    ("em_llm", {"gamma": 0.2, "events": 2, "temperature": "argmax"}),
    ("lsh_attention", {"buckets": 16, "hashes": 2}),
    ("lsh_attention", {"buckets": 64, "hashes": 1, "temperature": "argmax"}),
    ("routing_attention", {"clusters": 4, "window": 20, "decay": 0.9}),
    ("routing_attention", {"clusters": 4, "window": 20, "temperature": "argmax"}),
]


@pytest.mark.parametrize(("name", "fields"), READS)
def test_the_read_that_is_timed_gives_the_answers(lab: SimpleNamespace, name: str, fields: dict[str, Any]) -> None:
    stream = crowded(lab, 3)
    classes = timed_read(lab, name, stream, **fields)
    answers = lab.read_one(name, stream, **fields).answers[0]
    right = np.where(classes == ABSTAINED, np.nan, classes == stream.phases[0].answers)
    assert np.array_equal(right, answers, equal_nan=True)
    assert 0.0 < np.nanmean(answers) < 1.0


def test_foremost_takes_the_first_of_a_tie() -> None:
    scores = np.array([[1.0, 3.0, 2.0, 2.0 + 1e-10, 2.0], [0.0, 0.0, 0.0, 0.0, 5.0]])
    for count, chosen in (
        (1, ([1], [4])),
        (2, ([1, 2], [0, 4])),
        (3, ([1, 2, 3], [0, 1, 4])),
        (9, (range(5), range(5))),
    ):
        assert [np.flatnonzero(row).tolist() for row in foremost(scores, count)] == [list(row) for row in chosen]


def test_who_reads_nothing_abstains() -> None:
    predicted, values = np.zeros(2, dtype=np.int64), np.array([2, 1])
    read_shares(np.array([[0.0, 0.0], [0.0, 0.1]]), values, 3, predicted)
    assert predicted.tolist() == [ABSTAINED, 1]
    read_best_share(np.array([[-np.inf, -np.inf], [-0.5, -0.5]]), values, predicted)
    assert predicted.tolist() == [ABSTAINED, 2]
