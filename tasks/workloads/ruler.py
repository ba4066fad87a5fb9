"""Questions after RULER: find a number, follow names, count words in a text that fills the context."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from models.stream import Ints
from tasks.ruler.prompts import TASKS, Prompt
from tasks.seeds import generator
from tasks.sequences import EVALUATED_AT_ONCE, IGNORED, Reader, SequenceWorkload, TokenBatch, score
from tasks.text.language import training_windows
from tasks.text.vocabulary import ByteVocabulary
from tasks.workload import WorkloadConfig, workload
from tasks.workloads.wikitext2 import Part, byte_ids, wikitext_corpora, wikitext_files

RULER_METRICS = ("loss", "score", "answerable", "room", "empty", "full_prompts", "prompt_ids")
"""What RULER-style tasks measure. Reference strings are what an answer should hold: a number, or five names, ...

loss          nats a byte of the right answer, after the prompt
score         share of reference strings that the greedy answer holds, in upper or lower case
answerable    share of them that stand in what is left of the prompt: where 0, a `score` of 0 says nothing
room          share of them that the longest answer has room for
empty         share of answers that are nothing or blanks
full_prompts  share of prompts that stand in the context whole, with room for the answer
prompt_ids    mean length of whole prompts
"""

STOPS = frozenset({ByteVocabulary.PAD, ByteVocabulary.BOS, ByteVocabulary.EOS})


class RulerConfig(WorkloadConfig):
    """A needle, names or the commonest words to find in a text of bytes (RULER, arXiv 2404.06654; arXiv 2606.05175).

    A number in a haystack, names that stand for each other, the commonest words of a list or of a coded text; greedy
    answers of 32, 24, 48, 32 bytes. Whole prompts need a `budget` of 512, 1024, 2048 and 1024: below it they are cut,
    and `answerable` says what is left.
    """

    name: Literal["ruler"] = "ruler"
    task: Literal["niah_single", "variable_tracking", "common_words", "frequent_words"] = Field(
        "niah_single", description="what is asked for"
    )
    budget: int = Field(512, ge=1, le=65536, description="ids of the context; prompts are cut to the last of them")
    train_on: Literal["task", "text"] = Field(
        "task", description="`task`: other prompts with their answers; `text`: WikiText-2, as published, and no prompts"
    )
    part: Part = "full"

    def doubts(self) -> Iterator[str]:
        task = TASKS[self.task]
        whole = 1 + task.least + task.new_bytes
        if self.budget < whole:
            yield (
                f"`budget` {self.budget:,} cuts every prompt of {self.task}, the shortest of which takes {whole:,} ids "
                "with its answer: what is asked for may be gone, see `answerable`"
            )


@workload(RulerConfig)
class Ruler(SequenceWorkload[RulerConfig]):
    """BOS and a prompt, as long as the budget allows with room for the answer, then the answer and EOS.

    Trained on the task, only the answer is learned. The prompts of an evaluation are drawn apart from those.
    """

    default_episodes = 32
    own_metrics = RULER_METRICS

    def __init__(self, config: RulerConfig) -> None:
        super().__init__(config)
        self._bytes = ByteVocabulary()
        self._task = TASKS[config.task]
        if config.train_on == "text":
            self._text = byte_ids(wikitext_files(config.part)[0], self._bytes)

    @property
    def vocabulary(self) -> int:
        return self._bytes.size

    @property
    def length(self) -> int:
        return self.config.budget

    def training(self, seed: int, sizes: Iterable[tuple[int, int]]) -> Iterator[TokenBatch]:
        if self.config.train_on == "text":
            return training_windows(self._text, seed, sizes)
        draws = generator(seed, "training")
        return (self._batch(self._prompts(draws, count, length), length) for count, length in sizes)

    def evaluation(self, seed: int, episodes: int) -> Iterator[TokenBatch]:
        prompts = self.prompts(seed, episodes)
        for first in range(0, episodes, EVALUATED_AT_ONCE):
            yield self._batch(prompts[first : first + EVALUATED_AT_ONCE], self.length)

    def evaluate(self, reader: Reader, seed: int, episodes: int) -> dict[str, float]:
        prompts = self.prompts(seed, episodes)
        whole = [self._ids(prompt) for prompt in prompts]
        shown = [ids[-self.length :] for ids in whole]
        answers = self._answers(reader, shown)
        new = self._task.new_bytes
        return {
            "loss": score(reader, self.evaluation(seed, episodes)).loss,
            "score": _share_held(prompts, answers),
            "answerable": _share_held(prompts, [self._bytes.decode(ids.tolist()) for ids in shown]),
            "room": float(np.mean([_most_held(prompt.answers, new) for prompt in prompts])),
            "empty": float(np.mean([not answer.strip() for answer in answers])),
            "full_prompts": float(np.mean([len(ids) + new <= self.length for ids in whole])),
            "prompt_ids": float(np.mean([len(ids) for ids in whole])),
        }

    def prompts(self, seed: int, episodes: int) -> list[Prompt]:
        """The prompts of an evaluation."""
        return self._prompts(generator(seed, "evaluation"), episodes, self.length)

    def _prompts(self, draws: np.random.Generator, count: int, length: int) -> list[Prompt]:
        room = length - 1 - self._task.new_bytes
        return [self._task.make(draws, room) for _ in range(count)]

    def _ids(self, prompt: Prompt) -> Ints:
        [text] = self._bytes.encode([prompt.text])
        return np.concatenate([self._bytes.front, text])

    def _batch(self, prompts: list[Prompt], length: int) -> TokenBatch:
        """Prompts with as much of their answers as may be said, cut to the last ids; what is behind them is PAD."""
        ids = np.full((len(prompts), length), ByteVocabulary.PAD)
        targets = np.full((len(prompts), length), IGNORED)
        for row, prompt in enumerate(prompts):
            [said] = self._bytes.encode([" " + " ".join(prompt.answers)])
            answer = np.append(said, ByteVocabulary.EOS)[: self._task.new_bytes]
            last = np.concatenate([self._ids(prompt), answer])[-length - 1 :]
            scored = min(len(answer), len(last) - 1)
            ids[row, : len(last) - 1] = last[:-1]
            targets[row, len(last) - 1 - scored : len(last) - 1] = last[-scored:]
        return TokenBatch(ids, targets)

    def _answers(self, reader: Reader, shown: list[Ints]) -> list[str]:
        """What `reader` says after each prompt; prompts of one length are read together."""
        by_length: dict[int, list[int]] = defaultdict(list)
        for index, ids in enumerate(shown):
            by_length[len(ids)].append(index)
        answers = [""] * len(shown)
        for indices in by_length.values():
            for first in range(0, len(indices), EVALUATED_AT_ONCE):
                together = indices[first : first + EVALUATED_AT_ONCE]
                said = reader.greedy(np.stack([shown[index] for index in together]), self._task.new_bytes, STOPS)
                for index, answer in zip(together, said, strict=True):
                    answers[index] = self._bytes.decode(answer)
        return answers

    @classmethod
    def corpora(cls, config: RulerConfig) -> tuple[str, ...]:
        return wikitext_corpora(config.part) if config.train_on == "text" else ()

    @classmethod
    def tokens(cls, config: RulerConfig) -> int:
        return config.budget


def _share_held(prompts: list[Prompt], texts: list[str]) -> float:
    """Share of the reference strings of `prompts` that stand in `texts`, in upper or lower case."""
    held = [
        answer.lower() in text.lower() for prompt, text in zip(prompts, texts, strict=True) for answer in prompt.answers
    ]
    return float(np.mean(held))


def _most_held(answers: tuple[str, ...], limit: int) -> float:
    """The largest share of `answers` that a text of `limit` bytes can hold, each after a blank."""
    lengths = np.sort([len(answer) + 1 for answer in answers])
    return float((lengths.cumsum() <= limit).mean())
