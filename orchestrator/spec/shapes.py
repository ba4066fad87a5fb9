"""The options of a tuning spec one by one, with cures for the ways in which other tools write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrator.spec.foreign import BOUNDS, CHOICES, DIMENSION_WORDS, DISTRIBUTIONS, GOAL_WORDS
from orchestrator.spec.hints import did_you_mean
from orchestrator.spec.nodes import ListNode, MapNode, Node, ScalarNode, quoted, shown
from orchestrator.spec.problems import Problems
from orchestrator.spec.validation import check_field
from tasks.kinds.tuning import TuningConfig

WORDS = ("low", "high", "log", "step", "choices", "when")
FORM = "{low: a, high: b}, with `log: true` or `step: c`; or {choices: [a, b, c]}"
CALL = re.compile(r"(?:\w+\.)*(\w+)(\(.*\))?")


INEQUALITY = re.compile(r"\s*(<=?|>=?)\s*(\S+)\s*")


def check_tuning_option(option: str, node: Node, problems: Problems) -> None:
    """Check one option of a tuning spec by itself."""
    if option == "search":
        check_dimensions(node, problems)
    elif option == "objectives" and (not isinstance(node, MapNode) or set(GOAL_WORDS) & set(node.keys())):
        what = f"`objectives` {shown(node)}" if not isinstance(node, MapNode) else "`objectives` names no metric"
        metric = _metric(node)
        problems.add(node, what, expected="metrics and directions", hint=f"write {{{metric}: maximize}}, or minimize")
    else:
        if option == "constraints" and isinstance(node, MapNode):
            _check_bounds(node, problems)
        if problems.clean(node):
            check_field(TuningConfig, option, node, problems, {"name": "tuning"})


def _metric(node: Node) -> str:
    """A metric that probably is the objective."""
    if isinstance(node, MapNode):
        named = node.get("metric") or node.get("name") or node.get("objectiveMetricName")
        return named.text if isinstance(named, ScalarNode) else "recall"
    first = node.items[0] if isinstance(node, ListNode) and node.items else node
    return first.text if isinstance(first, ScalarNode) and isinstance(first.value, str) else "recall"


def _check_bounds(node: MapNode, problems: Problems) -> None:
    """Report bounds that are written as numbers or inequalities."""
    for key, value in node.entries:
        if isinstance(value, MapNode) or not problems.clean(value):
            continue
        text = value.text if isinstance(value, ScalarNode) else ""
        inequality = INEQUALITY.fullmatch(text)
        number = inequality[2] if inequality else text
        ends = ["at_most", "at_least"]
        if inequality:
            ends = ends[:1] if inequality[1].startswith("<") else ends[1:]
        hint = f"write {' or '.join(f'{{{end}: {number}}}' for end in ends)}" if number else ""
        wrong = f"the bound of {quoted(key.text)} {shown(value)}"
        problems.add(value, wrong, expected="{at_most: number}, {at_least: number}, or both", hint=hint)


def check_dimensions(node: Node, problems: Problems) -> None:
    """Check each dimension under `search` by itself, with cures for the words of other tools."""
    if not isinstance(node, MapNode) or not node.entries:
        hint = f"write {{mechanism.FIELD: {BOUNDS.removeprefix('write ')}}}"
        problems.add(node, f"`search` {shown(node)}", expected="a mapping of dimensions", hint=hint)
        return
    for key, value in node.entries:
        if not problems.clean(value):
            continue
        if not isinstance(value, MapNode):
            problems.add(value, f"{quoted(key.text)} {shown(value)}", expected=FORM, hint=_cure(value))
        elif strangers := [word for word, _ in value.entries if word.text not in WORDS]:
            _report_strangers(key, value, strangers, problems)
        else:
            check_field(TuningConfig, "search", MapNode(node.at, ((key, value),)), problems, {"name": "tuning"})


def _cure(node: Node) -> str:
    if isinstance(node, ListNode):
        return CHOICES
    call = CALL.fullmatch(node.text.strip()) if isinstance(node, ScalarNode) else None
    if call and call[1].casefold() in DISTRIBUTIONS:
        return DISTRIBUTIONS[call[1].casefold()]
    return DIMENSION_WORDS["value"] if isinstance(node, ScalarNode) and node.text else ""


def _report_strangers(key: ScalarNode, node: MapNode, strangers: Sequence[ScalarNode], problems: Problems) -> None:
    distribution = node.get("distribution") or node.get("type")
    for word in strangers:
        hint = DIMENSION_WORDS.get(word.text) or did_you_mean(word.text, WORDS)
        if word.text in DISTRIBUTIONS:
            hint = DISTRIBUTIONS[word.text]
        elif isinstance(distribution, ScalarNode):
            hint = DISTRIBUTIONS.get(distribution.text.casefold(), hint)
        problems.at(word.at, f"unknown word {quoted(word.text)} in {quoted(key.text)}", expected=FORM, hint=hint)
    problems.spoil(node)
