"""One episode of one trial, step by step: what a memory did with each token, and which queries it answered right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.config import MechanismConfig
from models.mechanism import Contents, Mechanism, SlotMemory, stream_reader
from models.similarity import Similarities
from models.stream import Phase, Stream, unit
from models.trained import TrainedMechanism
from tasks.fitting import fit_all, fit_key
from tasks.seeds import generator
from tasks.workload import Workload


@dataclass(frozen=True)
class Nearest:
    """The slot most like a token's key before the token was written: the token it stores, None where its key is none's.

    cosine  of the two keys
    """

    token: int | None
    cosine: float


@dataclass(frozen=True)
class Written:
    """What became of one token.

    item     the distinct thing behind it, which the memory does not see; value: the class stored with its key
    nearest  None where the memory was empty
    opened   whether it has a slot of its own now, or where slots have keys of their own, whether there is one more
    dropped  tokens whose slots were given up for it
    slots    in use after it
    """

    token: int
    item: int
    value: int
    nearest: Nearest | None
    opened: bool
    dropped: tuple[int, ...]
    slots: int


@dataclass(frozen=True)
class Asked:
    """One query after the first `end` tokens: the item that it asks for, its right class, and whether that was read.

    right    probability that the answer is right; None where the memory held nothing
    counted  whether it counts for `recall`
    """

    end: int
    query: int
    item: int
    answer: int
    right: float | None
    counted: bool


@dataclass(frozen=True)
class Replay:
    """One episode. `steps` is empty for a memory whose state is no list of slots."""

    tokens: int
    steps: tuple[Written, ...]
    asked: tuple[Asked, ...]


def replay(workload: Workload[Any], config: MechanismConfig, seed: int, episode: int, dtype: str) -> Replay:
    """Read one episode's stream token by token, as the trial of `seed` does.

    A memory that learns is trained first. A decision that is closer to a tie than rounding may fall otherwise here than
    in the trial, which reads tokens in blocks.
    """
    stream = workload.stream(seed, episode)
    memory = stream_reader(config.name)([config])
    if isinstance(memory, TrainedMechanism):
        fitted = fit_all(workload, [config], [seed])[fit_key(config, seed)]
        if isinstance(fitted, Exception):
            raise fitted
        memory.use(fitted)
    similarities = Similarities(stream, dtype)
    memory.start(stream, generator(seed, "mechanism", episode))
    steps: list[Written] = []
    asked: list[Asked] = []
    ends = {phase.end: phase for phase in stream.phases}
    for token in range(max(ends)):
        if isinstance(memory, SlotMemory):
            steps.append(_write(memory, similarities, token))
        else:
            memory.write(similarities, token, token + 1)
        if phase := ends.get(token + 1):
            memory.settle(similarities, phase.end)
            asked += _ask(memory, similarities, phase)
    return Replay(max(ends), tuple(steps), tuple(asked))


def _write(memory: SlotMemory[Any], similarities: Similarities, token: int) -> Written:
    stream: Stream = similarities.stream
    before = memory.contents()
    before_count = int(before.counts[0])  # the arrays are the memory's own, and change as it writes
    nearest, held = _nearest(before, similarities, token), set(_tokens(before))
    memory.write(similarities, token, token + 1)
    after = memory.contents()
    now = _tokens(after)
    has_own = token in now if after.keys is None else bool(after.counts[0] > before_count)
    return Written(
        token=token,
        item=int(stream.items[token]),
        value=int(stream.values[token]),
        nearest=nearest,
        opened=has_own,
        dropped=tuple(sorted(held - set(now))),
        slots=int(after.counts[0]),
    )


def _tokens(contents: Contents) -> list[int]:
    """Tokens that slots store; none where slots have keys of their own."""
    return contents.tokens[0, : contents.counts[0]].tolist() if contents.keys is None else []


def _nearest(contents: Contents, similarities: Similarities, token: int) -> Nearest | None:
    count = int(contents.counts[0])
    if not count:
        return None
    tokens = contents.tokens[0, :count]
    keys = similarities.keys[tokens] if contents.keys is None else unit(contents.keys[0, :count])
    cosines = keys @ similarities.keys[token]
    best = int(np.argmax(cosines))
    return Nearest(int(tokens[best]) if contents.keys is None else None, float(cosines[best]))


def _ask(memory: Mechanism[Any], similarities: Similarities, phase: Phase) -> Iterator[Asked]:
    counted = set(phase.asked.tolist())
    for block in similarities.query_blocks(phase):
        answers = memory.answer(block, phase)[0]
        for offset, right in enumerate(answers.tolist()):
            query = block.start + offset
            yield Asked(
                end=phase.end,
                query=query,
                item=int(phase.items[query]),
                answer=int(phase.answers[query]),
                right=None if np.isnan(right) else right,
                counted=query in counted,
            )
