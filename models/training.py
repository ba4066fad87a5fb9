"""Gradient descent for many seeds at once: every tensor has the seeds as its first dimension.

On a CPU the same code takes the seeds one after another. Batching them gains nothing there, and the sums of a batch
are rounded in another order: one by one, a seed gets the same bits whichever others are trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from pydantic import Field

from models.config import MechanismConfig
from models.stream import Floats, Stream, unit
from models.trained import Array, Fitted, Init, Parameters, Streams, count_parameters

if TYPE_CHECKING:
    from torch import Tensor

Tensors = dict[str, "Tensor"]

POINTS = 100
"""Most points of a training curve."""

MOST_STEPS = 1_000_000

MOST_TOKENS = 4096
"""Longest stream that is trained on: attention and novelty compare each token with all others."""

CLIP = 1.0
"""Largest norm of a step's gradient, over all parameters of a seed; longer ones are scaled down to it."""


class TrainingConfig(MechanismConfig):
    """Options of everything that learns: Adam (arXiv 1412.6980), its rate falling to 0 along a half cosine."""

    steps: int = Field(200, ge=0, le=MOST_STEPS, description="steps of gradient descent")
    learning_rate: float = Field(0.01, gt=0.0, le=10.0, description="Adam's rate at the first step")
    streams: int = Field(8, ge=1, le=4096, description="streams read at each step, new ones every time")


@dataclass(frozen=True)
class Examples:
    """Streams of S seeds, B a seed, as tensors: L tokens up to the last phase's end, and that phase's Q queries.

    keys [S, B, L, d] and queries [S, B, Q, d] of length 1, in 32 bits; values [S, B, L] and answers [S, B, Q] classes
    items [S, B, L]: identities, for measures alone
    """

    keys: Tensor
    values: Tensor
    items: Tensor
    queries: Tensor
    answers: Tensor
    classes: int


def read_examples(seeds: Sequence[int], streams: Streams, first: int, count: int) -> Examples:
    """Training streams first..first+count-1 of each seed. Raises ValueError where their shapes differ."""
    import torch

    drawn = [[streams(seed, number) for number in range(first, first + count)] for seed in seeds]
    parts = [[_arrays(stream) for stream in row] for row in drawn]
    shapes = {tuple(array.shape for array in arrays) for rows in parts for arrays in rows}
    if len(shapes) > 1:
        raise ValueError("training needs streams of equal length with equally many queries; this workload's differ")
    columns = [np.stack([np.stack([arrays[n] for arrays in rows]) for rows in parts]) for n in range(5)]
    keys, values, items, queries, answers = (torch.tensor(column) for column in columns)
    return Examples(keys, values, items, queries, answers, drawn[0][0].classes)


def _arrays(stream: Stream) -> list[np.ndarray]:
    phase = stream.phases[-1]
    if phase.end > MOST_TOKENS:
        raise ValueError(f"a stream of {phase.end} tokens is too long to train on: at most {MOST_TOKENS}")
    keys, queries = (unit(vectors).astype(np.float32) for vectors in (stream.keys[: phase.end], phase.queries))
    return [keys, stream.values[: phase.end], stream.items[: phase.end], queries, phase.answers]


class Loss(Protocol):
    """Loss of each seed at a step."""

    def __call__(self, parameters: Tensors, examples: Examples, draws: Draws) -> Tensors:
        """`loss` [S], which is minimised, and by name whatever else [S] the curves should show."""


class Draws:
    """The generators of some seeds, drawn from in step."""

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self.generators = generators

    def logistic(self, *shape: int) -> Tensor:
        """Logistic noise [S, *shape]."""
        import torch

        return torch.tensor(np.stack([rng.logistic(size=shape).astype(np.float32) for rng in self.generators]))


def learn(
    config: TrainingConfig,
    seeds: Sequence[int],
    streams: Streams,
    init: Init,
    start: Callable[[np.random.Generator, Stream], Parameters],
    loss: Loss,
) -> list[Fitted]:
    """What each seed has learned after `config.steps` steps from the parameters that `start` draws.

    `start` is handed the seed's first stream for its width and classes. A seed whose numbers stop being finite spoils
    no other seed.
    """
    return [
        fitted
        for together in _together(seeds)
        for fitted in learn_together(config, together, streams, init, start, loss)
    ]


def _together(seeds: Sequence[int]) -> Iterator[Sequence[int]]:
    """Seeds that are trained in one batch."""
    import torch

    if torch.get_default_device().type == "cpu":
        yield from ([seed] for seed in seeds)
    else:
        yield seeds


def learn_together(
    config: TrainingConfig,
    seeds: Sequence[int],
    streams: Streams,
    init: Init,
    start: Callable[[np.random.Generator, Stream], Parameters],
    loss: Loss,
) -> list[Fitted]:
    """`learn`, with all seeds in one batch."""
    import torch

    draws = Draws([init(seed) for seed in seeds])
    first = streams(seeds[0], 0)
    drawn = [start(rng, first) for rng in draws.generators]
    parameters = {
        name: torch.tensor(np.stack([one[name] for one in drawn])).requires_grad_() for name in sorted(drawn[0])
    }
    adam = torch.optim.Adam(parameters.values(), lr=config.learning_rate)
    curves: list[dict[str, Array]] = []
    noted = _noted(config.steps)
    for step in range(config.steps):
        adam.param_groups[0]["lr"] = config.learning_rate * 0.5 * (1.0 + np.cos(np.pi * step / config.steps))
        examples = read_examples(seeds, streams, step * config.streams, config.streams)
        values = loss(parameters, examples, draws)
        adam.zero_grad()
        torch.autograd.backward(values["loss"].sum())
        _clip(list(parameters.values()))
        adam.step()
        if step in noted:
            curves.append({name: value.detach().cpu().numpy() for name, value in values.items()})
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in parameters.items()}
    return [_fitted({name: array[s].copy() for name, array in arrays.items()}, curves, s) for s in range(len(seeds))]


def _noted(steps: int) -> set[int]:
    """Steps that the curves show: the first, the last, and others evenly between them."""
    return {int(step) for step in np.linspace(0, max(steps - 1, 0), POINTS).round()}


def _clip(parameters: Sequence[Tensor]) -> None:
    """Shorten each seed's gradient to `CLIP`."""
    import torch

    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    squares = torch.stack([gradient.reshape(len(gradient), -1).square().sum(1) for gradient in gradients])
    factor = (CLIP / squares.sum(0).sqrt().clamp(min=1e-12)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.view(-1, *[1] * (gradient.dim() - 1)))


def _fitted(parameters: Parameters, curves: Sequence[dict[str, Array]], seed: int) -> Fitted:
    names = curves[0] if curves else {}
    series = {f"training_{name}": [float(point[name][seed]) for point in curves] for name in names}
    metrics = {"parameters": float(count_parameters(parameters))}
    if curves:
        metrics["training_loss"] = series["training_loss"][-1]
    return Fitted(parameters, metrics, series)


def float64(parameters: Parameters) -> dict[str, Floats]:
    """Parameters for arithmetic in 64 bits."""
    return {name: array.astype(np.float64) for name, array in parameters.items()}
