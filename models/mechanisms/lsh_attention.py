"""LSH attention: a query reads the tokens that random rotations put into its buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from models.config import SlotConfig
from models.mechanism import Trace, mechanism
from models.reference import unit_keys
from models.selective_memory import SelectiveMemory, first_largest, keep_and_ask, reference_first, reference_shares
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream, unit

NUMBER_BYTES = 4
"""A rotation's number and a token's place in a bucket take 32 bits each."""

MOST_BUCKETS = 1 << 18
"""Buckets of all rounds: their rotations take 64 MiB for keys of width 64."""


class LSHAttentionConfig(SlotConfig):
    """Attention within buckets of locality-sensitive hashing (Reformer, arXiv 2001.04451, Sec. 2).

    Kept: unit keys, buckets argmax([xR; -xR]) of random rotations R, several rounds whose buckets are joined, a token
    of two rounds read once. Left out: sorting into chunks of equal length, which bounds what a query reads and lets it
    see a bucket next to its own; and that a token sees itself alone if nothing else, as a query is no token here.
    """

    name: Literal["lsh_attention"] = "lsh_attention"
    buckets: int = Field(16, ge=2, le=1 << 14, multiple_of=2, description="buckets of a round, an even number")
    hashes: int = Field(8, ge=1, le=1000, description="rounds, each with a rotation of its own")

    @model_validator(mode="after")
    def _rotations_fit(self) -> LSHAttentionConfig:
        if self.buckets * self.hashes > MOST_BUCKETS:
            raise ValueError(
                f"{self.hashes:,} rounds of {self.buckets:,} buckets are more than {MOST_BUCKETS:,} buckets: their "
                "rotations fill the memory; set `buckets` or `hashes` lower"
            )
        return self


@mechanism(LSHAttentionConfig)
class LSHAttention(SelectiveMemory[LSHAttentionConfig]):
    """Write O(h b d), read O(h b d) and O(d) for each token found, by h rounds of b buckets.

    Size grows with the stream: all tokens, and each one's place in a bucket of every round. Where two buckets tie, the
    first is taken. A query whose buckets are all empty abstains.
    """

    seed_free: ClassVar[bool] = False

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.rotations = rotations(self.config, stream.dim, rng)
        self.codes = np.zeros((self.config.hashes, len(stream)), dtype=np.int64)

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        super().write(similarities, start, stop)
        self.codes[:, start:stop] = bucket_codes(similarities.keys[start:stop], self.rotations)

    def shares(self, c: int, block: QueryBlock, phase: Phase) -> Floats:
        visible = np.zeros(block.cosines.shape, dtype=np.bool_)
        for own, others in zip(bucket_codes(block.queries, self.rotations), self.codes[:, : phase.end], strict=True):
            visible |= own[:, None] == others
        return self.restricted(block, visible)

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, int]:
        """Bytes of a key and value, and of the token's place in a bucket of each round."""
        body, _ = super().bytes_per_slot(dim, key_bytes)
        return body, NUMBER_BYTES * self.config.hashes

    def bytes_fixed(self) -> int:
        """The rotations."""
        return NUMBER_BYTES * self.rotations.size

    def reader(self) -> Callable[[Floats], int]:
        """The query's bucket in each round, and a vote of the tokens in any of these."""
        read_tokens, turns = self.token_reader(), self.rotations
        places = [bucket_places(codes[: len(self.keys)], self.config.buckets) for codes in self.codes]

        def read(query: Floats) -> int:
            own = bucket_codes(query[None], turns)[:, 0].tolist()
            found = [buckets[code] for buckets, code in zip(places, own, strict=True)]
            return read_tokens(query, np.unique(np.concatenate(found)))

        return read

    @classmethod
    def reference(
        cls, stream: Stream, config: LSHAttentionConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        keys, trace, turns = unit_keys(stream, dtype), Trace(), rotations(config, stream.dim, rng)

        def codes(key: Floats) -> list[int]:
            return [reference_first(np.concatenate([key @ turn, -(key @ turn)]), trace) for turn in turns]

        buckets = [codes(key) for key in keys[: stream.phases[-1].end]]

        def shares(phase: Phase) -> Iterator[Floats]:
            for query in unit(phase.queries):
                own = codes(query)
                met = [t for t in range(phase.end) if any(a == b for a, b in zip(own, buckets[t], strict=True))]
                yield reference_shares(keys[: phase.end] @ query, met, config.reading, trace)

        return keep_and_ask(stream, trace, shares)


def rotations(config: LSHAttentionConfig, dim: int, rng: np.random.Generator) -> Floats:
    """Random rotations [hashes, d, buckets / 2]."""
    return rng.standard_normal((config.hashes, dim, config.buckets // 2))


def bucket_codes(keys: Floats, turns: Floats) -> Ints:
    """Bucket of each key [n, d] in each round [hashes, n]."""
    products = [keys @ turn for turn in turns]
    return np.array([first_largest(np.concatenate([product, -product], axis=1)) for product in products])


def bucket_places(codes: Ints, buckets: int) -> list[Ints]:
    """Tokens in each bucket of a round, by the bucket of each token."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.searchsorted(codes[order], np.arange(1, buckets)))
