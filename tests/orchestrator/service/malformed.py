"""Specs that are wrong in every way there is: good ones, mutated."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

from orchestrator.requests import ready_made_specs
from tests.orchestrator.specs import SMALL

TRICKS = (
    "../../../../etc/passwd",
    "/etc/passwd",
    "~/.ssh/id_rsa",
    "C:\\Windows\\win.ini",
    "file:///etc/passwd",
    '"a\\0b"',
    "x" * 5000,
    "\u202e\ufeff\u0000",
    "💥" * 50,
    "%s%n{0}{{",
    "<script>alert(1)</script>",
    "'; DROP TABLE sweeps; --",
)
VALUE = re.compile(r": ([^,{}\n#]+)")
NUMBERS = ("1e400", "-1e308", "9" * 400, "0x" + "f" * 300, ".nan", "-.inf", "1e-320", "99999999999999999999", "-1")
TYPES = ("null", "true", "[]", "{}", "[[[[]]]]", "{a: {b: c}}", "!!python/object:os.system x", "2020-01-01", "''")


TUNING = """\
name: tune
kind: tuning
workload: {name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16}
mechanisms:
  - {name: dp_cache, keep: first}
search: {dp_cache.tau: {low: 0.1, high: 0.9}}
objectives: {recall: maximize}
sampler: {name: random}
trials: 4
seeds: 2
"""

TRAINING = """\
name: own-text
kind: training
workload: {name: text_file, path: a.txt, length: 32}
mechanisms:
  - {name: transformer, width: 32, layers: 1}
seeds: {count: 2, base: 7}
retries: {infrastructure: 1, code: 0}
device: [cpu]
"""

GOOD = (SMALL, TUNING, TRAINING, Path(ready_made_specs()["quick-start"]).read_text(encoding="utf-8"))
"""Specs of several kinds with few trials. One names a file, which a service lets no spec name."""


def _cut(text: str, random: Random) -> str:
    return text[: random.randrange(len(text))]


def _lose_a_piece(text: str, random: Random) -> str:
    begin = random.randrange(len(text))
    return text[:begin] + text[begin + random.randrange(1, 40) :]


def _flip_characters(text: str, random: Random) -> str:
    characters = list(text)
    for _ in range(random.randrange(1, 6)):
        characters[random.randrange(len(characters))] = chr(random.choice((*range(128), 0x85, 0x2028, 0xFEFF, 0x1F4A5)))
    return "".join(characters)


def _replace_a_value(values: tuple[str, ...]) -> Callable[[str, Random], str]:
    """One value, of a line or between braces, becomes another one."""

    def replace(text: str, random: Random) -> str:
        found = random.choice(list(VALUE.finditer(text)))
        return f"{text[: found.start(1)]}{random.choice(values)}{text[found.end(1) :]}"

    return replace


def _repeat_a_line(text: str, random: Random) -> str:
    lines = text.split("\n")
    number = random.randrange(len(lines))
    return "\n".join([*lines[:number], lines[number], *lines[number:]])


def _indent(text: str, random: Random) -> str:
    lines = text.split("\n")
    number = random.randrange(len(lines))
    lines[number] = random.choice(("\t", " ", "   ", "- ")) + lines[number]
    return "\n".join(lines)


def _nest(text: str, random: Random) -> str:
    depth = random.choice((60, 1000, 20_000))
    opening, closing = random.choice((("[", "]"), ("{a: ", "}")))
    return text + f"\ndescription: {opening * depth}{closing * depth}\n"


def _bomb(text: str, random: Random) -> str:
    layers = random.randrange(8, 30)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, layers)]
    return "\n".join(lines) + "\n" + text


def _product(text: str, random: Random) -> str:
    count = random.choice((3000, 100_000_000, 10**12))
    axes = ", ".join(f"{field}: {{linspace: [0.1, 0.9, {count}]}}" for field in ("tau", "temperature"))
    return text.replace("mechanisms:\n", f"mechanisms:\n  - {{name: dp_cache, {axes}}}\n", 1)


def _misspell(text: str, random: Random) -> str:
    words = [word for word in ("name", "kind", "workload", "mechanisms", "seeds", "dp_cache") if word in text]
    word = random.choice(words)
    return text.replace(word, word[:-2] + word[-1] + word[-2], 1)


MUTATIONS: dict[str, Callable[[str, Random], str]] = {
    "cut": _cut,
    "lose a piece": _lose_a_piece,
    "flip characters": _flip_characters,
    "wrong types": _replace_a_value(TYPES),
    "huge numbers": _replace_a_value(NUMBERS),
    "tricks": _replace_a_value(TRICKS),
    "repeat a line": _repeat_a_line,
    "indent": _indent,
    "nest": _nest,
    "bomb": _bomb,
    "product": _product,
    "misspell": _misspell,
}


def malformed(count: int, seed: int) -> list[tuple[str, str]]:
    """`count` mutants of good specs, each with what was done to it; some are good all the same."""
    random, names = Random(seed), list(MUTATIONS)
    mutants = []
    for number in range(count):
        name = names[number % len(names)]
        mutants.append((name, MUTATIONS[name](random.choice(GOOD), random)))
    return mutants
