"""Attention within a window, block by block, against all scores with what lies outside the window hidden."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.sequence.local_attention import LEAST, hidden, in_blocks, local_attention
from tests.models.sequence.presets import build, config


def whole(query: Tensor, key: Tensor, value: Tensor, window: int) -> Tensor:
    """Every score, and then a mask."""
    places = torch.arange(query.shape[1])
    near = (places <= places[:, None]) & (places > places[:, None] - window)
    scores = (query @ key.mT / key.shape[2] ** 0.5).masked_fill(~near, float("-inf"))
    read: Tensor = scores.softmax(2) @ value
    return read


@settings(deadline=None)
@given(tokens=st.integers(1, 150), window=st.integers(1, 70), seed=st.integers(0, 2**16))
def test_blocks_read_what_all_scores_read(tokens: int, window: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    query, key, value = parts = tuple(
        (4 * torch.randn(3, tokens, width, generator=draw, dtype=torch.float64)).requires_grad_() for width in (8, 8, 5)
    )
    along = torch.randn(3, tokens, 5, generator=draw, dtype=torch.float64)
    read, expected = local_attention(query, key, value, window, torch.clone), whole(query, key, value, window)
    torch.testing.assert_close(read, expected, rtol=0, atol=1e-12)
    for one, other in zip(
        torch.autograd.grad((read * along).sum(), parts),
        torch.autograd.grad((expected * along).sum(), parts),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


@pytest.mark.parametrize("window", [1, LEAST - 1, LEAST, LEAST + 1, 40])
def test_a_token_sees_its_window_and_nothing_before_the_first(window: int) -> None:
    size = max(window, LEAST)
    seen = ~hidden(in_blocks(torch.zeros(1, 3 * size, 1), size), window)
    assert seen.sum(2).flatten().tolist() == [min(place + 1, window) for place in range(3 * size)]


def test_a_model_reads_alike_whether_by_blocks_or_not() -> None:
    model = build(config("transformer", window=20, width=16, layers=2), vocabulary=11, length=90).eval()
    ids = torch.randint(11, (1, 3, 90), generator=torch.Generator().manual_seed(0))
    last = torch.tensor([89])
    with torch.no_grad():
        torch.testing.assert_close(model(ids)[:, :, last], model(ids, last), rtol=0, atol=1e-5)
        short = model(ids[:, :, :40])  # two blocks or less are read fused
        torch.testing.assert_close(model(ids)[:, :, :40], short, rtol=0, atol=1e-5)
