"""Reads of an append-only memory by cosine, the most similar entries only (arXiv 2606.05175)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from models.sequence.recurrence.forms import Form, check, chosen

if TYPE_CHECKING:
    from torch import Tensor

SHARPNESS = 8.0
"""What scores are multiplied by before the softmax, in the released code of arXiv 2606.05175."""

AGE = 2
"""The newest entry that token t can read is t - AGE: its value was made of token t - 1."""

SHORTEST = 1e-12
"""Keys and queries no longer than this have no direction: their cosine with everything is 0."""


class Entries(NamedTuple):
    """What a stream has stored: keys [N, E, a], values [N, E, d], and logarithms of strengths [N, E] if there are."""

    keys: Tensor
    values: Tensor
    log_strength: Tensor | None = None


def associative_read(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    top_k: int,
    log_strength: Tensor | None = None,
    positions: Tensor | None = None,
    *,
    form: Form | None = None,
) -> Tensor:
    """Softmax means [N, P, d] of the values `v` [N, T, d] of the `top_k` readable entries most like queries `q` [N, T, a].

    Entry i has key `k` [N, T, a] and is readable at tokens t >= i + 2. Its score is cos(q_t, k_i) / sqrt(a), plus
    `log_strength` [N, T]; weights are softmax(8 score) over the entries kept; where nothing is readable the read is 0.
    `positions` [P] are the tokens that read, each in 0..T-1 (all, if None).

    Of entries with equal scores the most recent are kept, on every device. Keys whose bits are equal have equal scores:
    one of them is multiplied with the query and stands for all, so that it does not matter in which block of a matrix
    product a key falls. The same holds for keys that are themselves products only if they were multiplied once: look
    projections of token ids up in the projected table, do not project each token.
    Raises ValueError for shapes that do not fit, T = 0 among them, and for top_k < 1.
    """
    sizes: dict[str, int] = {}
    check(
        "associative_read", sizes,
        q=(q, "N T a"), k=(k, "N T a"), v=(v, "N T d"), log_strength=(log_strength, "N T"),
    )  # fmt: skip
    if top_k < 1:
        raise ValueError(f"associative_read: top_k must be at least 1, not {top_k}")
    import torch

    if positions is None:
        positions = torch.arange(sizes["T"], device=q.device)
    else:
        q = q[:, positions]
    match chosen(form, q):
        case "reference":
            return reference(q, k, v, top_k, log_strength, positions)
        case _:
            return chunked(q, k, v, top_k, log_strength, positions)


def associative_read_step(
    q: Tensor, state: Entries | None, top_k: int, entry: Entries | None = None
) -> tuple[Tensor, Entries | None]:
    """One token: what is read [N, d] with `q` [N, a] from the entries in `state`, and then these with `entry`.

    `entry` [N, 1, ...] is the one that this token completed, i = t - 1 at token t: none at the first token.
    """
    raise NotImplementedError


def unit(vectors: Tensor) -> Tensor:
    """`vectors` [..., a] scaled to length 1; the shortest become 0."""
    import torch

    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    short = lengths <= SHORTEST
    return (vectors / lengths.masked_fill(short, 1.0)).masked_fill(short, 0.0)


def representatives(keys: Tensor) -> Tensor:
    """For each of `keys` [N, T, a] the first token [N, T] whose key has the same bits."""
    import torch

    same = torch.cdist(keys, keys) == 0
    raise NotImplementedError(str(same))


def reference(
    q: Tensor, k: Tensor, v: Tensor, top_k: int, log_strength: Tensor | None, positions: Tensor
) -> Tensor:
    """One query after another, each against every readable entry."""
    raise NotImplementedError
