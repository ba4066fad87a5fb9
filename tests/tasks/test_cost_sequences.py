"""What sequence models cost: times that grow with what is computed, sizes that are exact, trials that fail alone."""

from __future__ import annotations

import math
from typing import Any

import pytest

from models.mechanism import MECHANISMS
from tasks.cost_sequences import measure_sequences
from tasks.evaluate import Outcome
from tasks.kind import KINDS
from tasks.summary import Interval, Summary
from tasks.training import Lane, TrainingRun
from tasks.workloads.random_tokens import RandomTokens, RandomTokensConfig

SMALL: dict[str, Any] = {"width": 16, "layers": 2, "heads": 2, "batch": 2}


def lane(name: str, seed: int = 0, **fields: Any) -> Lane:
    return Lane(MECHANISMS.config_class(name)(**{**SMALL, **fields}), seed)  # type: ignore[arg-type]


def measured(*lanes: Lane, length: int = 32, repeats: int = 2, timeout: float | None = None) -> list[Outcome]:
    workload = RandomTokens(RandomTokensConfig(vocabulary=64, length=length))
    return measure_sequences(TrainingRun("cpu", workload, repeats, "float32", timeout), lanes)


def metrics(outcome: Outcome) -> dict[str, float]:
    assert outcome.metrics is not None, outcome.message
    return outcome.metrics


def test_a_training_step_takes_longer_than_a_forward_pass_and_long_sequences_longer_than_short_ones() -> None:
    [short], [long] = measured(lane("transformer"), length=16), measured(lane("transformer"), length=512)
    for found in map(metrics, (short, long)):
        assert found["train_us_per_token"] > found["forward_us_per_token"] > 0
        assert found["train_us_per_token_iqr"] >= 0
        assert 0 <= found["waited"] <= 1
    assert metrics(long)["forward_us_per_token"] * 512 > 2 * metrics(short)["forward_us_per_token"] * 16


def test_sizes_are_those_of_the_model() -> None:
    attention, triple = map(metrics, measured(lane("transformer"), lane("triple_latent", state=4)))
    assert attention["tokens"] == 32
    assert attention["sequences"] == 2
    assert attention["bytes_state"] == 2 * 2 * 32 * 16 * 4  # layers, keys and values, tokens, width
    assert triple["bytes_state"] == 2 * 2 * (4 + 4 * 4) * 4  # layers, heads, state and pair memory
    for found in (attention, triple):
        assert found["bytes"] == 4 * found["parameters"] + found["bytes_state"]
        assert found["forward_flops"] > 2 * found["parameters"]


def test_what_training_keeps_grows_with_the_sequence() -> None:
    kept = [metrics(measured(lane("triple_latent", state=4), length=n, repeats=1)[0])["kept_bytes"] for n in (64, 128)]
    assert kept[0] > 2 * 64 * 16 * 4
    assert 1.9 < kept[1] / kept[0] < 2.1


def test_a_model_that_the_paper_does_not_count_has_no_operations() -> None:
    [found] = measured(lane("gated_delta_model"))
    assert "forward_flops" not in metrics(found)


def test_a_model_that_fails_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    implementation = MECHANISMS.implementation("triple_latent")

    def breaks(*_: Any) -> None:
        raise RuntimeError("no such model today")

    monkeypatch.setattr(implementation, "build", breaks)
    broken, whole = measured(lane("triple_latent"), lane("transformer"))
    assert broken.reason == "user_error"
    assert "no such model today" in broken.message
    assert whole.metrics is not None
    late, _ = measured(lane("transformer"), lane("transformer", width=8), timeout=0.0)
    assert late.reason == "timeout"


def rows(lengths: tuple[int, ...]) -> list[dict[str, Any]]:
    found = []
    for length in lengths:
        lanes = [lane("transformer", attention_dropout=0.0), lane("triple_latent", state=4)]
        for one, outcome in zip(lanes, measured(*lanes, length=length, repeats=1), strict=True):
            workload, mechanism = {"name": "random_tokens", "length": length}, one.config.identity()
            found.append(
                {"state": "done", "seed": 0, "episodes": 1}
                | {f"workload.{name}": value for name, value in workload.items()}
                | {f"mechanism.{name}": value for name, value in mechanism.items()}
                | {f"metrics.{name}": value for name, value in metrics(outcome).items()}
            )
    return found


def test_the_report_fits_forward_passes_training_steps_and_bytes() -> None:
    summary: Summary = KINDS.implementation("cost_scaling").summarise(rows((16, 32, 64)))
    sections = {part.name: part for part in summary.sections}
    assert {"times", "forward-scaling", "train-scaling", "memory-scaling"} <= set(sections)
    assert "training step" in sections["times"].text[0]
    for name in ("forward-scaling", "train-scaling"):
        table = sections[name].table
        assert table is not None
        assert len(table.rows) == 2
    kept = sections["memory-scaling"].table
    assert kept is not None
    assert {row[1] for row in kept.rows} == {"held", "kept by a training step"}


def costed(name: str, length: int, **fields: Any) -> dict[str, Any]:
    """A row of made-up costs, as a trial leaves it: nothing in it says whether the model looks ahead."""
    mechanism: Any = MECHANISMS.config_class(name)(**fields)
    return (
        {"state": "done", "seed": 0, "episodes": 1, "workload.name": "random_tokens", "workload.length": length}
        | {f"mechanism.{key}": value for key, value in mechanism.identity().items()}
        | {"metrics.tokens": float(length), "metrics.train_us_per_token": 2.0}
    )


def test_models_that_look_ahead_are_marked_where_only_their_costs_are_known() -> None:
    made = [costed("triple_hybrid", 32, convolution=sides) for sides in ("causal", "two_sided")]
    made += [costed("unimatrix", 32, depth_state="carried", layers=layers) for layers in (1, 2)]
    table = next(part for part in KINDS.implementation("cost_scaling").summarise(made).sections).table
    assert table is not None
    assert [row[0] for row in table.rows] == [
        "triple_hybrid causal",
        "triple_hybrid two_sided (leaks future)",
        "unimatrix",
        "unimatrix (leaks future)",
    ]


def crossing_rows(names: dict[str, tuple[float, float]], scatter: float = 0.01) -> list[dict[str, Any]]:
    """Training steps whose time for a sequence is factor · length^exponent, by name, with a little noise by seed."""
    made = []
    for seed in range(3):
        for length in (128, 256, 512, 1024):
            for place, (name, (factor, exponent)) in enumerate(names.items()):
                row = costed(name, length)
                noise = 1.0 + scatter * math.sin(seed + place + length)
                row["metrics.train_us_per_token"] = noise * factor * length ** (exponent - 1.0)
                made.append({**row, "seed": seed})
    return made


def test_the_report_tells_from_which_length_on_a_model_is_the_cheaper() -> None:
    laws = {"transformer": (1.0, 2.0), "triple_latent": (600.0, 1.0), "triple_slot": (4000.0, 1.0)}
    summary: Summary = KINDS.implementation("cost_scaling").summarise(crossing_rows(laws))
    [section] = [part for part in summary.sections if part.name.endswith("crossings")]
    assert (section.name, section.title) == ("train-scaling-crossings", "Crossings: Training steps against tokens")
    assert section.table is not None
    near, far, never = section.table.rows
    assert (near[:2], near[4]) == (("transformer", "triple_latent"), "within the sizes measured")
    assert isinstance(near[3], Interval)
    assert near[3].mean == pytest.approx(600.0, rel=0.05)
    assert "jackknife" in near[3].method
    assert (far[:2], far[4]) == (("transformer", "triple_slot"), "extrapolated")
    assert never == ("triple_latent", "triple_slot", None, None, "nowhere: the first costs less throughout")


def test_no_crossing_is_told_of_two_that_cannot_be_told_apart() -> None:
    laws = {"transformer": (1.0, 1.3), "triple_latent": (6.4, 1.0)}
    summary: Summary = KINDS.implementation("cost_scaling").summarise(crossing_rows(laws, 0.2))
    [section] = [part for part in summary.sections if part.name.endswith("crossings")]
    assert section.table is not None
    [row] = section.table.rows
    assert row[3] is None
    assert str(row[4]).startswith("not told apart")
