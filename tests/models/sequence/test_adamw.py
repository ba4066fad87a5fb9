"""The optimiser of lanes is torch's AdamW after torch's clipping, lane by lane."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import Parameter

from models.sequence.adamw import CLIP, LaneAdamW


class Weights(torch.nn.Module):
    """Two parameters with the lanes first."""

    def __init__(self, values: list[torch.Tensor]) -> None:
        super().__init__()
        self.first, self.second = (Parameter(value.clone()) for value in values)


@pytest.mark.parametrize("size", [0.01, 5.0])
def test_each_lane_steps_as_torch_would_with_its_own_rate(size: float) -> None:
    """size: of gradients, with and without clipping"""
    torch.manual_seed(0)
    values = [torch.randn(3, 4, 5), torch.randn(3, 7)]
    rates = [1e-3, 1e-2, 0.1]
    together = Weights(values)
    ours = LaneAdamW(together, rates, weight_decay=0.05)
    alone = [Weights([value[lane] for value in values]) for lane in range(3)]
    theirs = [
        torch.optim.AdamW(one.parameters(), lr=rate, weight_decay=0.05) for one, rate in zip(alone, rates, strict=True)
    ]
    for step in range(6):
        pulls = [size * torch.randn_like(value) for value in values]
        share = min(1.0, (step + 1) / 3)
        loss = sum((pull * one).sum() for pull, one in zip(pulls, together.parameters(), strict=True))
        assert isinstance(loss, torch.Tensor)
        torch.autograd.backward(loss)
        ours.step(share)
        for lane, (one, optimiser) in enumerate(zip(alone, theirs, strict=True)):
            for pull, parameter in zip(pulls, one.parameters(), strict=True):
                parameter.grad = pull[lane].clone()
            torch.nn.utils.clip_grad_norm_(one.parameters(), CLIP)
            optimiser.param_groups[0]["lr"] = share * rates[lane]
            optimiser.step()
    for lane, one in enumerate(alone):
        for mine, other in zip(together.parameters(), one.parameters(), strict=True):
            torch.testing.assert_close(mine[lane], other, rtol=1e-5, atol=1e-7)


def test_a_lane_that_diverges_spoils_no_other() -> None:
    model = Weights([torch.ones(2, 3), torch.ones(2, 3)])
    optimiser = LaneAdamW(model, [0.1, 0.1], weight_decay=0.0)
    for one in model.parameters():
        assert one.grad is not None
        one.grad[0], one.grad[1] = float("nan"), 1.0
    optimiser.step(1.0)
    for one in model.parameters():
        assert torch.isnan(one[0]).all()
        assert torch.isfinite(one[1]).all()


def test_it_goes_on_where_it_stood() -> None:
    model = Weights([torch.ones(1, 3), torch.ones(1, 2)])
    optimiser = LaneAdamW(model, [0.1], weight_decay=0.1)
    optimiser.gradient.fill_(0.3)
    optimiser.step(1.0)
    state = copy.deepcopy(optimiser.state())
    again = LaneAdamW(Weights([torch.zeros(1, 3), torch.zeros(1, 2)]), [0.1], weight_decay=0.1)
    again.resume(state)
    for one in (optimiser, again):
        one.gradient.fill_(-0.2)
        one.step(1.0)
    assert torch.equal(again.flat, optimiser.flat)
    assert torch.equal(model.first.flatten(), optimiser.flat[:3])
