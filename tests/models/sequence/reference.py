"""Triple-latent models as arXiv 2606.05175 tells them: float64, one sequence, one token after another.

Nothing here is shared with what it checks, but the names of parameters.
"""

from __future__ import annotations

from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from models.sequence.config import SequenceConfig

Array = NDArray[np.float64]
Weights = dict[str, Array]
"""Parameters of one lane by their names in the model."""


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def softmax(x: Array) -> Array:
    weights = np.exp(x - x.max())
    return weights / weights.sum()


def gelu(x: Array) -> Array:
    return np.array([0.5 * one * (1.0 + erf(one / sqrt(2.0))) for one in x])


def layer_norm(x: Array, w: Weights, name: str) -> Array:
    centred = x - x.mean()
    return centred / np.sqrt((centred**2).mean() + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]


def linear(x: Array, w: Weights, name: str) -> Array:
    return w[f"{name}.weight"] @ x + w.get(f"{name}.bias", 0.0)


def convolve(stream: list[Array], w: Weights, sides: str) -> list[Array]:
    """Each token plus a mixture of itself and neighbours: the four before it, or two on either side."""
    offsets = range(-4, 1) if sides == "causal" else range(-2, 3)
    nothing = np.zeros_like(stream[0])
    mixed = []
    for t, x in enumerate(stream):
        near = [stream[t + o] if 0 <= t + o < len(stream) else nothing for o in offsets]
        mixed.append(x + gelu(linear(np.concatenate(near), w, "convolution.mix")))
    return mixed


class Head:
    """State and pair memory of one head, dense or of slots."""

    def __init__(self, size: int, slots: int | None) -> None:
        self.s = np.zeros(size)
        self.pairs = np.zeros((size, size))
        self.left, self.right = np.zeros((2, slots or 0, size))

    def read(self, a: Array, b: Array, q: Array, r: Array, keep: float, pair_keep: float, share: Array | None) -> Array:
        """What is read at a token, which is taken in; share [M]: how much of it each slot takes, None without slots."""
        before, self.s = self.s, keep * self.s + (1 - keep) * a
        if share is None:
            self.pairs = pair_keep * self.pairs + (1 - pair_keep) * np.outer(before, b)
            return (self.pairs.T @ q) * r
        self.left = pair_keep * self.left + (1 - pair_keep) * np.outer(share, before)
        self.right = pair_keep * self.right + (1 - pair_keep) * np.outer(share, b)
        return (self.left @ q) * (self.right @ r)


def layer_parts(
    config: SequenceConfig, w: Weights, layer: str, stream: list[Array], sources: list[Array] | None = None
) -> tuple[list[Array], list[Array]]:
    """Normalised inputs of a layer and what its heads mix, token by token; sources: what states are made of instead."""
    slots = getattr(config, "slots", None)
    heads = [Head(config.state, slots) for _ in range(config.heads)]
    inputs, mixed = [], []
    for t, x in enumerate(stream):
        u = layer_norm(x, w, f"{layer}.norm")
        projected = linear(u, w, f"{layer}.project").reshape(4, config.heads, config.state)
        if sources is not None:
            projected[0] = linear(sources[t], w, f"{layer}.project").reshape(projected.shape)[0]
        factors = np.tanh(projected)
        gates = sigmoid(linear(u, w, f"{layer}.gates")).reshape(2, config.heads)
        shares = linear(u, w, f"{layer}.choose").reshape(config.heads, slots) if slots else None
        reads = [
            head.read(*factors[:, h], gates[0, h], gates[1, h], None if shares is None else softmax(shares[h]))
            for h, head in enumerate(heads)
        ]
        inputs.append(u)
        mixed.append(linear(np.concatenate(reads), w, f"{layer}.out"))
    return inputs, mixed


def fed(y: Array, w: Weights, layer: str) -> Array:
    """`y` and what the feed-forward part makes of it."""
    inner = gelu(linear(layer_norm(y, w, f"{layer}.feed_norm"), w, f"{layer}.feed.rise"))
    return y + linear(inner, w, f"{layer}.feed.fall")


def recall(config: SequenceConfig, w: Weights, memory: str, text: list[Array], basis: Array, t: int) -> Array:
    """What token t reads of entries 0 .. t - 2, entry i being (W_k e_i, W_v e_{i+1})."""
    read = np.zeros(config.width)
    q = linear(basis, w, f"{memory}.query")
    scores, values = [], []
    for i in range(t - 1):
        k, v = linear(text[i], w, f"{memory}.key"), linear(text[i + 1], w, f"{memory}.value")
        score = q @ k / (np.linalg.norm(q) * np.linalg.norm(k)) / sqrt(config.memory_width)
        if config.write_gate:
            strength = sigmoid(linear(np.concatenate([text[i], text[i + 1]]), w, f"{memory}.write_gate"))[0]
            score, v = score + np.log(max(strength, 1e-4)), strength * v
        scores.append(score)
        values.append(v)
    if scores:
        kept = sorted(range(len(scores)), key=lambda i: (-scores[i], -i))[: config.top_k]
        weights = softmax(8.0 * np.array([scores[i] for i in kept]))
        read = sum(weight * values[i] for weight, i in zip(weights, kept, strict=True))
    return sigmoid(linear(basis, w, f"{memory}.read_gate")) * read if config.read_gate else read


def logits(config: SequenceConfig, w: Weights, ids: list[int]) -> Array:
    """Logits [T, V] at every token of `ids`."""
    text = [w["tokens.weight"][i] for i in ids]
    stream = [e + w["places.weight"][t] for t, e in enumerate(text)]
    if hasattr(config, "convolution"):
        stream = convolve(stream, w, config.convolution)
    read = [np.zeros(config.width) for _ in ids]
    with_memory = hasattr(config, "fusion")
    active = 0
    for number in range(config.layers):
        layer = f"blocks.{number}"
        reads_memory = with_memory and (config.memory_layers == "all" or number == config.layers - 1)
        active += reads_memory
        inputs, mixed = layer_parts(config, w, layer, stream)
        for t, x in enumerate(stream):
            y = x + mixed[t]
            if reads_memory:
                before = text[t - 1] if t else np.zeros(config.width)
                basis = {"parallel": inputs[t], "serial": y, "previous": before}[config.query]
                m = recall(config, w, f"{layer}.memory", text, basis, t)
                if config.fusion == "logits":
                    read[t] = read[t] + m
                elif config.fusion == "sum":
                    y = y + m
                else:
                    y = x + linear(np.concatenate([mixed[t], m]), w, f"{layer}.memory.join")
            stream[t] = fed(y, w, layer)
    out = [w["tokens.weight"] @ layer_norm(h, w, "norm") for h in stream]
    if with_memory and config.fusion == "logits":
        out = [o + w["tokens.weight"] @ layer_norm(m / active, w, "read_norm") for o, m in zip(out, read, strict=True)]
    return np.array(out)
