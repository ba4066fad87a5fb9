"""The compiled reader of log text: from bytes to templates without making a word."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.kernel import kernel
from models.log_masks import (
    BLANK,
    CLASSES,
    DIGIT,
    MARKS,
    NUMBERS,
    Mask,
    mask_bits,
    masked_hash,
    masks_possible,
    plain_hash,
    text_hash,
)
from models.log_templates import WILDCARD, WILDCARD_WORD, Rules, Templates, has_room, line_hash, recalled, take
from models.stream import Ints

Bytes = NDArray[np.uint8]

NEWLINE = 10


WILDCARD_HASH, ONLY_NUMBER_HASH = text_hash(WILDCARD_WORD), text_hash(MARKS["numbers"])
"""Words are told from each other by their hashes: among a million distinct ones some two have the same in one log of
forty million."""


class Words(NamedTuple):
    """What of a line is read: words behind the first `skip`, with the marks of `masks` put in."""

    skip: int
    masks: int


class Scratch(NamedTuple):
    """Room for a line: its words as hashes, and whether each has a digit."""

    line: Ints
    numeric: NDArray[np.bool_]


@kernel
def read_line(text, at, words, line, numeric):  # type: ignore[no-untyped-def]
    """(where the line's newline is, how many words it has); the words' hashes go to `line`. A newline must be there."""
    passed = length = 0
    while True:
        byte = text[at]
        if CLASSES[byte] & BLANK:
            if byte == NEWLINE:
                return at, length
            at += 1
            continue
        begin, seen = at, 0
        kind = every = CLASSES[byte]
        while not kind & BLANK:
            seen |= kind
            every &= kind
            at += 1
            kind = CLASSES[text[at]]
        passed += 1
        if passed <= words.skip:
            continue
        digits = (seen & DIGIT) != 0
        possible = masks_possible(seen, words.masks)
        if possible == NUMBERS and every & DIGIT:
            value, digits = np.uint64(ONLY_NUMBER_HASH), False
        elif possible:
            value, digits = masked_hash(text, begin, at, possible)
        else:
            value = plain_hash(text, begin, at)
        line[length] = WILDCARD if value == np.uint64(WILDCARD_HASH) else np.int64(value)
        numeric[length] = digits
        length += 1


@kernel
def read_text(text, at, stop, words, scratch, rules, tables, groups, begins):  # type: ignore[no-untyped-def]
    """(where it stopped, lines read); it stops before a line of text[at:stop] for which there is no room in `tables`.

    The lines' templates go to `groups`, where the lines begin to `begins`.
    """
    sizes, held, templates, nodes, places, known = tables
    line, numeric = scratch
    t = 0
    while at < stop:
        newline, length = read_line(text, at, words, line, numeric)
        key = line_hash(line, length)
        slot = recalled(key, length, templates, nodes, known)
        if slot < 0:
            if not has_room(length, rules.levels, sizes, held, templates, nodes):
                break
            slot = take(line, numeric, key, length, rules, sizes, held, templates, nodes, places, known)
        groups[t], begins[t] = slot, at
        t += 1
        at = newline + 1
    return at, t


class LineReader:
    """Takes text into templates, block by block."""

    def __init__(self, rules: Rules, masks: tuple[Mask, ...], skip: int) -> None:
        self.parser = Templates(rules)
        self.words = Words(skip, mask_bits(masks))

    def read(self, text: Bytes) -> tuple[Ints, Ints]:
        """(template, first byte) of each line of `text`, which ends with a newline."""
        most = len(text) // 2 + 1
        scratch = Scratch(np.empty(most, dtype=np.int64), np.empty(most, dtype=np.bool_))
        groups, begins = np.empty((2, int(np.count_nonzero(text == NEWLINE))), dtype=np.int64)
        at = lines = 0
        while lines < len(groups):
            parser, rest = self.parser, (groups[lines:], begins[lines:])
            at, read = read_text(text, at, len(text), self.words, scratch, parser.rules, parser.tables, *rest)
            lines += read
            if lines < len(groups):
                parser.make_room(most)
        return groups, begins
