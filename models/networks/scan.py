"""Linear recurrences h_t = a h_{t-1} + x_t without a loop over tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 64
"""Tokens whose states are one matrix product; from chunk to chunk the last state is carried."""

FAINTEST = -40.0
"""Exponents below this count as nothing: exp(-40) is below what even 64 bits add to 1."""


def fading(exponents: Tensor) -> Tensor:
    """exp of `exponents`, all <= 0, with 0 for what is too faint to matter.

    Products of such numbers and of gradients would be denormal, on which arithmetic is many times slower.
    """
    return exponents.exp().masked_fill(exponents < FAINTEST, 0.0)


def scan(log_factor: Tensor, inputs: Tensor) -> Tensor:
    """All states [S, B, L, N] of recurrences with factors exp(`log_factor` [S, N]) <= 1 from `inputs` [S, B, L, N]."""
    import torch

    places = torch.arange(CHUNK, device=inputs.device, dtype=inputs.dtype)
    lags = (places[:, None] - places).clamp(min=0.0)
    kernel = fading(log_factor[:, :, None, None] * lags).tril()
    carried = fading(log_factor[:, None, None] * (places[:, None] + 1.0))
    state = torch.zeros_like(inputs[:, :, :1])
    states = []
    for chunk in torch.split(inputs, CHUNK, dim=2):
        size = chunk.shape[2]
        within = (kernel[:, :, :size, :size] @ chunk.permute(0, 3, 2, 1)).permute(0, 3, 2, 1)
        states.append(within + carried[:, :, :size] * state)
        state = states[-1][:, :, -1:]
    return torch.cat(states, dim=2)


def last_state(log_factor: Tensor, inputs: Tensor) -> Tensor:
    """The last of these states [S, B, N], as one weighted sum over the tokens."""
    import torch

    ages = torch.arange(inputs.shape[2] - 1, -1, -1, device=inputs.device, dtype=inputs.dtype)
    weights = fading(log_factor[:, None] * ages[:, None])
    return (weights[:, None] * inputs).sum(2)


def attend(queries: Tensor, keys: Tensor, values: Tensor, log_mask: Tensor | None = None) -> Tensor:
    """Softmax attention [S, B, Q, v] over tokens: logits q · k / √w, plus `log_mask` [S, B, L] (arXiv 1706.03762)."""
    logits = queries @ keys.mT / keys.shape[3] ** 0.5
    if log_mask is not None:
        logits = logits + log_mask[:, :, None]
    read: Tensor = logits.softmax(3) @ values
    return read
