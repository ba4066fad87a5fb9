"""Layers of which every tensor has the seeds as its first dimension, and what their parameters start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from models.stream import Floats
from models.trained import Array

if TYPE_CHECKING:
    from torch import Tensor


def dense(rng: np.random.Generator, inputs: int, outputs: int) -> Array:
    """Weights [inputs, outputs] drawn with variance 1 / inputs (LeCun)."""
    weights: Floats = rng.standard_normal((inputs, outputs)) / np.sqrt(inputs)
    return weights.astype(np.float32)


def zeros(*shape: int) -> Array:
    """Biases to begin with."""
    return np.zeros(shape, dtype=np.float32)


def linear(x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [S, ..., inputs] times weights [S, inputs, outputs], plus bias [S, outputs], seed by seed."""
    import torch

    y = torch.bmm(x.flatten(1, -2), weights)
    if bias is not None:
        y = y + bias[:, None]
    return y.view(*x.shape[:-1], weights.shape[-1])


def per_seed(values: Tensor) -> Tensor:
    """Mean over everything but the seeds [S]."""
    return values.flatten(1).mean(1)
