"""Multi-query associative recall against its definition in arXiv 2312.04927."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from torch import Tensor, from_numpy, zeros

from models.stream import Ints
from tasks.sequences import IGNORED, TokenBatch
from tasks.workloads.mqar import MQAR, MQARConfig


def batch_of(count: int, **fields: Any) -> tuple[MQARConfig, TokenBatch]:
    config = MQARConfig(**fields)
    return config, next(MQAR(config).training(3, [(count, config.length)]))


@pytest.mark.parametrize("fields", [{}, {"pairs": 9, "queries": 4, "length": 41, "vocabulary": 60}])
def test_every_query_asks_for_a_pair_that_came_first(fields: dict[str, Any]) -> None:
    config, batch = batch_of(200, **fields)
    front = batch.ids[:, : 2 * config.pairs].reshape(200, config.pairs, 2)
    half = config.vocabulary // 2
    assert front[:, :, 0].min() >= 1
    assert front[:, :, 0].max() < half <= front[:, :, 1].min()
    assert front[:, :, 1].max() < config.vocabulary
    assert batch.at is not None
    assert batch.at[0] == 2 * config.pairs
    for ids, targets, pairs in zip(batch.ids, batch.targets, front.tolist(), strict=True):
        said = dict(pairs)
        assert len(said) == config.pairs == len(set(said.values()))  # no key or value twice
        scored = targets != IGNORED
        asked = ids[batch.at[scored]].tolist()
        assert len(asked) == len(set(asked)) == config.asked
        assert [said[key] for key in asked] == targets[scored].tolist()


def test_keys_values_and_filler_are_uniform() -> None:
    config, batch = batch_of(20_000, pairs=2, vocabulary=16, length=16)
    keys, values = batch.ids[:, 0], batch.ids[:, 3]
    filler = batch.ids[:, 5]  # never a query's place
    for drawn, low, high, limit in ((keys, 1, 8, 22.5), (values, 8, 16, 24.3), (filler, 0, 16, 37.7)):
        counts = np.bincount(drawn, minlength=16)
        assert counts.sum() == counts[low:high].sum()
        expected = len(drawn) / (high - low)
        assert ((counts[low:high] - expected) ** 2 / expected).sum() < limit  # chi-square, 99.9%
    assert config.asked == 2


@pytest.mark.parametrize("alpha", [0.01, 1.0, 2.0])
def test_the_first_querys_distance_follows_the_power_law(alpha: float) -> None:
    _, batch = batch_of(20_000, pairs=1, vocabulary=16, length=22, alpha=alpha)
    places = (batch.targets != IGNORED).argmax(axis=1)
    expected = np.arange(1, 11) ** (alpha - 1.0)
    expected *= 20_000 / expected.sum()
    counts = np.bincount(places, minlength=10)
    assert ((counts - expected) ** 2 / expected).sum() < 27.9  # chi-square of 9 degrees, 99.9%


def test_two_places_are_drawn_one_after_the_other() -> None:
    _, batch = batch_of(40_000, pairs=2, vocabulary=64, length=10, alpha=0.5)
    odds = np.arange(1, 4) ** -0.5
    odds /= odds.sum()
    expected = np.array([[odds[i] * odds[j] / (1 - odds[i]) if i != j else 0.0 for j in range(3)] for i in range(3)])
    first = (batch.targets == batch.ids[:, 1:2]).argmax(axis=1)
    second = (batch.targets == batch.ids[:, 3:4]).argmax(axis=1)
    seen = np.zeros((3, 3))
    np.add.at(seen, (first, second), 1 / 40_000)
    np.testing.assert_allclose(seen, expected, atol=0.01)


class Lookup:
    """Answers with the value that followed the key at the front, if `right`, else with the first value."""

    def __init__(self, config: MQARConfig, right: bool) -> None:
        self.config, self.right = config, right

    def logits(self, ids: Ints, at: Ints | None = None) -> Tensor:
        assert at is not None
        front = ids[:, : 2 * self.config.pairs].reshape(len(ids), -1, 2)
        pair = (front[:, :, 0][:, None] == ids[:, at][:, :, None]).argmax(axis=2)
        answers = np.take_along_axis(front[:, :, 1], pair if self.right else np.zeros_like(pair), axis=1)
        logits = zeros(len(ids), len(at), self.config.vocabulary)
        return logits.scatter_(2, from_numpy(answers)[:, :, None], 9.0)

    def greedy(self, ids: Ints, count: int, stops: frozenset[int]) -> list[list[int]]:
        raise AssertionError("nothing is decoded here")


def test_recall_is_over_all_queries() -> None:
    config = MQARConfig(pairs=5, length=32, vocabulary=256)
    known = MQAR(config).evaluate(Lookup(config, right=True), 0, 300)
    guessed = MQAR(config).evaluate(Lookup(config, right=False), 0, 300)
    assert known["recall"] == 1.0
    assert guessed["recall"] == pytest.approx(0.2)  # each pair is asked for once
    assert known["chance"] == 1 / 128


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pairs": 17}, "17 pairs, 17 queries need a `length` of 68 or more"),
        ({"pairs": 2, "queries": 3}, r"`queries: 3` ask for more keys than `pairs: 2` bring"),
        ({"pairs": 4, "vocabulary": 8}, "4 pairs need a `vocabulary` of 10 or more"),
        ({"alpha": 0.0}, "alpha"),
        ({"most_length": 127}, r"`most_length` 127 must be twice `length` \(64\) or more"),
    ],
)
def test_impossible_options_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        MQARConfig(**fields)


def test_sequences_too_short_for_the_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="need 16 ids or more here, not 12"):
        next(MQAR(MQARConfig()).training(0, [(2, 12)]))


def test_evaluation_is_not_trained_on() -> None:
    workload = MQAR(MQARConfig())
    trained = {row.tobytes() for batch in workload.training(3, [(32, 64)] * 40) for row in batch.ids}
    evaluated = {row.tobytes() for batch in workload.evaluation(3, 500) for row in batch.ids}
    assert len(trained) == 1280
    assert not trained & evaluated


def test_memories_read_the_sequences_that_models_are_evaluated_on() -> None:
    config = MQARConfig(pairs=5, queries=3, length=40, vocabulary=64, dim=8)
    workload = MQAR(config)
    ids = np.concatenate([batch.ids for batch in workload.evaluation(3, 40)])
    targets = np.concatenate([batch.targets for batch in workload.evaluation(3, 40)])
    for episode in reversed(range(40)):
        stream, sequence = workload.stream(3, episode), ids[episode]
        length = len(stream)
        np.testing.assert_array_equal(stream.items, sequence[:length])
        np.testing.assert_array_equal(stream.values, sequence[1 : length + 1])
        table = {int(one): key for one, key in zip(stream.items, stream.keys, strict=True)}
        assert all(np.array_equal(table[int(one)], key) for one, key in zip(stream.items, stream.keys, strict=True))
        answers = targets[episode][targets[episode] != IGNORED]
        assert [int(phase.answers[0]) for phase in stream.phases] == answers.tolist()
        for phase in stream.phases:
            assert sequence[phase.end + 1] == phase.items[0]  # the id that asks, two tokens after the last it may read
            np.testing.assert_array_equal(phase.queries[0], table[int(phase.items[0])])
        assert stream.phases[-1].end == length


def test_a_seeds_ids_have_one_vector_each_and_other_seeds_others() -> None:
    workload = MQAR(MQARConfig(vocabulary=16, length=16, dim=4))
    first, second, other = workload.stream(0, 0), workload.stream(0, 1), workload.stream(1, 0)
    shared = set(first.items) & set(second.items) & set(other.items)
    assert shared
    for one in shared:
        vectors = [stream.keys[list(stream.items).index(one)] for stream in (first, second, other)]
        np.testing.assert_array_equal(vectors[0], vectors[1])
        assert not np.allclose(vectors[0], vectors[2])


@pytest.mark.parametrize(("name", "least"), [("full_attention", 0.9), ("item_lru", 0.9), ("recency", 0.0)])
def test_memories_recall_it(name: str, least: float) -> None:
    """A key that comes by chance among the filler is told anew; a window forgets the pairs."""
    from models.mechanism import MECHANISMS
    from tasks.evaluate import evaluate

    fields = {} if name == "full_attention" else {"budget": 64 if name == "item_lru" else 4}
    workload = MQAR(MQARConfig(pairs=8, length=64, vocabulary=1024))
    config: Any = MECHANISMS.config_class(name)(**fields)
    [outcome] = evaluate(workload, [config], 0, 50, "float32")
    assert outcome.metrics is not None
    assert outcome.metrics["chance"] == 1 / 512
    assert least <= outcome.metrics["recall"] <= (1.0 if least else 0.2)


def test_longer_sequences_are_tested_and_not_trained_on() -> None:
    config = MQARConfig(pairs=5, length=32, most_length=130, vocabulary=256)
    known = MQAR(config).evaluate(Lookup(config, right=True), 0, 20)
    assert {name for name in known if name.endswith("_ids")} == {"recall_64_ids", "recall_128_ids"}
    assert known["recall_128_ids"] == 1.0
    assert MQAR.tested(config) == 128
    assert MQAR(config).length == 32
