"""Masks of log lines: what stands for itself in no template, such as numbers, is replaced by its kind, word by word."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np

from models.kernel import kernel
from models.stream import Ints

Mask = Literal["addresses", "paths", "numbers"]
MASKS: tuple[Mask, ...] = get_args(Mask)
"""In the order in which they are tried where several could begin."""

MARKS: dict[Mask, str] = {"addresses": "<address>", "paths": "<path>", "numbers": "<number>"}
"""What stands for each in a template. A mark is a word like others: it is no wildcard."""

HEX = "[0-9a-fA-F]"
SEGMENT = "[A-Za-z0-9_.+~@%-]"
GROUPS = rf"{HEX}{{1,4}}+(?::{HEX}{{1,4}}+)*(?!:{HEX})"

# What is repeated as a whole must not be given back either. That is told by what must not follow: until 3.11.5 Python's
# possessive repetition of a group did not begin again where it left off.

FORMS: dict[Mask, tuple[str, ...]] = {
    "addresses": (
        rf"0[xX]{HEX}++",
        r"[0-9]{1,3}+(?:\.[0-9]{1,3}+){3}(?::[0-9]++|(?!:[0-9]))",
        rf"{HEX}{{2}}(?:[:-]{HEX}{{2}}){{5}}",
        rf"{HEX}{{1,4}}+(?::{HEX}{{1,4}}+){{7}}",
        rf"(?:{GROUPS}|(?!{HEX}))::{GROUPS}",
    ),
    "paths": (rf"(?:/{SEGMENT}++){{2,}}(?!/{SEGMENT})/?+", rf"[A-Za-z]:(?:\\{SEGMENT}++)+(?!\\{SEGMENT})\\?+"),
    "numbers": (r"[-+]?[0-9]++(?:\.[0-9]++)*(?!\.[0-9])",),
}
"""Addresses: hexadecimal with 0x, IPv4 with or without a port, MAC, IPv6. Paths: absolute ones of two parts and more,
and those of a drive. Numbers: with a sign or without, also with points. All begin and end beside no letter or digit."""


def pattern(mask: Mask) -> str:
    """A regular expression of what `mask` replaces, for lines as for words."""
    return rf"(?<![A-Za-z0-9])(?:{'|'.join(FORMS[mask])})(?![A-Za-z0-9])"


def masker(masks: Sequence[Mask]) -> Callable[[str], str]:
    """What puts the marks of `masks` into a text; `masked_hash` hashes what comes of it."""
    chosen = [mask for mask in MASKS if mask in masks]
    if not chosen:
        return lambda text: text
    compiled = re.compile("|".join(f"(?P<{mask}>{pattern(mask)})" for mask in chosen))
    return lambda text: compiled.sub(lambda match: MARKS[match.lastgroup], text)  # type: ignore[index]


# --- compiled ---

DIGIT, LETTER, HEXADECIMAL, PART, BLANK, ADDRESS_SIGN, PATH_SIGN, SIGN, BEGINNING = (1 << bit for bit in range(9))
ALPHANUMERIC = DIGIT | LETTER

ADDRESSES, PATHS, NUMBERS = 1, 2, 4
"""Bits of `masks` in kernels."""


def byte_classes() -> Ints:
    """What each byte is [256]; an address has one of :-.xX in it, a path a slash or a backslash, a number a digit."""
    members = {
        DIGIT: b"0123456789",
        LETTER: b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        HEXADECIMAL: b"0123456789abcdefABCDEF",
        PART: b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.+~@%-",
        BLANK: b" \t\n\r\v\f",
        ADDRESS_SIGN: b":-.xX",
        PATH_SIGN: b"/\\",
        SIGN: b"+-",
        BEGINNING: b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:/+-",
    }
    return np.array([sum(bit for bit, ones in members.items() if byte in ones) for byte in range(256)], dtype=np.int64)


CLASSES = byte_classes()
HASH_START, HASH_FACTOR = 0xCBF29CE484222325, 0x9E3779B97F4A7C15
"""A text's hash is a polynomial in `HASH_FACTOR`, 64 bits long: the bytes are its coefficients, behind `HASH_START`.

Kernels multiply without sign, for with a sign compilers take it that nothing overflows.
"""
FACTOR_2, FACTOR_3, FACTOR_4 = (HASH_FACTOR**power % (1 << 64) for power in (2, 3, 4))


def text_hash(text: str, start: int = HASH_START) -> int:
    """Hash of `text` in UTF-8 behind what has the hash `start`."""
    value = start
    for byte in text.encode():
        value = (value * HASH_FACTOR + byte) % (1 << 64)
    return value


ADDRESS_HASH, PATH_HASH, NUMBER_HASH = (text_hash(MARKS[mask], 0) for mask in MASKS)
ADDRESS_FACTOR, PATH_FACTOR, NUMBER_FACTOR = (HASH_FACTOR ** len(MARKS[mask]) % (1 << 64) for mask in MASKS)
"""What a mark does to a hash: times the factor, plus its own."""

DOT, COLON, HYPHEN, SLASH, BACKSLASH, ZERO, SMALL_X, CAPITAL_X = b".:-/\\0xX"


def mask_bits(masks: Sequence[Mask]) -> int:
    """`masks` as kernels have them."""
    return sum(bit for bit, mask in zip((ADDRESSES, PATHS, NUMBERS), MASKS, strict=True) if mask in masks)


@kernel
def masks_possible(seen, masks):  # type: ignore[no-untyped-def]
    """Those of `masks` that a word can need whose bytes are together of the classes `seen`."""
    possible = masks
    if not seen & ADDRESS_SIGN or not seen & HEXADECIMAL:
        possible &= ~ADDRESSES
    if not seen & PATH_SIGN:
        possible &= ~PATHS
    if not seen & DIGIT:
        possible &= ~NUMBERS
    return possible


@kernel
def run_of(text, at, stop, kind):  # type: ignore[no-untyped-def]
    """Where the run of bytes of class `kind` that begins at `at` ends, at `stop` at the latest."""
    while at < stop and CLASSES[text[at]] & kind:
        at += 1
    return at


@kernel
def hexadecimal_groups(text, at, stop, most):  # type: ignore[no-untyped-def]
    """(end, number) of groups of one to four hexadecimal digits with colons between, `most` at most."""
    found = 0
    end = at
    while found < most:
        begin = end
        if found:
            if end >= stop or text[end] != COLON:
                break
            begin = end + 1
        after = run_of(text, begin, min(stop, begin + 4), HEXADECIMAL)
        if after == begin:
            break
        found += 1
        end = after
    return end, found


@kernel
def ends_here(text, at, stop):  # type: ignore[no-untyped-def]
    """Whether neither letter nor digit follows."""
    return at >= stop or not CLASSES[text[at]] & ALPHANUMERIC


@kernel
def address_end(text, at, stop):  # type: ignore[no-untyped-def]
    """Where the address that begins at `at` ends; -1 if none does."""
    if text[at] == ZERO and at + 1 < stop and (text[at + 1] == SMALL_X or text[at + 1] == CAPITAL_X):
        end = run_of(text, at + 2, stop, HEXADECIMAL)
        if end > at + 2 and ends_here(text, end, stop):
            return end
    if CLASSES[text[at]] & DIGIT:
        end = ipv4_end(text, at, stop)
        if end > 0 and ends_here(text, end, stop):
            return end
    end = run_of(text, at, min(stop, at + 4), HEXADECIMAL)
    if end >= stop or (text[end] != COLON and text[end] != HYPHEN):
        return -1
    if end == at + 2:
        pairs = 1
        while pairs < 6 and end < stop and (text[end] == COLON or text[end] == HYPHEN):
            after = run_of(text, end + 1, min(stop, end + 3), HEXADECIMAL)
            if after < end + 3:
                break
            pairs += 1
            end = after
        if pairs == 6 and ends_here(text, end, stop):
            return end
    end, found = hexadecimal_groups(text, at, stop, 8)
    if found == 8 and ends_here(text, end, stop):
        return end
    end, found = hexadecimal_groups(text, at, stop, stop)
    if end + 1 < stop and text[end] == COLON and text[end + 1] == COLON:
        end, found = hexadecimal_groups(text, end + 2, stop, stop)
        if found and ends_here(text, end, stop):
            return end
    return -1


@kernel
def ipv4_end(text, at, stop):  # type: ignore[no-untyped-def]
    """Where four numbers of up to three digits with points between, and a port, end; -1 if they do not begin here."""
    end = run_of(text, at, min(stop, at + 3), DIGIT)
    if end == at:
        return -1
    for _ in range(3):
        if end >= stop or text[end] != DOT:
            return -1
        after = run_of(text, end + 1, min(stop, end + 4), DIGIT)
        if after == end + 1:
            return -1
        end = after
    if end < stop and text[end] == COLON:
        after = run_of(text, end + 1, stop, DIGIT)
        if after > end + 1:
            end = after
    return end


@kernel
def path_end(text, at, stop):  # type: ignore[no-untyped-def]
    """Where the path that begins at `at` ends; -1 if none does."""
    sign = text[at]
    end, least = at, 2
    if CLASSES[sign] & LETTER and at + 2 < stop and text[at + 1] == COLON:
        sign = text[at + 2]
        if sign != BACKSLASH:
            return -1
        end, least = at + 2, 1
    elif sign != SLASH:
        return -1
    parts = 0
    while end < stop and text[end] == sign:
        after = run_of(text, end + 1, stop, PART)
        if after == end + 1:
            break
        parts += 1
        end = after
    if parts < least:
        return -1
    if end < stop and text[end] == sign:
        end += 1
    return end if ends_here(text, end, stop) else -1


@kernel
def plain_hash(text, at, stop):  # type: ignore[no-untyped-def]
    """Hash of text[at:stop]; four bytes at once, for a product waits for the one before."""
    value = np.uint64(HASH_START)
    while at + 4 <= stop:
        first = np.uint64(text[at]) * np.uint64(FACTOR_3) + np.uint64(text[at + 1]) * np.uint64(FACTOR_2)
        second = np.uint64(text[at + 2]) * np.uint64(HASH_FACTOR) + np.uint64(text[at + 3])
        value = value * np.uint64(FACTOR_4) + (first + second)
        at += 4
    while at < stop:
        value = value * np.uint64(HASH_FACTOR) + np.uint64(text[at])
        at += 1
    return value


@kernel
def masked_hash(text, at, stop, masks):  # type: ignore[no-untyped-def]
    """(hash, whether there is a digit) of the word text[at:stop] with the marks of `masks` put in.

    Runs are followed here rather than by `run_of`: a call costs more than the few bytes of most.
    """
    value, digits, inside = np.uint64(HASH_START), 0, False
    while at < stop:
        kind = CLASSES[text[at]]
        sign = kind & SIGN
        if not inside and kind & BEGINNING:
            end = -1
            if masks & ADDRESSES and not sign:
                end = at
                while end < stop and CLASSES[text[end]] & HEXADECIMAL:
                    end += 1
                end = address_end(text, at, stop) if end < stop and CLASSES[text[end]] & ADDRESS_SIGN else -1
                if end > 0:
                    value = value * np.uint64(ADDRESS_FACTOR) + np.uint64(ADDRESS_HASH)
            if end < 0 and masks & PATHS:
                end = path_end(text, at, stop)
                if end > 0:
                    value = value * np.uint64(PATH_FACTOR) + np.uint64(PATH_HASH)
            if end < 0 and masks & NUMBERS and (sign or kind & DIGIT):
                begin = at + 1 if sign else at
                end = begin
                while end < stop and CLASSES[text[end]] & DIGIT:
                    end += 1
                while end > begin and end + 1 < stop and text[end] == DOT and CLASSES[text[end + 1]] & DIGIT:
                    end += 2
                    while end < stop and CLASSES[text[end]] & DIGIT:
                        end += 1
                if end > begin and (end == stop or not CLASSES[text[end]] & ALPHANUMERIC):
                    value = value * np.uint64(NUMBER_FACTOR) + np.uint64(NUMBER_HASH)
                else:
                    end = -1
            if end > 0:
                inside = CLASSES[text[end - 1]] & ALPHANUMERIC != 0
                at = end
                continue
        value = value * np.uint64(HASH_FACTOR) + np.uint64(text[at])
        digits |= kind & DIGIT
        inside = kind & ALPHANUMERIC != 0
        at += 1
    return value, digits != 0
