"""Reads of an append-only memory by cosine, the most similar entries only (arXiv 2606.05175)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from models.sequence.recurrence.forms import Form, check, chosen, full_precision

if TYPE_CHECKING:
    from torch import Tensor

SHARPNESS = 8.0
"""What scores are multiplied by before the softmax, in the released code of arXiv 2606.05175."""

AGE = 2
"""The newest entry that token t can read is t - AGE: its value was made of token t - 1."""

SHORTEST = 1e-12
"""Keys and queries no longer than this have no direction: their cosine with everything is 0."""

BLOCK = 256
"""Queries whose scores with all keys are held at once."""

HASH = 0x9E3779B97F4A7C15 - (1 << 64)
"""2^64 divided by the golden ratio, as a signed number (Knuth, TAOCP 3, Sec. 6.4): its powers look random."""


class Entries(NamedTuple):
    """What a stream has stored: keys [N, E, a], values [N, E, d], and logarithms of strengths [N, E] if there are."""

    keys: Tensor
    values: Tensor
    log_strength: Tensor | None = None

    def followed_by(self, other: Entries) -> Entries:
        """These entries and then `other`, of the same lanes."""
        import torch

        strengths = None
        if self.log_strength is not None and other.log_strength is not None:
            strengths = torch.cat([self.log_strength, other.log_strength], dim=1)
        keys, values = torch.cat([self.keys, other.keys], dim=1), torch.cat([self.values, other.values], dim=1)
        return Entries(keys, values, strengths)


@full_precision
def associative_read(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    top_k: int,
    log_strength: Tensor | None = None,
    positions: Tensor | None = None,
    *,
    sharpness: float = SHARPNESS,
    form: Form | None = None,
) -> Tensor:
    """What queries `q` [N, T, a] read [N, P, d]: softmax means of the values of the `top_k` entries most like them.

    Entry i has key `k` [N, T, a] and value `v` [N, T, d] and is readable at tokens t >= i + 2. Its score is
    cos(q_t, k_i) / sqrt(a), plus `log_strength` [N, T]; weights are softmax(`sharpness` score) over the entries kept;
    where nothing is readable the read is 0. `positions` [P] are the tokens that read, each in 0..T-1 (all, if None).

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
    return read_at(q, k, v, top_k, log_strength, positions, sharpness, form)


def associative_read_step(
    q: Tensor, state: Entries, top_k: int, entry: Entries | None = None, *, sharpness: float = SHARPNESS
) -> tuple[Tensor, Entries]:
    """One token: what is read [N, d] with `q` [N, a] from the entries in `state`, and these followed by `entry`.

    `entry` [N, 1, ...] is the one that this token completed, i = t - 1 at token t; the first token completes none, and
    starts from `Entries` whose E is 0.
    """
    import torch

    stored = state.keys.shape[1]
    read = state.values.new_zeros(len(q), state.values.shape[2])
    if stored:
        now = torch.tensor([stored - 1 + AGE], device=q.device)
        read = read_at(q[:, None], state.keys, state.values, top_k, state.log_strength, now, sharpness, None)[:, 0]
    return read, state if entry is None else state.followed_by(entry)


@full_precision
def read_at(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    top_k: int,
    log_strength: Tensor | None,
    positions: Tensor,
    sharpness: float,
    form: Form | None,
) -> Tensor:
    """What queries `q` [N, P, a] read at `positions` [P] in one of the forms below."""
    match chosen(form, q):
        case "reference":
            return reference(q, k, v, top_k, log_strength, positions, sharpness)
        case "compiled":
            from models.sequence.recurrence import compiled_associative_read

            return compiled_associative_read.associative_read(q, k, v, top_k, log_strength, positions, sharpness)
        case _:
            return chunked(q, k, v, top_k, log_strength, positions, sharpness)


def reference(
    q: Tensor, k: Tensor, v: Tensor, top_k: int, log_strength: Tensor | None, positions: Tensor, sharpness: float
) -> Tensor:
    """One query after another, each beside all it can read, the most recent first."""
    import torch

    reads = []
    keys = unit(k)
    for p, t in enumerate(positions.tolist()):
        readable = max(0, t - AGE + 1)
        scores = (keys[:, :readable] * unit(q[:, p, None])).sum(-1) / q.shape[2] ** 0.5
        if log_strength is not None:
            scores = scores + log_strength[:, :readable]
        best, order = scores.flip(1).sort(dim=1, descending=True, stable=True)
        weights = (sharpness * best[:, :top_k]).softmax(1)
        values = v[:, :readable].flip(1).gather(1, order[:, :top_k, None].expand(-1, -1, v.shape[2]))
        reads.append((weights[:, :, None] * values).sum(1))
    return torch.stack(reads, dim=1)


def chunked(
    q: Tensor, k: Tensor, v: Tensor, top_k: int, log_strength: Tensor | None, positions: Tensor, sharpness: float
) -> Tensor:
    """Blocks of queries are multiplied with all keys to choose entries; gradients pass through the chosen ones only."""
    import torch

    with torch.no_grad():
        queries, keys, first = unit(q), unit(k), first_alike(k)
        parts = [
            best(part, keys, first, log_strength, where, min(top_k, k.shape[1]))
            for part, where in zip(torch.split(queries, BLOCK, dim=1), torch.split(positions, BLOCK), strict=True)
        ]
        entries = torch.cat(parts, dim=1)
        entries = entries.masked_fill(entries > positions[:, None] - AGE, -1)
    return read_entries(q, k, v, entries, log_strength, sharpness)


@full_precision
def read_entries(
    q: Tensor, k: Tensor, v: Tensor, entries: Tensor, log_strength: Tensor | None, sharpness: float
) -> Tensor:
    """What queries `q` [N, P, a] read [N, P, d] of `entries` [N, P, K] that were chosen for them, -1 where none was."""
    missing, places = entries < 0, entries.clamp_min(0)
    scores = (unit(q)[:, :, None] @ rows(unit(k), places).mT)[:, :, 0] / q.shape[2] ** 0.5
    if log_strength is not None:
        scores = scores + log_strength.gather(1, places.flatten(1)).view_as(scores)
    nothing = missing.all(-1, keepdim=True)
    weights = (sharpness * scores).masked_fill(missing & ~nothing, -float("inf")).softmax(-1).masked_fill(nothing, 0.0)
    read: Tensor = (weights[:, :, None] @ rows(v, places))[:, :, 0]
    return read


def unit(vectors: Tensor) -> Tensor:
    """`vectors` [..., a] scaled to length 1; the shortest become 0."""
    import torch

    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    short = lengths <= SHORTEST
    scaled: Tensor = (vectors / lengths.masked_fill(short, 1.0)).masked_fill(short, 0.0)
    return scaled


def rows(table: Tensor, entries: Tensor) -> Tensor:
    """Rows [N, P, K, d] of `table` [N, T, d] at `entries` [N, P, K]."""
    import torch

    lanes, tokens, width = table.shape
    offsets = torch.arange(lanes, device=table.device)[:, None, None] * tokens
    found: Tensor = table.reshape(-1, width).index_select(0, (entries + offsets).flatten())
    return found.view(*entries.shape, width)


def first_alike(keys: Tensor) -> Tensor:
    """For each of `keys` [N, T, a] the first token [N, T] whose key has the same bits (0 and -0 are the same)."""
    import torch

    integer = torch.int64 if keys.element_size() == 8 else torch.int32
    bits = (keys.float() if keys.element_size() < 4 else keys).add(0.0).view(integer).long()
    multipliers = torch.full((keys.shape[2],), HASH, device=keys.device).cumprod(0)
    hashes = (bits * multipliers).sum(-1)
    ordered, order = hashes.sort(dim=1, stable=True)
    first = order.gather(1, torch.searchsorted(ordered, hashes))
    alike = (keys == keys.gather(1, first[:, :, None].expand_as(keys))).all(-1)
    return torch.where(alike, first, torch.arange(keys.shape[1], device=keys.device))


def best(
    queries: Tensor, keys: Tensor, first: Tensor, log_strength: Tensor | None, positions: Tensor, kept: int
) -> Tensor:
    """The `kept` entries [N, P, kept] that read for unit `queries` [N, P, a]; unreadable ones where there are too few.

    torch's top-k leaves open which of equal scores it returns. It is asked for the lowest score kept, and then for the
    latest of the entries that have this score or a higher one and are to be kept.
    """
    import torch

    tokens = keys.shape[1]
    scores = (queries @ keys.mT / queries.shape[2] ** 0.5).gather(2, first[:, None].expand(-1, queries.shape[1], -1))
    if log_strength is not None:
        scores = scores + log_strength[:, None]
    places = torch.arange(tokens, device=keys.device)
    scores = scores.masked_fill(places > positions[:, None] - AGE, -torch.inf)
    lowest = scores.topk(kept).values[..., -1:]
    above, equal = scores > lowest, scores == lowest
    later_equal = equal.flip(-1).cumsum(-1).flip(-1)
    chosen_ones = above | (equal & (later_equal <= kept - above.sum(-1, keepdim=True)))
    latest: Tensor = torch.where(chosen_ones, places, -1).topk(kept).indices
    return latest
