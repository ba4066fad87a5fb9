"""What every device form promises: it decides as the float64 reference does, wherever the margin exceeds the tolerance.

Forms are run by torch on the CPU, where they are the same code; `tests/device` runs them on what else there is.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.config import MechanismConfig
from models.devices import fused, stream_batch
from models.devices.device import (
    AGREED,
    Capability,
    DeviceClass,
    available_devices,
    batch_memory,
    capabilities,
    full_precision,
    precision,
)
from models.devices.form import DEVICE_FORMS, DeviceForm, Questions, objection, supports
from models.devices.stream_batch import StreamBatch, layout
from models.fixed_state import FixedState
from models.mechanism import MECHANISMS, SlotMemory
from models.reference import unit_keys
from models.stream import Floats, Stream, unit
from tests.no_float64 import no_float64

DEVICE: DeviceClass = os.environ.get("SLOTSWEEP_TEST_DEVICE", "cpu")  # type: ignore[assignment]
"""Where forms run in these tests."""

BUDGETS: list[dict[str, Any]] = [{"budget": budget} for budget in (0, 1, 2, 3, 7, 20, 1000)]
FEW = BUDGETS[1:5]

GROUPS: dict[str, list[list[dict[str, Any]]]] = {
    "full_attention": [[{}], [{"temperature": 0.005}], [{"temperature": "argmax"}]],
    "knn": [
        [{"k": k} for k in (1, 3, 8, 1000)],
        [{"k": 3, **fields} for fields in BUDGETS],
        [{"k": 3, "budget": budget, "temperature": "argmax"} for budget in (None, 7)],
    ],
    "recency": [BUDGETS],
    "streaming_llm": [BUDGETS, [{"budget": 6, "sinks": sinks} for sinks in (0, 1, 5, 9)]],
    "random_eviction": [BUDGETS],
    "tova": [BUDGETS],
    "h2o": [
        BUDGETS,
        [{**fields, "variant": "half_recent", "temperature": 1.0} for fields in BUDGETS],
        [{**fields, "variant": "no_own_mass"} for fields in BUDGETS],
        [{**fields, "variant": "observed_mean", "read_temperature": "argmax"} for fields in BUDGETS],
    ],
    "snapkv": [
        [{**fields, "window": 2} for fields in BUDGETS],
        [{**fields, "window": 1, "pooling": False, "temperature": 1.0} for fields in BUDGETS],
        [{"budget": 70}],
    ],
    "dp_cache": [
        [{"tau": tau} for tau in (-0.5, 0.0, 0.2, 0.5, 2.0)],
        [{"tau": 0.5, "cap": cap, "decay": decay} for cap in (1, 2, 5) for decay in (1.0, 0.9, 0.01)],
        [{"tau": tau, "keep": "last"} for tau in (0.1, 1.5)],
        [{"tau": tau, "cap": cap, "keep": "majority"} for tau in (0.1, 0.5) for cap in (3, 1000)],
        [{"tau": tau, "keys": "centroid"} for tau in (0.1, 0.5)],
        [{"tau": 0.3, "keys": "centroid", "cap": cap, "decay": 0.9, "keep": "majority"} for cap in (1, 4)],
    ],
    "adaptive_dp_cache": [
        [
            {"tau": 0.1, "eta": 0.1, "beta": 40.0, "m0": 8.0, "decay": 0.99},
            {"tau": 0.5, "eta": 0.3, "beta": 8.5, "m0": 0.0, "decay": 0.9},
            {"tau": 0.2, "eta": 1.0, "beta": 3.0, "m0": 0.7, "decay": 0.5},
            {"tau": 0.3, "eta": 0.5, "beta": 0.0, "m0": 2.0, "decay": 0.9},
        ]
    ],
    "item_lru": [BUDGETS, [{"budget": 3, "tau": tau} for tau in (-0.5, 0.0, 0.9)]],
    "item_lfu": [BUDGETS, [{"budget": 3, "tau": tau} for tau in (-0.5, 0.0, 0.9)]],
    "item_ttl": [[{"window": window} for window in (1, 2, 5, 20, 1000)], [{"window": 4, "tau": -0.5}]],
    "belady": [BUDGETS],
    "optimal": [BUDGETS],
    "superposition": [[{"decay": decay} for decay in (1.0, 0.995, 0.9, 0.1)]],
    "linear_attention": [[{"feature_map": name}] for name in ("elu", "relu", "identity")],
    "delta_rule": [[{"beta": beta} for beta in (0.01, 0.5, 1.0)]],
    "gated_delta_rule": [[{"alpha": alpha, "beta": beta} for alpha in (0.99, 0.5) for beta in (0.1, 1.0)]],
    "ridge_memory": [[{"ridge": ridge} for ridge in (0.1, 1.0, 30.0)]],
    "quadratic_memory": [[{}], [{"ridge": ridge} for ridge in (0.1, 30.0)]],
}

EVERY_GROUP = [pytest.param(name, group, id=f"{name}-{n}") for name in GROUPS for n, group in enumerate(GROUPS[name])]
every_group = pytest.mark.parametrize(("name", "group"), EVERY_GROUP)


def test_every_form_is_tested_here() -> None:
    assert set(GROUPS) == {name for name, _, made in DEVICE_FORMS if made.__module__.startswith("models.devices.")}


# --- reading ---


class Reading(SimpleNamespace):
    """What one config held of one stream at each phase end, what it answered there, and its use of slots."""


def configs(name: str, group: list[dict[str, Any]]) -> list[MechanismConfig]:
    made = [MECHANISMS.config_class(name)(name=name, **fields) for fields in group]
    return [config for config in made if isinstance(config, MechanismConfig)]


def form(name: str, group: list[dict[str, Any]]) -> DeviceForm[Any]:
    made: type[DeviceForm[Any]] = DEVICE_FORMS.implementation(name)
    return made(configs(name, group))


def read(
    made: DeviceForm[Any], streams: list[Stream], dtype: str = "float32", like: DeviceClass = DEVICE
) -> list[list[Reading]]:
    """Let a form read streams of one layout, in the precision of `like`; readings by stream and config."""
    batch = StreamBatch(streams, DEVICE, precision(like, dtype), dtype)
    made.start(batch, [np.random.default_rng(n) for n in range(len(streams))])
    readings = [
        [Reading(tokens=[], values=[], states=[], counts=[], answers=[]) for _ in made.configs] for _ in streams
    ]
    for start, stop, phase in batch.segments():
        made.write(start, stop)
        if phase is None:
            continue
        made.settle(stop)
        blocks = [
            made.answer(Questions(phase.queries[:, part], cosines, phase.answers[:, part])).cpu().numpy()
            for part, cosines in batch.query_blocks(phase)
        ]
        for b, row in enumerate(readings):
            for c, reading in enumerate(row):
                reading.counts.append(int(made.counts()[b, c]))
                reading.answers.append(np.concatenate([block[b, c] for block in blocks]))
                if hasattr(made, "open"):
                    tokens = np.flatnonzero(made.open[b, c].cpu().numpy())
                    reading.tokens.append(tokens.tolist())
                    reading.values.append(made.values[b, c].cpu().numpy()[tokens].tolist())
                if hasattr(made, "states"):
                    reading.states.append(made.states[b, c].cpu().numpy().astype(np.float64))
    held, peak = (usage.cpu().numpy() for usage in made.usage())
    for b, row in enumerate(readings):
        for c, reading in enumerate(row):
            reading.held, reading.peak = int(held[b, c]), int(peak[b, c])
    return readings


def assert_agrees(
    lab: SimpleNamespace,
    name: str,
    group: list[dict[str, Any]],
    streams: list[Stream],
    dtype: str = "float32",
    like: DeviceClass = DEVICE,
) -> int:
    """Compare each config on each stream with its reference; returns how many had margins to compare by."""
    compared = 0
    made = MECHANISMS.implementation(name)
    for n, (stream, row) in enumerate(zip(streams, read(form(name, group), streams, dtype, like), strict=True)):
        for config, reading in zip(configs(name, group), row, strict=True):
            plain = made.reference(stream, config, np.random.default_rng(n), dtype)
            if issubclass(made, FixedState):
                assert_state(lab, name, config, stream, plain, reading)
                compared += 1
            elif plain.margin > tolerance(config):
                compared += 1
                assert (reading.held, reading.peak) == (plain.held, plain.peak)
                assert reading.counts == [len(tokens) for tokens in plain.tokens]
                if issubclass(made, SlotMemory):
                    assert reading.tokens == plain.tokens
                    assert reading.values == plain.values
                    assert_answers(lab, config, stream, plain, reading, dtype)
    return compared


def tolerance(config: Any) -> float:
    """Of the margins by which `config` writes: those of policies that score with attention are fractions of shares."""
    return AGREED / min(1.0, config.temperature if hasattr(config, "read_temperature") else 1.0)


def assert_answers(lab: SimpleNamespace, config: Any, stream: Stream, plain: Any, reading: Any, dtype: str) -> None:
    keys = unit_keys(stream, dtype)
    for n, phase in enumerate(stream.phases):
        slot_keys = plain.keys[n] if plain.keys is not None else keys[plain.tokens[n]]
        for query, answer, credit in zip(unit(phase.queries), phase.answers, reading.answers[n], strict=True):
            if len(slot_keys) == 0:
                assert math.isnan(credit)
                continue
            value, gap = lab.plain_read(query, slot_keys, plain.values[n], config.reading, getattr(config, "k", None))
            softened = 1.0 if config.reading == "argmax" else min(1.0, config.reading)
            assert gap <= AGREED / softened or credit == (value == answer)


def assert_state(lab: SimpleNamespace, name: str, config: Any, stream: Stream, plain: Any, reading: Any) -> None:
    """States are equal up to the rounding of 32 bits, and answers are those of a plain read wherever it is clear."""
    assert (reading.held, reading.peak) == (plain.held, plain.peak)
    memory = MECHANISMS.implementation(name)([config])
    assert isinstance(memory, FixedState)
    memory.start(stream, np.random.default_rng(0))
    for phase, state, held, answers in zip(stream.phases, plain.states, reading.states, reading.answers, strict=True):
        scale = max(1.0, float(np.abs(state).max()))
        np.testing.assert_allclose(held, state, rtol=0.0, atol=AGREED * scale)
        for query, answer, credit in zip(memory.features(unit(phase.queries)), phase.answers, answers, strict=True):
            value, gap = lab.plain_read_state(query, state)
            clear = gap > AGREED * scale / max(1e-3, float(np.linalg.norm(state, axis=0).max()))
            assert value is None or not clear or credit == (value == answer)


# --- streams ---


def random_keys(rng: np.random.Generator, length: int) -> Floats:
    return rng.standard_normal((length, 5))


def noisy_items(rng: np.random.Generator, length: int) -> Floats:
    base = rng.standard_normal((max(1, length // 4), 5))
    return base[rng.integers(len(base), size=length)] + 0.2 * rng.standard_normal((length, 5))


def duplicates(rng: np.random.Generator, length: int) -> Floats:
    """Few keys, many copies, at any length."""
    base = rng.standard_normal((max(1, length // 5), 5))
    return base[rng.integers(len(base), size=length)] * rng.uniform(0.5, 2.0, size=(length, 1))


def orthogonal(rng: np.random.Generator, length: int) -> Floats:
    return np.eye(5)[rng.integers(5, size=length)]


def halves(rng: np.random.Generator, length: int) -> Floats:
    """Cosines are exactly -1, -1/2, 0, 1/2 or 1."""
    return np.pad(rng.choice([-0.5, 0.5], size=(length, 4)), ((0, 0), (0, 1)))


def with_zeros(rng: np.random.Generator, length: int) -> Floats:
    return rng.standard_normal((length, 5)) * (rng.random((length, 1)) > 0.3)


def near_threshold(rng: np.random.Generator, length: int) -> Floats:
    """Cosines with the first key straddle 1/2 by amounts on both sides of the tolerance."""
    gaps = rng.choice([-1.0, 1.0], size=length) * 10.0 ** rng.uniform(-7.0, -2.0, size=length)
    cosines = np.concatenate([[1.0], 0.5 + gaps[1:]])
    sides = rng.choice([-1.0, 1.0], size=length) * np.sqrt(1.0 - cosines**2)
    return np.pad(np.stack([cosines, sides], axis=1), ((0, 0), (0, 3)))


KINDS = (random_keys, noisy_items, duplicates, orthogonal, halves, with_zeros, near_threshold)


@st.composite
def drawn_streams(draw: st.DrawFn, longest: int = 36) -> list[dict[str, Any]]:
    """Arguments of `lab.stream` for one to three streams of one layout, each of its own kind."""
    length = draw(st.integers(1, longest))
    ends = sorted(draw(st.sets(st.integers(1, length), min_size=1, max_size=3)))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return [stream_of(kind, rng, length, ends) for kind in kinds]


def stream_of(kind: Any, rng: np.random.Generator, length: int, ends: list[int]) -> dict[str, Any]:
    keys = kind(rng, length)
    queries = np.concatenate([keys[rng.integers(length, size=3)], rng.standard_normal((3, keys.shape[1]))])
    most = max(1, length // 3)
    return {
        "keys": keys,
        "values": rng.integers(3, size=length),
        "items": rng.integers(most, size=length),
        "ends": ends,
        "queries": queries,
        "answers": rng.integers(3, size=len(queries)),
        "asked_items": rng.integers(most, size=len(queries)),
        "classes": 3,
    }


def long_stream(lab: SimpleNamespace) -> Stream:
    """Two blocks of rows, phases on and off their border, and a tail that no phase reads."""
    rng = np.random.default_rng(1)
    base = rng.standard_normal((30, 16))
    items = rng.integers(30, size=320)
    keys = base[items] + 0.25 * rng.standard_normal((320, 16))
    ends, answers = (130, 256, 280), np.arange(30) % 5
    return lab.stream(keys, items % 5, items=items, ends=ends, queries=base, answers=answers, classes=5)


# --- agreement ---


@every_group
@settings(max_examples=10, deadline=None)
@given(drawn=drawn_streams())
def test_a_form_agrees_with_the_reference(
    lab: SimpleNamespace, name: str, group: list[dict[str, Any]], drawn: list[dict[str, Any]]
) -> None:
    assert_agrees(lab, name, group, [lab.stream(**fields) for fields in drawn])


@every_group
def test_a_form_agrees_with_the_reference_on_a_long_stream(
    lab: SimpleNamespace, name: str, group: list[dict[str, Any]]
) -> None:
    assert assert_agrees(lab, name, group[-2:], [long_stream(lab)]) > 0


@pytest.mark.parametrize("kind", [orthogonal, halves])
@pytest.mark.parametrize("name", GROUPS)
def test_ties_are_settled_as_on_the_cpu(lab: SimpleNamespace, name: str, kind: Any) -> None:
    """Arithmetic is exact here, so most decisions are exact ties."""
    rng = np.random.default_rng(5)
    streams = [lab.stream(**stream_of(kind, rng, 24, [13, 24])) for _ in range(6)]
    assert sum(assert_agrees(lab, name, group, streams) for group in GROUPS[name]) >= 6


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", GROUPS)
def test_keys_are_rounded_to_the_dtype(lab: SimpleNamespace, name: str, dtype: str) -> None:
    if DEVICE == "mps" and dtype == "float64":
        pytest.skip("mps has no float64")
    rng = np.random.default_rng(2)
    streams = [lab.stream(**stream_of(noisy_items, rng, 40, [25, 40])) for _ in range(3)]
    assert assert_agrees(lab, name, GROUPS[name][0], streams, dtype) > 0


@every_group
def test_a_mac_is_asked_for_no_64_bit_floats(
    lab: SimpleNamespace, name: str, group: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metal has none: forms must do without, and agree all the same."""
    if any(objection(config, "mps") for config in configs(name, group)):
        pytest.skip("not for mps")
    monkeypatch.setattr(stream_batch, "ROW_TOKENS", 13)
    rng = np.random.default_rng(6)
    streams = [lab.stream(**stream_of(kind, rng, 40, [25, 40])) for kind in (noisy_items, random_keys, duplicates)]
    with no_float64():
        assert assert_agrees(lab, name, group, streams, like="mps") > 0


@pytest.mark.parametrize(("name", "fields"), [("quadratic_memory", {"ridge": None}), ("superposition", {"decay": 0.9})])
def test_keys_of_64_bits_are_computed_with_in_64(lab: SimpleNamespace, name: str, fields: dict[str, Any]) -> None:
    if DEVICE == "mps":
        pytest.skip("mps has no float64")
    stream = lab.stream(**stream_of(random_keys, np.random.default_rng(3), 40, [25, 40]))
    [[reading]] = read(form(name, [fields]), [stream], "float64")
    [config] = configs(name, [fields])
    plain = MECHANISMS.implementation(name).reference(stream, config, np.random.default_rng(0), "float64")
    for held, state in zip(reading.states, plain.states, strict=True):
        np.testing.assert_allclose(held, state, rtol=0.0, atol=1e-12)


@every_group
def test_streams_and_configs_do_not_see_each_other(
    lab: SimpleNamespace, name: str, group: list[dict[str, Any]]
) -> None:
    group, streams = (
        group[-3:],
        [lab.stream(**stream_of(kind, np.random.default_rng(8), 60, [31, 60])) for kind in KINDS[:3]],
    )
    together = read(form(name, group), streams)
    for b, stream in enumerate(streams):
        for c, fields in enumerate(group):
            if name == "random_eviction" and b > 0:
                continue  # alone, a stream gets the draws of the first
            alone, reading = read(form(name, [fields]), [stream])[0][0], together[b][c]
            assert (alone.tokens, alone.values, alone.counts) == (reading.tokens, reading.values, reading.counts)
            assert (alone.held, alone.peak) == (reading.held, reading.peak)
            np.testing.assert_array_equal(np.concatenate(alone.answers), np.concatenate(reading.answers))


# --- what can run where ---


def test_a_planner_can_ask_what_runs_where() -> None:
    assert all(supports(config, "cuda") for name in GROUPS for config in configs(name, GROUPS[name][-1]))
    [parser] = configs("dp_parser", [{}])
    assert supports(parser, "cpu")
    assert objection(parser, "cuda") == "`dp_parser` runs on cpu only: it has no form for devices"
    [ridge] = configs("ridge_memory", [{}])
    assert supports(ridge, "cuda")
    assert "64 bits, which mps has not" in str(objection(ridge, "mps"))
    [network] = configs("s4d", [{}])
    assert supports(network, "mps")


def test_this_machine_says_what_it_has() -> None:
    assert available_devices()[0] == "cpu"
    assert DEVICE in available_devices()


def test_a_mac_says_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 1 << 34)
    assert available_devices()[-1] == "mps"
    assert capabilities("mps") == (Capability("mps", "Apple Metal", 1 << 34, None, ("float32", "float16", "bfloat16")),)


def test_what_torch_keeps_without_need_is_free_on_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 1000)
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 900)
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: 400)
    assert batch_memory("mps") == 300
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: 1100)
    assert batch_memory("mps") == 0


SETTINGS: dict[str, Callable[[Any], None]] = {
    "untouched": lambda _: None,
    "legacy": lambda torch: torch.set_float32_matmul_precision("medium"),
    "by backend": lambda torch: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "for all": lambda torch: setattr(torch.backends, "fp32_precision", "tf32"),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_products_are_of_32_bits_whatever_the_process_allows(setting: str) -> None:
    """In a process of its own, as torch refuses to tell and to set one once both of its ways were used."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        before, inside, after = pool.apply(precision_beside, (setting,))
    assert inside == ("ieee", "ieee", False)
    assert before == after


def precision_beside(setting: str) -> list[Any]:
    """What torch's backends multiply in before, inside and after a block in full precision."""
    import torch

    backends = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    SETTINGS[setting](torch)
    before = [backend.fp32_precision for backend in backends]
    with full_precision():
        inside = (*(backend.fp32_precision for backend in backends), torch.backends.cuda.matmul.allow_tf32)
    return [before, inside, [backend.fp32_precision for backend in backends]]


def test_asking_what_runs_where_loads_no_torch() -> None:
    asked = (
        "import sys, models.devices.form as form; assert 'h2o' in form.DEVICE_FORMS; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", asked], timeout=300).returncode == 0


def test_mps_has_no_float64() -> None:
    with pytest.raises(ValueError, match="mps has no float64"):
        precision("mps", "float64")


def test_layouts_tell_streams_that_cannot_be_stacked(lab: SimpleNamespace) -> None:
    rng = np.random.default_rng(0)
    one, other, longer = (
        lab.stream(**stream_of(random_keys, rng, length, ends))
        for length, ends in ((9, [4, 9]), (9, [5, 9]), (12, [4, 9]))
    )
    assert layout(one) != layout(other)
    assert layout(one) == layout(longer)


# --- Triton ---

FUSED = [
    ("dp_cache", 0),
    ("dp_cache", 1),
    ("dp_cache", 2),
    ("adaptive_dp_cache", 0),
    ("item_lru", 0),
    ("item_lfu", 0),
    ("item_ttl", 0),
    ("h2o", 0),
    ("h2o", 1),
    ("tova", 0),
]

INTERPRETED = """
import sys
import pytest
sys.exit(pytest.main([sys.argv[1], "-q", "-x", "-k", "test_fused_forms", "-p", "no:cacheprovider"]))
"""


@pytest.mark.slow
def test_triton_kernels_agree_under_the_interpreter() -> None:
    """In a process of its own: triton reads whether to interpret when it is imported."""
    pytest.importorskip("triton", reason="triton is not installed")
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", INTERPRETED, __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(
    DEVICE != "cuda" and os.environ.get("TRITON_INTERPRET") != "1", reason="triton runs neither here nor interpreted"
)
@pytest.mark.parametrize(("name", "which"), FUSED)
def test_fused_forms_agree(lab: SimpleNamespace, name: str, which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On streams of several kinds and over several blocks of rows, as the torch loops of the same forms do."""
    pytest.importorskip("triton", reason="triton is not installed")
    monkeypatch.setattr(stream_batch, "ROW_TOKENS", 13)
    rng, group = np.random.default_rng(4), GROUPS[name][which][::2]
    streams = [lab.stream(**stream_of(kind, rng, 30, [17, 30])) for kind in (noisy_items, halves, duplicates)]
    assert getattr(started(form(name, group), streams), "fused", None) is not None
    assert assert_agrees(lab, name, group, streams) > 0


def between() -> Floats:
    """Two keys that are just not one, and a third between them, nearer to the second: one with either."""
    angles = np.array([0.0, math.acos(1.0 - 6e-7) + math.acos(1.0 - 2.5e-7), math.acos(1.0 - 6e-7)])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def nearly_as_near() -> Floats:
    """A third key that is as near to the first as to the second, but for less than 32 bits tell."""
    cosines = np.array([0.5 + 4e-7, 0.5])
    sides = np.sqrt(1.0 - cosines**2)
    return np.array([[cosines[0], sides[0], 0.0], [cosines[1], 0.0, sides[1]], [1.0, 0.0, 0.0]])


TIES: dict[str, tuple[str, dict[str, Any], Floats, list[int]]] = {
    "repeats": (
        "dp_cache",
        {"tau": 0.0},
        np.random.default_rng(3).standard_normal((7, 5))[np.arange(28) % 7] * np.linspace(0.5, 2.0, 28)[:, None],
        list(range(7)),
    ),
    "near one": ("dp_cache", {"tau": 0.0, "keep": "last"}, between(), [0, 1]),
    "cosines": ("tova", {"budget": 2}, nearly_as_near(), [1, 2]),
    "attention": ("h2o", {"budget": 2, "temperature": 0.05}, np.full((3, 3), 0.1) + np.eye(3) * 0.75, [1, 2]),
    "whole caps": (
        "adaptive_dp_cache",
        {"tau": 0.1, "eta": 0.1, "beta": 8.723466123873216, "m0": 0.0, "decay": 0.99},
        np.eye(4),
        [1, 2, 3],
    ),
}
"""A form, fields of its config, keys [L, d], and the tokens that are left: those that a tie broken otherwise is not."""


@pytest.mark.parametrize("loops", [True, False], ids=["loops", "fused"])
@pytest.mark.parametrize("case", TIES)
def test_fused_forms_settle_ties_as_loops_do(
    lab: SimpleNamespace, case: str, loops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeats have no novelty, the oldest of equal slots takes a token or leaves, a cap just below a number is it.

    By less than 32 bits tell: the float64 reference has no margin here.
    """
    name, fields, keys, left = TIES[case]
    if loops:
        monkeypatch.setattr(fused, "usable", lambda *_: False)
    elif DEVICE != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("triton runs neither here nor interpreted")
    stream = lab.stream(keys)
    assert (getattr(started(form(name, [fields]), [stream]), "fused", None) is None) == loops
    [[reading]] = read(form(name, [fields]), [stream])
    assert reading.tokens == [left]
    assert reading.values == [[2, 1] if case == "near one" else left]


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="interpreted kernels run anywhere")
def test_where_triton_cannot_run_loops_take_its_place(
    lab: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Here it finds a tensor where no GPU can reach it; elsewhere, say, no C compiler."""
    pytest.importorskip("triton", reason="triton is not installed")
    stream = lab.stream(**stream_of(noisy_items, np.random.default_rng(0), 30, [30]))
    batch = StreamBatch([stream], DEVICE, precision(DEVICE, "float32"), "float32")
    monkeypatch.setattr(batch, "device", "cuda")
    tried = fused.works.__wrapped__
    monkeypatch.setattr(fused, "works", lambda _: tried("cpu"))
    assert not fused.usable(batch, 16)
    assert "Triton kernels cannot run on this cpu, and slower loops take their place" in caplog.text


def started(made: DeviceForm[Any], streams: list[Stream]) -> DeviceForm[Any]:
    batch = StreamBatch(streams, DEVICE, precision(DEVICE, "float32"), "float32")
    made.start(batch, [np.random.default_rng(0)] * len(streams))
    return made


POINTERS = {
    "rows": "*fp32",
    "stream_values": "*i64",
    **dict.fromkeys(("tau_c", "fading_c", "score_s"), "*fp32"),
    **dict.fromkeys(("eta_c", "beta_c", "m0_c", "rate_s"), "*fp64"),
    **dict.fromkeys(("cap_c", "budget_c", "protected_c", "tokens_s", "values_s", "last_s", "counts_s", "held"), "*i32"),
    **dict.fromkeys(("near_one", "cap_tie", "temperature", "tie"), "fp32"),
}


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="interpreted kernels are not compiled")
@pytest.mark.parametrize("chip", [75, 90], ids=["T4", "H100"])
@pytest.mark.parametrize(
    ("kernel", "constants"),
    [
        *(("allocate", {"policy": n, "keep_last": n == 0, "bounded": True, "width": 64}) for n in range(5)),
        ("allocate", {"policy": fused.LEAST_USED, "keep_last": False, "bounded": False, "width": 256}),
        *(("evict_unattended", {"summed": summed, "width": 128}) for summed in (True, False)),
    ],
)
def test_triton_kernels_compile_for_gpus(kernel: str, constants: dict[str, Any], chip: int) -> None:
    """Down to the chip's own code, which needs no chip: the interpreter takes programs that the compiler does not."""
    triton = pytest.importorskip("triton", reason="triton is not installed")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from models.devices import triton_kernels

    function = getattr(triton_kernels, kernel)
    names = function.arg_names
    signature = {name: "constexpr" if name in constants else POINTERS.get(name, "i32") for name in names}
    placed = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=function, signature=signature, constexprs=placed)
    compiled = triton.compile(source, target=GPUTarget("cuda", chip, 32), options={"num_warps": 1})
    assert compiled.asm["cubin"]
