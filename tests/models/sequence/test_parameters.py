"""Parameter counts as published, to the last digit; what of them is dead; and the published counts of arithmetic."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from models.sequence.config import SequenceConfig
from models.sequence.flops import forward_flops
from models.sequence.memory import dead_parameters
from models.sequence.model import parameters_per_lane
from tests.models.sequence.presets import BACKBONES, PRESETS, build, config

LANGUAGE, RECALL, THROUGHPUT = (259, 128), (64, 128), (259, 512)
SETTINGS = (LANGUAGE, RECALL, THROUGHPUT)

COUNTS: list[tuple[dict[str, Any], tuple[int | None, int | None, int | None]]] = [
    ({"name": "transformer"}, (174_848, 162_368, 199_424)),
    ({"name": "transformer", "feed_forward": "swiglu"}, (223_040, 210_560, 247_616)),
    ({"name": "transformer", "feed_forward": "swiglu_matched"}, (173_504, None, None)),
    ({"name": "triple_latent"}, (187_928, 175_448, 212_504)),
    ({"name": "triple_latent", "width": 60}, (170_424, None, None)),
    ({"name": "triple_slot"}, (188_024, 175_544, 212_600)),
    ({"name": "triple_slot", "width": 60}, (170_520, None, None)),
    ({"name": "triple_hybrid"}, (208_472, 195_992, 233_048)),
    ({"name": "triple_hybrid", "width": 56}, (169_424, None, None)),
    ({"name": "triple_hybrid", "state": 8}, (177_752, 165_272, 202_328)),
    (PRESETS["assoc-sum"], (214_616, 202_136, 239_192)),
    (PRESETS["assoc-serial-sum"], (214_616, 202_136, 239_192)),
    (PRESETS["assoc-last-sum"], (214_616, 202_136, 239_192)),
    (PRESETS["assoc-prev-sum"], (214_616, 202_136, 239_192)),
    (PRESETS["assoc-concat"], (239_192, 226_712, 263_768)),
    (PRESETS["assoc-logits"], (214_744, 202_264, 239_320)),
    (PRESETS["assoc-last-logits"], (214_744, 202_264, 239_320)),
    (PRESETS["assoc-prev-logits"], (214_744, 202_264, 239_320)),
    (PRESETS["assoc-gated-last-logits"], (214_939, 202_459, 239_515)),
    ({"name": "triple_memory", "width": 80}, (None, 294_027, None)),
    ({"name": "triple_memory", "width": 96}, (None, 401_979, None)),
]

MINIMIND: list[tuple[dict[str, Any], int]] = [
    ({"name": "transformer"}, 847_488),
    ({"name": "transformer", "feed_forward": "swiglu"}, 920_256),
    ({"name": "triple_hybrid", "state": 8}, 851_440),
    ({"name": "triple_hybrid", "state": 16}, 882_160),
]


def _says(fields: Any) -> str:
    return " ".join(str(value) for value in fields.values()) if isinstance(fields, dict) else ""


@pytest.mark.parametrize(("fields", "counts"), COUNTS, ids=_says)
def test_models_have_the_published_numbers_of_parameters(
    fields: dict[str, Any], counts: tuple[int | None, int | None, int | None]
) -> None:
    for (vocabulary, length), count in zip(SETTINGS, counts, strict=True):
        if count is not None:
            assert parameters_per_lane(build(config(**fields), vocabulary, length)) == count


@pytest.mark.parametrize(("fields", "count"), MINIMIND, ids=_says)
def test_models_of_the_tokenised_text_have_the_numbers_of_the_formulas(fields: dict[str, Any], count: int) -> None:
    assert parameters_per_lane(build(config(**fields, width=96, layers=2), 6400, 96)) == count


@pytest.mark.parametrize(("vocabulary", "live"), [(259, 190_233), (64, 177_753)])
def test_the_gated_hybrid_holds_24706_parameters_that_nothing_uses(vocabulary: int, live: int) -> None:
    model = build(config(**PRESETS["assoc-gated-last-logits"]), vocabulary, 128)
    assert dead_parameters(model) == 24_706
    assert parameters_per_lane(model) - dead_parameters(model) == live


@pytest.mark.parametrize("preset", PRESETS)
def test_dead_parameters_are_those_without_a_gradient(preset: str) -> None:
    model = build(config(**PRESETS[preset], width=8), 11, 12)
    model(torch.arange(12).remainder(11)[None, None]).square().sum().backward()
    untouched = sum(parameter[0].numel() for parameter in model.parameters() if parameter.grad is None)
    assert dead_parameters(model) == untouched
    assert (untouched > 0) == ("last" in preset)


FLOPS: list[tuple[dict[str, Any], tuple[float, float, float]]] = [
    ({"name": "transformer"}, (24.142, 54.575, 369.295)),
    ({"name": "triple_hybrid", "state": 8}, (21.756, 43.512, 174.047)),
    ({"name": "triple_memory"}, (25.778, 52.084, 220.934)),
]


@pytest.mark.parametrize(("fields", "millions"), FLOPS, ids=_says)
def test_forward_arithmetic_is_as_published(fields: dict[str, Any], millions: tuple[float, float, float]) -> None:
    counted = [round(forward_flops(config(**fields), 259, length) / 1e6, 3) for length in (64, 128, 512)]
    assert counted == list(millions)


def test_forward_arithmetic_of_other_models_differs_by_what_they_add_or_leave_out() -> None:
    length, width, logits = 128, 64, 2 * 128 * 64 * 259

    def count(name: str, **fields: Any) -> int:
        return forward_flops(config(name, **fields), 259, length)

    assert count("triple_hybrid") - count("triple_latent") == 10 * length * width**2
    assert count("triple_slot_hybrid") - count("triple_slot") == 10 * length * width**2
    # One token, slot and head: 8 operations update two factors of 16 numbers, 4 read them; dense: 6 a number.
    slots, dense = 12 * 4 * 8 * 16 + 4 * 8 + 4 * width * 4 * 8, 6 * 4 * 16 * 16 + 64 + 2 * width * 64
    assert count("triple_slot") - count("triple_latent") == 3 * length * (slots - dense)
    assert count("transformer", feed_forward="swiglu") - count("transformer") == 3 * 8 * length * width**2
    triple = (count("triple_latent", layers=2) - count("triple_latent", layers=1)) + logits
    assert count("transformer_plus_triple") - count("transformer") == triple
    gated = count("triple_memory", write_gate=True) - count("triple_memory")
    assert gated == 4 * (length - 1) * width
    concat = count("triple_memory", fusion="concat") - count("triple_memory", fusion="sum")
    assert concat == 4 * length * width**2


def test_models_that_nobody_counted_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="`unknown`"):
        forward_flops(SequenceConfig(name="unknown"), 259, 128)


@pytest.mark.parametrize("name", BACKBONES)
def test_a_retrieval_memory_has_the_parameters_that_its_model_says(name: str) -> None:
    d, a = 64, 48
    projections, gate, norm = 2 * d * a + d * d, d + 1, 2 * d
    backbone = parameters_per_lane(build(config(**BACKBONES[name]), *RECALL))
    for fields, own in (
        ({"memory": "append", "memory_width": a}, projections + gate + norm),
        ({"memory": "novelty", "memory_width": a, "write_gate": True}, projections + gate + norm + 2 * d + 1),
        ({"memory": "surprise", "memory_width": a, "read_gate": False}, projections + norm),
        ({"memory": "learned", "memory_width": a, "fusion": "sum"}, projections + gate + 2),
        ({"memory": "append", "memory_width": a, "keys": "shared"}, projections - d * a + gate + norm),
        ({"memory": "novelty", "keys": "bare"}, d * d + gate + norm),
        ({"memory": "pointer"}, gate + norm + d + 1),
        ({"memory": "pointer", "pointer_logits": False, "write_gate": True}, gate + norm + 2 * d + 1),
    ):
        assert parameters_per_lane(build(config(name, **fields), *RECALL)) == backbone + own, fields


def test_the_gated_hybrid_without_what_nothing_uses_is_the_published_one_less_its_dead_parameters() -> None:
    assert parameters_per_lane(build(config("triple_retrieval", memory="append"), *RECALL)) == 177_753


@pytest.mark.parametrize("fields", [{"name": "transformer_retrieval"}, {"name": "transformer", "window": 8}], ids=_says)
def test_arithmetic_that_no_paper_counts_is_not_told(fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="not counted"):
        forward_flops(config(**fields), 259, 128)
