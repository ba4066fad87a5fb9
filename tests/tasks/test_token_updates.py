"""Recall of the latest value: what is told, where it stands, and what is asked."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from models.stream import Ints
from tasks.workloads.token_updates import (
    ANSWER,
    BOS,
    FIRST_FILLER,
    FIRST_KEY,
    FIRST_VALUE,
    QUERY,
    SEPARATOR,
    TokenUpdates,
    TokenUpdatesConfig,
)

COUNT = 300


def drawn(**fields: Any) -> tuple[TokenUpdatesConfig, Ints, Ints]:
    """A config, ids of sequences, and the answers."""
    config = TokenUpdatesConfig(**fields)
    batch = next(TokenUpdates(config).training(3, [(COUNT, config.length)]))
    assert batch.at is not None
    assert batch.at.tolist() == [config.length - 1]
    return config, batch.ids, batch.targets[:, 0]


def told(ids: Ints) -> list[tuple[int, int]]:
    """What a sequence tells, in order, from its separators."""
    return [(int(ids[place - 2]), int(ids[place - 1])) for place in np.flatnonzero(ids == SEPARATOR)]


@pytest.mark.parametrize("fields", [{}, {"pairs": 1, "changes": 0, "distractors": 0, "length": 7}, {"changes": 7}])
def test_the_latest_value_of_a_key_that_was_told_is_asked_for(fields: dict[str, Any]) -> None:
    config, sequences, answers = drawn(**fields)
    for ids, answer in zip(sequences, answers, strict=True):
        assert (ids[0], ids[-3], ids[-1]) == (BOS, QUERY, ANSWER)
        said = told(ids)
        keys = [key for key, _ in said]
        assert len(said) == config.told
        assert sorted(keys.count(key) for key in set(keys)) == sorted(
            [1] * config.distractors + [1 + config.changes] * config.pairs
        )
        assert dict(said)[int(ids[-2])] == answer
        assert keys.count(int(ids[-2])) == 1 + config.changes
        for key in set(keys):
            values = [value for one, value in said if one == key]
            assert all(a != b for a, b in itertools.pairwise(values))
        others = np.delete(
            ids[1:-3], [place - 1 + back for place in np.flatnonzero(ids == SEPARATOR) for back in (0, -1, -2)]
        )
        assert (others >= FIRST_FILLER).all()


def test_what_is_told_stands_anywhere_and_every_symbol_is_as_likely() -> None:
    _, sequences, answers = drawn()
    first = [int(np.flatnonzero(ids == SEPARATOR)[0]) for ids in sequences]
    assert len(set(first)) > 10
    keys = np.concatenate([[key for key, _ in told(ids)] for ids in sequences])
    for symbols, lowest in ((keys, FIRST_KEY), (answers, FIRST_VALUE)):
        counts = np.bincount(symbols - lowest, minlength=16)
        assert len(counts) == 16
        assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 37.7  # chi-square of 15 degrees, 99.9%


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pairs": 12, "distractors": 5}, "are 17 keys; there are 16"),
        ({"length": 39}, "12 keys and values told need a `length` of 40 or more"),
    ],
)
def test_impossible_options_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TokenUpdatesConfig(**fields)


def test_longer_sequences_tell_as_much() -> None:
    workload = TokenUpdates(TokenUpdatesConfig(length=40, most_length=160))
    [batch] = workload.of_length(160, 0, 8)
    assert all(len(told(ids)) == 12 for ids in batch.ids)
    assert TokenUpdates.tested(workload.config) == 160
