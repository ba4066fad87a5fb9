"""Layers of sequence models. Every tensor has the lanes as its first dimension; with one lane they are torch's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import arange, baddbmm, bmm
from torch.nn import Module, Parameter
from torch.nn.functional import embedding, gelu, layer_norm, linear, rms_norm

if TYPE_CHECKING:
    from torch import Tensor

    from models.sequence.lanes import Lanes


class Linear(Module):
    """x W^T + b, of x [S, ..., inputs]. Weights start from N(0, 0.02²), biases from 0."""

    def __init__(self, lanes: Lanes, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = Parameter(lanes.normal(outputs, inputs))
        self.bias = Parameter(lanes.zeros(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return affine(x, self.weight, self.bias)


def affine(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b, of x [S, ..., inputs], each lane with its own W [S, outputs, inputs] and b [S, outputs]."""
    if len(weight) == 1:
        return linear(x, weight.squeeze(0), None if bias is None else bias.squeeze(0))
    rows, columns = x.flatten(1, -2), weight.mT
    y = bmm(rows, columns) if bias is None else baddbmm(bias[:, None], rows, columns)
    return y.view(*x.shape[:-1], -1)


class LayerNorm(Module):
    """Normalised over the last dimension, with a scale and a shift."""

    def __init__(self, lanes: Lanes, width: int) -> None:
        super().__init__()
        self.weight = Parameter(lanes.ones(width))
        self.bias = Parameter(lanes.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        shape = x.shape[-1:]
        if len(self.weight) == 1:
            return layer_norm(x, shape, self.weight.squeeze(0), self.bias.squeeze(0))
        each = (len(x), *[1] * (x.dim() - 2), *shape)
        return layer_norm(x, shape) * self.weight.view(each) + self.bias.view(each)


class RMSNorm(Module):
    """Divided by the root mean square over the last dimension, with a scale (arXiv 1910.07467)."""

    def __init__(self, lanes: Lanes, width: int) -> None:
        super().__init__()
        self.weight = Parameter(lanes.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, x.shape[-1:], eps=1e-5) * self.weight.view(-1, *[1] * (x.dim() - 2), x.shape[-1])


class Embedding(Module):
    """Rows [S, ..., width] of a table for ids [S, ...]."""

    def __init__(self, lanes: Lanes, entries: int, width: int) -> None:
        super().__init__()
        self.weight = Parameter(lanes.normal(entries, width))

    def forward(self, ids: Tensor) -> Tensor:
        return lookup(self.weight, ids)

    def logits(self, h: Tensor) -> Tensor:
        """h E^T [S, ..., entries]: the same table, used to tell which entry h is like."""
        if len(self.weight) == 1:
            return linear(h, self.weight.squeeze(0))
        return bmm(h.flatten(1, -2), self.weight.mT).view(*h.shape[:-1], -1)


def lookup(table: Tensor, ids: Tensor) -> Tensor:
    """Rows [S, ..., width] of each lane's `table` [S, entries, width] for `ids` [S, ...]."""
    lanes, entries, _ = table.shape
    if lanes > 1:
        ids = ids + entries * arange(lanes, device=ids.device).view(-1, *[1] * (ids.dim() - 1))
    return embedding(ids, table.flatten(0, 1))


class Dropout(Module):
    """In training, x with a share of its numbers set to 0 and the others scaled up; each lane draws its own."""

    def __init__(self, lanes: Lanes, share: float) -> None:
        super().__init__()
        self.lanes, self.share = lanes, share

    def forward(self, x: Tensor) -> Tensor:
        return self.lanes.dropped(x, self.share) if self.training and self.share else x

    def after_gelu(self, x: Tensor) -> Tensor:
        """The same of GELU(x)."""
        return self.lanes.gelu_dropped(x, self.share) if self.training and self.share else gelu(x)


class FeedForward(Module):
    """Linear d -> 4d, exact GELU, dropout, linear 4d -> d (arXiv 2606.05175, released code)."""

    def __init__(self, lanes: Lanes, width: int, dropout: float) -> None:
        super().__init__()
        self.rise = Linear(lanes, width, 4 * width)
        self.drop = Dropout(lanes, dropout)
        self.fall = Linear(lanes, 4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fall(self.drop.after_gelu(self.rise(x)))
        return y


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[S, B, T, H·w] as lanes of recurrences and attention [S·B·H, T, w]."""
    lanes, batch, length, width = x.shape
    return x.view(lanes, batch, length, heads, width // heads).transpose(2, 3).reshape(-1, length, width // heads)


def join_heads(x: Tensor, lanes: int, heads: int) -> Tensor:
    """The reverse: [S·B·H, T, w] as [S, B, T, H·w]."""
    _, length, width = x.shape
    return x.view(lanes, -1, heads, length, width).transpose(2, 3).reshape(lanes, -1, length, heads * width)
