"""S4D, Mamba-2 and Gated DeltaNet against their equations, token by token in plain numpy, and on a toy task."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from models.mechanism import MECHANISMS
from models.sequence.lanes import Lanes
from models.sequence.model import SequenceModel, parameters_per_lane, state_bytes

VOCABULARY, LENGTH = 11, 90
SMALL: dict[str, dict[str, Any]] = {
    "s4d_model": {"state": 6},
    "mamba_model": {"state": 5, "heads": 2},
    "gated_delta_model": {"state": 3, "heads": 2},
}
Arrays = dict[str, np.ndarray]


def make(name: str, seeds: int = 1, length: int = LENGTH, **options: Any) -> SequenceModel:
    """A model in float64 and evaluation mode, its parameters moved away from where they start."""
    config = MECHANISMS.config_class(name)(**{"width": 8, "layers": 2, "dropout": 0.0, **SMALL[name], **options})
    model = MECHANISMS.implementation(name).build(config, Lanes([(n, n) for n in range(seeds)]), VOCABULARY, length)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model.double().eval()


def drawn(*shape: int) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, shape, generator=torch.Generator().manual_seed(2))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def silu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(x)


def gelu(x: np.ndarray) -> np.ndarray:
    return x * np.vectorize(lambda z: 0.5 * (1 + math.erf(z / 2**0.5)))(x)


def norm(p: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    x = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    return x * p[f"{name}.weight"] + p[f"{name}.bias"]


def rms(p: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * p[f"{name}.weight"]


def convolved(p: Arrays, name: str, fed: list[np.ndarray]) -> np.ndarray:
    """The last of `fed` with the three before it."""
    taps = p[f"{name}.weight"]
    recent = [np.zeros_like(fed[0])] * 3 + fed
    return silu(sum(taps[i] * recent[len(fed) - 1 + i] for i in range(4)) + p[f"{name}.bias"])


def s4d(p: Arrays, b: str, config: Any, us: list[np.ndarray]) -> list[np.ndarray]:
    pole = -np.exp(p[b + "rate_log"]) + 1j * p[b + "frequency"]
    kept = np.exp(np.exp(p[b + "step_log"]) * pole)
    read = (p[b + "read"][0] + 1j * p[b + "read"][1]) * (kept - 1) / pole
    x, out = np.zeros_like(pole), []
    for u in us:
        x = kept * x + u[:, None]
        y = 2 * (read * x).sum(1).real + p[b + "skip"] * u
        out.append(p[b + "out.weight"] @ gelu(y) + p[b + "out.bias"])
    return out


def mamba(p: Arrays, b: str, config: Any, us: list[np.ndarray]) -> list[np.ndarray]:
    inner, n, heads = config.expand * config.width, config.state, config.heads
    fed, out = [], []
    memory = np.zeros((heads, n, inner // heads))
    for u in us:
        z, xbc, step = np.split(p[b + "project.weight"] @ u, [inner, 2 * inner + 2 * n])
        fed.append(xbc)
        x, write, query = np.split(convolved(p, b + "convolution", fed), [inner, inner + n])
        x, y = x.reshape(heads, -1), np.zeros((heads, inner // heads))
        for h in range(heads):
            delta = np.log1p(np.exp(step[h] + p[b + "step_bias"][h]))
            memory[h] = np.exp(-delta * np.exp(p[b + "rate_log"][h])) * memory[h] + delta * np.outer(write, x[h])
            y[h] = memory[h].T @ query + p[b + "skip"][h] * x[h]
        out.append(p[b + "out.weight"] @ rms(p, b + "out_norm", y.ravel() * silu(z)))
    return out


def gated_delta(p: Arrays, b: str, config: Any, us: list[np.ndarray]) -> list[np.ndarray]:
    heads, k = config.heads, config.state
    v = config.expand * k
    fed, out = [], []
    memory = np.zeros((heads, k, v))
    for u in us:
        cuts = np.cumsum([heads * v, heads * (2 * k + v), heads])
        gate, qkv, beta, step = np.split(p[b + "project.weight"] @ u, cuts)
        fed.append(qkv)
        parts = np.split(convolved(p, b + "convolution", fed), [heads * k, 2 * heads * k])
        query, key, value = (part.reshape(heads, -1) for part in parts)
        y = np.zeros((heads, v))
        for h in range(heads):
            a = np.exp(-np.exp(p[b + "rate_log"][h]) * np.log1p(np.exp(step[h] + p[b + "step_bias"][h])))
            unit, strength = key[h] / np.linalg.norm(key[h]), sigmoid(beta[h])
            erased = (np.eye(k) - strength * np.outer(unit, unit)) @ memory[h]
            memory[h] = a * erased + strength * np.outer(unit, value[h])
            y[h] = memory[h].T @ query[h] / np.linalg.norm(query[h])
        out.append(p[b + "out.weight"] @ (rms(p, b + "out_norm", y).ravel() * silu(gate)))
    return out


MIXERS = {"s4d_model": s4d, "mamba_model": mamba, "gated_delta_model": gated_delta}


def plain(name: str, model: SequenceModel, config: Any, ids: list[int]) -> np.ndarray:
    """Logits [T, V] of one sequence."""
    p = {key: tensor[0].detach().numpy() for key, tensor in model.named_parameters()}
    xs = [p["tokens.weight"][token] + p["places.weight"][place] for place, token in enumerate(ids)]
    for layer in range(config.layers):
        b = f"blocks.{layer}."
        mixed = MIXERS[name](p, b, config, [norm(p, b + "norm", x) for x in xs])
        xs = [x + m for x, m in zip(xs, mixed, strict=True)]
        for t, x in enumerate(xs):
            hidden = gelu(p[b + "feed.rise.weight"] @ norm(p, b + "feed_norm", x) + p[b + "feed.rise.bias"])
            xs[t] = x + p[b + "feed.fall.weight"] @ hidden + p[b + "feed.fall.bias"]
    return np.stack([p["tokens.weight"] @ norm(p, "norm", x) for x in xs])


@pytest.mark.parametrize("name", sorted(SMALL))
@pytest.mark.parametrize("length", [1, 70])
def test_a_model_is_what_its_equations_say(name: str, length: int) -> None:
    model = make(name)
    config = MECHANISMS.config_class(name)(**{"width": 8, "layers": 2, **SMALL[name]})
    ids = drawn(1, 2, length)
    with torch.no_grad():
        got = model(ids)
    for one, sequence in zip(got[0], ids[0], strict=True):
        np.testing.assert_allclose(one.numpy(), plain(name, model, config, sequence.tolist()), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_reading_token_by_token_gives_the_same_in_constant_space(name: str) -> None:
    model, ids = make(name, seeds=3), drawn(3, 2, 70)
    state, sizes = model.start(), set()
    with torch.no_grad():
        whole = model(ids)
        for t in range(70):
            torch.testing.assert_close(model.next(ids[:, :, t], state), whole[:, :, t], rtol=0, atol=1e-10)
            sizes.add(state_bytes(state, 3))
    assert len(sizes) == 1
    assert sizes.pop() > 0


@pytest.mark.parametrize("name", sorted(SMALL))
def test_no_output_depends_on_later_tokens(name: str) -> None:
    model, ids = make(name), drawn(1, 1, 24)
    with torch.no_grad():
        whole = model(ids)
        for t in range(24):
            other = ids.clone()
            other[0, 0, t] = (ids[0, 0, t] + 1) % VOCABULARY
            change = (model(other) - whole)[0, 0].abs().amax(1)
            assert change[:t].max() < 1e-12 if t else True
            assert change[t] > 1e-6


@pytest.mark.parametrize("name", sorted(SMALL))
def test_only_wanted_positions_are_read(name: str) -> None:
    model, ids, at = make(name, seeds=2), drawn(2, 3, 33), torch.tensor([0, 7, 32])
    torch.testing.assert_close(model(ids, at), model(ids)[:, :, at], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "count"),
    # base (64 + 128) 64 + 2 64; layers of a feed-forward part and norms, 8 64² + 9 64, and of
    [
        ("s4d_model", 12_416 + 3 * (33_344 + 64 * 2 + 64 * 32 * 4 + 64 * 65)),  # Δ, D; A, C; mixing
        ("mamba_model", 12_416 + 3 * (33_344 + 64 * 388 + 5 * 256 + 3 * 4 + 128 + 128 * 64)),  # in; taps; heads; out
        ("gated_delta_model", 12_416 + 3 * (33_344 + 64 * 392 + 5 * 256 + 2 * 4 + 32 + 128 * 64)),
    ],
)
def test_a_model_learns_this_many_numbers(name: str, count: int) -> None:
    config = MECHANISMS.config_class(name)()
    model = MECHANISMS.implementation(name).build(config, Lanes([(0, 0)]), 64, 128)
    assert parameters_per_lane(model) == count


@pytest.mark.parametrize("name", sorted(SMALL))
def test_training_teaches_to_repeat_what_was_three_tokens_ago(name: str) -> None:
    model = make(name, seeds=2, length=24, width=16, state=16).float().train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(60):
        ids = torch.randint(0, VOCABULARY, (2, 16, 24), generator=torch.Generator().manual_seed(step))
        logits = model(ids)[:, :, 3:].flatten(0, 2)
        loss = torch.nn.functional.cross_entropy(logits, ids[:, :, :-3].flatten())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0], losses[::10]


def test_a_state_of_whole_pairs_and_whole_heads() -> None:
    with pytest.raises(ValueError, match="multiple of 2"):
        MECHANISMS.config_class("s4d_model")(state=5)
    with pytest.raises(ValueError, match="no multiple of `heads` 3"):
        MECHANISMS.config_class("mamba_model")(heads=3)
