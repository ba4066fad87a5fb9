"""The compiled writer of assignments: which template each line has, and its words in the template's open places."""

from __future__ import annotations

import numpy as np

from models.kernel import kernel
from models.log_masks import BLANK, CLASSES
from models.log_templates import BEGIN
from models.stream import Ints
from tasks.logs.scan import NEWLINE, Bytes

COMMA, QUOTE, SPACE, ZERO_DIGIT = b'," 0'
MOST_DIGITS = 20


@kernel
def put_number(out, at, number):  # type: ignore[no-untyped-def]
    """Write `number` >= 0 to `out` from `at` on, and say where it ends."""
    digits, rest = 1, number // 10
    while rest:
        digits += 1
        rest //= 10
    for i in range(digits):
        out[at + digits - 1 - i] = ZERO_DIGIT + number % 10
        number //= 10
    return at + digits


@kernel
def put_rows(text, skip, groups, number, templates, is_open, out):  # type: ignore[no-untyped-def]
    """Write a CSV row for each line of `text` to `out`, the first being line `number`; returns how long they are.

    is_open: of each word of the templates, one template after another, whether a line has a word of its own there.
    """
    at = end = 0
    for group in groups:
        end = put_number(out, end, number)
        out[end] = COMMA
        end = put_number(out, end + 1, group + 1)
        out[end] = COMMA
        end += 1
        number += 1
        place = templates[group, BEGIN] - skip
        first, written = templates[group, BEGIN], 0
        while text[at] != NEWLINE:
            if CLASSES[text[at]] & BLANK:
                at += 1
                continue
            shown = place >= first and is_open[place]
            if shown:
                out[end] = SPACE if written else QUOTE
                end += 1
                written += 1
            while not CLASSES[text[at]] & BLANK:
                if shown:
                    out[end] = text[at]
                    end += 1
                    if text[at] == QUOTE:
                        out[end] = QUOTE
                        end += 1
                at += 1
            place += 1
        if written:
            out[end] = QUOTE
            end += 1
        out[end] = NEWLINE
        end += 1
        at += 1
    return end


def rows(text: Bytes, skip: int, groups: Ints, number: int, templates: Ints, is_open: Bytes) -> Bytes:
    """CSV rows of the lines of `text`, as `put_rows` has them."""
    out = np.empty(2 * len(text) + (2 * MOST_DIGITS + 5) * len(groups), dtype=np.uint8)
    return out[: put_rows(text, skip, groups, number, templates, is_open, out)]
