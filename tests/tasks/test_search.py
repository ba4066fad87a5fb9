"""Parameters of a search: how many values they have, and which."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.search import Parameter

STEPS = Parameter("mechanism.tau", "float", -0.3, 0.9, step=0.1)
RANGE = Parameter("mechanism.tau", "float", 0.1, 0.9)
WHOLE = Parameter("mechanism.cap", "int", 8, 64, log=True)
CHOICES = Parameter("mechanism.keep", "categorical", choices=("first", None, True, 3))


@pytest.mark.parametrize(("parameter", "size"), [(STEPS, 13), (RANGE, None), (WHOLE, 57), (CHOICES, 4)])
def test_size(parameter: Parameter, size: int | None) -> None:
    assert parameter.size == size
    grid = parameter.grid()
    assert (None if grid is None else len(grid)) == size


@pytest.mark.parametrize("parameter", [STEPS, WHOLE, CHOICES])
def test_it_takes_what_is_in_its_grid(parameter: Parameter) -> None:
    grid = parameter.grid()
    assert grid is not None
    assert all(parameter.takes(value) for value in grid)


@pytest.mark.parametrize(
    ("parameter", "value", "taken"),
    [
        (STEPS, 0.1 + 0.2, True),
        (STEPS, 0.35, False),
        (RANGE, 0.35, True),
        (RANGE, 0.95, False),
        (RANGE, True, False),
        (RANGE, "0.5", False),
        (WHOLE, 9, True),
        (WHOLE, 9.0, True),
        (WHOLE, 9.5, False),
        (CHOICES, 1, False),
        (CHOICES, True, True),
        (CHOICES, None, True),
        (CHOICES, "last", False),
    ],
)
def test_whether_it_takes_a_value(parameter: Parameter, value: Any, taken: bool) -> None:
    assert parameter.takes(value) is taken
