"""Dropout drops the right share, at random, and the same numbers on the way back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from models.sequence.dropout import PART, dropped
from models.sequence.lanes import Lanes
from models.sequence.layers import Dropout


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_are_dropped_or_scaled_and_so_are_their_gradients(share: float, dtype: torch.dtype) -> None:
    x = torch.ones(2, 3, 40_000, dtype=dtype, requires_grad=True)
    y = dropped(x, share, [1, 2])
    kept = y != 0
    assert torch.equal(y[kept], torch.full_like(y[kept], 1.0 / (1.0 - share)))
    count = x[0].numel()
    for lane in kept.flatten(1).float():
        assert abs(float(lane.mean()) - (1.0 - share)) < 4.5 * (share * (1.0 - share) / count) ** 0.5
    torch.autograd.backward(y.sum())
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


def test_what_is_dropped_does_not_repeat_itself() -> None:
    seeds = [0, 1, 2, 2**31, 2**32 - 1]
    masks = (dropped(torch.ones(len(seeds), 2 * PART), 0.5, seeds) == 0).numpy().astype(np.float64)
    limit = 4.5 / (2 * PART) ** 0.5
    assert np.abs(np.corrcoef(masks) - np.eye(len(seeds))).max() < limit
    for shift in (1, 2, 16, 64, 127, 128, 4096, PART):
        assert abs(np.corrcoef(masks[1, shift:], masks[1, :-shift])[0, 1]) < 2 * limit


def test_a_lane_draws_the_same_beside_others_and_something_new_every_time() -> None:
    x = torch.ones(1, 5, 3000)
    alone, beside = Lanes([(0, 7)]), Lanes([(0, 3), (0, 7)])
    first, second = alone.dropped(x, 0.3), alone.dropped(x, 0.3)
    assert not torch.equal(first, second)
    both = torch.cat([x, x])
    assert torch.equal(beside.dropped(both, 0.3)[1:], first)
    assert torch.equal(beside.dropped(both, 0.3)[1:], second)


def test_threads_change_nothing() -> None:
    x = torch.randn(3, 3 * PART + 5)
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(dropped(x, 0.2, [4, 5, 6]))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*results)


def test_noise_goes_on_where_it_stood() -> None:
    x, lanes = torch.ones(1, 100), Lanes([(0, 7)])
    lanes.dropped(x, 0.5)
    state = lanes.state()
    after = lanes.dropped(x, 0.5)
    again = Lanes([(0, 1)])
    again.resume(state)
    assert torch.equal(again.dropped(x, 0.5), after)


def test_nothing_is_dropped_in_evaluation_and_half_numbers_are_too() -> None:
    layer, x = Dropout(Lanes([(0, 7)]), 0.5), torch.ones(1, 1000)
    assert torch.equal(layer.eval()(x), x)
    half = layer.train()(x.bfloat16())
    assert half.dtype == torch.bfloat16
    assert set(half.unique().tolist()) == {0.0, 2.0}
