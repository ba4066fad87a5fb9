"""Whatever the text, reading it gives a spec or a SpecError, and every problem points into the text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from orchestrator.spec import Problem, Spec, SpecError, read_spec

TEXT = """\
name: x
kind: frontier
workload: {name: associative_recall, items: {range: [8, 64, 8]}}
mechanisms:
  - &a {name: dp_cache, tau: {linspace: [0.1, 0.8, 8]}, keep: "first"}
  - {name: h2o, budget: {values: [16, 32]}, window: 4}
  - {name: h2o, budget: {logspace: [64, 1024, 5]}}
seeds: {count: 3, base: 1}   # seeds
device: [cpu, mps]
"""

PIECES = [
    "\t",
    "\n",
    ":",
    ": ",
    "-",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ",",
    '"',
    "'",
    "#",
    "&a ",
    "*a",
    "!",
    "|",
    ">",
    "%",
    "@",
    "?",
]
PIECES += [
    "0",
    "010",
    "-1",
    ".5",
    ".nan",
    "1e999",
    "null",
    "true",
    "off",
    "<<: ",
    "---",
    "...",
    "\\",
    "ü",
    "測",
    "\x00",
]
EDITS = st.lists(
    st.tuples(st.integers(0, len(TEXT)), st.integers(0, 12), st.sampled_from(["", *PIECES])), min_size=1, max_size=4
)


def outcome(text: str) -> tuple[Spec | None, Sequence[Problem]]:
    try:
        return read_spec(text + "\n"), ()
    except SpecError as error:
        return None, error.problems


@pytest.mark.usefixtures("fixed_registries")
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS)
@example(edits=[(0, 12, "- ")])
def test_any_edit_of_a_spec_is_read_or_reported(edits: list[tuple[int, int, str]]) -> None:
    text = TEXT
    for place, length, piece in edits:
        text = text[:place] + piece + text[place + length :]
    spec, problems = outcome(text)
    if spec is not None:
        assert spec.trials == len(spec.seeds) * spec.cells
        assert sum(1 for _ in spec.mechanism_configs()) >= 1
        return
    assert problems
    assert len({(one.place.line, one.place.column, one.wrong) for one in problems}) == len(problems)
    for one in problems:
        assert 1 <= one.place.column <= len(one.place.source.line(one.place.line)) + 1


@pytest.mark.usefixtures("fixed_registries")
@pytest.mark.parametrize(
    "axis",
    [
        "{linspace: [-1e308, 1e308, 3]}",
        "{logspace: [1e-308, 1e308, 3]}",
        "{linspace: [1, 1.0000000000001, 9]}",
        "{range: [1e16, 10000000000000008, 0.5]}",
        f"{{linspace: [1, {'9' * 299}, 4]}}",
        f"{{range: [1, {'9' * 299}]}}",
        f"{{values: [{'9' * 5000}]}}",
    ],
)
@pytest.mark.parametrize("field", ["name: dp_cache, tau", "name: h2o, budget"])
def test_numbers_at_the_edge_are_reported_once(field: str, axis: str) -> None:
    start = "name: x\nkind: frontier\nworkload: {name: associative_recall}\nseeds: 1\n"
    spec, problems = outcome(f"{start}mechanisms: [{{{field}: {axis}}}]\n")
    assert spec is None
    assert len(problems) == 1


@pytest.mark.parametrize("value", ["[[1]]", "[{a: 1}, {a: 1}]", "[[[[]]]]"])
@pytest.mark.parametrize("field", ["seeds", "device", "plugins"])
def test_lists_inside_lists_are_reported(field: str, value: str) -> None:
    lines = [line for line in TEXT.splitlines() if not line.startswith(f"{field}:")]
    with pytest.raises(SpecError):
        read_spec("\n".join([*lines, f"{field}: {value}", ""]))
