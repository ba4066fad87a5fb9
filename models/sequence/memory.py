"""Triple-latent models with an associative memory of what followed which token."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from torch import Tensor, cat, stack
from torch.nn import Identity, Module
from torch.nn.functional import pad

from models.sequence.layers import LayerNorm, Linear, lookup
from models.sequence.model import SequenceModel, State, parameters_per_lane, taken
from models.sequence.recurrence import Entries, associative_read, associative_read_step
from models.sequence.recurrence.associative_read import SHARPNESS
from models.sequence.slots import FAINTEST
from models.sequence.triple import Triple
from models.sequence.triple_models import Hybrid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from models.mechanisms.triple_memory import TripleMemoryConfig
    from models.sequence.lanes import Lanes
    from models.sequence.memory_gates_config import MemoryGatesConfig
    from models.sequence.retrieval_config import Keys, RetrievalConfig


class Text(NamedTuple):
    """Tokens as the memory sees them, before positions, dropout and convolution: ids, their table, their rows of it."""

    ids: Tensor
    table: Tensor
    embedded: Tensor


def read_gate(config: MemoryGatesConfig, lanes: Lanes) -> Linear | None:
    """What tells from its basis how much of a read counts; None where all of it does."""
    if not config.read_gate:
        return None
    gate = Linear(lanes, config.width, 1)
    if gate.bias is not None:
        gate.bias.data.fill_(config.read_gate_bias)
    return gate


class Memory(Module):
    """An append-only memory of neighbours, read by cosine (arXiv 2606.05175).

    With e_i the bare embedding of token i, entry i holds the key W_k e_i and the value W_v e_{i+1}, readable from token
    i + 2 on. A read is a softmax mean of the values of the `top_k` entries whose keys are most like the query. Of
    copies of a token, which have one key, the most recent are kept. A gate on reads scales each by one number that its
    basis tells; a gate on writes an entry's value by its strength, and its weight by a power of that, `sharpness`.

    W_v is applied to what is read, not to all that is stored: the same by linearity, and less where few positions read.
    """

    def __init__(
        self,
        config: TripleMemoryConfig | RetrievalConfig,
        lanes: Lanes,
        sharpness: float = SHARPNESS,
        keys: Keys = "projected",
    ) -> None:
        """keys: W_k and W_q are two matrices, one, or the identity."""
        super().__init__()
        width, size = config.width, config.memory_width
        self.top_k, self.sharpness = config.top_k, sharpness
        self.query = Identity() if keys == "bare" else Linear(lanes, width, size, bias=False)
        self.key = Linear(lanes, width, size, bias=False) if keys == "projected" else self.query
        self.value = Linear(lanes, width, width, bias=False)
        self.write_gate = Linear(lanes, 2 * width, 1) if config.write_gate else None
        self.join = Linear(lanes, 2 * width, width, bias=False) if config.fusion == "concat" else None
        self.read_gate = read_gate(config, lanes)

    def forward(self, basis: Tensor, text: Text, at: Tensor | None) -> Tensor:
        """What is read [S, B, P, d] for `basis` [S, B, P, d] at positions `at` [P] (None: all T)."""
        key = lookup(self.key(text.table), text.ids)
        value, strength = self.stored(text.embedded, pad(text.embedded[:, :, 1:], (0, 0, 0, 1)))
        query = self.query(basis)
        if at is not None:
            query = query.new_zeros(key.shape).index_copy(2, at, query)
        query, key, value = (part.flatten(0, 1) for part in (query, key, value))
        read = self.read(query, key, value, None if strength is None else strength.flatten(0, 1), at)
        return self.gated(read.view_as(basis), basis)

    def read(self, query: Tensor, key: Tensor, value: Tensor, log_strength: Tensor | None, at: Tensor | None) -> Tensor:
        """What `query` [N, T, a] reads [N, P, d] of entries with `key` [N, T, a], `value` [N, T, d] and strengths."""
        return associative_read(query, key, value, self.top_k, log_strength, at, sharpness=self.sharpness)

    def stored(self, embedded: Tensor, followed: Tensor) -> tuple[Tensor, Tensor | None]:
        """Values [..., d] of entries, still without W_v, and logarithms of their strengths [...] if writes are gated.

        embedded, followed [..., d]: the tokens of an entry's key and of its value
        """
        if self.write_gate is None:
            return followed, None
        strength = self.write_gate(cat([embedded, followed], dim=-1)).sigmoid()
        return followed * strength, strength.clamp_min(FAINTEST).log().squeeze(-1)

    def gated(self, read: Tensor, basis: Tensor) -> Tensor:
        """What the model gets of what was read."""
        out: Tensor = self.value(read)
        return out if self.read_gate is None else out * self.read_gate(basis).sigmoid()

    def next(self, basis: Tensor, embedded: Tensor, state: State) -> Tensor:
        """The same for the next token, `basis` and `embedded` [S, B, d]; `state` grows by an entry with each token.

        Copies of a token have one key here too: each is the same row of a matrix product of the same shape.
        """
        query, key = (rows.flatten(0, 1) for rows in (self.query(basis), self.key(embedded)))
        if "entries" in state:
            entries, entry = state["entries"], self.entry(state["key"], state["embedded"], embedded)
        else:
            keys, values, strengths = self.entry(key, embedded, embedded)
            entries, entry = Entries(keys[:, :0], values[:, :0], None if strengths is None else strengths[:, :0]), None
        read, state["entries"] = associative_read_step(query, entries, self.top_k, entry, sharpness=self.sharpness)
        state["key"], state["embedded"] = key, embedded
        return self.gated(read.view_as(basis), basis)

    def entry(self, key: Tensor, embedded: Tensor, followed: Tensor) -> Entries:
        """One entry a sequence, whose key [N, a] is that of `embedded` [S, B, d], `followed` by the next token."""
        value, strength = self.stored(embedded, followed)
        log_strength = None if strength is None else strength.flatten()[:, None]
        return Entries(key[:, None], value.flatten(0, 1)[:, None], log_strength)


class MemoryBlock(Triple):
    """A triple-latent layer that, if `active`, also reads the memory."""

    def __init__(self, config: TripleMemoryConfig, lanes: Lanes, *, active: bool) -> None:
        super().__init__(config, lanes)
        self.query, self.fusion, self.active = config.query, config.fusion, active
        self.memory = Memory(config, lanes)

    def recall(self, x: Tensor, text: Text, at: Tensor | None, read_at: Tensor | None) -> tuple[Tensor, Tensor]:
        """The output for tokens `x` [S, B, T, d] at positions `at`, and what was read at positions `read_at`.

        Both are the same positions where reads enter the residual stream.
        """
        u, here = self.norm(x), taken(x, at)
        mixed = self.mix(u, at)
        y = here + self.drop(mixed)
        match self.query:
            case "parallel":
                basis = taken(u, read_at)
            case "serial":
                basis = y if at is read_at else taken(y, read_at)
            case "previous":
                basis = taken(pad(text.embedded[:, :, :-1], (0, 0, 1, 0)), read_at)
        read = self.memory(basis, text, read_at)
        return self.fed(self.fused(here, mixed, y, read)), read

    def fused(self, x: Tensor, mixed: Tensor, y: Tensor, read: Tensor) -> Tensor:
        """The residual stream: `x` before the layer, `y` with what it `mixed`, and now with what was `read`."""
        if self.memory.join is not None:
            y = x + self.drop(self.memory.join(cat([mixed, read], dim=-1)))
        elif self.fusion == "sum":
            y = y + self.drop(read)
        return y

    def recall_next(self, x: Tensor, embedded: Tensor, state: State) -> tuple[Tensor, Tensor]:
        """The same as `recall` for the next token, `x` and `embedded` [S, B, d]."""
        u = self.norm(x)
        mixed = self.mix_next(u, state)
        y = x + mixed
        before = state.get("embedded", embedded.new_zeros(embedded.shape))
        read = self.memory.next({"parallel": u, "serial": y, "previous": before}[self.query], embedded, state)
        return self.fed(self.fused(x, mixed, y, read)), read


class MemoryModel(Hybrid):
    """A local convolution and triple-latent layers, all or the last of which read the memory.

    Fused into the logits, E LN(h) + E LN'(m) with m the mean read of all active layers, as E (LN(h) + LN'(m)).
    """

    def __init__(self, config: TripleMemoryConfig, lanes: Lanes, vocabulary: int, length: int) -> None:
        super().__init__(config, lanes, vocabulary, length)
        self.read_norm = LayerNorm(lanes, config.width) if config.fusion == "logits" else None

    def make_blocks(self, config: TripleMemoryConfig, lanes: Lanes) -> Iterable[MemoryBlock]:
        first = config.layers - 1 if config.memory_layers == "last" else 0
        return [MemoryBlock(config, lanes, active=layer >= first) for layer in range(config.layers)]

    def forward(self, ids: Tensor, at: Tensor | None = None) -> Tensor:
        text = Text(ids, self.tokens.weight, self.tokens(ids))
        x, reads = self.placed(text.embedded), list[Tensor]()
        for layer, block in enumerate(self.layers(), start=1):
            here = at if layer == len(self.blocks) else None
            if block.active:
                x, read = block.recall(x, text, here, here if self.read_norm is None else at)
                reads.append(read)
            else:
                x = block(x, here)
        return self.tokens.logits(self.concluded(x, reads))

    def layers(self) -> Iterable[MemoryBlock]:
        """The blocks, first to last."""
        return cast("Iterable[MemoryBlock]", self.blocks)

    def concluded(self, x: Tensor, reads: Sequence[Tensor]) -> Tensor:
        """What logits are made of: the last layer's output `x`, and reads that passed all layers."""
        h: Tensor = self.norm(x)
        return h if self.read_norm is None else h + self.read_norm(stack(tuple(reads)).mean(0))

    def next(self, ids: Tensor, state: State) -> Tensor:
        embedded = self.tokens(ids)
        x, reads = self.placed_next(embedded, state), list[Tensor]()
        for block, own in zip(self.layers(), state["blocks"], strict=True):
            if block.active:
                x, read = block.recall_next(x, embedded, own)
                reads.append(read)
            else:
                x = block.next(x, own)
        state["read"] += 1
        return self.tokens.logits(self.concluded(x, reads))


def dead_parameters(model: SequenceModel) -> int:
    """Numbers a lane that are allocated and counted, as in the released code, but that no output depends on."""
    blocks = (block for block in model.blocks if isinstance(block, MemoryBlock) and not block.active)
    return sum(parameters_per_lane(block.memory) for block in blocks)
