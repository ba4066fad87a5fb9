"""Trained sequence models as mechanisms: they read tokens into a memory, and answer queries from it alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from models.layers import per_seed
from models.mechanism import Trace, Usage, scored
from models.reference import unit_keys
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream, unit
from models.trained import Fitted, Init, Parameters, Streams, TrainedMechanism
from models.training import Draws, Examples, Tensors, TrainingConfig, float64, learn

if TYPE_CHECKING:
    from torch import Tensor

N = TypeVar("N", bound=TrainingConfig)

STATE_BYTES = 4


class Network(TrainedMechanism[N]):
    """Subclasses say how tokens become a memory, `remember`, and how queries are answered from it, `recall`.

    Both work on S seeds and B streams at once, on the device where their tensors are: torch's default device. The size
    in bytes is that of the parameters and of the memory's tensors, 4 bytes a number.
    """

    @classmethod
    @abstractmethod
    def start_parameters(cls, config: N, rng: np.random.Generator, stream: Stream) -> Parameters:
        """What training starts from."""

    @classmethod
    @abstractmethod
    def remember(cls, config: N, parameters: Tensors, keys: Tensor, values: Tensor) -> Tensors:
        """Memory [S, B, ...] after tokens with `keys` [S, B, L, d] and `values` [S, B, L, classes], one-hot."""

    @classmethod
    @abstractmethod
    def recall(cls, config: N, parameters: Tensors, memory: Tensors, queries: Tensor) -> Tensor:
        """Class scores [S, B, Q, classes], as logits, of `queries` [S, B, Q, d]."""

    @classmethod
    @abstractmethod
    def plain_scores(
        cls, config: N, parameters: dict[str, Floats], keys: Floats, values: Floats, queries: Floats
    ) -> Floats:
        """The same for one stream in float64, [Q, classes], token by token, for reading and for tests."""

    @abstractmethod
    def slots(self) -> int:
        """Slots in use at the end of the phase."""

    @abstractmethod
    def slots_over_time(self) -> Ints:
        """Slots in use after each token that has been read [L], before the end of the phase drops any."""

    # --- training ---

    @classmethod
    def fit(cls, config: N, seeds: Sequence[int], streams: Streams, init: Init) -> list[Fitted]:
        return learn(config, seeds, streams, init, partial(cls.start_parameters, config), partial(cls.loss, config))

    @classmethod
    def loss(cls, config: N, parameters: Tensors, examples: Examples, draws: Draws) -> Tensors:
        """Cross-entropy of the right class, over all queries."""
        memory = cls.remember(config, parameters, examples.keys, one_hot(examples))
        return recall_loss(cls.recall(config, parameters, memory, examples.queries), examples)

    # --- reading ---

    def use(self, fitted: Fitted) -> None:
        import torch

        super().use(fitted)
        self.tensors = {name: torch.tensor(array)[None] for name, array in fitted.parameters.items()}

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        self.stream = stream
        self.memory: Tensors = {}
        self.length = 0

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        self.length = stop

    def settle(self, similarities: Similarities, stop: int) -> None:
        import torch

        values = np.eye(self.stream.classes, dtype=np.float32)[self.stream.values[:stop]]
        with torch.no_grad():
            keys = _as_batch(similarities.keys[:stop])
            self.memory = self.remember_for_good(keys, torch.tensor(values)[None, None])

    def remember_for_good(self, keys: Tensor, values: Tensor) -> Tensors:
        """`remember` after training, where what training only plays down is left out."""
        return self.remember(self.config, self.tensors, keys, values)

    def scores(self, queries: Floats) -> Floats:
        """Class scores [Q, classes] of unit `queries`, now."""
        import torch

        with torch.no_grad():
            scores = self.recall(self.config, self.tensors, self.memory, _as_batch(queries))[0, 0]
        return scores.cpu().numpy().astype(np.float64)

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        return scored(self.scores(block.queries).argmax(axis=1)[None], block, phase)

    def counts(self) -> Ints:
        return np.array([self.slots()])

    def usage(self) -> Usage:
        slots = self.slots_over_time()
        return Usage(slots.sum(keepdims=True), slots.max(keepdims=True))

    def slotted(self) -> Sequence[str]:
        """Names of the memory's tensors that have a row for each slot; the others are there whatever the slots."""
        return tuple(self.memory)

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, int]:
        """A row of each slotted tensor."""
        numbers = sum(self.memory[name].numel() for name in self.slotted())
        return STATE_BYTES * numbers // max(1, int(self.counts()[0])), 0

    def bytes_fixed(self) -> int:
        """The parameters, and what of the memory does not grow."""
        fixed = sum(tensor.numel() for name, tensor in self.memory.items() if name not in self.slotted())
        return super().bytes_fixed() + STATE_BYTES * fixed

    @classmethod
    def reference(
        cls, stream: Stream, config: N, rng: np.random.Generator, dtype: str = "float32", fitted: Fitted | None = None
    ) -> Trace:
        """Class scores of each phase's queries."""
        if fitted is None:
            raise ValueError(f"the reference of `{config.name}` needs what it has learned")
        keys, values = unit_keys(stream, dtype), np.eye(stream.classes)[stream.values]
        trace = Trace()
        for phase in stream.phases:
            tokens = (keys[: phase.end], values[: phase.end])
            trace.scores.append(cls.plain_scores(config, float64(fitted.parameters), *tokens, unit(phase.queries)))
        return trace


def one_hot(examples: Examples) -> Tensor:
    """Values [S, B, L, classes] as a network reads them."""
    import torch

    return torch.nn.functional.one_hot(examples.values, examples.classes).to(examples.keys.dtype)


def recall_loss(scores: Tensor, examples: Examples) -> Tensors:
    """Cross-entropy and recall [S] of class scores [S, B, Q, classes]."""
    import torch

    losses = torch.nn.functional.cross_entropy(scores.flatten(0, 2), examples.answers.flatten(), reduction="none")
    right = (scores.detach().argmax(3) == examples.answers).to(scores.dtype)
    return {"loss": per_seed(losses.view(len(scores), -1)), "recall": per_seed(right)}


def _as_batch(vectors: Floats) -> Tensor:
    """Vectors [n, d] of one stream, as [1, 1, n, d] in 32 bits."""
    import torch

    return torch.tensor(vectors.astype(np.float32))[None, None]
