"""What holds for every workload that makes token ids."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from pydantic import ValidationError
from torch import Tensor, zeros

from models.config import Config
from models.stream import Ints
from tasks.catalogue import CORPORA
from tasks.corpora import CorpusError, absence
from tasks.sequences import IGNORED, SequenceWorkload, TokenBatch, longer_lengths
from tasks.workload import WORKLOADS, WorkloadConfig

DATA = Path(os.environ.get("SLOTSWEEP_DATA") or "/nonexistent")
TEXT = str(DATA / "minimind" / "lora_identity.jsonl")

CONFIGS: dict[str, list[dict[str, Any]]] = {
    "token_recall": [{}, {"pairs": 1, "length": 7}, {"pairs": 8, "length": 40, "most_length": 160}],
    "token_updates": [
        {},
        {"pairs": 1, "changes": 0, "distractors": 0, "length": 7},
        {"pairs": 3, "changes": 3, "length": 64, "most_length": 256},
    ],
    "wikitext2": [{"part": "first_megabyte"}, {"part": "first_megabyte", "length": 1}],
    "text_file": [
        {"path": TEXT, "length": 32},
        {"path": TEXT, "length": 8, "tokenizer": str(DATA / "minimind" / "tokenizer.json"), "validation_share": 0.3},
    ],
    "minimind": [{"path": TEXT}, {"path": TEXT, "length": 2}],
    "random_tokens": [{}, {"vocabulary": 2, "length": 1}],
    "ruler": [
        {},
        {"task": "variable_tracking", "budget": 128},
        {"task": "common_words", "budget": 2048},
        {"task": "frequent_words", "budget": 1},
        {"budget": 64, "train_on": "text", "part": "first_megabyte"},
    ],
    "mqar": [{}, {"pairs": 1, "vocabulary": 4, "length": 4}, {"pairs": 9, "queries": 4, "length": 33, "alpha": 1.0}],
}

NEEDS = {"wikitext2": "wikitext2", "text_file": "minimind", "minimind": "minimind", "ruler": "wikitext2"}


def ids_of(name: str) -> bool:
    return WORKLOADS.implementation(name).makes_ids


def needs(folder: str | None) -> Any:
    if folder is None:
        return ()
    missing = not (DATA / folder).is_dir()
    return pytest.mark.data, pytest.mark.skipif(missing, reason=f"SLOTSWEEP_DATA has no {folder}")


every_workload = pytest.mark.parametrize(
    ("name", "fields"),
    [
        pytest.param(name, fields, id=f"{name}-{index}", marks=needs(NEEDS.get(name)))
        for name in filter(ids_of, WORKLOADS.names())
        for index, fields in enumerate(CONFIGS.get(name, [{}]))
    ],
)


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOTSWEEP_HOME", str(tmp_path))


def build(name: str, fields: dict[str, Any]) -> SequenceWorkload[Any]:
    config = WORKLOADS.config_class(name)(**fields)
    assert isinstance(config, WorkloadConfig)
    return cast("SequenceWorkload[Any]", WORKLOADS.implementation(name)(config))


def same(a: TokenBatch, b: TokenBatch) -> bool:
    at = (a.at is None and b.at is None) or np.array_equal(cast("Ints", a.at), cast("Ints", b.at))
    return at and np.array_equal(a.ids, b.ids) and np.array_equal(a.targets, b.targets)


class Constant:
    """Always answers one id: a reader that has learned nothing."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.longest = 0

    def logits(self, ids: Ints, at: Ints | None = None) -> Tensor:
        self.longest = max(self.longest, ids.shape[1])
        logits = zeros(len(ids), ids.shape[1] if at is None else len(at), self.vocabulary)
        logits[:, :, 1] = 1.0
        return logits

    def greedy(self, ids: Ints, count: int, stops: frozenset[int]) -> list[list[int]]:
        self.longest = max(self.longest, ids.shape[1])
        return [[1] * count for _ in ids]


def test_every_workload_has_configs_of_its_own_here() -> None:
    assert set(filter(ids_of, WORKLOADS.names())) == set(CONFIGS)


@every_workload
def test_sequences_of_the_least_and_of_the_most_length_can_be_made(name: str, fields: dict[str, Any]) -> None:
    one = build(name, fields)
    lengths = type(one).lengths(one.config)
    assert 1 <= lengths[0] <= lengths[1] == one.length
    batches = one.training(5, [(2, length) for length in lengths])
    assert [batch.ids.shape for batch in batches] == [(2, length) for length in lengths]


@every_workload
def test_what_is_fetched_is_told_before(name: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    expect_fetches(WORKLOADS.config_class(name)(**fields), monkeypatch)


def expect_fetches(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workload without data of its own cannot be made, and names a data set that it has told of."""

    def no_network(url: str, *_: object) -> None:
        raise OSError(f"no network for {url}")

    monkeypatch.setattr("tasks.corpora.download", no_network)
    monkeypatch.delenv("SLOTSWEEP_DATA", raising=False)
    implementation = WORKLOADS.implementation(config.name)
    corpora = implementation.corpora(cast("WorkloadConfig", config))
    if not corpora:
        implementation(cast("WorkloadConfig", config))
        return
    assert set(corpora) <= set(CORPORA)
    assert all("is not here" in str(absence(CORPORA[one])) for one in corpora)
    named = "|".join(corpora)
    with pytest.raises(CorpusError, match=rf"cannot fetch ({named}) from"):
        implementation(cast("WorkloadConfig", config))


@every_workload
def test_sequences_are_the_same_for_any_instance(name: str, fields: dict[str, Any]) -> None:
    first, second = build(name, fields), build(name, fields)
    sizes = [(3, first.length), (2, first.length)]
    for a, b in zip(first.training(5, sizes), second.training(5, sizes), strict=True):
        assert same(a, b)
    for a, b in zip(first.evaluation(5, 20), second.evaluation(5, 20), strict=True):
        assert same(a, b)


@every_workload
def test_training_sequences_are_the_same_in_batches_of_any_size(name: str, fields: dict[str, Any]) -> None:
    workload = build(name, fields)
    [whole] = workload.training(5, [(7, workload.length)])
    parts = list(workload.training(5, [(3, workload.length), (4, workload.length)]))
    np.testing.assert_array_equal(np.concatenate([part.ids for part in parts]), whole.ids)
    np.testing.assert_array_equal(np.concatenate([part.targets for part in parts]), whole.targets)


@every_workload
def test_more_episodes_are_the_same_and_then_others(name: str, fields: dict[str, Any]) -> None:
    workload = build(name, fields)
    few, more = (np.concatenate([batch.ids for batch in workload.evaluation(5, n)]) for n in (5, 20))
    np.testing.assert_array_equal(more[: len(few)], few)


@every_workload
def test_seeds_train_on_different_sequences(name: str, fields: dict[str, Any]) -> None:
    workload = build(name, fields)
    one, other = (next(workload.training(seed, [(32, workload.length)])) for seed in (0, 1))
    assert not np.array_equal(one.ids, other.ids)


@every_workload
def test_shapes_and_ranges(name: str, fields: dict[str, Any]) -> None:
    workload = build(name, fields)
    for batch in (*workload.training(0, [(3, workload.length)]), *workload.evaluation(0, 3)):
        assert batch.ids.dtype == batch.targets.dtype == np.int64
        assert batch.ids.shape[1] == workload.length
        places = workload.length if batch.at is None else len(batch.at)
        assert batch.targets.shape == (len(batch.ids), places)
        scored = batch.targets != IGNORED
        assert scored.any()
        for ids in (batch.ids, batch.targets[scored]):
            assert 0 <= ids.min() <= ids.max() < workload.vocabulary
        if batch.at is not None:
            assert 0 <= batch.at.min() <= batch.at.max() < workload.length
            assert len(set(batch.at.tolist())) == len(batch.at)


@every_workload
def test_training_may_be_shorter(name: str, fields: dict[str, Any]) -> None:
    workload = build(name, {**fields, **({"length": 2 * fields["length"]} if "length" in fields else {})})
    short = workload.length // 2
    batches = list(workload.training(0, [(2, short), (3, workload.length)]))
    assert [batch.ids.shape for batch in batches] == [(2, short), (3, workload.length)]


@every_workload
def test_metrics_are_those_that_are_named(name: str, fields: dict[str, Any]) -> None:
    workload = build(name, fields)
    reader = Constant(workload.vocabulary)
    metrics = workload.evaluate(reader, 0, 5)
    longer = longer_lengths(workload.config) if "most_length" in fields else ()
    assert set(metrics) == {*workload.own_metrics, *(f"recall_{length}_ids" for length in longer)} >= {"loss"}
    assert all(np.isfinite(value) for value in metrics.values())
    assert reader.longest <= type(workload).tested(workload.config) == max((workload.length, *longer))


@every_workload
def test_tokens_are_known_without_reading_data(
    name: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = build(name, fields)
    monkeypatch.delenv("SLOTSWEEP_DATA", raising=False)
    monkeypatch.setenv("SLOTSWEEP_HOME", "/nonexistent")
    assert type(workload).tokens(workload.config) == workload.length


@every_workload
def test_configs_are_strict_and_describe_their_fields(name: str, fields: dict[str, Any]) -> None:
    config_class = WORKLOADS.config_class(name)
    for wrong in ({"lenght": 3}, {"length": 0}):
        with pytest.raises(ValidationError):
            config_class(**{**fields, **wrong})
    assert config_class(**build(name, fields).config.identity()) == config_class(**fields)
    assert all(info.description for key, info in config_class.model_fields.items() if key != "name")
    assert config_class.__doc__
