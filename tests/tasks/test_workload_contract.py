"""What holds for every registered workload that makes streams; test_sequence_workload_contract.py: token ids."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from pydantic import ValidationError

from models.stream import Stream
from tasks.workload import WORKLOADS, Workload, WorkloadConfig
from tests.tasks.own_files import own_files
from tests.tasks.test_sequence_workload_contract import expect_fetches

OWN = own_files(Path(tempfile.mkdtemp(prefix="slotsweep-own-")))

CONFIGS: dict[str, list[dict[str, Any]]] = {
    "csv_stream": [
        {"path": OWN["csv"], "key": "movie", "value": "genre", "dim": 4},
        {"path": OWN["csv"], "key": ["user", "movie"], "classes": 3, "events": 20, "dim": 5, "order": "when"},
        {"path": OWN["csv"], "key": "movie", "dim": 1},
    ],
    "log_file": [
        {"path": OWN["log"], "dim": 4},
        {"path": OWN["log"], "skip": 2, "classes": 5, "events": 30, "dim": 4},
        {"path": OWN["log"], "label": "user (.)", "dim": 4},
    ],
    "parquet_stream": [{"path": OWN["parquet"], "key": "movie", "value": "genre", "order": "when", "dim": 4}],
    "associative_recall": [
        {},
        {"items": 1, "repeats": 1, "classes": 1, "dim": 1},
        {"items": 7, "repeats": 3, "noise": 0.0, "query_noise": 0.5},
    ],
    "zipf_recall": [
        {"items": 50, "events": 300},
        {"items": 1, "events": 1, "dim": 1},
        {"items": 20, "events": 100, "exponent": 0.0, "query_noise": 0.2},
    ],
    "movielens": [{"events": 300, "dim": 8}, {"events": 1}, {"events": 500, "windows": 7, "query_noise": 0.3}],
    "phased_recall": [{}, {"phases": 1, "small": 1, "repeats": 1, "classes": 1, "dim": 1}, {"phases": 3, "large": 4}],
    "loghub": [{"dim": 4}, {"system": "BGL", "windows": 25, "dim": 4}, {"system": "OpenSSH", "corrected": True}],
    "mimic_prescriptions": [{"dim": 4}],
    "synpuf": [{"events": 400}, {"table": "drug_era", "events": 300, "classes": 3}, {"table": "drug_era", "dim": 2}],
    "chinese_restaurant": [
        {"events": 500},
        {"alpha": 0.1, "events": 1, "classes": 1, "dim": 1},
        {"alpha": 1e6, "events": 150, "checkpoints": 1, "query_noise": 0.2},
    ],
    "fresh_keys": [{"events": 500}, {"events": 1, "asks": 1, "dim": 1}, {"events": 200, "checkpoints": 1, "asks": 900}],
    "near_duplicates": [
        {},
        {"items": 1, "twins": 1, "repeats": 1, "dim": 2},
        {"items": 12, "twins": 4, "cosine": 0.0, "dim": 5},
        {"items": 4, "cosine": 1.0},
    ],
    "conflicting_values": [
        {},
        {"items": 1, "repeats": 1, "conflict": 1.0, "classes": 2, "dim": 1},
        {"answer": "first", "conflict": 0.5},
        {"answer": "last", "conflict": 0.5},
        {"answer": "own", "repeats": 7},
    ],
    "drifting_keys": [{}, {"items": 1, "repeats": 1, "classes": 1, "dim": 1}, {"drift": 0.0, "repeats": 2}],
}

DRAWN_KEYS = [
    name for name in WORKLOADS.names() if not WORKLOADS.implementation(name).makes_ids and name != "npz_stream"
]
"""Streams but those of captured keys, of which no seed draws anything: see test_attention_streams.py."""

DATA = Path(os.environ.get("SLOTSWEEP_DATA") or "/nonexistent")
RECORDINGS = {
    "movielens": "movielens/ml-latest-small",
    "loghub": "loghub/BGL",
    "mimic_prescriptions": "clinical/mimic_iv_demo_2.2",
    "synpuf": "insurance/synpuf1k_omop",
}


def needs(folder: str | None) -> Any:
    if folder is None:
        return ()
    missing = not (DATA / folder).is_dir()
    return pytest.mark.data, pytest.mark.skipif(missing, reason=f"SLOTSWEEP_DATA has no {folder}")


def cases() -> list[Any]:
    return [
        pytest.param(name, fields, id=f"{name}-{index}", marks=needs(RECORDINGS.get(name)))
        for name in DRAWN_KEYS
        for index, fields in enumerate(CONFIGS.get(name, [{}]))
    ]


every_workload = pytest.mark.parametrize(("name", "fields"), cases())


def build(name: str, fields: dict[str, Any]) -> tuple[Workload[Any], WorkloadConfig]:
    config = WORKLOADS.config_class(name)(**fields)
    assert isinstance(config, WorkloadConfig)
    return cast("Workload[Any]", WORKLOADS.implementation(name)(config)), config


def same_tokens(a: Stream, b: Stream) -> bool:
    return np.array_equal(a.keys, b.keys) and np.array_equal(a.values, b.values) and np.array_equal(a.items, b.items)


def same_queries(a: Stream, b: Stream) -> bool:
    return len(a.phases) == len(b.phases) and all(
        p.end == q.end
        and all(np.array_equal(getattr(p, part), getattr(q, part)) for part in ("queries", "answers", "items", "asked"))
        for p, q in zip(a.phases, b.phases, strict=True)
    )


@every_workload
def test_what_is_fetched_is_told_before(
    name: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLOTSWEEP_HOME", str(tmp_path))
    monkeypatch.setenv("SLOTSWEEP_DATA", "")
    expect_fetches(WORKLOADS.config_class(name)(**fields), monkeypatch)


@every_workload
def test_a_stream_is_the_same_for_any_instance_and_any_order(name: str, fields: dict[str, Any]) -> None:
    first, _ = build(name, fields)
    second, _ = build(name, fields)
    forward = [first.stream(3, episode) for episode in range(4)]
    backward = [second.stream(3, episode) for episode in reversed(range(4))][::-1]
    for a, b in zip(forward, backward, strict=True):
        assert same_tokens(a, b)
        assert same_queries(a, b)


@every_workload
def test_seeds_and_episodes_give_different_streams(name: str, fields: dict[str, Any]) -> None:
    workload, config = build(name, fields)
    if config.dim == 1:  # type: ignore[attr-defined]
        pytest.skip("a key of width 1 is +1 or -1: streams may coincide")
    base = workload.stream(0, 0)
    assert not same_tokens(base, workload.stream(1, 0))
    assert not same_tokens(base, workload.stream(0, 1))


@every_workload
def test_query_noise_changes_queries_and_nothing_else(name: str, fields: dict[str, Any]) -> None:
    clean, config = build(name, {**fields, "query_noise": 0.0})
    blurred, _ = build(name, {**fields, "query_noise": 0.9})
    a, b = clean.stream(5, 2), blurred.stream(5, 2)
    assert same_tokens(a, b)
    for p, q in zip(a.phases, b.phases, strict=True):
        for part in ("answers", "items", "asked"):
            np.testing.assert_array_equal(getattr(p, part), getattr(q, part))
        assert config.dim == 1 or not np.allclose(p.queries, q.queries)  # type: ignore[attr-defined]


@every_workload
def test_shapes_ranges_and_lengths(name: str, fields: dict[str, Any]) -> None:
    workload, config = build(name, fields)
    stream = workload.stream(0, 0)
    assert stream.keys.dtype == np.float64
    assert stream.values.dtype == stream.items.dtype == np.int64
    assert stream.dim == config.dim  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.linalg.norm(stream.keys, axis=1), 1.0, atol=1e-12)
    assert stream.values.min() >= 0
    assert stream.values.max() < stream.classes
    assert 0.0 < stream.chance <= 1.0
    for phase in stream.phases:
        asked_for = len(phase.queries)
        assert phase.queries.shape == (asked_for, stream.dim)
        assert phase.answers.shape == phase.items.shape == (asked_for,)
        np.testing.assert_allclose(np.linalg.norm(phase.queries, axis=1), 1.0, atol=1e-12)
        assert len(phase.asked) >= 1
        assert set(phase.asked.tolist()) <= set(range(asked_for))


@every_workload
def test_queries_ask_once_for_items_written_and_know_what_was_said(name: str, fields: dict[str, Any]) -> None:
    workload, config = build(name, fields)
    stream = workload.stream(0, 0)
    assert stream.phases[-1].end == len(stream)
    start = 0
    for phase in stream.phases:
        said: dict[int, set[int]] = defaultdict(set)
        for item, value in zip(stream.items[: phase.end].tolist(), stream.values[: phase.end].tolist(), strict=True):
            said[item].add(value)
        asked_for = phase.items.tolist()
        assert len(set(asked_for)) == len(asked_for)
        if getattr(config, "answer", None) != "own":
            assert all(answer in said[item] for item, answer in zip(asked_for, phase.answers.tolist(), strict=True))
        if name != "conflicting_values":
            assert all(len(values) == 1 for values in said.values())
        if name == "fresh_keys":
            assert len(asked_for) == min(config.asks, phase.end)  # type: ignore[attr-defined]
        else:
            assert set(stream.items[start : phase.end].tolist()) <= set(asked_for)
        start = phase.end


@every_workload
def test_a_log_has_a_line_for_each_token(name: str, fields: dict[str, Any]) -> None:
    workload, _ = build(name, fields)
    stream = workload.stream(0, 0)
    assert (stream.lines is not None) == (name in ("loghub", "log_file"))
    assert stream.lines is None or len(stream.lines) == len(stream)


def test_every_workload_has_configs_of_its_own_here() -> None:
    assert set(DRAWN_KEYS) == set(CONFIGS)


@every_workload
def test_tokens_are_known_without_reading_data(
    name: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    workload, config = build(name, fields)
    length = len(workload.stream(0, 0))
    monkeypatch.delenv("SLOTSWEEP_DATA", raising=False)
    monkeypatch.setenv("SLOTSWEEP_HOME", "/nonexistent")
    assert type(workload).tokens(config) == length


@every_workload
def test_configs_are_strict_and_describe_their_fields(name: str, fields: dict[str, Any]) -> None:
    config_class = WORKLOADS.config_class(name)
    with pytest.raises(ValidationError):
        config_class(**fields, itmes=3)
    for wrong in ({"dim": 0}, {"noise": -0.1}, {"noise": float("nan")}, {"query_noise": float("inf")}):
        with pytest.raises(ValidationError):
            config_class(**{**fields, **wrong})
    assert all(info.description for key, info in config_class.model_fields.items() if key != "name")
    assert config_class.__doc__


def test_a_large_seed_and_episode_are_accepted() -> None:
    workload, _ = build("associative_recall", {"items": 2})
    assert len(workload.stream(2**63 - 1, 2**31 - 1)) == 8
