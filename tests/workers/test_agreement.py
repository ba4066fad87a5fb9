"""The agreement probe passes what is right, and refuses a device that decides otherwise."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest

from models.config import MechanismConfig
from models.mechanism import MECHANISMS, SlotMemory
from models.mechanisms.dp_cache import DPCache
from models.mechanisms.h2o import H2O
from models.similarity import Similarities
from workers import agreement
from workers.agreement import CPU_TOLERANCE, Agreement, ProbeStreams, one_of_each_kind, probe

BUDGET = {"budget": 7}
OPTIONS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("recency", "h2o", "snapkv", "tova", "streaming_llm", "random_eviction"), BUDGET),
    **dict.fromkeys(("knorm", "keydiff", "expected_attention", "leverage_scores"), BUDGET),
    **dict.fromkeys(("item_lru", "item_lfu", "belady", "optimal"), BUDGET),
    **dict.fromkeys(("neural_episodic_control", "sparse_pointer_memory"), BUDGET),
    **dict.fromkeys(("item_arc", "item_2q", "item_s3_fifo", "item_sieve", "item_wtinylfu"), BUDGET),
    "item_ttl": {"window": 9},
    **{name: {"clusters": 5} for name in ("kmeans_keys", "clustered_attention")},
}


def config(name: str, **fields: Any) -> MechanismConfig:
    made = MECHANISMS.config_class(name)(name=name, **{**OPTIONS.get(name, {}), **fields})
    assert isinstance(made, MechanismConfig)
    return made


UNTRAINED = [name for name, _, implementation in MECHANISMS if not implementation.trained]


@pytest.mark.parametrize("name", UNTRAINED)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_cpu_agrees_with_every_reference(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "SECONDS", 60.0)  # however slow the machine, all streams are compared
    found = probe([config(name)], "cpu", dtype)
    assert (found.ok, found.kinds, found.left_out, found.disagreements) == (True, 1, 0, ())
    assert found.compared >= 16


def test_a_probe_of_everything_takes_less_than_a_second_once_kernels_are_warm(pace: float) -> None:
    mechanisms = [config(name) for name in UNTRAINED]
    for mechanism in mechanisms:
        probe([mechanism], "cpu", "float32")
    began = time.process_time()
    found = probe(mechanisms, "cpu", "float32")
    assert time.process_time() - began < 1.0 * pace
    assert found.kinds + found.left_out == len(UNTRAINED)


def test_the_same_streams_are_read_everywhere() -> None:
    one, other = (ProbeStreams(None).stream(3, 0) for _ in range(2))
    assert one.keys.tobytes() == other.keys.tobytes()
    assert one.values.tolist() == other.values.tolist()


# --- devices that are wrong ---


@pytest.fixture
def wrong_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that merges by a threshold a twentieth too high."""
    right = DPCache.start

    def start(self: DPCache, *arguments: Any) -> None:
        right(self, *arguments)
        self.rule = self.rule._replace(tau=self.rule.tau + 0.05)

    monkeypatch.setattr(DPCache, "start", start)


def test_a_kernel_with_a_wrong_threshold_is_refused(wrong_threshold: None) -> None:
    found = probe([config("full_attention"), config("dp_cache", tau=0.4)], "cpu", "float32")
    assert not found.ok
    assert {text.split(":")[0] for text in found.disagreements} == {"dp_cache"}
    assert any("slots is" in text and "its reference has" in text for text in found.disagreements)


def test_cosines_that_are_off_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a matrix product in too few bits."""
    rows = Similarities.rows

    def blurred(self: Similarities, start: int, stop: int) -> Any:
        exact = rows(self, start, stop)
        return np.round(exact, 2)

    monkeypatch.setattr(Similarities, "rows", blurred)
    found = probe([config("dp_cache"), config("h2o"), config("item_lru")], "cpu", "float32")
    assert not found.ok


def test_a_wrong_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    read = SlotMemory.answer

    def answer(self: Any, block: Any, phase: Any) -> Any:
        right = read(self, block, phase)
        right[:, 0] = 1.0 - right[:, 0]
        return right

    monkeypatch.setattr(SlotMemory, "answer", answer)
    found = probe([config("full_attention")], "cpu", "float32")
    assert not found.ok
    assert all("recall_all is" in text for text in found.disagreements)


def test_what_fails_by_itself_is_not_the_devices_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the mechanism's own mistake")

    monkeypatch.setattr(H2O, "write", fail)
    found = probe([config("h2o"), config("recency")], "cpu", "float32")
    assert (found.ok, found.kinds, found.left_out) == (True, 1, 1)


def test_a_reference_that_is_a_stub_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def stub(*_: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr(H2O, "reference", stub)
    found = probe([config("h2o")], "cpu", "float32")
    assert (found.ok, found.kinds, found.left_out, found.compared) == (True, 0, 1, 0)
    assert found.not_compared == ("h2o",)


def test_decisions_that_are_too_close_are_not_held_against_anybody(
    wrong_threshold: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreement, "CPU_TOLERANCE", 1.0)
    found = probe([config("dp_cache", tau=0.4)], "cpu", "float32")
    assert (found.ok, found.compared, found.undecided) == (True, 0, len(agreement.SEEDS))
    assert found.not_compared == ("dp_cache",)


def test_a_kind_whose_decisions_are_all_too_close_is_named_beside_those_that_agree() -> None:
    cold, recency = config("h2o", temperature=0.005), config("recency")
    found = probe([cold, recency], "cpu", "float32")
    alone = probe([recency], "cpu", "float32")
    assert (found.ok, found.kinds, found.compared) == (True, 2, alone.compared)
    assert (found.not_compared, alone.not_compared) == (("h2o",), ())
    assert found.as_json()["not_compared"] == ["h2o"]


def test_trained_mechanisms_are_named_as_not_compared() -> None:
    found = probe([config("mlp_gate", budget=7), config("recency")], "cpu", "float32")
    assert (found.ok, found.kinds, found.not_compared) == (True, 1, ("mlp_gate",))
    assert probe([config("mlp_gate", budget=7)], "cpu", "float32").compared == 0


def test_every_mechanism_comes_before_a_second_kind_of_any() -> None:
    asked = [config("h2o"), config("h2o", variant="half_recent"), config("h2o", budget=9), config("tova")]
    names = [(one.name, getattr(one, "variant", None)) for one in one_of_each_kind(asked)]
    assert names == [("h2o", config("h2o").model_dump()["variant"]), ("tova", None), ("h2o", "half_recent")]


def test_no_time_leaves_out_kinds_of_mechanisms_that_were_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "SECONDS", -1.0)
    found = probe([config("h2o"), config("h2o", variant="half_recent"), config("tova")], "cpu", "float32")
    assert isinstance(found, Agreement)
    assert (found.ok, found.kinds, found.left_out, found.tolerance) == (True, 2, 1, CPU_TOLERANCE)


def test_no_wrong_device_passes_on_a_busy_machine(wrong_threshold: None, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0.0, 60.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    found = probe([config("recency"), config("dp_cache", tau=0.4)], "cpu", "float32")
    assert (found.ok, found.kinds, found.left_out) == (False, 2, 0)


# --- the code of accelerators, here on the CPU ---


@pytest.mark.parametrize("name", UNTRAINED)
def test_the_code_of_accelerators_agrees(name: str) -> None:
    pytest.importorskip("torch")
    found = probe([config(name)], "cuda", "float32", stand_in="cpu")
    assert (found.ok, found.disagreements) == (True, ())
    if found.kinds:
        assert found.compared >= 4


def test_an_accelerator_with_a_wrong_threshold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from models.devices.forms.dp_cache import DPCacheForm

    start = DPCacheForm.start

    def shifted(self: DPCacheForm, *arguments: Any) -> None:
        start(self, *arguments)
        self.tau = self.tau + 0.05

    monkeypatch.setattr(DPCacheForm, "start", shifted)
    found = probe([config("dp_cache", tau=0.4), config("recency")], "cuda", "float32", stand_in="cpu")
    assert not found.ok
    assert {text.split(":")[0] for text in found.disagreements} == {"dp_cache"}
