"""Language modelling: windows of a stream of ids to train on, consecutive ones of a held-out stream to evaluate."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, TypeVar

import numpy as np
from pydantic import Field

from models.stream import Floats, Ints
from tasks.corpora import CorpusError
from tasks.seeds import generator
from tasks.sequences import EVALUATED_AT_ONCE, Reader, SequenceWorkload, TokenBatch, score
from tasks.text.streams import TokenStreams
from tasks.text.vocabulary import Vocabulary
from tasks.workload import WorkloadConfig

LANGUAGE_METRICS = ("loss", "perplexity", "bits_per_byte", "unigram_bits", "windows")
"""What language modelling measures, over all ids that are evaluated.

loss           nats a token
perplexity     exp(loss)
bits_per_byte  the loss over the bytes of text that the tokens stand for
unigram_bits   the same of a model that knows how common each id is in training, and nothing else
windows        that were evaluated: fewer than asked for where the held-out text is shorter
"""

Length = Annotated[int, Field(ge=1, le=65536, description="ids of a window T, every one of which is predicted from")]

COUNTED_AT_ONCE = 1 << 24


class LanguageConfig(WorkloadConfig):
    """Options of language modelling: the length of a window."""

    length: Length = 128


L = TypeVar("L", bound=LanguageConfig)


class LanguageWorkload(SequenceWorkload[L]):
    """Windows of T + 1 ids, of which T are read and T predicted.

    To train they begin anywhere, drawn uniformly with replacement; to evaluate they follow each other from the start of
    what is held out, each where the last ended.
    """

    default_episodes = 2048
    own_metrics = LANGUAGE_METRICS

    def __init__(self, config: L) -> None:
        super().__init__(config)
        self._vocabulary, self.streams = self.read()
        for name, ids, least in (
            ("training", self.streams.training, config.length + 2),
            ("held-out", self.streams.held_out, config.length + 1),
        ):
            if len(ids) < least:
                shorter = ["a smaller `length`"] if len(ids) > least - config.length else []
                raise CorpusError(
                    f"the {name} part of {self.source} has {len(ids)} ids, and `length: {config.length}` needs {least} "
                    f"or more: take {' or '.join([*shorter, *self.more(held_out=name == 'held-out')])}"
                )

    @property
    @abstractmethod
    def source(self) -> str:
        """Where the text is from, for messages."""

    def more(self, *, held_out: bool) -> list[str]:
        """What gives more to train on, or more that is held out, in words."""
        return ["more text"]

    @abstractmethod
    def read(self) -> tuple[Vocabulary, TokenStreams]:
        """The text that the config names. Raises CorpusError."""

    @property
    def vocabulary(self) -> int:
        return self._vocabulary.size

    @property
    def length(self) -> int:
        return self.config.length

    def training(self, seed: int, sizes: Iterable[tuple[int, int]]) -> Iterator[TokenBatch]:
        return training_windows(self.streams.training, seed, sizes)

    def evaluation(self, seed: int, episodes: int) -> Iterator[TokenBatch]:
        held_out, length = self.streams.held_out, self.length
        starts = np.arange(min(episodes, (len(held_out) - 1) // length)) * length
        for first in range(0, len(starts), EVALUATED_AT_ONCE):
            yield _windows(held_out, starts[first : first + EVALUATED_AT_ONCE], length)

    def evaluate(self, reader: Reader, seed: int, episodes: int) -> dict[str, float]:
        scored = score(reader, self.evaluation(seed, episodes))
        targets, nats = scored.targets, float(scored.losses.sum(dtype=np.float64))
        text_bytes = int(self._vocabulary.lengths[targets].sum())
        return {
            "loss": scored.loss,
            "perplexity": math.exp(scored.loss) if scored.loss < math.log(np.finfo(np.float64).max) else math.inf,
            "bits_per_byte": nats / math.log(2) / text_bytes,
            "unigram_bits": float(self._unigram_bits[targets].sum() / text_bytes),
            "windows": float(len(targets) // self.length),
        }

    @cached_property
    def _unigram_bits(self) -> Floats:
        """-log2 of the share of each id [V] in training, each counted once more than it is there."""
        counts = np.ones(self.vocabulary)
        for first in range(0, len(self.streams.training), COUNTED_AT_ONCE):
            part = self.streams.training[first : first + COUNTED_AT_ONCE]
            counts += np.bincount(part, minlength=self.vocabulary)
        bits: Floats = np.log2(counts.sum()) - np.log2(counts)
        return bits

    @classmethod
    def tokens(cls, config: L) -> int:
        return config.length


def training_windows(ids: np.ndarray, seed: int, sizes: Iterable[tuple[int, int]]) -> Iterator[TokenBatch]:
    """For each (sequences B, their length T), windows of `ids` [N] that start uniformly in [0, N - T - 1)."""
    draws = generator(seed, "training")
    for count, length in sizes:
        yield _windows(ids, draws.integers(0, len(ids) - length - 1, size=count), length)


def _windows(ids: np.ndarray, starts: Ints, length: int) -> TokenBatch:
    """Windows of `ids` from each of `starts` [B] on."""
    windows = ids[starts[:, None] + np.arange(length + 1)].astype(np.int64)
    return TokenBatch(windows[:, :-1], windows[:, 1:])
