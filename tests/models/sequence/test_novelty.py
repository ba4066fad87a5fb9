"""Allocation by novelty against the rule as it reads, one entry after another; and the gradients of what is read."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.sequence.novelty import Rule, Slots, choose, running_means
from models.sequence.recurrence.associative_read import read_entries

Vector = np.ndarray[Any, np.dtype[np.float64]]


class Plain:
    """The slots of one sequence: for each a mapping, in the order in which they were opened."""

    def __init__(self, rule: Rule, tau: float) -> None:
        self.rule, self.tau = rule, tau
        self.slots: list[dict[str, Any]] = []
        self.rate = 0.0
        self.margin = math.inf  # the least by which anything was decided that a rule does not settle

    def read(self, query: Vector, top_k: int, strength: Vector) -> list[int]:
        scores = [cosine(query, s["key"]) / math.sqrt(len(query)) + strength[s["last"]] for s in self.slots]
        order = sorted(range(len(scores)), key=lambda i: (-scores[i], -i))
        for one, other in itertools.pairwise(order):
            self.decide(scores[one] - scores[other])
        return [self.slots[i]["last"] for i in order[:top_k]]

    def write(self, key: Vector, entry: int) -> tuple[bool, int]:
        cosines = [cosine(key, slot["key"]) for slot in self.slots]
        best = max(cosines, default=-math.inf)
        near = next((i for i, one in enumerate(cosines) if one > best - 1e-9), None)
        novel = near is None or 1.0 - best > self.tau + 1e-9
        opener = entry if near is None else self.slots[near]["opener"]
        self.decide(1.0 - best - self.tau - 1e-9)
        for one in cosines:
            self.decide(best - one)
        for slot in self.slots:
            slot["usage"] *= np.float32(self.rule.decay)
        if near is not None and not novel:
            self.slots[near]["usage"] += np.float32(1.0)
            if not self.rule.first:
                self.slots[near]["last"] = entry
        if novel:
            self.slots.append({"key": key, "opener": entry, "last": entry, "usage": np.float32(1.0)})
        self.rate = (1 - self.rule.eta) * self.rate + self.rule.eta * novel
        allowed = min(self.rule.slots, max(1, math.floor(self.rule.m0 + self.rule.beta * self.rate + 1e-9)))
        while len(self.slots) > allowed:
            del self.slots[min(range(len(self.slots)), key=lambda i: self.slots[i]["usage"])]
        return novel, opener

    def decide(self, gap: float) -> None:
        if abs(gap) > 1e-12:
            self.margin = min(self.margin, abs(gap))


def cosine(one: Vector, other: Vector) -> float:
    lengths = math.sqrt(float(one @ one)) * math.sqrt(float(other @ other))
    return float(one @ other) / lengths if lengths > 0.0 else 0.0


def plain(
    keys: Vector, queries: Vector, tau: float, rule: Rule, top_k: int, strength: Vector
) -> tuple[list[bool], list[int], list[list[int]], float]:
    """What `choose` says of one sequence, and by how little anything was decided."""
    memory = Plain(rule, tau)
    novel, near, reads = [], [], []
    for t, query in enumerate(queries):
        reads.append(memory.read(query, top_k, strength))
        if t > 0:
            fresh, opener = memory.write(keys[t - 1], t - 1)
            novel.append(fresh)
            near.append(opener)
    return novel, near, reads, memory.margin


def fixed(slots: int, decay: float = 0.9, *, first: bool = False) -> Rule:
    return Rule(slots, decay, 0.1, 0.0, float(slots), first)


def assert_chosen(keys: Tensor, queries: Tensor, tau: float, rule: Rule, top_k: int, strength: Tensor) -> None:
    found = choose(keys, queries, torch.full((len(keys),), tau, dtype=torch.float64), rule, top_k, strength)
    for n in range(len(keys)):
        given_ = (part[n].double().numpy() for part in (keys, queries))
        novel, near, reads, margin = plain(*given_, tau, rule, top_k, strength[n].double().numpy())
        if margin < 1e-10:
            continue
        assert found.novel[n, :-1].tolist() == novel
        assert found.near[n, :-1].tolist() == near
        padded = [read + [-1] * (found.read.shape[2] - len(read)) for read in reads]
        assert found.read[n].tolist() == padded


rules = st.one_of(
    st.builds(fixed, st.integers(1, 20), st.sampled_from([0.1, 0.9, 1.0]), first=st.booleans()),
    st.builds(
        Rule,
        st.integers(1, 20),
        st.just(0.95),
        st.sampled_from([0.0, 0.3, 1.0]),
        st.just(9.5),
        st.just(1.5),
        st.booleans(),
    ),
)


@settings(max_examples=60, deadline=None)
@given(
    rule=rules,
    shape=st.tuples(st.integers(1, 3), st.integers(1, 60), st.integers(1, 20)),
    ids=st.integers(1, 40),
    tau=st.sampled_from([0.0, 0.3, 0.8, 1.5, 2.0]),
    top_k=st.integers(1, 6),
    strong=st.booleans(),
    double=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_choices_are_those_of_the_rule_as_it_reads(
    rule: Rule, shape: tuple[int, int, int], ids: int, tau: float, top_k: int, strong: bool, double: bool, seed: int
) -> None:
    """Keys are copies of a few, with the same bits or a rounding error apart."""
    torch.manual_seed(seed)
    dtype = torch.float64 if double else torch.float32
    lanes, tokens, width = shape
    keys = torch.randn(ids, width, dtype=dtype)[torch.randint(ids, (lanes, tokens))]
    keys = keys * (1.0 + 1e-7 * torch.randint(2, (lanes, tokens, 1)))
    strength = -torch.rand(lanes, tokens, dtype=dtype) if strong else torch.zeros(lanes, tokens, dtype=dtype)
    assert_chosen(keys, torch.randn_like(keys), tau, rule, top_k, strength)


@pytest.mark.parametrize("tau", [0.4, 1.0, 0.2, 0.0])
def test_what_is_exactly_at_the_threshold_opens_no_slot(tau: float) -> None:
    """Novelty is tau but for rounding, then above and below it by 1e-6, at every turn of the plane."""
    for turn in np.linspace(0.0, 6.0, 25):
        for more, novel in ((0.0, False), (1e-6, True), (-1e-6, False)):
            angles = turn + np.array([0.0, math.acos(max(-1.0, min(1.0, 1.0 - tau - more))), 0.0])
            keys = torch.tensor(np.stack([np.cos(angles), np.sin(angles)], axis=1))[None]
            found = choose(keys, keys, torch.tensor([tau]).double(), fixed(9), 1)
            assert found.novel[0, :2].tolist() == [True, novel], (turn, more)


def test_equal_cosines_go_to_the_oldest_slot_and_equal_scores_read_the_newest() -> None:
    keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]], dtype=torch.float64)[None]
    found = choose(keys, torch.ones_like(keys), torch.tensor([0.9]), fixed(9), 2)
    assert found.novel[0, :3].tolist() == [True, True, False]
    assert found.near[0, 2] == 0
    assert found.read[0].tolist() == [[-1, -1], [-1, -1], [0, -1], [1, 0]]


@pytest.mark.parametrize(("first", "read"), [(False, [-1, -1, 0, 0, 2, 2, 4]), (True, [-1, -1, 0, 0, 0, 0, 0])])
def test_a_repeated_key_gives_its_latest_value_or_its_first(first: bool, read: list[int]) -> None:
    keys = torch.eye(4)[torch.tensor([0, 1, 0, 2, 0, 1, 3])][None]
    query = torch.eye(4)[:1].expand(1, 7, -1)
    found = choose(keys, query, torch.tensor([0.4]), fixed(9, first=first), 1)
    assert found.read[0, :, 0].tolist() == read


@settings(max_examples=60, deadline=None)
@given(
    tokens=st.integers(1, 40),
    openers=st.integers(1, 40),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 10_000),
)
def test_means_of_slots_are_those_of_the_entries_that_they_took(
    tokens: int, openers: int, dtype: torch.dtype, seed: int
) -> None:
    torch.manual_seed(seed)
    values, opener = torch.randn(3, tokens, 5, dtype=dtype), torch.randint(min(openers, tokens), (3, tokens))
    found = running_means(values, opener)
    for n in range(3):
        for t in range(tokens):
            own = values[n, : t + 1][opener[n, : t + 1] == opener[n, t]]
            torch.testing.assert_close(found[n, t], own.mean(0))


def test_means_of_slots_have_the_gradients_of_differences() -> None:
    torch.manual_seed(3)
    values = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    opener = torch.randint(3, (2, 9))
    assert torch.autograd.gradcheck(lambda v: running_means(v, opener), (values,))


def test_sequences_have_thresholds_of_their_own() -> None:
    keys = torch.randn(1, 30, 6, generator=torch.Generator().manual_seed(0)).expand(3, -1, -1)
    found = choose(keys, keys, torch.tensor([0.1, 0.6, 2.0]), fixed(50), 4)
    counts = found.novel.sum(1).tolist()
    assert counts[0] > counts[1] > counts[2] == 1


@pytest.mark.parametrize("at", [[29], [0], [1, 0], [5, 20, 3]])
def test_choices_for_some_tokens_are_those_for_all(at: list[int]) -> None:
    torch.manual_seed(1)
    keys, queries = torch.randn(2, 30, 5), torch.randn(2, 30, 5)
    whole = choose(keys, queries, torch.tensor([0.5, 0.7]), fixed(6), 3)
    some = choose(keys, queries, torch.tensor([0.5, 0.7]), fixed(6), 3, None, torch.tensor(at))
    assert torch.equal(whole.read[:, at], some.read[:, at])
    assert torch.equal(whole.novel, some.novel)


@settings(max_examples=40, deadline=None)
@given(
    rule=rules,
    means=st.booleans(),
    ids=st.integers(1, 30),
    tau=st.sampled_from([0.0, 0.3, 0.8]),
    seed=st.integers(0, 10_000),
)
def test_one_entry_after_another_the_same_is_read(rule: Rule, means: bool, ids: int, tau: float, seed: int) -> None:
    rule = rule._replace(first=rule.first and not means)
    torch.manual_seed(seed)
    keys, values = torch.randn(ids, 6)[torch.randint(ids, (3, 40))], torch.randn(3, 40, 4)
    queries, strength, taus = torch.randn(3, 40, 6), -torch.rand(3, 40), torch.full((3,), tau)
    choices = choose(keys, queries, taus, rule, 3, strength)
    opener = choices.opener()
    address = keys.gather(1, opener[:, :, None].expand_as(keys))
    kept = running_means(values, opener) if means else values
    whole = read_entries(queries, address, kept, choices.read, strength, 8.0)
    slots = Slots.none(keys[:, 0], values[:, 0], means=means)
    for t in range(40):
        if slots.keys.shape[1]:
            places = slots.read(queries[:, t], 3)[:, None]
            read = read_entries(queries[:, t, None], slots.keys, slots.values, places, slots.log_strength, 8.0)
            torch.testing.assert_close(read[:, 0], whole[:, t])
        if t:
            slots = slots.written(keys[:, t - 1], values[:, t - 1], strength[:, t - 1], taus, rule)
        assert slots.keys.shape[1] == int(slots.counts.max()) <= rule.slots


def test_reads_of_chosen_entries_have_the_gradients_of_differences() -> None:
    torch.manual_seed(2)
    q, k, v = (torch.randn(2, 7, width, dtype=torch.float64, requires_grad=True) for width in (4, 4, 3))
    strength = torch.randn(2, 7, dtype=torch.float64, requires_grad=True)
    entries = torch.randint(-1, 7, (2, 7, 3))
    assert torch.autograd.gradcheck(lambda *x: read_entries(*x[:3], entries, x[3], 5.0), (q, k, v, strength))
