"""Axes: the values a field takes in turn. `values`, `linspace`, `logspace` and `range` on any field."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from models.config import canonical_json, round_number, round_numbers
from orchestrator.spec.expectations import Expectation
from orchestrator.spec.foreign import AXIS_WORDS, LOGSPACE
from orchestrator.spec.hints import did_you_mean, one_of
from orchestrator.spec.nodes import ListNode, MapNode, Node, ScalarNode, quoted, shown, to_python
from orchestrator.spec.problems import Problems

LONGEST = 100_000
"""Values of the longest axis."""

FORMS = {
    "values": "{values: [a, b, c]}",
    "linspace": "{linspace: [low, high, n]}",
    "logspace": "{logspace: [low, high, n]}",
    "range": "{range: [start, stop]} or {range: [start, stop, step]}, without the stop itself",
}


@dataclass(frozen=True)
class Axis:
    """The values of one field, in the order in which they are swept: JSON values, numbers rounded, all distinct."""

    field: str
    values: tuple[Any, ...]


def is_axis(node: Node, expectation: Expectation) -> bool:
    """Whether `node` is meant as an axis: a mapping where the field takes none, or an axis word alone."""
    if not isinstance(node, MapNode):
        return False
    takes_mappings = bool({"object", "any"} & expectation.types())
    return not takes_mappings or (len(node.entries) == 1 and node.keys()[0] in FORMS)


def read_points(field: str, node: MapNode, expectation: Expectation, problems: Problems) -> tuple[Node, ...]:
    """The values an axis stands for, each a node, or nothing after a problem.

    Whether they fit the field is not checked.

    `linspace` and `logspace` include both ends. On a field of whole numbers `linspace` must hit whole numbers;
    `logspace` takes the nearest ones, each once. `range` is Python's: the stop is not part of it.
    """
    word = _word(field, node, problems)
    if word is None:
        return ()
    arguments = node.entries[0][1]
    if not isinstance(arguments, ListNode):
        problems.add(arguments, f"`{word}` {shown(arguments)}", expected=FORMS[word])
        return ()
    if word == "values":
        return _listed(arguments, problems)
    if not expectation.numeric():
        problems.add(arguments, f"`{word}` makes numbers, and `{field}` takes none", expected=FORMS["values"])
        return ()
    makers: dict[str, Callable[[ListNode, bool, Problems], tuple[Node, ...]]] = {
        "linspace": _linspace,
        "logspace": _logspace,
        "range": _range,
    }
    return makers[word](arguments, expectation.whole(), problems)


def report_repeats(points: tuple[Node, ...], problems: Problems, *, generated: bool) -> None:
    """Report each value (if generated, the first) that is in an axis before it.

    1 and 1.0 are one value, and so are 1 - 0.7 and 0.3.
    """
    seen: dict[str, Node] = {}
    for point in filter(problems.clean, points):
        first = seen.setdefault(canonical_json(_whole_as_int(round_numbers(to_python(point)))), point)
        if first is not point:
            what = quoted(point.text) if isinstance(point, ScalarNode) else "this value"
            problems.add(point, f"{what} is in this axis already", expected="each value once")
            if generated:
                return


def _whole_as_int(tree: Any) -> Any:
    if isinstance(tree, float) and tree.is_integer():
        return int(tree)
    return [_whole_as_int(item) for item in tree] if isinstance(tree, list) else tree


def _word(field: str, node: MapNode, problems: Problems) -> str | None:
    """The axis word, if the mapping has one and nothing else."""
    strangers = [key for key, _ in node.entries if key.text not in FORMS]
    if len(node.entries) == 1 and not strangers:
        return node.keys()[0]
    if not node.entries:
        problems.add(node, f"`{field}` {shown(node)}", expected=f"an axis such as {FORMS['values']}")
    elif not strangers:
        second = node.entries[1][0]
        problems.add(
            node.entries[1][1],
            f"`{field}` has two axes, `{node.keys()[0]}` and `{second.text}`",
            expected="one axis a field",
        )
    else:
        key = strangers[0]
        hint = LOGSPACE if node.get("log") else AXIS_WORDS.get(key.text) or did_you_mean(key.text, FORMS)
        problems.at(key.at, f"unknown axis word {quoted(key.text)} on `{field}`", expected=one_of(FORMS), hint=hint)
    return None


def _listed(arguments: ListNode, problems: Problems) -> tuple[Node, ...]:
    if not arguments.items:
        problems.add(arguments, "the axis is empty", expected="at least one value")
    elif len(arguments.items) > LONGEST:
        problems.add(arguments, f"the axis has {len(arguments.items)} values", expected=f"at most {LONGEST}")
    return arguments.items


def _linspace(arguments: ListNode, whole: bool, problems: Problems) -> tuple[Node, ...]:
    ends = _ends_and_count("linspace", arguments, problems)
    if ends is None:
        return ()
    low, high, count = ends
    steps = max(count - 1, 1)
    if not whole:
        values = [round_number(low + index * (high - low) / steps) for index in range(count - 1)]
        return _points(arguments, [*values, round_number(high)])
    if not _whole_ends(arguments, problems):
        return ()
    low, high = int(low), int(high)
    for index in range(count):
        if (high - low) * index % steps:
            wrong = f"`linspace` meets {low + (high - low) * index / steps:.12g}, and this field takes whole numbers"
            expected = "ends and n that meet whole numbers only, or `range`, or `values`"
            problems.add(arguments, wrong, expected=expected)
            return ()
    return _points(arguments, [low + (high - low) * index // steps for index in range(count)])


def _logspace(arguments: ListNode, whole: bool, problems: Problems) -> tuple[Node, ...]:
    ends = _ends_and_count("logspace", arguments, problems)
    if ends is None:
        return ()
    low, high, count = ends
    if low <= 0:
        bound = arguments.items[0]
        problems.add(bound, f"a logarithmic axis cannot begin at {low:.12g}", expected="ends above 0")
        return ()
    between = [low * (high / low) ** (index / (count - 1)) for index in range(1, count - 1)]
    if not whole:
        values = [low, *between, high][:count]
        return _points(arguments, [round_number(value) for value in values])
    if not _whole_ends(arguments, problems):
        return ()
    rounded = [int(low), *map(round, between), int(high)]
    return _points(arguments, list(dict.fromkeys(rounded)))


def _whole_ends(arguments: ListNode, problems: Problems) -> bool:
    """Whether both ends are whole numbers, as the field asks."""
    for end in arguments.items[:2]:
        assert isinstance(end, ScalarNode)
        if isinstance(end.value, float) and not end.value.is_integer():
            problems.add(end, f"this end {shown(end)}, and the field takes whole numbers", expected="a whole number")
    return problems.clean(arguments)


def _range(arguments: ListNode, whole: bool, problems: Problems) -> tuple[Node, ...]:
    numbers = _numbers("range", arguments, (2, 3), problems)
    if numbers is None:
        return ()
    start, stop, step = numbers if len(numbers) == 3 else (*numbers, 1)
    if step == 0:
        problems.add(arguments.items[2], "a step of 0 goes nowhere", expected="a step other than 0")
        return ()
    if (stop - start) * step <= 0:
        what = "low > high" if start > stop else "the axis is empty"
        expected = "start < stop, or start > stop and a step below 0"
        problems.add(arguments, f"{what}: from {start:.12g} to {stop:.12g} by {step:.12g}", expected=expected)
        return ()
    if (stop - start) / step > LONGEST:
        problems.add(arguments, "the axis is too long", expected=f"at most {LONGEST} values")
        return ()
    if all(isinstance(number, int) for number in numbers):
        return _points(arguments, list(range(int(start), int(stop), int(step))))
    most = math.ceil((stop - start) / step)
    values = [value for index in range(most) if (stop - (value := round_number(start + index * step))) * step > 0]
    if whole:
        problems.add(arguments, "`range` has a fraction, and this field takes whole numbers", expected="whole numbers")
        return ()
    return _points(arguments, values)


def _points(arguments: ListNode, values: list[Any]) -> tuple[Node, ...]:
    """Generated values as nodes: the first and the last stand where the ends are written."""
    first, last = arguments.items[0].at, arguments.items[1].at
    places = [first, *[arguments.at] * (len(values) - 2), last][: len(values)]
    return tuple(
        ScalarNode(place, value, f"{value:.12g}" if isinstance(value, float) else str(value))
        for place, value in zip(places, values, strict=True)
    )


def _ends_and_count(word: str, arguments: ListNode, problems: Problems) -> tuple[int | float, int | float, int] | None:
    numbers = _numbers(word, arguments, (3,), problems)
    if numbers is None:
        return None
    low, high, count = numbers
    if not isinstance(count, int) or count < 1:
        last = arguments.items[2]
        wrong = "the axis is empty: n is `0`" if count == 0 else f"n {shown(last)}"
        problems.add(last, wrong, expected=f"a whole number from 1 to {LONGEST}")
    elif count > LONGEST:
        problems.add(arguments.items[2], f"n is {count}", expected=f"at most {LONGEST} values")
    elif low > high:
        problems.add(arguments, f"low > high: {low:.12g} > {high:.12g}", expected=f"[{high:.12g}, {low:.12g}, {count}]")
    elif count == 1 and low != high:
        problems.add(
            arguments.items[2], "one value cannot meet two ends", expected="n of 2 or more, or the value alone"
        )
    elif count > 1 and low == high:
        problems.add(arguments.items[1], f"both ends are {low:.12g}", expected="two different ends, or the value alone")
    else:
        return low, high, count
    return None


def _numbers(word: str, arguments: ListNode, lengths: tuple[int, ...], problems: Problems) -> list[int | float] | None:
    """The arguments as numbers, if they are and there are as many as there must be."""
    if not arguments.items:
        problems.add(arguments, "the axis is empty", expected=FORMS[word])
        return None
    if len(arguments.items) not in lengths:
        problems.add(
            arguments,
            f"`{word}` takes {' or '.join(map(str, lengths))} numbers, not {len(arguments.items)}",
            expected=FORMS[word],
        )
        return None
    numbers: list[int | float] = []
    for item in arguments.items:
        value = item.value if isinstance(item, ScalarNode) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            numbers.append(value)
        else:
            problems.add(item, f"a number of `{word}` {shown(item)}", expected="a number")
    return numbers if problems.clean(arguments) else None
