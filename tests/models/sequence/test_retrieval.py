"""Retrieval memories beside backbones: the published model among them, what is read, learned, kept and refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from models.sequence.model import SequenceModel, state_bytes
from models.sequence.novelty import Rule, choose
from models.sequence.recurrence.associative_read import associative_read, read_entries, unit
from models.sequence.retrieval_config import OWN, RetrievalConfig
from models.sequence.slot_memory import LearnedMemory
from tests.models.sequence.presets import BACKBONES, build, config, enliven

VOCABULARY, LENGTH = 11, 24
SIZE: dict[str, Any] = {"width": 16, "layers": 2, "dropout": 0.0}


def model_of(name: str, **fields: Any) -> SequenceModel:
    return enliven(build(config(name, **{**SIZE, **fields}), VOCABULARY, LENGTH)).double()


def random_ids(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("query", ["previous", "parallel"])
@pytest.mark.parametrize("fusion", ["logits", "sum"])
def test_append_beside_triple_latent_layers_is_the_published_model(query: str, fusion: str) -> None:
    asked = {"query": query, "fusion": fusion, "memory_width": 64, "top_k": 3}
    published, ours = model_of("triple_memory", **asked), model_of("triple_retrieval", memory="append", **asked)
    last = f"blocks.{SIZE['layers'] - 1}.memory."
    own = {name.replace(last, "memory."): part for name, part in published.state_dict().items()}
    ours.load_state_dict({name: part for name, part in own.items() if ".memory." not in name})
    ids = random_ids(1, 2, LENGTH)
    torch.testing.assert_close(ours(ids), published(ids), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", BACKBONES)
def test_a_backbone_starts_as_it_does_without_a_memory(name: str) -> None:
    plain = dict(model_of(**SIZE | BACKBONES[name]).named_parameters())
    beside = dict(model_of(name).named_parameters())
    assert plain.keys() < beside.keys()
    assert all(torch.equal(part, beside[label]) for label, part in plain.items())


@pytest.mark.parametrize("memory", OWN)
def test_a_key_that_comes_again_with_another_value_gives_the_latest(memory: str) -> None:
    """What is read after 1 2 .. 1 3 .. 1 is what is read after 1 3 .. 1 3 .. 1, unless what is alike is mixed."""
    fields: dict[str, Any] = {"top_k": 1, "tau": 1e-3} if memory != "append" else {"top_k": 1}
    model = model_of("s4d_retrieval", memory=memory, query="current", temperature=0.01, **fields).eval()
    model.blocks = model.blocks[:1]
    with torch.no_grad():
        for parameter in (model.places.weight, *model.blocks.parameters()):
            parameter.zero_()  # what is left of a token is the token and what it reads
        if memory != "pointer":
            model.memory.query.weight.copy_(model.memory.key.weight)
    changed = torch.tensor([[[1, 2, 5, 1, 3, 6, 1]]])
    steady = torch.tensor([[[1, 3, 5, 1, 3, 6, 1]]])
    alike = torch.allclose(model(changed)[0, 0, -1], model(steady)[0, 0, -1], rtol=1e-9, atol=1e-9)
    assert alike == (memory != "pointer")


@pytest.mark.parametrize("memory", ["novelty", "learned", "surprise", "pointer"])
def test_a_state_never_has_more_slots_than_it_may(memory: str) -> None:
    sizes = {}
    for slots in (3, 5):
        model, ids = model_of("s4d_retrieval", memory=memory, slots=slots, tau=0.0).eval(), random_ids(1, 1, LENGTH)
        state, held = model.start(), []
        with torch.no_grad():
            for t in range(LENGTH):
                model.next(ids[:, :, t], state)
                held.append(state_bytes(state["memory"], 1))
        sizes[slots] = max(held)
    assert sizes[3] < sizes[5]
    assert sizes[5] - sizes[3] < 2 * (16 + 64 + 16 + 8) * 8


def test_copies_fill_the_reads_of_entries_but_not_those_of_slots() -> None:
    """A pair, then filler of two kinds that are more like the query: the pair is read among slots alone."""
    k = torch.eye(3)[torch.tensor([0, *[1, 2] * 8, 1])][None]
    q = torch.tensor([0.3, 0.6, 0.6]).expand_as(k)
    v = torch.randn(1, 18, 4, generator=torch.Generator().manual_seed(0))
    other = v.clone()
    other[0, 0] += 1.0
    last = torch.tensor([17])
    entries = [associative_read(q, k, values, 4, positions=last) for values in (v, other)]
    chosen = choose(k, q, torch.tensor([0.4]), Rule(9, 1.0, 0.0, 0.0, 9.0), 4)
    slots = [read_entries(q[:, last], k, values, chosen.read[:, last], None, 8.0) for values in (v, other)]
    assert torch.equal(*entries)
    assert not torch.allclose(*slots)


def test_the_learned_threshold_is_the_one_that_entries_are_told_apart_by() -> None:
    ids = random_ids(1, 2, LENGTH)
    fixed = model_of("s4d_retrieval", memory="novelty", tau=0.9).eval()
    learned = model_of("s4d_retrieval", memory="learned", tau=0.2).eval()
    learned.load_state_dict(fixed.state_dict(), strict=False)
    assert not torch.allclose(learned(ids), fixed(ids))
    learned.memory.threshold.data.fill_(0.9)
    assert torch.allclose(learned(ids), fixed(ids))


def test_the_gradient_of_the_gate_is_that_of_the_mixture_it_stands_for() -> None:
    """Straight-through: by differences of reads whose addresses are mixed by g + (hard - g) held fixed."""
    torch.manual_seed(0)
    described = config("s4d_retrieval", memory="learned", tau=0.38, gate_slope=3.0, top_k=3, **SIZE)
    assert isinstance(described, RetrievalConfig)
    memory = build(described, VOCABULARY, LENGTH).double().memory
    assert isinstance(memory, LearnedMemory)
    q, k, v = torch.randn(1, 20, 64).double(), torch.randn(1, 20, 64).double(), torch.randn(1, 20, 16).double()
    k = k + torch.randn(1, 1, 64)  # some are alike
    choices = choose(k, q, memory.tau(k), memory.rule, 3)
    assert 3 < choices.novel.sum() < 17
    near = k.gather(1, choices.near[:, :, None].expand_as(k))
    novelty = 1.0 - (unit(k) * unit(near)).sum(2)
    hard = choices.novel.double()
    with torch.no_grad():
        plain = torch.sigmoid(3.0 * (novelty - 0.38))

    def loss(b: float, log_a: float) -> float:
        g = torch.sigmoid(torch.tensor(log_a, dtype=torch.float64).exp() * (novelty - b)) + hard - plain
        address = near + g[:, :, None] * (k - near)
        return float(read_entries(q, address, v, choices.read, None, 8.0).square().sum())

    read = memory.read(q, k, v, None, None)
    gradients = torch.autograd.grad(read.square().sum(), [memory.threshold, memory.slope_log])
    eps, log_a = 1e-5, math.log(3.0)
    wanted = (
        (loss(0.38 + eps, log_a) - loss(0.38 - eps, log_a)) / (2 * eps),
        (loss(0.38, log_a + eps) - loss(0.38, log_a - eps)) / (2 * eps),
    )
    for found, one in zip(gradients, wanted, strict=True):
        assert abs(one) > 1e-4
        assert abs(float(found) - one) < 1e-4 * abs(one)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"memory": "append", "tau": 0.3}, "`tau` is of `memory: novelty or learned or surprise or pointer`"),
        ({"memory": "append", "slots": 3}, "append has no such option"),
        ({"memory": "novelty", "eta": 0.3}, "`eta` is of `memory: surprise`"),
        ({"memory": "append", "keep": "mean"}, "`keep` is of `memory: novelty or learned or surprise`"),
        ({"memory": "pointer", "memory_width": 8}, "pointer has no such option"),
        ({"memory": "pointer", "query": "parallel"}, "must be previous or current"),
        ({"memory": "pointer", "keys": "shared"}, "pointer has no such option"),
        ({"keys": "shared", "query": "parallel"}, "must be previous or current"),
        ({"keys": "bare", "memory_width": 8}, "leave `memory_width` out"),
        ({"read_gate": False, "read_gate_bias": -2.0}, "needs `read_gate: true`"),
        ({"memory": "lru"}, "'append', 'novelty', 'learned', 'surprise' or 'pointer'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        config("mamba_retrieval", **fields)
    assert told in str(caught.value)


def test_more_reads_than_there_are_slots_are_doubted() -> None:
    doubts = list(config("s4d_retrieval", slots=3, top_k=4).doubts(100, 100))
    assert doubts == ["`top_k` 4 of 3 slots: all are read"]
    assert "2 entries" in next(config("s4d_retrieval", memory="append", top_k=4).doubts(2, 2))


def test_a_token_sees_what_lies_in_its_window_and_no_more() -> None:
    ids = random_ids(1, 1, LENGTH)
    narrow = model_of("transformer", window=4, layers=1).eval()
    seen = []
    for t in range(LENGTH):
        other = ids.clone()
        other[0, 0, t] = (other[0, 0, t] + 1) % VOCABULARY
        seen.append(not torch.allclose(narrow(other)[0, 0, -1], narrow(ids)[0, 0, -1], rtol=1e-9, atol=1e-12))
    assert seen == [t >= LENGTH - 4 for t in range(LENGTH)]
    wide, whole = model_of("transformer", window=LENGTH).eval(), model_of("transformer").eval()
    torch.testing.assert_close(wide(ids), whole(ids))
