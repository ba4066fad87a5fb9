"""The triple-latent family against its equations, and what is its own: leaks, ties, positions, gates, streaming."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch.nn.functional import cross_entropy

from models.sequence.model import SequenceModel, state_bytes
from models.sequence.recurrence import linear_attention
from models.sequence.recurrence.linear_attention_at import linear_attention_at
from tests.models.sequence.presets import PRESETS, build, config, enliven
from tests.models.sequence.reference import fed, layer_norm, layer_parts, logits

SMALL: dict[str, Any] = {"width": 12, "layers": 2, "heads": 3, "state": 4}
VOCABULARY, LENGTH = 11, 24


def small(preset: str, **fields: Any) -> SequenceModel:
    """One lane of a preset, in evaluation and float64."""
    made = config(**{**SMALL, **PRESETS[preset], **fields})
    return enliven(build(made, VOCABULARY, LENGTH)).double().eval()


def ids_with_copies(seed: int) -> torch.Tensor:
    """Few different tokens [1, 1, T], so that many keys tie."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 4, (1, 1, LENGTH)))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("options", [{}, {"convolution": "two_sided", "top_k": 3, "read_gate_bias": -1.0}], ids=str)
def test_models_are_their_equations(preset: str, options: dict[str, Any]) -> None:
    known = type(config(**PRESETS[preset])).model_fields
    options = {name: value for name, value in options.items() if name in known}
    if not PRESETS[preset].get("read_gate", True):
        options.pop("read_gate_bias", None)
    described = config(**{**SMALL, **PRESETS[preset], **options})
    model = small(preset, **options)
    for seed, ids in enumerate([ids_with_copies(0), torch.arange(LENGTH).remainder(VOCABULARY)[None, None]]):
        weights = {name: parameter[0].detach().numpy() for name, parameter in model.named_parameters()}
        expected = logits(described, weights, ids[0, 0].tolist())
        with torch.no_grad():
            found = model(ids)[0, 0].numpy()
        assert np.abs(expected).max() > 0.1, seed
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_the_transformer_and_the_layer_beside_it_add_up_to_logits() -> None:
    described = config("transformer_plus_triple", **SMALL)
    model = enliven(build(described, VOCABULARY, LENGTH)).double().eval()
    w = {name: parameter[0].detach().numpy() for name, parameter in model.named_parameters()}
    ids = ids_with_copies(3)
    text = [w["tokens.weight"][i] for i in ids[0, 0].tolist()]
    stream = [e + w["places.weight"][t] for t, e in enumerate(text)]
    _, mixed = layer_parts(described, w, "triple", stream, text)
    c = [fed(x + m, w, "triple") for x, m in zip(stream, mixed, strict=True)]
    with torch.no_grad():
        alone = build(config("transformer", **{k: v for k, v in SMALL.items() if k != "state"}), VOCABULARY, LENGTH)
        alone.double().eval().load_state_dict(model.state_dict(), strict=False)
        beside = (model(ids) - alone(ids))[0, 0].numpy()
    expected = [w["tokens.weight"] @ layer_norm(x, w, "triple_norm") for x in c]
    np.testing.assert_allclose(beside, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("batch", [1, 3])
def test_copies_of_a_token_tie_in_single_precision_too(batch: int) -> None:
    """Else rounding would choose which of them are kept, and what followed them is not the same."""
    described = config("triple_memory", width=64, layers=1, top_k=3)
    model = enliven(build(described, 40, 131)).eval()
    ids = torch.from_numpy(np.random.default_rng(4).integers(0, 4, (1, batch, 131)))
    w = {name: parameter[0].detach().double().numpy() for name, parameter in model.named_parameters()}
    with torch.no_grad():
        found = model(ids)[0].numpy()
    expected = logits(described, w, ids[0, -1].tolist())
    np.testing.assert_allclose(found[-1], expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("preset", ["hybrid", "slot-hybrid", "assoc-gated-last-logits"])
def test_the_published_convolution_tells_exactly_the_two_tokens_to_come(preset: str) -> None:
    for sides, reach in (("causal", 0), ("two_sided", 2)):
        model = small(preset, convolution=sides)
        ids = ids_with_copies(1)
        with torch.no_grad():
            before = model(ids)
            for t in range(LENGTH):
                changed = ids.clone()
                changed[..., t] = 9
                touched = (model(changed) != before).any(-1)[0, 0].nonzero()
                assert touched[0].item() == max(0, t - reach)
        assert config(**PRESETS[preset], convolution=sides).leaks_future == bool(reach)


def test_a_convolution_that_needs_tokens_to_come_cannot_stream() -> None:
    model = small("hybrid", convolution="two_sided")
    with pytest.raises(ValueError, match="two_sided"):
        model.next(torch.zeros(1, 1, dtype=torch.int64), model.start())


def test_entries_are_the_only_state_that_grows() -> None:
    """An entry of an active layer: a key, the bare embedding that followed, and with gated writes its strength."""
    for preset, numbers in [
        ("hybrid", 0),
        ("assoc-gated-last-logits", 5 + 12),
        ("assoc-writegated-all-logits", 2 * 18),
    ]:
        model = small(preset, **({"memory_width": 5} if numbers else {}))
        state, sizes = model.start(), []
        with torch.no_grad():
            for t in range(LENGTH):
                model.next(ids_with_copies(2)[:, :, t], state)
                sizes.append(state_bytes(state, 1))
        assert np.diff(sizes)[1:].tolist() == [8 * numbers] * (LENGTH - 2)


@pytest.mark.parametrize("preset", ["latent", "slot", "assoc-gated-last-logits", "assoc-serial-sum"])
@pytest.mark.parametrize("asked", [1, 7, 8, 9, 90])
def test_however_many_positions_are_asked_for_logits_are_the_same(preset: str, asked: int) -> None:
    model = enliven(build(config(**{**SMALL, **PRESETS[preset]}), VOCABULARY, 90)).double().eval()
    rng = np.random.default_rng(asked)
    ids = torch.from_numpy(rng.integers(0, VOCABULARY, (1, 2, 90)))
    at = torch.from_numpy(np.sort(rng.choice(90, asked, replace=False)))
    torch.testing.assert_close(model(ids, at), model(ids)[:, :, at], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("strongest", [0.0, -3.0, -1e4])
def test_reads_at_a_few_positions_are_those_of_the_recurrence(strongest: float) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, 70, width, dtype=torch.float64, requires_grad=True) for width in (4, 4, 5))
    decay = (strongest * torch.rand(3, 70, dtype=torch.float64)).requires_grad_()
    at = torch.tensor([0, 1, 33, 69])
    whole = linear_attention(q, k, v, decay)[0][:, at]
    few = linear_attention_at(q[:, at], k, v, decay, at)
    torch.testing.assert_close(few, whole, rtol=1e-10, atol=1e-10)
    weights = torch.randn_like(whole)
    for one, other in zip(
        *(torch.autograd.grad((read * weights).sum(), (q, k, v, decay)) for read in (few, whole)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_a_read_gate_starts_where_its_bias_says() -> None:
    model = build(config("triple_memory", **SMALL, read_gate_bias=-2.0), VOCABULARY, LENGTH, seeds=(1, 2))
    biases = {name: value.unique().tolist() for name, value in model.named_parameters() if "read_gate.bias" in name}
    assert list(biases.values()) == [[-2.0], [-2.0]]
    with pytest.raises(ValidationError, match="`read_gate_bias` needs `read_gate: true`"):
        config("triple_memory", read_gate=False, read_gate_bias=-2.0)


def test_the_memory_learns_what_followed_a_token() -> None:
    """Pairs, then a token of one of them: the memory model learns to say the other; the same without cannot so fast."""
    losses = {}
    for name in ("triple_memory", "triple_hybrid"):
        torch.manual_seed(0)
        model = build(config(name, **{**SMALL, "width": 32, "dropout": 0.0}), 20, 10)
        adam = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(60):
            keys, values = torch.rand(64, 8).argsort(1)[:, :4], 8 + torch.rand(64, 8).argsort(1)[:, :4]
            asked = torch.randint(4, (64, 1))
            ids = torch.cat([torch.stack([keys, values], 2).flatten(1), keys.gather(1, asked), asked * 0 + 19], 1)
            last = model(ids[None], torch.tensor([9]))[0, :, 0]
            loss = cross_entropy(last, values.gather(1, asked)[:, 0])
            adam.zero_grad()
            loss.backward()
            adam.step()
        losses[name] = loss.item()
    assert losses["triple_memory"] < 0.6 * losses["triple_hybrid"], losses
