"""What every sequence model promises, whoever wrote it: a registered name is tested here without another line.

Causality at every position, the same logits token by token, lanes that know nothing of each other, positions that are
asked for alone, and the same parameters to begin with in every process.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.mechanism import MECHANISMS
from models.sequence.model import SequenceModel, state_bytes
from tests.models.sequence.presets import PRESETS, build, config, enliven

VOCABULARY, LENGTH = 13, 18
SIZE: dict[str, Any] = {"width": 16, "layers": 2}

RETRIEVAL: list[dict[str, Any]] = [
    {"memory": "append", "query": "parallel"},
    {"memory": "novelty"},
    {"memory": "novelty", "slots": 4, "top_k": 2, "query": "current", "fusion": "sum", "write_gate": True},
    {"memory": "learned", "temperature": 0.1, "query": "parallel"},
    {"memory": "novelty", "keys": "bare"},
    {"memory": "append", "keys": "shared", "query": "current"},
    {"memory": "surprise", "m0": 2.0, "beta": 3.0, "eta": 0.3, "read_gate": False},
    {"memory": "pointer", "slots": 3, "tau": 0.7, "query": "current"},
    {"memory": "pointer", "write_gate": True, "fusion": "sum", "pointer_logits": False},
    {"memory": "learned", "keep": "mean", "slots": 4, "tau": 0.7, "write_gate": True},
    {"memory": "novelty", "keep": "first", "slots": 4, "tau": 0.7, "write_gate": True, "query": "current"},
]
"""Settings of retrieval memories; two of them with each backbone, all with one."""

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "transformer": [
        {},
        {"feed_forward": "swiglu"},
        {"feed_forward": "swiglu_matched"},
        {"window": 5},
        {"positions": "none"},
    ],
    "transformer_retrieval": [{"window": 5, **fields} for fields in RETRIEVAL],
    "triple_retrieval": [{"memory": "append"}, *RETRIEVAL[2:4], {"convolution": "two_sided"}],
    "s4d_retrieval": [{**RETRIEVAL[1], "positions": "none"}, RETRIEVAL[7]],
    "mamba_retrieval": [RETRIEVAL[2], RETRIEVAL[6]],
    "gated_delta_retrieval": [RETRIEVAL[3], RETRIEVAL[8]],
    "triple_hybrid": [{"convolution": "two_sided"}],
    "triple_slot_hybrid": [{"convolution": "two_sided"}],
    "triple_memory": [{"convolution": "two_sided"}],
    "unimatrix": [
        {"variant": variant, "depth_state": state}
        for variant in ("core", "rosa", "discovery", "assoc")
        for state in ("reset", "carried")
    ],
    "sparse_pointer": [
        {},
        {"depth_state": "carried"},
        {"slots": 3, "top_k": 2, "merge_above": 0.3, "empty_below": 0.4},
        {"write_gate": False, "pointer_logits": False},
    ],
}
"""Settings that make another model of a name, beside the published ones. Of other names the defaults are tested."""

GROWING = {"transformer", "transformer_plus_triple", "triple_memory"}
"""Models whose state grows with the text; others do in some variants."""


def grows(name: str, fields: dict[str, Any]) -> bool:
    """Whether the state after `LENGTH` tokens is larger than it ever was in the first half of them."""
    if "memory" in fields:
        return fields["memory"] in ("append", "novelty", "learned") and "slots" not in fields
    return (name in GROWING and "window" not in fields) or fields.get("variant") == "assoc"


def cases() -> list[Any]:
    """Name and settings of everything that is registered."""
    found = []
    for name in (name for name, _, mechanism in MECHANISMS if mechanism.reads_ids):
        settings = [fields for fields in PRESETS.values() if fields["name"] == name] + VARIANTS.get(name, [])
        for fields in settings or [{}]:
            told = {key: value for key, value in fields.items() if key != "name"}
            found.append(pytest.param(name, told, id=" ".join([name, *map(str, told.values())])))
    return found


every_model = pytest.mark.parametrize(("name", "fields"), cases())


def model_of(name: str, fields: dict[str, Any], seeds: tuple[int, ...] = (1,)) -> SequenceModel:
    """In evaluation, in float64, and with matrices large enough that nothing hides below rounding."""
    return enliven(build(config(name, **SIZE, **fields), VOCABULARY, LENGTH, seeds)).double().eval()


def random_ids(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, VOCABULARY, shape))


def first_changes(model: SequenceModel, dtype: torch.dtype, tolerance: float) -> list[int]:
    """For each position the first output that changes where all tokens from it on are others."""
    model = model.to(dtype)
    ids = random_ids(1, 1, LENGTH).expand(1, LENGTH, -1)
    others = (ids + 1 + random_ids(1, LENGTH, LENGTH, seed=1) % (VOCABULARY - 1)) % VOCABULARY
    later = torch.arange(LENGTH) >= torch.arange(LENGTH)[:, None]
    with torch.no_grad():
        apart = (model(torch.where(later, others, ids)) - model(ids)).abs().amax(-1)[0]
    return [int((row > tolerance * apart.max()).nonzero()[0]) for row in apart]


@every_model
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-5)], ids=["64", "32"])
def test_outputs_depend_on_no_later_token_unless_the_model_says_so(
    name: str, fields: dict[str, Any], dtype: torch.dtype, tolerance: float
) -> None:
    changes = first_changes(model_of(name, fields), dtype, tolerance)
    assert (changes != list(range(LENGTH))) == config(name, **SIZE, **fields).leaks_future, changes


@every_model
def test_token_by_token_logits_are_those_of_the_whole_sequence(name: str, fields: dict[str, Any]) -> None:
    model, ids = model_of(name, fields, (1, 2)), random_ids(2, 3, LENGTH)
    if config(name, **SIZE, **fields).leaks_future:
        with pytest.raises(ValueError, match="one by one"):
            model.next(ids[:, :, 0], model.start())
        return
    # Gated units are off by up to 3e-5 in float32, whole or token by token: some CPUs round the two otherwise.
    single = 1e-4 if "swiglu" in str(fields.get("feed_forward")) else 1e-5
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, single)):
        model, state = model.to(dtype), model.start()
        with torch.no_grad():
            whole = model(ids)
            parts = torch.stack([model.next(ids[:, :, t], state) for t in range(LENGTH)], 2)
        assert (parts - whole).abs().max() < tolerance * whole.abs().max()


@every_model
def test_states_stay_as_large_as_they_are_unless_the_model_remembers_all_tokens(
    name: str, fields: dict[str, Any]
) -> None:
    described = config(name, **SIZE, **fields)
    if described.leaks_future:
        pytest.skip("cannot read token by token")
    model, sizes = model_of(name, fields), []
    state = model.start()
    with torch.no_grad():
        for t in range(LENGTH):
            model.next(random_ids(1, 1, LENGTH)[:, :, t], state)
            sizes.append(state_bytes(state, 1))
    assert (sizes[-1] > max(sizes[: LENGTH // 2 + 1])) == grows(name, fields), sizes
    assert all(size > 0 for size in sizes)


@every_model
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_models_computed_as_one_are_each_what_it_is_alone(name: str, fields: dict[str, Any], training: bool) -> None:
    seeds, ids = (3, 1, 2), random_ids(3, 2, LENGTH)
    together = model_of(name, fields, seeds).train(training)
    weights = torch.from_numpy(np.random.default_rng(2).standard_normal((3, 2, LENGTH, VOCABULARY)))
    logits = together(ids)
    (logits * weights).sum().backward()
    for lane, seed in enumerate(seeds):
        alone = model_of(name, fields, (seed,)).train(training)
        only = alone(ids[lane, None])
        torch.testing.assert_close(only[0], logits[lane], rtol=1e-9, atol=1e-9)
        (only * weights[lane, None]).sum().backward()
        for (label, one), many in zip(alone.named_parameters(), together.parameters(), strict=True):
            torch.testing.assert_close(one[0], many[lane], rtol=0.0, atol=0.0)
            assert (one.grad is None) == (many.grad is None), label
            if one.grad is not None and many.grad is not None:
                torch.testing.assert_close(one.grad[0], many.grad[lane], rtol=1e-7, atol=1e-8, msg=label)


@every_model
def test_training_drops_what_evaluation_does_not(name: str, fields: dict[str, Any]) -> None:
    model, ids = model_of(name, fields).train(), random_ids(1, 1, LENGTH)
    assert not torch.equal(model(ids), model(ids))
    model.eval()
    assert torch.equal(model(ids), model(ids))


@every_model
def test_positions_asked_for_alone_have_the_same_logits_and_gradients(name: str, fields: dict[str, Any]) -> None:
    ids, at = random_ids(2, 2, LENGTH), torch.tensor([0, 1, 7, LENGTH - 1])
    weights = torch.from_numpy(np.random.default_rng(3).standard_normal((2, 2, len(at), VOCABULARY)))
    whole, part = model_of(name, fields, (1, 2)), model_of(name, fields, (1, 2))
    all_logits, some = whole(ids)[:, :, at], part(ids, at)
    torch.testing.assert_close(some, all_logits, rtol=1e-9, atol=1e-9)
    (all_logits * weights).sum().backward()
    (some * weights).sum().backward()
    for (label, one), other in zip(whole.named_parameters(), part.parameters(), strict=True):
        found, expected = (torch.zeros(1) if p.grad is None else p.grad for p in (other, one))
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-8, msg=label)


def fingerprints() -> dict[str, str]:
    """Of every case, a hash of the parameters that it starts from."""
    found = {}
    for case in cases():
        name, fields = case.values
        digest = hashlib.sha256()
        for label, parameter in build(config(name, **SIZE, **fields), VOCABULARY, LENGTH, (5, 6)).named_parameters():
            digest.update(label.encode() + parameter.detach().numpy().tobytes())
        found[str(case.id)] = digest.hexdigest()
    return found


def test_every_process_starts_from_the_same_parameters() -> None:
    code = (
        "import json, torch; torch.manual_seed(99); "
        "from tests.models.sequence.test_sequence_contract import fingerprints; print(json.dumps(fingerprints()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == fingerprints()
