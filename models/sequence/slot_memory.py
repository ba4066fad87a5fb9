"""Memories of what followed which token that keep a slot for each distinct one, or for each that was like no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, float64, full, no_grad, where
from torch.nn import Module, Parameter

from models.sequence.memory import Memory, Text, read_gate
from models.sequence.model import State, taken
from models.sequence.novelty import Choices, Rule, Slots, choose, running_means
from models.sequence.pointer_slots import PointerSlots, Recall
from models.sequence.recurrence.associative_read import read_entries, unit
from models.sequence.slots import Policy

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.retrieval_config import Keys, RetrievalConfig


class NoveltyMemory(Memory):
    """The entries of `Memory`, of which those that are novel open a slot, and the others go to the nearest slot.

    A slot has the key of the entry that opened it, and the value of its last entry, of its first, or the mean of all,
    with the strength of the last (or the first); reads are those of `Memory`, over slots. Which slots there are is told
    in `novelty.choose`, and has no gradient: gradients pass through the slots that are read, to the keys that they were
    opened under and to their values.
    """

    def __init__(self, config: RetrievalConfig, lanes: Lanes, sharpness: float, keys: Keys) -> None:
        super().__init__(config, lanes, sharpness, keys)
        adaptive = config.memory == "surprise"
        self.rule = Rule(
            config.slots,
            config.decay,
            config.eta,
            config.beta if adaptive else 0.0,
            config.m0 if adaptive else float(config.slots),
            config.keep == "first",
        )
        self.means = config.keep == "mean"
        self.fixed_tau = config.tau

    def tau(self, key: Tensor) -> Tensor:
        """The threshold [N] of each sequence of `key` [N, ...]."""
        return full((len(key),), self.fixed_tau, dtype=float64)

    def read(self, query: Tensor, key: Tensor, value: Tensor, log_strength: Tensor | None, at: Tensor | None) -> Tensor:
        with no_grad():
            choices = choose(key, query, self.tau(key), self.rule, self.top_k, log_strength, at)
        if self.means:
            value = running_means(value, choices.opener())
        entries = taken(choices.read, at, 1)
        return read_entries(
            taken(query, at, 1), self.addresses(key, choices), value, entries, log_strength, self.sharpness
        )

    def addresses(self, key: Tensor, choices: Choices) -> Tensor:
        """The key [N, T, a] under which each entry's value is found: its own, or that of the slot that took it."""
        return where(choices.novel[:, :, None], key, nearest(key, choices))

    def empty(self, key: Tensor, embedded: Tensor) -> Slots:
        """No slots, for tokens with `key` [N, a] and `embedded` [S, B, d]."""
        return Slots.none(key, embedded.flatten(0, 1), means=self.means)

    def next(self, basis: Tensor, embedded: Tensor, state: State) -> Tensor:
        """The same for the next token, `basis` and `embedded` [S, B, d]; `state` grows by the slots that it opens."""
        query, key = (rows.flatten(0, 1) for rows in (self.query(basis), self.key(embedded)))
        slots: Slots = state["slots"] if "slots" in state else self.empty(key, embedded)
        read = slots.values.new_zeros(len(key), slots.values.shape[2])
        if slots.keys.shape[1]:
            places = slots.read(query, self.top_k)[:, None]
            asked = query[:, None]
            read = read_entries(asked, slots.keys, slots.values, places, slots.log_strength, self.sharpness)[:, 0]
        if "slots" in state:
            keys, values, strengths = self.entry(state["key"], state["embedded"], embedded)
            strength = slots.log_strength.new_zeros(len(key)) if strengths is None else strengths[:, 0]
            slots = slots.written(keys[:, 0], values[:, 0], strength, self.tau(key), self.rule)
        state["slots"], state["key"], state["embedded"] = slots, key, embedded
        return self.gated(read.view_as(basis), basis)


class LearnedMemory(NoveltyMemory):
    """A novelty memory whose gate sigmoid(a (novelty - b)) is learned from the task: an entry is novel above 1/2.

    So b is the threshold. Outputs in training are those of the rule; the gradient of the gate g is that of a mixture
    (straight-through, arXiv 1308.3432): the address of an entry's value is taken for g times its own key and 1 - g
    times the key of the slot nearest to it. What opening a slot would have spared the value of that slot is left out.
    Novelty is 1 - cos of both keys, and has a gradient too.
    """

    def __init__(self, config: RetrievalConfig, lanes: Lanes, sharpness: float, keys: Keys) -> None:
        super().__init__(config, lanes, sharpness, keys)
        self.threshold = Parameter(lanes.zeros() + config.tau)
        self.slope_log = Parameter((lanes.zeros() + config.gate_slope).log())

    def tau(self, key: Tensor) -> Tensor:
        return self.threshold.repeat_interleave(len(key) // len(self.threshold))

    def addresses(self, key: Tensor, choices: Choices) -> Tensor:
        near = nearest(key, choices)
        novelty = 1.0 - (unit(key) * unit(near)).sum(2)
        slope = self.slope_log.exp().repeat_interleave(len(key) // len(self.slope_log))
        gate = (slope[:, None] * (novelty - self.tau(key)[:, None])).sigmoid()[:, :, None]
        return where(choices.novel[:, :, None], key, near) + (gate - gate.detach()) * (key - near).detach()


def nearest(key: Tensor, choices: Choices) -> Tensor:
    """The key [N, T, a] of the slot nearest to each entry of `key` [N, T, a] when it came."""
    return key.gather(1, choices.near[:, :, None].expand_as(key))


class PointerMemory(Module):
    """The slots of SparsePointer, beside any backbone; a gate on reads scales each by one number."""

    def __init__(self, config: RetrievalConfig, lanes: Lanes, sharpness: float) -> None:
        super().__init__()
        self.by_itself = config.query == "current"
        self.slots = PointerSlots(
            lanes,
            config.width,
            Policy(config.slots, config.top_k, 1.0 - config.tau, config.empty_below),
            write_gate=config.write_gate,
            pointer_logits=config.pointer_logits,
            sharpness=sharpness,
        )
        self.read_gate = read_gate(config, lanes)

    def forward(self, basis: Tensor, text: Text, at: Tensor | None) -> Recall:
        """What is read for `basis` [S, B, P, d] at positions `at` [P] (None: all T)."""
        return self.gated(self.slots(text.ids, text.embedded, text.embedded if self.by_itself else None, at), basis)

    def gated(self, recall: Recall, basis: Tensor) -> Recall:
        """What the model gets of what was read."""
        return (
            recall if self.read_gate is None else recall._replace(value=recall.value * self.read_gate(basis).sigmoid())
        )

    def next(self, ids: Tensor, basis: Tensor, embedded: Tensor, state: State) -> Recall:
        """The same for the next token, `ids` [S, B], `basis` and `embedded` [S, B, d]."""
        return self.gated(self.slots.next(ids, embedded, state, embedded if self.by_itself else None), basis)


def memory_of(config: RetrievalConfig, lanes: Lanes) -> Memory | PointerMemory:
    """The memory that `config` describes."""
    bare = config.memory == "pointer" or config.keys == "bare"
    sharpness = (config.width if bare else config.memory_width) ** 0.5 / config.temperature
    if config.memory == "pointer":
        return PointerMemory(config, lanes, sharpness)
    kinds: dict[str, type[Memory]] = {
        "append": Memory,
        "novelty": NoveltyMemory,
        "learned": LearnedMemory,
        "surprise": NoveltyMemory,
    }
    return kinds[config.memory](config, lanes, sharpness, config.keys)
