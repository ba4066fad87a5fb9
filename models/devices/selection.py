"""Choosing among slots on a device: ties go to the lowest index, whatever order the device looks in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def first(chosen: Tensor) -> Tensor:
    """Index [...] of the first true entry of `chosen` [..., n]; n where there is none.

    Not by argmax, which promises the first of equals on some devices only; in 32 bits, as not every device finds the
    least of 64-bit integers.
    """
    import torch

    places = torch.arange(chosen.shape[-1], dtype=torch.int32, device=chosen.device)
    return torch.where(chosen, places, chosen.shape[-1]).amin(-1).long()


def lowest(scores: Tensor, among: Tensor, tie: float, *, relative: bool = False) -> Tensor:
    """Index [...] of the smallest of `scores` [..., n] where `among` holds; the first of those within `tie` of it.

    `tie` is absolute, or a fraction of the smallest score, which is then not negative. n where nothing is `among`.
    """
    scores = scores.masked_fill(~among, float("inf"))
    least = scores.amin(-1, keepdim=True)
    border = least * (1.0 + tie) if relative else least + tie
    return first(among & (scores <= border))


def largest(scores: Tensor, among: Tensor, count: Tensor, tie: float) -> Tensor:
    """Mask [..., n] of the `count` [...] largest of non-negative `scores` where `among` holds; all if there are fewer.

    Of scores within `tie`, a fraction, of the last that is chosen, the first are.
    """
    ranked = scores.masked_fill(~among, -1.0).sort(-1, descending=True).values
    place = (count - 1).clamp(0, scores.shape[-1] - 1)
    border = ranked.gather(-1, place[..., None])
    clear = among & (scores > border * (1.0 + tie))
    tied = among & ~clear & (scores >= border * (1.0 - tie))
    room = count - clear.sum(-1)
    chosen = clear | (tied & (tied.cumsum(-1) <= room[..., None]))
    return chosen & (count > 0)[..., None]
