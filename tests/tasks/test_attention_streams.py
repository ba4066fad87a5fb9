"""Streams of real attention: what a file must have, and how far memories are from full attention."""

from __future__ import annotations

import math
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from models.mechanism import MECHANISMS
from models.stream import Stream, unit
from tasks.evaluate import Outcome, evaluate
from tasks.metrics import metrics_of
from tasks.tables.columns import TableError
from tasks.workload import WORKLOADS, Workload

N, DIM, WIDTH, QUERIES = 40, 8, 5, 12


def arrays(**changes: Any) -> dict[str, Any]:
    """Arrays of a layer whose keys have norms, and whose queries come at several places."""
    rng = np.random.default_rng(3)
    found = {
        "keys": rng.standard_normal((N, DIM)) * rng.uniform(0.5, 3.0, (N, 1)),
        "values": rng.standard_normal((N, WIDTH)),
        "queries": rng.standard_normal((QUERIES, DIM)) * 2.0,
        "positions": np.repeat([10, 25, 40], QUERIES // 3),
        "tokens": rng.integers(6, size=N) * 100,
    } | changes
    return {name: array for name, array in found.items() if array is not None}


def workload_of(tmp_path: Path, **changes: Any) -> Workload[Any]:
    path = tmp_path / "layer.npz"
    np.savez(path, **arrays(**changes))
    made = WORKLOADS.implementation("npz_stream")(WORKLOADS.config_class("npz_stream")(path=str(path)))
    assert isinstance(made, Workload)
    return made


def plain_attention(
    stream: Stream, end: int, query: np.ndarray, kept: list[int], scale: float
) -> tuple[np.ndarray, int]:
    """Output over the tokens `kept`, one by one, and the token of the largest logit."""
    assert stream.attention is not None
    assert stream.attention.values is not None
    logits = [math.fsum(query * stream.keys[token]) * scale for token in kept]
    weights = [math.exp(logit - max(logits)) for logit in logits]
    total = math.fsum(weights)
    output = sum(w / total * stream.attention.values[t] for w, t in zip(weights, kept, strict=True))
    return np.asarray(output), kept[int(np.argmax(logits))]


def run(workload: Workload[Any], *memories: dict[str, Any], dtype: str = "float64") -> list[Outcome]:
    configs: list[Any] = [MECHANISMS.config_class(one["name"])(**one) for one in memories]
    return evaluate(workload, configs, 0, 1, dtype)


def numbers(outcome: Outcome) -> dict[str, float]:
    assert outcome.metrics is not None, outcome.message
    return outcome.metrics


def test_errors_are_those_of_a_plain_loop_over_what_is_kept(tmp_path: Path) -> None:
    workload = workload_of(tmp_path)
    stream = workload.stream(0, 0)
    full, newest = map(numbers, run(workload, {"name": "full_attention"}, {"name": "recency", "budget": 7}))
    assert full["attention_error"] == pytest.approx(0.0, abs=1e-12)
    assert full["top1_agreement"] == 1.0
    errors, agreed = [], []
    for phase in stream.phases:
        for query in phase.queries:
            every = plain_attention(stream, phase.end, query, list(range(phase.end)), DIM**-0.5)
            kept = plain_attention(stream, phase.end, query, list(range(phase.end - 7, phase.end)), DIM**-0.5)
            errors.append(np.linalg.norm(kept[0] - every[0]) / np.linalg.norm(every[0]))
            agreed.append(kept[1] == every[1])
    assert newest["attention_error"] == pytest.approx(np.mean(errors), rel=1e-9)
    assert newest["top1_agreement"] == pytest.approx(np.mean(agreed))
    assert 0.0 < newest["top1_agreement"] < 1.0


def test_answers_are_tokens_that_full_attention_looks_at(tmp_path: Path) -> None:
    stream = workload_of(tmp_path, scale=0.01).stream(0, 0)
    names = np.unique(arrays()["tokens"])
    for phase in stream.phases:
        for query, item, answer in zip(phase.queries, phase.items, phase.answers, strict=True):
            assert item == np.argmax(stream.keys[: phase.end] @ query)
            assert names[answer] == arrays()["tokens"][item]
    assert stream.attention is not None
    assert stream.attention.scale == 0.01


def test_without_tokens_each_is_a_class_and_without_positions_all_have_come(tmp_path: Path) -> None:
    stream = workload_of(tmp_path, tokens=None, positions=None).stream(0, 0)
    assert stream.classes == N
    assert [phase.end for phase in stream.phases] == [N]


def test_values_may_be_classes_and_answers_given(tmp_path: Path) -> None:
    ids = np.arange(N) % 3 + 7
    workload = workload_of(tmp_path, values=ids, tokens=None, answers=np.full(QUERIES, 8))
    stream = workload.stream(0, 0)
    assert (stream.values == ids - 7).all()
    assert all((phase.answers == 1).all() for phase in stream.phases)
    [found] = map(numbers, run(workload, {"name": "full_attention"}))
    assert found["top1_agreement"] == 1.0
    assert "attention_error" not in found


BOTH = {"attention_error", "top1_agreement"}
METRICS: list[tuple[dict[str, Any], set[str]]] = [
    *(
        ({"name": name, **fields}, BOTH)
        for name, fields in [
            ("modern_hopfield", {"steps": 2}),
            ("knn", {"k": 3}),
            ("landmark_attention", {"block_size": 4}),
            ("em_llm", {"events": 1, "window": 4, "contiguity": 0}),
            ("lsh_attention", {}),
            ("routing_attention", {}),
            ("clustered_attention", {"clusters": 2}),
            ("dp_cache", {"tau": 0.4}),
        ]
    ),
    *(
        ({"name": name}, {"attention_error"})
        for name in [
            "delta_rule",
            "gated_delta_rule",
            "linear_attention",
            "superposition",
            "ridge_memory",
            "quadratic_memory",
            "kanerva_machine",
            "titans_linear",
            "titans_mlp",
        ]
    ),
    *(
        ({"name": name, **fields}, set[str]())
        for name, fields in [
            ("dp_cache", {"keys": "centroid", "tau": 0.4}),
            ("sparse_pointer_memory", {"budget": 8}),
            ("neural_episodic_control", {"budget": 8}),
            ("product_key_memory", {}),
        ]
    ),
]


@pytest.mark.parametrize(
    ("memory", "metrics"), METRICS, ids=lambda one: one.get("name") if isinstance(one, dict) else ""
)
def test_which_memories_have_an_error(memory: dict[str, Any], metrics: set[str], tmp_path: Path) -> None:
    [found] = map(numbers, run(workload_of(tmp_path), memory))
    assert "recall" in found
    assert BOTH & found.keys() == metrics
    assert all(found[name] > 0.0 for name in metrics - {"top1_agreement"})


def test_what_reads_all_tokens_is_full_attention(tmp_path: Path) -> None:
    same = run(
        workload_of(tmp_path),
        {"name": "modern_hopfield"},
        {"name": "knn", "k": N},
        {"name": "landmark_attention", "block_size": N},
        {"name": "clustered_attention", "clusters": 2, "recomputed": N},
    )
    for found in map(numbers, same):
        assert found["attention_error"] == pytest.approx(0.0, abs=1e-12)
        assert found["top1_agreement"] == 1.0
    knn, blocks = map(
        numbers,
        run(
            workload_of(tmp_path),
            {"name": "knn", "k": 5},
            {"name": "landmark_attention", "block_size": 1, "blocks": 5},
        ),
    )
    assert knn["attention_error"] == pytest.approx(blocks["attention_error"], rel=1e-12)
    assert 0.0 < knn["top1_agreement"] == blocks["top1_agreement"]


def test_neighbours_and_steps_are_those_of_a_plain_loop(tmp_path: Path) -> None:
    workload = workload_of(tmp_path)
    stream = workload.stream(0, 0)
    assert stream.attention is not None
    assert stream.attention.values is not None
    knn, hopfield = map(numbers, run(workload, {"name": "knn", "k": 4}, {"name": "modern_hopfield", "steps": 3}))
    near, moved = [], []
    for phase in stream.phases:
        keys = stream.keys[: phase.end]
        for query in phase.queries:
            full, _ = plain_attention(stream, phase.end, query, list(range(phase.end)), DIM**-0.5)
            cosines = keys @ query / np.linalg.norm(keys, axis=1)
            output, _ = plain_attention(stream, phase.end, query, np.argsort(-cosines)[:4].tolist(), DIM**-0.5)
            near.append(np.linalg.norm(output - full) / np.linalg.norm(full))
            state = query
            for _ in range(2):
                weights = np.exp(keys @ state * DIM**-0.5)
                state = weights @ keys / weights.sum()
            output, _ = plain_attention(stream, phase.end, state, list(range(phase.end)), DIM**-0.5)
            moved.append(np.linalg.norm(output - full) / np.linalg.norm(full))
    assert knn["attention_error"] == pytest.approx(np.mean(near), rel=1e-6)
    assert hopfield["attention_error"] == pytest.approx(np.mean(moved), rel=1e-9)


def test_a_state_writes_value_vectors(tmp_path: Path) -> None:
    workload = workload_of(tmp_path)
    stream = workload.stream(0, 0)
    assert stream.attention is not None
    assert stream.attention.values is not None
    configs = [{"name": "delta_rule", "beta": 0.7}, {"name": "superposition", "decay": 0.9}]
    delta, summed = map(numbers, run(workload, *configs))
    states, errors = np.zeros((2, DIM, WIDTH)), np.zeros((2, QUERIES))
    asked = 0
    for token, (key, value) in enumerate(zip(unit(stream.keys), stream.attention.values, strict=True), 1):
        states[0] += 0.7 * np.outer(key, value - key @ states[0])
        states[1] = 0.9 * states[1] + np.outer(key, value)
        for phase in [phase for phase in stream.phases if phase.end == token]:
            for query in phase.queries:
                full, _ = plain_attention(stream, token, query, list(range(token)), DIM**-0.5)
                outputs = query / np.linalg.norm(query) @ states
                errors[:, asked] = np.linalg.norm(outputs - full, axis=1) / np.linalg.norm(full)
                asked += 1
    assert [delta["attention_error"], summed["attention_error"]] == pytest.approx(errors.mean(axis=1), rel=1e-6)


SIZES = [
    ({"name": "recency", "budget": 7}, 7 * 4 * (DIM + WIDTH)),
    ({"name": "knn"}, N * 4 * (DIM + WIDTH)),
    ({"name": "landmark_attention", "block_size": 10}, N * 4 * (DIM + WIDTH) + 4 * 4 * DIM),
    ({"name": "delta_rule"}, 4 * DIM * WIDTH),
    ({"name": "ridge_memory"}, 4 * DIM * (DIM + WIDTH)),
    ({"name": "titans_mlp", "hidden": 3, "eta": 0.0}, 3 * 4 * (DIM + WIDTH)),
    ({"name": "neural_episodic_control", "budget": 7}, 7 * 4 * (DIM + WIDTH + 1)),
    ({"name": "product_key_memory", "side": 3, "keep": "last"}, 9 * 4 * WIDTH + 4 * 3 * DIM),
]


@pytest.mark.parametrize(("memory", "size"), SIZES, ids=[str(one["name"]) for one, _ in SIZES])
def test_bytes_are_those_of_value_vectors(memory: dict[str, Any], size: int, tmp_path: Path) -> None:
    [outcome] = run(workload_of(tmp_path), memory, dtype="float32")
    assert numbers(outcome)["bytes"] == size


def test_an_empty_memory_is_all_wrong_and_norms_are_seen(tmp_path: Path) -> None:
    empty, shortest = map(
        numbers, run(workload_of(tmp_path), {"name": "recency", "budget": 0}, {"name": "knorm", "budget": 5})
    )
    assert (empty["attention_error"], empty["top1_agreement"]) == (1.0, 0.0)
    assert shortest["attention_error"] > 0.0
    assert {"attention_error", "top1_agreement"} <= set(metrics_of("knorm", ["npz_stream"]))
    assert "attention_error" not in metrics_of("knorm", ["npz_stream", "zipf_recall"])


def test_an_error_that_is_not_defined_is_a_failure_and_not_perfect(tmp_path: Path) -> None:
    values = np.zeros((N, WIDTH))
    values[3:6] = 1.0
    pairs = np.array([[1.0, 0.0], [1.0, 0.0]] * (N // 2))
    zero = np.where(np.arange(N) % 2, -1.0, 1.0)[:, None] * np.ones((1, WIDTH))
    for made in ({"keys": pairs, "values": zero, "queries": pairs[:3]}, {"values": values * 0.0}):
        workload = workload_of(tmp_path, positions=None, **made)
        for outcome in run(workload, {"name": "recency", "budget": 1}, {"name": "recency", "budget": 0}):
            assert (outcome.metrics, outcome.reason) == (None, "not_a_number")
            assert "full attention gives zero for query 1 of those at token 40" in outcome.message
    with pytest.raises(FloatingPointError, match="the product of `queries`, row 1, and `keys`, row 1 overflows"):
        workload_of(tmp_path, keys=np.full((N, DIM), 1e200), queries=np.full((QUERIES, DIM), 1e200))


BAD: list[tuple[dict[str, Any], str]] = [
    ({"queries": None}, "has no array `queries`: it needs keys, values, queries, and has `keys`, `positions`"),
    ({"keys": np.ones(3)}, "`keys` has the shape (3,), where [N, d] is needed"),
    ({"queries": np.ones((2, 3)), "positions": None}, "`queries` has the shape (2, 3), where [Q, 8] is needed"),
    ({"keys": np.full((N, DIM), np.nan)}, "`keys`, row 1, column 1: nan is not finite"),
    ({"values": np.ones((3, 2))}, "`values` has the shape (3, 2), where [40, dv] is needed"),
    ({"values": np.ones(N)}, "`values` is float64 (40,), where 40 whole numbers are needed"),
    ({"positions": np.arange(QUERIES)}, "`positions`, row 1: 0 is not within 1..40"),
    ({"answers": np.full(QUERIES, 5)}, "`answers`, row 1: no token has the class 5"),
    (
        {"positions": np.full(QUERIES, 2**63 + 5, dtype=np.uint64)},
        "`positions`, row 1: 9223372036854775813 is beyond whole numbers",
    ),
    ({"positions": None, "position": np.ones(1)}, "an array `position`, which is not read; did you mean `positions`?"),
    ({"values": None, "Value": np.ones(1)}, "an array `Value`, which is not read; did you mean `values`?"),
    ({"scale": -1.0}, "`scale` is float64 (), where one number above 0 is needed"),
    ({"keys": np.array([["a"]])}, "`keys` is <U1 (1, 1), where a matrix of numbers is needed"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_a_bad_file_is_told_with_its_place(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises((ValidationError, TableError)) as caught:
        workload_of(tmp_path, **changes)
    assert message in str(caught.value)


def test_what_is_no_archive_and_what_is_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(b"no archive")
    with pytest.raises(ValidationError, match="cannot read"):
        WORKLOADS.config_class("npz_stream")(path=str(path))
    monkeypatch.setattr("tasks.workloads.npz_stream.LONGEST_STREAM", 10)
    with pytest.raises(ValidationError, match="has 40 keys, and at most 10 are read"):
        workload_of(tmp_path)


def damaged(path: Path) -> dict[str, bytes]:
    """Bytes of files that were good once, by what was done to them."""
    np.savez_compressed(path, **arrays())
    good = path.read_bytes()
    name = good.index(b"keys.npy")
    zeros = good[: name + 60] + b"\xff" * 40 + good[name + 100 :]
    found = {"bytes": zeros, "cut": good[:-200]}
    central = good.rindex(b"PK\x01\x02", 0, good.rindex(b"keys.npy"))
    method = bytearray(good)
    method[central + 10 : central + 12] = struct.pack("<H", 99)
    method[name - 22 : name - 20] = struct.pack("<H", 99)
    locked = bytearray(good)
    locked[central + 8] |= 1
    locked[name - 24] |= 1
    newer = bytearray(good)
    newer[central + 6 : central + 8] = struct.pack("<H", 200)
    found |= {"method": bytes(method), "locked": bytes(locked), "newer": bytes(newer)}
    heads = {
        "shape": b"{'descr': '<f8', 'fortran_order': False, 'shape': (1073741824, 1073741824), }",
        "head": b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, ",
    }
    for case, head in heads.items():
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("keys.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head) + 1) + head + b"\n")
        found[case] = path.read_bytes()
    return found


@pytest.mark.parametrize("case", ["bytes", "cut", "method", "locked", "newer", "shape", "head"])
def test_a_damaged_file_is_told_by_the_name_of_what_is_damaged(case: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(damaged(path)[case])
    with pytest.raises(ValidationError, match="cannot read") as caught:
        WORKLOADS.config_class("npz_stream")(path=str(path))
    assert str(path) in str(caught.value)
    assert ("`keys` in" in str(caught.value)) == (case not in ("cut", "newer")), caught.value


def test_what_is_no_array_is_passed_over(tmp_path: Path) -> None:
    workload_of(tmp_path)
    with zipfile.ZipFile(tmp_path / "layer.npz", "a") as archive:
        archive.writestr("notes.txt", "of a layer")
    assert WORKLOADS.config_class("npz_stream")(path=str(tmp_path / "layer.npz"))
