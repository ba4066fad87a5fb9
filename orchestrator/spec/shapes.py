"""The options of a tuning spec one by one, with cures for the ways in which other tools write them."""

from __future__ import annotations

import re
from collections.abc import Callable

from orchestrator.spec.foreign import DIMENSION_WORDS, DISTRIBUTIONS, GOAL_WORDS, HIGHS, LOWS, VALUES
from orchestrator.spec.hints import did_you_mean
from orchestrator.spec.nodes import ListNode, MapNode, Node, ScalarNode, quoted, shown
from orchestrator.spec.problems import Problems
from orchestrator.spec.validation import check_field
from tasks.kinds.tuning import TuningConfig

WORDS = ("low", "high", "log", "step", "choices", "when")
FORM = "{low: a, high: b}, with `log: true` or `step: c`; or {choices: [a, b, c]}"
CALL = re.compile(r"(?:\w+\.)*(\w+)(\(.*\))?")


NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
INEQUALITY = re.compile(r"\s*(<=?|>=?)\s*(\S+)\s*")

EXAMPLES = {
    "search": "dimensions: {mechanism.FIELD: {low: 0.1, high: 0.9}}",
    "constraints": "metrics and bounds: {slots: {at_most: 18}}",
}


def check_tuning_option(option: str, node: Node, problems: Problems) -> None:
    """Check one option of a tuning spec by itself."""
    if problems.spoiled(node):
        return
    if option == "search":
        _check_each(option, node, _check_dimension, problems)
    elif option == "constraints":
        _check_each(option, node, _check_bound, problems)
    elif option == "objectives" and (not isinstance(node, MapNode) or set(GOAL_WORDS) & set(node.keys())):
        what = f"`objectives` {shown(node)}" if not isinstance(node, MapNode) else "`objectives` names no metric"
        hint = f"write {{{_metric(node)}: maximize}}, or minimize"
        problems.add(node, what, expected="metrics and directions", hint=hint)
    elif problems.clean(node):
        check_field(TuningConfig, option, node, problems, {"name": "tuning"})


def _metric(node: Node) -> str:
    """A metric that probably is the objective."""
    if isinstance(node, MapNode):
        named = node.get("metric") or node.get("name") or node.get("objectiveMetricName")
        return named.text if isinstance(named, ScalarNode) else "recall"
    first = node.items[0] if isinstance(node, ListNode) and node.items else node
    return first.text if isinstance(first, ScalarNode) and isinstance(first.value, str) else "recall"


def _check_each(
    option: str, node: Node, check: Callable[[ScalarNode, Node, Problems], None], problems: Problems
) -> None:
    """Check an option that maps names, each of its values by itself: first by `check`, then against the model."""
    if not isinstance(node, MapNode) or not node.entries:
        problems.add(node, f"`{option}` {shown(node)}", expected=EXAMPLES[option])
        return
    for key, value in node.entries:
        if problems.clean(value):
            check(key, value, problems)
        if problems.clean(value):
            check_field(TuningConfig, option, MapNode(node.at, ((key, value),)), problems, {"name": "tuning"})


def _check_bound(key: ScalarNode, node: Node, problems: Problems) -> None:
    """Report a bound that is written as a number or an inequality."""
    if isinstance(node, MapNode):
        return
    text = node.text if isinstance(node, ScalarNode) else ""
    inequality = INEQUALITY.fullmatch(text)
    number = inequality[2] if inequality else text
    ends = ["at_most", "at_least"]
    if inequality:
        ends = ends[:1] if inequality[1].startswith("<") else ends[1:]
    hint = f"write {' or '.join(f'{{{end}: {number}}}' for end in ends)}" if number else ""
    wrong = f"the bound of {quoted(key.text)} {shown(node)}"
    problems.add(node, wrong, expected="{at_most: number}, {at_least: number}, or both", hint=hint)


def _check_dimension(key: ScalarNode, node: Node, problems: Problems) -> None:
    """Report a dimension with words that are not ours, and say how to write it."""
    if not isinstance(node, MapNode):
        problems.add(node, f"{quoted(key.text)} {shown(node)}", expected=FORM, hint=_cure(node))
        return
    strangers = [word for word, _ in node.entries if word.text not in WORDS]
    if strangers:
        word = strangers[0].text
        hint = _rewritten(node) or DISTRIBUTIONS.get(word) or DIMENSION_WORDS.get(word) or did_you_mean(word, WORDS)
        problems.at(strangers[0].at, f"unknown word {quoted(word)} in {quoted(key.text)}", expected=FORM, hint=hint)
        problems.spoil(node)


def _cure(node: Node) -> str:
    """How to write a dimension that is no mapping."""
    if isinstance(node, ListNode):
        texts = [item.text for item in node.items if isinstance(item, ScalarNode)]
        return f"write {{choices: [{', '.join(texts)}]}}"
    assert isinstance(node, ScalarNode)
    call = CALL.fullmatch(node.text.strip())
    if call and (name := call[1].casefold()) in DISTRIBUTIONS:
        numbers = NUMBER.findall(call[2] or "")
        if len(numbers) < 2 or "choice" in name or "categorical" in name:
            return DISTRIBUTIONS[name]
        return f"write {{low: {numbers[0]}, high: {numbers[1]}{', log: true' if 'log' in call[0].casefold() else ''}}}"
    return DIMENSION_WORDS["value"] if node.text else ""


def _rewritten(node: MapNode) -> str:
    """The same dimension in our words, where it has two ends, or values to choose from, in those of other tools."""
    texts = {key.text: value.text for key, value in node.entries if isinstance(value, ScalarNode)}
    low, high = (next((texts[word] for word in words if word in texts), None) for words in (LOWS, HIGHS))
    if low is not None and high is not None:
        logarithmic = "log" in (texts.get("distribution", "") + texts.get("type", "")) or texts.get("log") == "true"
        step = texts.get("step") or texts.get("q")
        rest = ", log: true" if logarithmic else f", step: {step}" if step else ""
        return f"write {{low: {low}, high: {high}{rest}}}"
    values = next((value for key, value in node.entries if key.text in VALUES), None)
    return _cure(values) if isinstance(values, ListNode) else ""
