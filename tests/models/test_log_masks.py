"""Masks of log lines: what they take and what they leave, and the compiled form against the regular expressions."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.log_masks import (
    CLASSES,
    MARKS,
    MASKS,
    Mask,
    mask_bits,
    masked_hash,
    masker,
    masks_possible,
    pattern,
    plain_hash,
    text_hash,
)

PIECES = (
    *("0x", "a", "f", "g", "12", "1", "255", ".", ":", "::", "-", "+", "/", "\\", "C:", "é", "_", "=", "abcd", "%"),
    *("1.2.3.4", "aa:bb:cc:dd:ee:ff", "00-11-22-33-44-5f", "1:2:3:4:5:6:7:8", "<*>"),
)
WORDS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=11).map("".join)


@pytest.mark.parametrize(
    ("mask", "text", "masked"),
    [
        ("numbers", "7 -7 +7 7.25 1.2.3 uid=0 a-5 blk_-16 5ms x1 1st", "# # # # # uid=# a-# blk_# 5ms x1 1st"),
        ("addresses", "10.0.0.1 10.0.0.1:80 /10.0.0.1 1.2.3 1000.1.1.1 10.0.0.1:x", "# # /# 1.2.3 1000.1.1.1 #:x"),
        ("addresses", "0xDEADbeef 0x 00:1b:44:11:3a:b7 00-1b-44-11-3a-b7 12:30:59", "# 0x # # 12:30:59"),
        ("addresses", "fe80::1 ::1 2001:db8:0:0:0:0:0:1 [fe80::1]:22 std::move ::", "# # # [#]:22 std::move ::"),
        ("paths", "/var/log/x.log /var/log/ /var a/b/c (/a/b) http://h/i C:\\a\\b", "# # /var a/b/c (#) http:/# #"),
    ],
)
def test_what_is_masked(mask: Mask, text: str, masked: str) -> None:
    assert re.sub("<[a-z]+>", "#", masker([mask])(text)) == masked


def test_what_could_be_both_is_an_address_before_it_is_a_path_or_a_number() -> None:
    assert masker(MASKS)("1.2.3.4 1.2.3 /a/b=7") == "<address> <number> <path>=<number>"
    assert masker(["numbers"])("1.2.3.4:80") == "<number>:<number>"
    assert masker([])("7 0x7") == "7 0x7"


@settings(max_examples=1000, deadline=None)
@given(word=WORDS, masks=st.sets(st.sampled_from(MASKS)))
def test_the_compiled_form_is_the_regular_expression(word: str, masks: set[Mask]) -> None:
    chosen, text = sorted(masks), np.frombuffer(word.encode(), dtype=np.uint8)
    masked = masker(chosen)(word)
    assert plain_hash(text, 0, len(text)) == text_hash(word)
    digits = any(character in "0123456789" for character in masked)
    assert masked_hash(text, 0, len(text), mask_bits(chosen)) == (text_hash(masked), digits)


@settings(max_examples=300, deadline=None)
@given(words=st.lists(WORDS, max_size=5), mask=st.sampled_from(MASKS))
def test_a_line_is_masked_as_its_words_are(words: list[str], mask: Mask) -> None:
    line, mark = " ".join(words), masker([mask])
    assert " ".join(map(mark, words)) == mark(line)
    assert re.sub(pattern(mask), MARKS[mask], line) == mark(line)


@settings(max_examples=300, deadline=None)
@given(word=WORDS, masks=st.sets(st.sampled_from(MASKS)))
def test_a_mask_that_is_not_possible_changes_nothing(word: str, masks: set[Mask]) -> None:
    seen = int(np.bitwise_or.reduce(CLASSES[np.frombuffer(word.encode(), dtype=np.uint8)]))
    possible = masks_possible(seen, mask_bits(sorted(masks)))
    assert masker([mask for mask in masks if mask_bits([mask]) & possible])(word) == masker(sorted(masks))(word)
