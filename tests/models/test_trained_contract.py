"""What every mechanism that learns promises: a seed learns the same whoever else is trained, and fails alone."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models.mechanism import MECHANISMS, SlotMemory
from models.stream import Stream
from models.trained import Fitted, TrainedMechanism

BRIEF = {"steps": 4, "streams": 2}

TRAINED: dict[str, list[dict[str, Any]]] = {
    "novelty_gate": [
        {"budget": 6},
        {"budget": 6, "keep": "hard", "objective": "straight_through", "slope": 30.0},
        {"budget": 1000, "objective": "gumbel_softmax"},
        {"budget": 0},
    ],
    "mlp_gate": [
        {"budget": 6, "hidden": 9},
        {"budget": 6, "hidden": 9, "inputs": "embedding_and_novelty", "objective": "gumbel_softmax"},
        {"budget": 1, "hidden": 9, "keep": "hard"},
    ],
    "distilled_gate": [{"budget": 6, "hidden": 9}, {"budget": 6, "hidden": 9, "inputs": "embedding", "keep": "hard"}],
    "s4d": [{"state": 5, "channels": 6}, {"state": 5, "channels": 6, "readout": "concatenated", "largest_step": 0.1}],
    "mamba": [{"state": 5, "channels": 6}],
    "hybrid": [{"state": 5, "memory": memory} for memory in ("none", "attention", "dp_cache")],
    "end_to_end": [
        {"width": 6, "budget": 5, "memory": memory}
        for memory in ("ssm", "attention", "dp_rule", "saliency_gate", "novelty_gate")
    ],
}

EVERY = [pytest.param(name, fields, id=f"{name}-{n}") for name in TRAINED for n, fields in enumerate(TRAINED[name])]
every_config = pytest.mark.parametrize(("name", "fields"), EVERY)


def streams(lab: SimpleNamespace) -> Any:
    """Items of clear identity, so that no decision is a near tie; the n-th stream of a seed."""

    def stream(seed: int, number: int) -> Stream:
        made: Stream = lab.recall_stream(1000 * seed + number, items=8, repeats=3, classes=4, dim=24, noise=0.1)
        return made

    return stream


def fit(lab: SimpleNamespace, name: str, fields: dict[str, Any], seeds: Sequence[int]) -> list[Fitted]:
    made: type[TrainedMechanism[Any]] = MECHANISMS.implementation(name)
    return made.fit(lab.config(name, **BRIEF, **fields), seeds, streams(lab), np.random.default_rng)


def trained(lab: SimpleNamespace, name: str, fields: dict[str, Any], fitted: Fitted) -> TrainedMechanism[Any]:
    made: TrainedMechanism[Any] = lab.mechanism(name, {**BRIEF, **fields})
    made.use(fitted)
    return made


def assert_same(one: Fitted, other: Fitted) -> None:
    assert one.parameters.keys() == other.parameters.keys()
    for name, array in one.parameters.items():
        assert array.tobytes() == other.parameters[name].tobytes(), name
    assert one.metrics == other.metrics
    assert one.series == other.series


def test_every_mechanism_that_learns_is_tested_here() -> None:
    """Those that read streams; sequence models have a contract of their own."""
    learning = {name: made for name, _, made in MECHANISMS if made.trained and not made.reads_ids}
    assert set(TRAINED) == {name for name, made in learning.items() if made.__module__.startswith("models.mechanisms.")}


@every_config
def test_a_seed_learns_the_same_whoever_else_is_trained(
    lab: SimpleNamespace, name: str, fields: dict[str, Any]
) -> None:
    together = fit(lab, name, fields, [3, 1, 2])
    assert_same(together[1], fit(lab, name, fields, [1])[0])
    assert_same(together[2], fit(lab, name, fields, [2, 3])[0])
    assert any(
        not np.array_equal(array, together[2].parameters[part]) for part, array in together[1].parameters.items()
    )


@every_config
def test_training_moves_the_parameters_and_keeps_a_record(
    lab: SimpleNamespace, name: str, fields: dict[str, Any]
) -> None:
    [fitted] = fit(lab, name, fields, [5])
    [untouched] = fit(lab, name, {**fields, "learning_rate": 1e-9}, [5])
    moved = [not np.allclose(array, untouched.parameters[part]) for part, array in fitted.parameters.items()]
    assert all(array.dtype == np.float32 for array in fitted.parameters.values())
    assert any(moved) or fields["budget"] == 0
    assert fitted.metrics["parameters"] == sum(array.size for array in fitted.parameters.values())
    assert all(len(points) == BRIEF["steps"] for points in fitted.series.values())
    assert {"training_loss", "training_recall"} <= set(fitted.series)


@pytest.mark.parametrize("name", TRAINED)
def test_no_curve_has_more_than_100_points(lab: SimpleNamespace, name: str) -> None:
    made: type[TrainedMechanism[Any]] = MECHANISMS.implementation(name)
    config = lab.config(name, **{**TRAINED[name][0], "steps": 130, "streams": 1})
    [fitted] = made.fit(config, [1], streams(lab), np.random.default_rng)
    assert {len(points) for points in fitted.series.values()} == {100}


# --- seeds in one batch, as on an accelerator ---


def batched(lab: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, name: str, fields: Any, seeds: Any) -> list[Fitted]:
    monkeypatch.setattr("models.training._together", lambda seeds: [seeds])
    return fit(lab, name, fields, seeds)


@every_config
def test_a_batch_of_seeds_learns_what_each_learns_alone(
    lab: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, name: str, fields: dict[str, Any]
) -> None:
    """Only the order of sums differs. Where a gradient is next to nothing, Adam magnifies it: hence a small rate."""
    fields = {**fields, "learning_rate": 1e-4}
    alone = fit(lab, name, fields, [1, 2, 3])
    for one, other in zip(batched(lab, monkeypatch, name, fields, [1, 2, 3]), alone, strict=True):
        for part, array in one.parameters.items():
            np.testing.assert_allclose(array, other.parameters[part], rtol=1e-4, atol=2e-4)
        np.testing.assert_allclose(one.series["training_loss"], other.series["training_loss"], rtol=1e-3)


@every_config
def test_a_seed_that_diverges_spoils_no_other(
    lab: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, name: str, fields: dict[str, Any]
) -> None:
    made = MECHANISMS.implementation(name)
    healthy = batched(lab, monkeypatch, name, fields, [1, 2])
    start = made.start_parameters
    calls: list[int] = []

    def broken(*arguments: Any) -> Any:
        calls.append(1)
        parameters = start(*arguments)
        return {part: array * (np.nan if len(calls) == 2 else 1) for part, array in parameters.items()}

    monkeypatch.setattr(made, "start_parameters", broken)
    one, other = batched(lab, monkeypatch, name, fields, [1, 2])
    assert_same(one, healthy[0])
    with pytest.raises(FloatingPointError, match="training diverged"):
        trained(lab, name, fields, other)


def test_streams_of_different_length_are_refused(lab: SimpleNamespace) -> None:
    def uneven(seed: int, number: int) -> Stream:
        made: Stream = lab.recall_stream(number, items=4 + number, repeats=2, classes=3, dim=4)
        return made

    made: type[TrainedMechanism[Any]] = MECHANISMS.implementation("s4d")
    with pytest.raises(ValueError, match="equal length"):
        made.fit(lab.config("s4d", steps=1, streams=2), [0], uneven, np.random.default_rng)


def test_streams_too_long_for_pairs_are_refused(lab: SimpleNamespace) -> None:
    def long(seed: int, number: int) -> Stream:
        made: Stream = lab.recall_stream(0, items=2049, repeats=2, dim=2)
        return made

    made: type[TrainedMechanism[Any]] = MECHANISMS.implementation("novelty_gate")
    with pytest.raises(ValueError, match="4098 tokens is too long to train on: at most 4096"):
        made.fit(lab.config("novelty_gate", budget=1, steps=1), [0], long, np.random.default_rng)


# --- reading ---


@every_config
def test_reading_equals_the_reference(lab: SimpleNamespace, name: str, fields: dict[str, Any]) -> None:
    [fitted] = fit(lab, name, fields, [4])
    made = trained(lab, name, fields, fitted)
    for number in range(50, 54):
        source = streams(lab)(4, number)
        stream = lab.stream(
            source.keys, source.values, items=source.items, ends=(5, 17, 24),
            queries=source.phases[0].queries, answers=source.phases[0].answers, classes=4,
        )  # fmt: skip
        [reading] = lab.read(made, stream)
        plain = made.reference(stream, made.config, np.random.default_rng(0), fitted=fitted)
        if issubclass(type(made), SlotMemory):
            assert plain.margin > 1e-6
            assert (reading.tokens, reading.values) == (plain.tokens, plain.values)
            assert (reading.held, reading.peak) == (plain.held, plain.peak)
        else:
            np.testing.assert_allclose(made.scores(stream.phases[-1].queries), plain.scores[-1], rtol=1e-4, atol=1e-4)
            for scores, answers in zip(plain.scores, reading.answers, strict=True):
                gap = np.diff(np.sort(scores, axis=1)[:, -2:], axis=1)[:, 0]
                expected = scores.argmax(axis=1) == stream.phases[0].answers
                assert (expected == answers)[gap > 1e-3].all()


@every_config
def test_a_reference_needs_what_was_learned(lab: SimpleNamespace, name: str, fields: dict[str, Any]) -> None:
    config = lab.config(name, **fields)
    with pytest.raises(ValueError, match="needs what it has learned"):
        MECHANISMS.implementation(name).reference(streams(lab)(0, 0), config, np.random.default_rng(0))


@every_config
def test_nothing_is_left_of_a_stream_when_the_next_is_read(
    lab: SimpleNamespace, name: str, fields: dict[str, Any]
) -> None:
    [fitted] = fit(lab, name, fields, [6])
    used = trained(lab, name, fields, fitted)
    lab.read(used, streams(lab)(6, 70))
    second = streams(lab)(6, 71)
    [one], [other] = lab.read(used, second), lab.read(trained(lab, name, fields, fitted), second)
    assert (one.tokens, one.counts, one.held, one.peak) == (other.tokens, other.counts, other.held, other.peak)
    assert one.answers[0].tobytes() == other.answers[0].tobytes()


SIZES = {
    "novelty_gate": (2, 6 * (24 * 4 + 4)),
    "mlp_gate": (24 * 9 + 9 + 9 + 1, 6 * (24 * 4 + 4)),
    "distilled_gate": (25 * 9 + 9 + 9 + 1, 6 * (24 * 4 + 4)),
    "s4d": (3 * 5 + 24 * 5 + 4 * 6 + 24 * 10 + 6 * 4 + 4, 2 * 4 * 5 * 6),
    "mamba": (6 * 5 + 3 * 28 * 6 + 2 * 28 * 5 + 2 * 6 + 6 * 4 + 4, 4 * 5 * 6),
    "hybrid": (5 + 28 * 5 + 6 + 29 * 64 + 64 + 64 * 4 + 4, 4 * 5),
    "end_to_end": (24 * 6 + 4 * 6 + 6 + 6 * 4 + 4, 4 * 6),
}
"""Parameters of a mechanism's first config, and bytes of its memory, on keys of width 24 and 4 classes."""


@pytest.mark.parametrize("name", TRAINED)
def test_bytes_are_those_of_parameters_and_memory(lab: SimpleNamespace, name: str) -> None:
    fields = TRAINED[name][0]
    [fitted] = fit(lab, name, fields, [7])
    made = trained(lab, name, fields, fitted)
    lab.read(made, streams(lab)(7, 80))
    parameters, memory = SIZES[name]
    body, metadata = made.bytes_per_slot(24, 4)
    assert fitted.metrics["parameters"] == parameters
    assert made.bytes_fixed() + int(made.counts()[0]) * (body + metadata) == 4 * parameters + memory


@every_config
def test_slots_are_counted(lab: SimpleNamespace, name: str, fields: dict[str, Any]) -> None:
    [fitted] = fit(lab, name, fields, [8])
    made = trained(lab, name, fields, fitted)
    [reading] = lab.read(made, streams(lab)(8, 90))
    if fields.get("keep") == "hard":
        assert (reading.counts, reading.peak) == ([made.extras()["kept_hard"][0]], 24)
        return
    expected: dict[Any, tuple[int, int]] = {
        "none": (5, 5), "ssm": (6, 6), "attention": (24, 24), "dp_cache": (8, 8), "dp_rule": (8, 8),
        "saliency_gate": (5, 24), "novelty_gate": (5, 24), None: (5, 5),
    }  # fmt: skip
    gate = (min(fields.get("budget", 0), 24), 24)
    is_gate = name in {"novelty_gate", "mlp_gate", "distilled_gate"}
    assert (reading.counts[0], reading.peak) == (gate if is_gate else expected[fields.get("memory")])
