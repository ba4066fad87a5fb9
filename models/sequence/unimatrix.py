"""The UniMatrix family: one shared block, applied several times, around a matrix state (arXiv 2606.05175's sister)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from torch import Tensor, zeros_like
from torch.nn import Parameter
from torch.nn.functional import logsigmoid, pad

from models.sequence.bounded_state import bounded_state, bounded_state_step
from models.sequence.layers import Embedding, FeedForward, Linear, join_heads, split_heads
from models.sequence.model import Block, SequenceModel, State, taken
from models.sequence.recurrence import (
    Entries,
    associative_read,
    associative_read_step,
    linear_attention,
    linear_attention_step,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from models.mechanisms.unimatrix import MatrixConfig, UniMatrixConfig
    from models.sequence.lanes import Lanes


class MatrixBlock(Block):
    """S_t = ρ_t S_{t-1} + (1 - ρ_t) k_t v_t^T a head; a token becomes sigmoid(W_r u + b) · W_o vec(S_t q_t).

    q, k, v and a diagonal, which only `discovery` uses, are tanh(W u), ρ is sigmoid(W u + b). Blocks that know more of
    the token add it: `beside`. `extra` [S, B, T, d] is what the model looked up for each token.
    """

    def __init__(self, config: MatrixConfig, lanes: Lanes) -> None:
        super().__init__(lanes, config.width, config.dropout, FeedForward(lanes, config.width, config.dropout))
        self.heads, inner = config.heads, config.heads * config.state
        self.project = Linear(lanes, config.width, 4 * inner, bias=False)
        self.keep = Linear(lanes, config.width, config.heads)
        self.gate = Linear(lanes, config.width, config.width)
        self.out = Linear(lanes, inner, config.width, bias=False)

    def forward(
        self, x: Tensor, at: Tensor | None = None, extra: Tensor | None = None, carried: State | None = None
    ) -> Tensor:
        return self.fed(taken(x, at) + self.drop(self.mix(self.norm(x), at, extra, carried)))

    def next(self, x: Tensor, state: State, extra: Tensor | None = None) -> Tensor:
        return self.fed(x + self.mix_next(self.norm(x), state, extra))

    def mix(
        self, u: Tensor, at: Tensor | None = None, extra: Tensor | None = None, carried: State | None = None
    ) -> Tensor:
        """See `Block`; `carried`, if given, holds the matrices to start from and takes the last."""
        read, matrix = self.recur(u, None if carried is None else carried.get("matrix"))
        if carried is not None:
            carried["matrix"] = matrix
        return self.mixed(taken(join_heads(read, len(u), self.heads), at), taken(u, at), self.beside(u, at, extra))

    def mix_next(self, u: Tensor, state: State, extra: Tensor | None = None) -> Tensor:
        read, state["matrix"] = self.recur_next(u, state.get("matrix"))
        return self.mixed(join_heads(read[:, None], len(u), self.heads)[:, :, 0], u, self.beside_next(u, state, extra))

    def mixed(self, read: Tensor, u: Tensor, beside: Tensor | None) -> Tensor:
        """Reads [..., H·S] gated and projected to width d, and what is beside them."""
        y: Tensor = self.gate(u).sigmoid() * self.out(read)
        return y if beside is None else y + beside

    def rows(self, u: Tensor) -> list[Tensor]:
        """q, k, v and the diagonal of `u` [S, B, T, d] as lanes of heads [S·B·H, T, S]."""
        return [split_heads(part, self.heads) for part in self.project(u).tanh().chunk(4, dim=3)]

    def recur(self, u: Tensor, matrix: Tensor | None) -> tuple[Tensor, Tensor]:
        """Reads [S·B·H, T, S] of tokens `u` [S, B, T, d] from matrices [S·B·H, S, S], and the last of these."""
        return linear_attention(*self.written(u), matrix)

    def recur_next(self, u: Tensor, matrix: Tensor | None) -> tuple[Tensor, Tensor]:
        """The same for the next token `u` [S, B, d]: reads [S·B·H, S]."""
        query, key, value, log_keep = (part[:, 0] for part in self.written(u[:, :, None]))
        return linear_attention_step(query, key, value, log_keep, matrix)

    def written(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """q, v, (1 - ρ) k and ln ρ. S q sums over v, so v is what linear attention calls the key."""
        query, key, value, _ = self.rows(u)
        keep = split_heads(self.keep(u), self.heads)
        return query, value, (-keep).sigmoid() * key, logsigmoid(keep)[:, :, 0]

    def beside(self, u: Tensor, at: Tensor | None, extra: Tensor | None) -> Tensor | None:
        """What else tokens `u` [S, B, T, d] learn, at positions `at`."""
        return None

    def beside_next(self, u: Tensor, state: State, extra: Tensor | None) -> Tensor | None:
        """The same for the next token `u` [S, B, d]."""
        return None


class HintedBlock(MatrixBlock):
    """Beside the read, sigmoid(W u + b) · what the model looked up for the token."""

    def __init__(self, config: MatrixConfig, lanes: Lanes) -> None:
        super().__init__(config, lanes)
        self.hint_gate = Linear(lanes, config.width, config.width)

    def beside(self, u: Tensor, at: Tensor | None, extra: Tensor | None) -> Tensor | None:
        return None if extra is None else self.hint_gate(taken(u, at)).sigmoid() * taken(extra, at)

    def beside_next(self, u: Tensor, state: State, extra: Tensor | None) -> Tensor | None:
        return self.beside(u, None, extra)


class DiscoveryBlock(HintedBlock):
    """The same with three kinds of writes, softmax(W u + b) of each a head, into matrices whose norm is at most 1."""

    def __init__(self, config: MatrixConfig, lanes: Lanes) -> None:
        super().__init__(config, lanes)
        self.kinds = Linear(lanes, config.width, 3 * config.heads)

    def recur(self, u: Tensor, matrix: Tensor | None) -> tuple[Tensor, Tensor]:
        query, key, value, diagonal = self.rows(u)
        shares, keep = self.shares(u)
        return bounded_state(query, key, value, diagonal, shares, keep, matrix)

    def recur_next(self, u: Tensor, matrix: Tensor | None) -> tuple[Tensor, Tensor]:
        u = u[:, :, None]
        query, key, value, diagonal = (part[:, 0] for part in self.rows(u))
        shares, keep = (part[:, 0] for part in self.shares(u))
        return bounded_state_step(query, key, value, diagonal, shares, keep, matrix)

    def shares(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Of each kind of write [S·B·H, T, 3], and of the old matrix [S·B·H, T]."""
        return split_heads(self.kinds(u), self.heads).softmax(2), split_heads(self.keep(u), self.heads)[
            :, :, 0
        ].sigmoid()


class RecallingBlock(MatrixBlock):
    """Beside the read, sigmoid(W u + b) · what an append-only memory of this pass holds: W_v u_{i+1} under W_k u_i.

    Entries are read as in `associative_read`, with W_q u: entry i from token i + 2 on.
    """

    def __init__(self, config: UniMatrixConfig, lanes: Lanes) -> None:
        super().__init__(config, lanes)
        self.top_k = config.top_k
        self.query = Linear(lanes, config.width, config.memory_width, bias=False)
        self.key = Linear(lanes, config.width, config.memory_width, bias=False)
        self.value = Linear(lanes, config.width, config.width, bias=False)
        self.read_gate = Linear(lanes, config.width, config.width)

    def beside(self, u: Tensor, at: Tensor | None, extra: Tensor | None) -> Tensor | None:
        value = pad(self.value(u[:, :, 1:]), (0, 0, 0, 1))
        query, key, value = (part.flatten(0, 1) for part in (self.query(u), self.key(u), value))
        u = taken(u, at)
        gated: Tensor = self.read_gate(u).sigmoid() * associative_read(query, key, value, self.top_k, None, at).view_as(
            u
        )
        return gated

    def beside_next(self, u: Tensor, state: State, extra: Tensor | None) -> Tensor | None:
        query, key, value = (part.flatten(0, 1) for part in (self.query(u), self.key(u), self.value(u)))
        entries = state.get("entries", Entries(key[:, None][:, :0], value[:, None][:, :0]))
        entry = Entries(state["key"][:, None], value[:, None]) if "key" in state else None
        read, state["entries"] = associative_read_step(query, entries, self.top_k, entry)
        state["key"] = key
        gated: Tensor = self.read_gate(u).sigmoid() * read.view_as(u)
        return gated


class UniMatrix(SequenceModel):
    """Passes of one block over the tokens: `core`, and `assoc` with a memory beside the matrix."""

    def __init__(self, config: MatrixConfig, lanes: Lanes, vocabulary: int, length: int) -> None:
        super().__init__(config, lanes, vocabulary, length)
        self.carries = config.leaks_future

    def make_blocks(self, config: MatrixConfig, lanes: Lanes) -> Iterable[Block]:
        return [self.make_block(config, lanes)] * config.layers

    def make_block(self, config: Any, lanes: Lanes) -> MatrixBlock:
        """The block that every pass applies."""
        return RecallingBlock(config, lanes) if config.variant == "assoc" else MatrixBlock(config, lanes)

    def forward(self, ids: Tensor, at: Tensor | None = None) -> Tensor:
        _, x = self.passes(ids, at, self.look_up(ids))
        return self.tokens.logits(self.norm(x))

    def next(self, ids: Tensor, state: State) -> Tensor:
        _, x = self.passes_next(ids, state, self.look_up_next(ids, state))
        return self.tokens.logits(self.norm(x))

    def passes(self, ids: Tensor, at: Tensor | None, extra: Tensor | None) -> tuple[Tensor, Tensor]:
        """Tokens as they enter the last pass [S, B, T, d], and as they leave it at positions `at`."""
        x, carried = self.embed(ids), State() if self.carries else None
        for depth, block in enumerate(self.blocks):
            here = at if depth == len(self.blocks) - 1 else None
            entering = self.enter(x, depth)
            x = self.leave(block(entering, here, extra, carried), taken(ids, here))
        return entering, x

    def passes_next(self, ids: Tensor, state: State, extra: Tensor | None) -> tuple[Tensor, Tensor]:
        """The same for the next token, `ids` [S, B]."""
        if self.carries:
            raise ValueError(
                "with `depth_state: carried` a pass starts from where the pass before it ended, which is after all "
                "tokens: they cannot be read one by one; use `reset`"
            )
        x = self.embed_next(ids, state)
        for depth, (block, own) in enumerate(zip(self.blocks, state["blocks"], strict=True)):
            entering = self.enter(x, depth)
            x = self.leave(cast("MatrixBlock", block).next(entering, own, extra), ids)
        state["read"] += 1
        return entering, x

    def look_up(self, ids: Tensor) -> Tensor | None:
        """What the blocks are told of each of the tokens `ids` [S, B, T]: [S, B, T, d]."""
        return None

    def look_up_next(self, ids: Tensor, state: State) -> Tensor | None:
        """The same of the next token, `ids` [S, B]: [S, B, d]."""
        return None

    def enter(self, x: Tensor, depth: int) -> Tensor:
        """Tokens `x` [S, B, ..., d] before pass `depth`."""
        return x

    def leave(self, x: Tensor, ids: Tensor) -> Tensor:
        """Tokens `x` [S, B, ..., d], whose ids are `ids`, after a pass."""
        return x


class UniMatrixRosa(UniMatrix):
    """`core` and, of a table of its own, the row of the token before: what the released code has of a suffix automaton.

    The first token has none before it and is told nothing.
    """

    def __init__(self, config: UniMatrixConfig, lanes: Lanes, vocabulary: int, length: int) -> None:
        super().__init__(config, lanes, vocabulary, length)
        self.followers = Embedding(lanes, vocabulary, config.width)

    def make_block(self, config: UniMatrixConfig, lanes: Lanes) -> MatrixBlock:
        return HintedBlock(config, lanes)

    def look_up(self, ids: Tensor) -> Tensor | None:
        return pad(self.followers(ids[:, :, :-1]), (0, 0, 1, 0))

    def look_up_next(self, ids: Tensor, state: State) -> Tensor | None:
        told: Tensor = self.followers(state["ids"]) if "ids" in state else zeros_like(self.followers(ids))
        state["ids"] = ids
        return told


class UniMatrixDiscovery(UniMatrixRosa):
    """`rosa` with bounded matrices, a vector that is added before each pass, and x (1 + sigmoid(W D[token])) after it.

    The rows of D are max(d / 2, 32) wide.
    """

    def __init__(self, config: UniMatrixConfig, lanes: Lanes, vocabulary: int, length: int) -> None:
        super().__init__(config, lanes, vocabulary, length)
        self.depths = Parameter(lanes.normal(config.layers, config.width))
        size = max(config.width // 2, 32)
        self.traits = Embedding(lanes, vocabulary, size)
        self.stress = Linear(lanes, size, config.width, bias=False)

    def make_block(self, config: UniMatrixConfig, lanes: Lanes) -> MatrixBlock:
        return DiscoveryBlock(config, lanes)

    def enter(self, x: Tensor, depth: int) -> Tensor:
        return x + self.depths[:, depth].view(-1, *[1] * (x.dim() - 2), x.shape[-1])

    def leave(self, x: Tensor, ids: Tensor) -> Tensor:
        left: Tensor = x * (1.0 + self.stress(self.traits(ids)).sigmoid())
        return left
