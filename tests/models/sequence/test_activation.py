"""GELU and dropout in one pass: what the two give one after the other, to the rounding of 32 bits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import gelu

from models.sequence.activation import STRETCH, gelu_dropped
from models.sequence.dropout import PART, dropped
from models.sequence.lanes import Lanes

NEAR = 4e-7
"""What Φ may be off by, rounding included; a value is off by its own size times this."""


def both(x: torch.Tensor, share: float, seeds: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Value and gradient by our kernel."""
    leaf = x.clone().requires_grad_(True)
    y = gelu_dropped(leaf, share, seeds)
    torch.autograd.backward(y.sum())
    assert leaf.grad is not None
    return y.detach(), leaf.grad


def plainly(x: torch.Tensor, share: float, seeds: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The same by torch, in 64 bits."""
    leaf = x.double().requires_grad_(True)
    y = dropped(gelu(leaf), share, seeds)
    torch.autograd.backward(y.sum())
    assert leaf.grad is not None
    return y.detach(), leaf.grad


def assert_near(x: torch.Tensor, share: float, seeds: list[int]) -> None:
    for ours, theirs in zip(both(x, share, seeds), plainly(x, share, seeds), strict=True):
        allowed = NEAR * (1.0 + x.abs().double()) / (1.0 - share)
        assert (ours - theirs).abs().le(allowed).all()


@given(
    values=st.lists(st.floats(-40.0, 40.0, width=32), min_size=1, max_size=40),
    share=st.sampled_from([0.05, 0.1, 0.5, 0.9]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=200)
def test_values_and_gradients(values: list[float], share: float, seed: int) -> None:
    assert_near(torch.tensor([values]), share, [seed])


def test_a_fine_grid_and_the_far_ends() -> None:
    assert_near(torch.linspace(-14.0, 14.0, 3 * PART + 5)[None], 0.1, [3])
    ends = torch.tensor([[-1e30, -1e4, -12.7, -1e-38, 0.0, 1e-38, 12.7, 1e4, 1e30]])
    assert_near(ends, 0.5, [9])
    _, slope = both(torch.tensor([[-3e38, -1e36, 1e36, 3e38]]), 0.0, [9])
    assert slope[0].tolist() == pytest.approx([0.0, 0.0, 1.0, 1.0], abs=1e-6)


def test_a_gradient_of_the_gradient_is_refused() -> None:
    leaf, weight = torch.ones(2, 1, 3, requires_grad=True)
    (slope,) = torch.autograd.grad((weight * gelu_dropped(leaf, 0.0, [1])).sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


@pytest.mark.parametrize("size", [1, STRETCH - 1, STRETCH, STRETCH + 1, PART, PART + 1, 2 * PART + STRETCH + 1])
def test_the_same_numbers_are_dropped_as_by_dropout_alone(size: int) -> None:
    x = torch.rand(3, size) + 1.0
    value, gradient = both(x, 0.3, [1, 2, 3])
    alone = dropped(x, 0.3, [1, 2, 3])
    assert torch.equal(value == 0, alone == 0)
    assert torch.equal(gradient == 0, alone == 0)


def test_what_is_no_number_stays_so() -> None:
    value, gradient = both(torch.full((1, 8), float("nan")), 0.1, [1])
    assert value.isnan().any()
    assert gradient.isnan().any()


def test_lanes_draw_the_same_noise_however_it_is_computed() -> None:
    x = torch.randn(2, 7, 300)
    fused, apart = Lanes([(0, 7), (0, 8)]), Lanes([(0, 7), (0, 8)])
    # Either's normal distribution function is right to 1e-7 or so, before the number and the scale of what is kept.
    apart_by = (fused.gelu_dropped(x, 0.2) - apart.dropped(gelu(x), 0.2)).abs()
    assert (apart_by < 1e-6 * (1.0 + x.abs())).all()
    assert fused.gelu_dropped(x.double(), 0.2).dtype == torch.float64
    assert fused.gelu_dropped(x.bfloat16(), 0.2).dtype == torch.bfloat16


def test_threads_change_nothing() -> None:
    x, threads = torch.randn(3, 3 * PART + 5), torch.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(both(x, 0.2, [4, 5, 6]))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
