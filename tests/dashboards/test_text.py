"""Numbers as text: nothing rounds to a value it is not, and nothing undefined looks like a number."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards import text
from tasks.summary import Interval


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1.0, "1.000"),
        (0.0, "0.000"),
        (0.706, "0.706"),
        (0.9996, "0.9996"),
        (0.99996, "0.99996"),
        (0.0004, "0.0004"),
        (1 - 1e-12, "1.000"),
        (0.30000000000000004, "0.300"),
    ],
)
def test_a_share_keeps_its_distance_from_0_and_1(number: float, expected: str) -> None:
    assert text.fraction(number) == expected


@given(st.floats(1e-6, 1 - 1e-6))
def test_a_share_is_written_within_half_a_unit_of_its_last_digit(number: float) -> None:
    written = text.fraction(number)
    digits = len(written.split(".")[1])
    assert abs(float(written) - number) <= 0.5 * 10**-digits + 1e-12
    assert float(written) not in (0.0, 1.0)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(64.0, "64"), (64.03, "64.03"), (171.96, "172.0"), (1387.6, "1,388"), (10000.0, "10,000"), (0.0, "0")],
)
def test_counts(number: float, expected: str) -> None:
    assert text.count(number) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.0, "0 B"),
        (132.0, "132 B"),
        (1023.0, "1023 B"),
        (1024.0, "1 KiB"),
        (8451.0, "8.25 KiB"),
        (34816.0, "34 KiB"),
        (11658.0, "11.4 KiB"),
        (2.5 * 1024**2, "2.50 MiB"),
        (3.0 * 1024**5, "3072 TiB"),
    ],
)
def test_bytes(number: float, expected: str) -> None:
    assert text.byte_count(number) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.84, "0.8 s"),
        (12.4, "12 s"),
        (59.6, "1 min 0 s"),
        (200.0, "3 min 20 s"),
        (3599.6, "1 h 0 min"),
        (7500.0, "2 h 5 min"),
    ],
)
def test_durations(seconds: float, expected: str) -> None:
    assert text.duration(seconds) == expected


def test_an_undefined_interval_says_so() -> None:
    one = Interval(0.5, None, None, 1, "undefined: one seed")
    assert text.estimate(one, text.fraction) == "0.500 [undefined]"


def test_a_mean_that_is_not_finite_is_missing() -> None:
    assert text.finite(Interval(math.nan, 0.0, 1.0, 3, "t")) is None
    assert text.finite(Interval(0.5, math.nan, 1.0, 3, "t")) == Interval(0.5, None, None, 3, "t")
    assert text.finite(None) is None


def test_listing_counts_what_it_leaves_out() -> None:
    assert text.listing([]) == ""
    assert text.listing(["a"]) == "a"
    assert text.listing(["a", "b"]) == "a and b"
    assert text.listing(list("abcdef")) == "a, b, c, d and 2 more"


def test_settings_are_written_as_given() -> None:
    assert text.settings({}) == text.MISSING
    assert text.settings({"tau": 0.1 + 0.2, "pooling": True, "budget": 64}) == "tau 0.3, pooling yes, budget 64"


def test_a_column_is_written_as_its_metric_whichever_of_it_stands_there() -> None:
    assert text.column_writer("recall, held-out seeds")(0.9996) == "0.9996"
    assert text.column_writer("slots_mean, tuning seeds")(17.5) == "17.50"
    assert text.column_writer("p, Holm")(0.00012345) == "0.0001234"
