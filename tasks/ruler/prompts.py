"""The four tasks of arXiv 2606.05175 after RULER (arXiv 2404.06654), in words of our own.

A prompt is made as long as the room that it is given allows, by repeating what is noise in it, and never shorter than
its shortest form: where that does not fit, whoever reads it sees its end alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from string import ascii_lowercase, ascii_uppercase

import numpy as np

from tasks.ruler.words import WORDS

NOISE = "The rain is soft. The road is long. The hill is steep. We walk on. Then we turn for home."


@dataclass(frozen=True)
class Prompt:
    """A text that ends where its answer should begin, and the strings that an answer should hold, in their order."""

    text: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class RulerTask:
    """One kind of prompt.

    new_bytes  how many an answer may have, as published
    least      bytes of the shortest prompt that can be drawn
    make       a prompt, from draws and the bytes that there is room for
    """

    new_bytes: int
    least: int
    make: Callable[[np.random.Generator, int], Prompt]


def niah_single(draws: np.random.Generator, room: int) -> Prompt:
    """One needle, a number of seven digits, in the middle of lines of noise."""
    key = "-".join(draws.choice(WORDS, 2, replace=False))
    value = str(draws.integers(10**6, 10**7))
    needle = f"The magic number of {key} is {value}."
    before = (
        "Somewhere in the following text stands the magic number of some name. Read with care, keep it in mind: you "
        "will be asked for it once the text ends."
    )
    question = (
        f"Which magic number was given to {key} in the text that you have just read, and in no other place? "
        f"The magic number that was given to {key} in this text is"
    )
    lines = _lines_of_noise(room, before, needle, question)
    half = lines // 2
    return Prompt(_joined(before, *[NOISE] * half, needle, *[NOISE] * (lines - half), question), (value,))


def variable_tracking(draws: np.random.Generator, room: int) -> Prompt:
    """A chain of five names, the first of which has a value of five digits, among lines of noise."""
    names = _distinct_words(draws, 5, 5, ascii_uppercase)
    value = str(draws.integers(10**4, 10**5))
    chain = [f"Let {name} be {other}." for name, other in zip(names, [value, *names], strict=False)]
    before = "Lines of the following text give values to names. Keep in mind which name has which."
    question = (
        f"Question: which of the names in the text above have the value {value}, be it given to them at once or by way "
        f"of other names? Answer: going through all the lines of the text above, the five names with the value {value} "
        "are"
    )
    noise = _lines_of_noise(room, before, *chain, question)
    noise_before = np.sort(draws.integers(1, noise, len(chain), endpoint=True))
    lines: list[str] = []
    for between, line in zip(np.diff(noise_before, prepend=0), chain, strict=True):
        lines += [*[NOISE] * between, line]
    lines += [NOISE] * (noise - noise_before[-1])
    return Prompt(_joined(before, *lines, question), tuple(names))


def common_words(draws: np.random.Generator, room: int) -> Prompt:
    """Ten words eight times as often as fifty others."""
    order = draws.permutation(WORDS).tolist()
    common, others = order[:10], order[10:]
    before = (
        "Below stand many words in a row. Most come up only now and then, and some of them far more often than all "
        "others. Keep count of all, and remember those that come up most often."
    )
    question = (
        "Question: which ten words come up most often in the words above? Answer: counting each one of them, the ten "
        "that come up most often are"
    )
    once = [*common * 8, *others]
    free = room - len(_joined(before, question)) - 1
    rounds = max(1, (free + 1) // len(" ".join(once) + " "))
    words = draws.permutation(once * rounds).tolist()
    return Prompt(_joined(before, " ".join(words), question), tuple(sorted(common, key=words.index)))


def frequent_words(draws: np.random.Generator, room: int) -> Prompt:
    """Coded words, each as often as the square of its rank allows; the commonest of all is "...", which is none."""
    before = (
        "Read the coded text below, keep count of each coded word in it. You will be asked what three come up most "
        "often in it."
    )
    question = (
        "Question: give no reasons and no other words. Never mind the '...', which come up more often than any word. "
        "Which three coded words come up most often in the coded text above? Answer: by the count of each word in the "
        "coded text above, the three most common are"
    )
    free = room - len(_joined(before, question)) - 1
    counts = _counts(_most_dots(free))
    words = _distinct_words(draws, len(counts) - 1, 5, ascii_lowercase)
    text = [word for word, count in zip(["...", *words], counts, strict=True) for _ in range(count)]
    return Prompt(_joined(before, " ".join(draws.permutation(text)), question), tuple(words[:3]))


TASKS = {
    "niah_single": RulerTask(32, 442, niah_single),
    "variable_tracking": RulerTask(24, 492, variable_tracking),
    "common_words": RulerTask(48, 1052, common_words),
    "frequent_words": RulerTask(32, 591, frequent_words),
}
"""By name; bytes of an answer as published."""

LEAST_DOTS = 32
"""With fewer of them the third word that is asked for would be no more common than the next."""


def _joined(*lines: str) -> str:
    return "\n".join(lines)


def _lines_of_noise(room: int, *lines: str) -> int:
    """How many lines of noise a prompt of `lines` has room for: one or more."""
    return max(1, (room - len(_joined(*lines))) // (len(NOISE) + 1))


def _distinct_words(draws: np.random.Generator, count: int, letters: int, alphabet: str) -> list[str]:
    """`count` different words of random `letters`."""
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(draws.choice(list(alphabet), letters))] = None
    return list(words)


def _counts(commonest: int) -> list[int]:
    """How often words come, by rank r: `commonest` / r², rounded down, while that is one or more."""
    ranks = np.arange(1, int(commonest**0.5) + 1)
    counts: list[int] = (commonest // ranks**2).tolist()
    return counts


@cache
def _most_dots(free: int) -> int:
    """How often the commonest word may come in a text of at most `free` characters, where that is often enough."""
    dots = LEAST_DOTS
    while _coded_length(_counts(dots + 1)) <= free:
        dots += 1
    return dots


def _coded_length(counts: list[int]) -> int:
    """Characters of a coded text: three dots, and words of five letters."""
    return 4 * counts[0] + 6 * sum(counts[1:]) - 1
