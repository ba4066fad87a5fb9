"""Gates: what they are trained with, against plain forms; and what they learn, against arXiv 2607.09889, Table 3."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.gates_losses import TINY, mask, novelty, read_loss, rule_decisions, top_m_recall
from models.mechanism import MECHANISMS
from models.networks.plain import plain_novelty, plain_rule
from models.stream import Floats, Stream, unit
from models.training import Draws, Examples

torch = pytest.importorskip("torch")

SEEDS = [1, 2]


def some_keys(seed: int, length: int) -> Floats:
    """Unit keys, some of them copies or near copies of others."""
    rng = np.random.default_rng(seed)
    base = unit(rng.standard_normal((max(1, length // 2), 5)))
    keys = base[rng.integers(len(base), size=length)]
    return unit(keys + rng.choice([0.0, 0.1], size=(length, 1)) * rng.standard_normal((length, 5)))


def as_batch(*streams: Floats) -> Any:
    return torch.from_numpy(np.stack(streams))[None]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), length=st.integers(1, 20))
def test_novelty_is_that_of_a_plain_loop(seed: int, length: int) -> None:
    keys = some_keys(seed, length)
    np.testing.assert_allclose(novelty(as_batch(keys))[0, 0].numpy(), plain_novelty(keys), atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), length=st.integers(1, 20), tau=st.sampled_from([-0.5, 0.02, 0.3, 1.0, 2.0, 3.0]))
def test_decisions_of_the_rule_are_those_of_a_plain_loop(seed: int, length: int, tau: float) -> None:
    keys, others = some_keys(seed, length), some_keys(seed + 1, length)
    opened = rule_decisions(as_batch(keys, others), tau)[0].numpy()
    for row, stream in zip(opened, (keys, others), strict=True):
        near = np.abs(1.0 - stream @ stream.T - tau)[np.tri(length, k=-1, dtype=bool)]
        if near.size == 0 or near.min() > 1e-9:
            assert np.flatnonzero(row).tolist() == plain_rule(stream, tau)


def examples(seed: int, *, streams: int = 3) -> Examples:
    rng = np.random.default_rng(seed)
    keys = torch.from_numpy(unit(rng.standard_normal((streams * 7, 4))).reshape(1, streams, 7, 4))
    queries = torch.from_numpy(unit(rng.standard_normal((streams * 2, 4))).reshape(1, streams, 2, 4))
    values, items, answers = (torch.from_numpy(rng.integers(3, size=(1, streams, n))) for n in (7, 7, 2))
    return Examples(keys, values, items, queries, answers, 3)


@pytest.mark.parametrize("temperature", [0.05, 0.3, 2.0])
def test_the_loss_is_that_of_attention_with_the_log_of_the_gate_added(temperature: float) -> None:
    some = examples(0)
    gates = torch.rand(1, 3, 7, dtype=torch.float64) + 0.1
    cosines = some.queries @ some.keys.mT
    weights = (cosines / temperature + gates.log()[:, :, None]).softmax(3)
    kept = (((cosines - 1.0) / temperature).exp() * gates[:, :, None]).sum(3)
    losses = []
    for b, q in itertools.product(range(3), range(2)):
        right, scale = weights[0, b, q][some.values[0, b] == some.answers[0, b, q]].sum(), kept[0, b, q]
        losses.append(-math.log((right * scale + TINY) / (scale + 3 * TINY)))
    assert float(read_loss(some, gates, temperature)) == pytest.approx(np.mean(losses), rel=1e-9)


def test_a_mask_of_zeros_gives_a_finite_loss_and_gradient() -> None:
    kept = torch.zeros(1, 3, 7, dtype=torch.float64, requires_grad=True)
    loss = read_loss(examples(1), kept, 0.05)
    (gradient,) = torch.autograd.grad(loss.sum(), kept)
    assert torch.isfinite(loss).all()
    assert torch.isfinite(gradient).all()


def test_masks() -> None:
    logits = torch.tensor([[[-2.0, -0.1, 0.1, 3.0]]], requires_grad=True)
    draws = Draws([np.random.default_rng(0)])
    soft, hard = (mask(logits, objective, 0.5, draws) for objective in ("soft_mask", "straight_through"))
    assert torch.equal(soft, logits.sigmoid())
    assert hard.tolist() == [[[0.0, 0.0, 1.0, 1.0]]]
    (through,) = torch.autograd.grad(hard.sum(), logits)
    (plain,) = torch.autograd.grad(logits.sigmoid().sum(), logits)
    assert torch.equal(through, plain)


def test_gumbel_masks_are_on_as_often_as_the_gate_says_and_sharp_when_cold() -> None:
    """P(sample > 1/2) = g at any temperature (Maddison et al., arXiv 1611.00712, App. B)."""
    logits = torch.tensor([-2.0, 0.0, 1.0]).repeat(1, 20_000, 1)
    samples = mask(logits, "gumbel_softmax", 0.05, Draws([np.random.default_rng(0)]))
    rates = (samples > 0.5).float().mean(1)[0]
    np.testing.assert_allclose(rates.numpy(), torch.sigmoid(logits[0, 0]).numpy(), atol=0.012)
    assert float(((samples < 0.01) | (samples > 0.99)).float().mean()) > 0.75


def test_recall_of_the_top_is_that_of_a_memory_of_those_tokens(lab: SimpleNamespace) -> None:
    stream = lab.recall_stream(3, items=10, repeats=3, dim=8, classes=4)
    phase = stream.phases[0]
    logits = np.random.default_rng(0).standard_normal(30)
    kept = np.sort(np.argsort(-logits)[:9])
    right = [
        lab.plain_read(query, stream.keys[kept], stream.values[kept], 0.05)[0] == answer
        for query, answer in zip(phase.queries, phase.answers, strict=True)
    ]
    some = Examples(
        *(torch.from_numpy(part)[None, None] for part in (stream.keys, stream.values, stream.items)),
        *(torch.from_numpy(part)[None, None] for part in (phase.queries, phase.answers)),
        classes=4,
    )
    assert float(top_m_recall(some, torch.from_numpy(logits)[None, None], 9, 0.05)) == pytest.approx(np.mean(right))


# --- what they learn ---


def measure(lab: SimpleNamespace, name: str, *, noise: float = 0.0, streams: int = 40, **fields: Any) -> Any:
    """Mean recall over all queries, slots and tokens with g > 0.5, one a seed; and what training says of itself."""
    made = lab.mechanism(name, {"budget": 64, **fields})

    def stream(seed: int, number: int) -> Stream:
        drawn: Stream = lab.recall_stream(10_000 * seed + number, noise=noise)
        return drawn

    rows = []
    for seed, fitted in zip(SEEDS, type(made).fit(made.config, SEEDS, stream, np.random.default_rng), strict=True):
        made.use(fitted)
        seen = []
        for number in range(5000, 5000 + streams):
            [reading] = lab.read(made, stream(seed, number))
            seen.append((reading.answers[0].mean(), reading.counts[0], made.extras()["kept_hard"][0]))
        rows.append((*np.mean(seen, axis=0), fitted.metrics))
    recall, slots, hard, metrics = zip(*rows, strict=True)
    return SimpleNamespace(recall=np.array(recall), slots=np.array(slots), hard=np.array(hard), metrics=metrics)


def test_two_parameters_recover_the_rule(lab: SimpleNamespace) -> None:
    """Table 3: recall 1.000 from 64 slots, 64 of them with g > 0.5, where training starts from a steep gate."""
    found = measure(lab, "novelty_gate")
    assert found.recall == pytest.approx(1.0, abs=0.002)
    assert found.slots == pytest.approx(64.0)
    assert found.hard == pytest.approx(64.0, abs=0.5)
    for metrics in found.metrics:
        assert metrics["plateau_low"] < metrics["gate_b"] < 0.5


def test_the_threshold_learned_through_a_soft_mask_misses_the_least_novel_items(lab: SimpleNamespace) -> None:
    """It lies above the plateau of 32 streams, whose ends are extremes, and so opens for a few items too few."""
    found = measure(lab, "novelty_gate", noise=0.3)
    assert (found.hard < 64.0).all()
    assert all(metrics["gate_b"] > metrics["plateau_high"] for metrics in found.metrics)


@pytest.mark.training
def test_the_order_alone_matters_to_the_top_and_training_leaves_the_slope_where_it_began(lab: SimpleNamespace) -> None:
    """A flat gate recalls as well, with next to none above 0.5; one that starts upside down stays so."""
    flat, inverted = (measure(lab, "novelty_gate", slope=slope, streams=20) for slope in (1.0, -5.0))
    assert flat.recall == pytest.approx(1.0, abs=0.002)
    assert (flat.hard < 8).all()
    assert (inverted.recall < 0.75).all()
    assert all(metrics["gate_a"] < 0 for metrics in inverted.metrics)


def test_saliency_keeps_whole_items(lab: SimpleNamespace) -> None:
    """Closed form 1/r + (1 - 1/r) / classes = .297 (published .30), and no gate above 0.5."""
    found = measure(lab, "mlp_gate")
    assert found.recall == pytest.approx(0.25 + 0.75 / 16, abs=0.02)
    assert (found.hard == 0).all()
    assert found.slots == pytest.approx(64.0)


@pytest.mark.training
def test_a_perceptron_that_sees_novelty_hardly_uses_it(lab: SimpleNamespace) -> None:
    """The .372 of Table 3."""
    found = measure(lab, "mlp_gate", inputs="embedding_and_novelty")
    assert found.recall == pytest.approx(0.372, abs=0.03)
    assert (found.hard == 0).all()


def test_noise_alone_does_not_save_saliency(lab: SimpleNamespace) -> None:
    found = measure(lab, "mlp_gate", noise=0.3)
    assert (found.recall < 0.5).all()
    assert (found.recall > 0.3).all()


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_distillation_recovers_the_rule(lab: SimpleNamespace, noise: float) -> None:
    found = measure(lab, "distilled_gate", noise=noise, keep="hard")
    assert found.recall == pytest.approx(1.0, abs=0.005)
    assert found.slots == pytest.approx(64.0, abs=0.5)
    assert (found.hard == found.slots).all()


def test_straight_through_finds_the_plateau(lab: SimpleNamespace) -> None:
    found = measure(lab, "novelty_gate", noise=0.3, objective="straight_through", keep="hard")
    assert found.recall == pytest.approx(1.0, abs=0.005)
    assert found.slots == pytest.approx(64.0, abs=0.5)


def test_what_repeats_nothing_has_no_plateau(lab: SimpleNamespace) -> None:
    def fresh(seed: int, number: int) -> Stream:
        made: Stream = lab.recall_stream(number, items=6, repeats=1)
        return made

    config = lab.config("novelty_gate", budget=4, steps=1)
    [fitted] = MECHANISMS.implementation("novelty_gate").fit(config, [0], fresh, np.random.default_rng)
    assert set(fitted.metrics) == {"parameters", "training_loss", "gate_a", "gate_b"}
