"""What every mechanism that reads long streams promises: in any chunks it decides what it decides in memory."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.long.stream import Chunk, LongStream
from models.mechanism import MECHANISMS
from models.similarity import Similarities
from models.stream import Floats, Stream, unit

BUDGETS = [{"budget": budget} for budget in (0, 1, 3, 20, 1000)]
WINDOWS = [{"window": window} for window in (1, 3, 20, 1000)]

GROUPS: dict[str, list[list[dict[str, Any]]]] = {
    "dp_cache": [
        [{"tau": tau} for tau in (-0.5, 0.0, 0.3, 1.0)],
        [{"tau": tau, "keep": "majority"} for tau in (0.3, 0.8)],
        [{"tau": 0.4, "cap": cap, "decay": decay} for cap in (1, 4, 1000) for decay in (1.0, 0.9)],
        [{"tau": 0.4, "cap": 5, "keep": "last"}],
        [{"tau": tau, "keys": "centroid"} for tau in (0.2, 0.7)],
        [{"tau": 0.3, "keys": "centroid", "cap": 4, "decay": 0.9, "keep": "majority"}],
    ],
    "adaptive_dp_cache": [[{"tau": 0.4, "m0": m0, "beta": 30.0, "eta": 0.1} for m0 in (1.0, 6.0)]],
    "item_lru": [BUDGETS],
    "item_lfu": [BUDGETS],
    "item_ttl": [WINDOWS],
    "recency": [BUDGETS],
    "streaming_llm": [BUDGETS],
    "random_eviction": [BUDGETS],
    "superposition": [[{"decay": decay} for decay in (1.0, 0.9)]],
    "linear_attention": [[{}], [{"feature_map": "identity"}]],
    "delta_rule": [[{"beta": beta} for beta in (0.1, 1.0)]],
    "gated_delta_rule": [[{"alpha": 0.95, "beta": 0.5}]],
    "ridge_memory": [[{"ridge": ridge} for ridge in (1e-2, 1.0)]],
    "quadratic_memory": [[{}]],
    "kanerva_machine": [[{"size": 6}]],
    "titans_linear": [[{"theta": 0.1, "eta": 0.5, "alpha": 0.05}]],
    "titans_mlp": [[{"hidden": 5, "theta": 0.1, "eta": 0.5, "alpha": 0.05}]],
    "product_key_memory": [[{"side": 4, "k": 3}]],
    "infinite_former": [[{"basis": 6, "chunk": 25, "samples": 15}]],
}

CASES = [(name, group) for name, groups in GROUPS.items() for group in groups]
every_group = pytest.mark.parametrize(
    ("name", "group"), CASES, ids=[f"{name}-{i}" for i, (name, _) in enumerate(CASES)]
)


def test_every_mechanism_that_reads_long_streams_is_held_to_it() -> None:
    assert set(GROUPS) == {name for name, _, one in MECHANISMS if one.reads_long}


def in_chunks(stream: Stream) -> LongStream:
    """`stream` as one that is never whole."""

    def make(size: int) -> Iterator[Chunk]:
        for start in range(0, len(stream), size):
            part = slice(start, start + size)
            yield Chunk(stream.keys[part], stream.values[part], stream.items[part])

    distinct = tuple(stream.distinct_until(phase.end) for phase in stream.phases)
    return LongStream(len(stream), stream.dim, stream.classes, stream.chance, stream.phases, distinct, make)


def read_long(lab: SimpleNamespace, name: str, group: list[dict[str, Any]], stream: Stream, size: int) -> Any:
    """The memory after `stream` in chunks of `size`; what it answered and the tokens its slots held, by phase."""
    memory = lab.mechanism(name, *group).long(in_chunks(stream), np.random.default_rng(0))
    answers: list[Floats] = []
    held: list[list[list[int]]] = []
    for chunk, phase in in_chunks(stream).chunks(size):
        memory.read(Similarities(as_stream(chunk, stream)).keys, chunk.values)
        if phase is not None:
            memory.settle()
            answers.append(memory.answer(unit(phase.queries), phase.answers))
            if hasattr(memory, "ids"):
                held.append([ids[:count].tolist() for ids, count in zip(memory.ids, memory.counts(), strict=True)])
    return memory, answers, held


def as_stream(chunk: Chunk, stream: Stream) -> Stream:
    from models.stream import Phase

    empty = np.empty(0, dtype=np.int64)
    phase = Phase(len(chunk), chunk.keys[:0], empty, empty, empty)
    return Stream(chunk.keys, chunk.values, chunk.items, (phase,), stream.classes, stream.chance)


@every_group
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_in_chunks_it_decides_what_it_decides_in_memory(
    name: str, group: list[dict[str, Any]], size: int, lab: SimpleNamespace
) -> None:
    if size == 1 and name == "infinite_former":
        pytest.skip("slow, and its own chunks are what matters")
    for seed, ends in ((0, (160,)), (1, (7, 60, 160))):
        compare(lab, name, group, stream_of(lab, seed, ends), size)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([1, 7, 1000]), case=st.sampled_from(CASES[:12]))
def test_in_chunks_it_decides_the_same_on_any_stream(
    seed: int, size: int, case: tuple[str, list[dict[str, Any]]], lab: SimpleNamespace
) -> None:
    compare(lab, *case, stream_of(lab, seed, (1 + seed % 159, 160)), size)


def stream_of(lab: SimpleNamespace, seed: int, ends: tuple[int, ...]) -> Stream:
    base = lab.recall_stream(seed, items=40, repeats=4, classes=5, dim=8)
    return lab.stream(  # type: ignore[no-any-return]
        base.keys,
        base.values,
        items=base.items,
        ends=ends,
        queries=base.phases[0].queries,
        answers=base.phases[0].answers,
        asked_items=base.phases[0].items,
        classes=5,
    )


def compare(lab: SimpleNamespace, name: str, group: list[dict[str, Any]], stream: Stream, size: int) -> None:
    whole = lab.mechanism(name, *group)
    readings = lab.read(whole, stream)
    memory, answers, held = read_long(lab, name, group, stream, size)
    for c, reading in enumerate(readings):
        assert [int(memory.counts()[c])] == reading.counts[-1:]
        assert int(memory.usage().held[c]) == reading.held
        assert int(memory.usage().peak[c]) == reading.peak
        for phase, (in_memory, in_parts) in enumerate(zip(reading.answers, answers, strict=True)):
            assert np.array_equal(in_memory, in_parts[c], equal_nan=True), (phase, group[c])
        if held:
            assert [phase[c] for phase in held] == reading.tokens, group[c]
    assert memory.memory.bytes_fixed() == whole.bytes_fixed()
    np.testing.assert_array_equal(memory.memory.bytes_per_slot(8, 4), whole.bytes_per_slot(8, 4))
