"""`--set path=value`: a value put into a spec's tree before it is checked, by the same rules as the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from orchestrator.spec.document import compose
from orchestrator.spec.hints import did_you_mean, one_of
from orchestrator.spec.nodes import ListNode, MapNode, Node, ScalarNode, quoted, shown
from orchestrator.spec.problems import Place, Problems, Source
from orchestrator.spec.schema import MOST_SEEDS


@dataclass(frozen=True)
class _Step:
    """One part of a path: a key, an index, or the name of an entry."""

    text: str
    at: Place
    trail: str  # the path before it, for messages


@dataclass(frozen=True)
class _Override:
    steps: tuple[_Step, ...]
    value: Node

    def names(self, field: str) -> bool:
        """Whether it sets `field` of the spec itself."""
        return [step.text for step in self.steps] == [field]


def apply_overrides(tree: Node | None, overrides: Sequence[str], problems: Problems) -> Node | None:
    """`tree` with every override applied in turn; those that fit nowhere are reported. None stays None."""
    for rank, text in enumerate(overrides, 1):
        override = _parse(Source(f"--set {text}", text, rank), problems)
        if override is not None and tree is not None:
            value = _as_many(tree, override.value) if override.names("seeds") else override.value
            tree = _put(tree, override.steps, value, problems)
    return tree


def _as_many(tree: Node, value: Node) -> Node:
    """`value` for `seeds`; where the spec lists its seeds and `value` says how many, the first so many of these.

    Of more than are listed the others are the least that are not. So a short form of a sweep is a part of the whole.
    """
    listed = tree.get("seeds") if isinstance(tree, MapNode) else None
    count = value.value if isinstance(value, ScalarNode) else None
    if not isinstance(listed, ListNode) or isinstance(count, bool) or not isinstance(count, int):
        return value
    seeds = [item for item in listed.items if isinstance(item, ScalarNode)][: max(count, 0)]
    if not 1 <= count <= MOST_SEEDS or len(seeds) < min(count, len(listed.items)):
        return value  # validation says what is wrong with it
    known = {seed.value for seed in seeds}
    others = islice((seed for seed in range(count) if seed not in known), count - len(seeds))
    more = [ScalarNode(value.at, seed, str(seed)) for seed in others]
    return ListNode(value.at, (*seeds, *more))


def _parse(source: Source, problems: Problems) -> _Override | None:
    path, equals, value = source.text.partition("=")
    if not equals:
        problems.at(Place(source), "no `=` in this override", expected="path=value, such as seeds=3")
        return None
    if path[:1] in ("+", "~"):
        hint = "a key that is not there is added" if path[0] == "+" else "to leave a field out, edit the file"
        problems.at(
            Place(source), f"`{path[0]}` is not part of a path", expected="path=value, such as seeds=3", hint=hint
        )
        return None
    steps: list[_Step] = []
    column = 1
    for part in path.split("."):
        steps.append(_Step(part.strip(), Place(source, 1, column), ".".join(step.text for step in steps)))
        column += len(part) + 1
        if not part.strip():
            problems.at(
                steps[-1].at, f"an empty name in the path {quoted(path)}", expected="names with single dots between"
            )
            return None
    if not value.strip():
        return _Override(tuple(steps), ScalarNode(Place(source, 1, column), None, ""))
    node = compose(source, problems, " " * (len(path) + 1) + value)
    return None if node is None else _Override(tuple(steps), node)


def _put(node: Node, steps: tuple[_Step, ...], value: Node, problems: Problems) -> Node:
    """`node` with `value` at the end of the path; unchanged after a problem."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(node, MapNode):
        return _put_in_map(node, step, rest, value, problems)
    if isinstance(node, ListNode):
        index = _index(node, step, problems)
        if index is None:
            return node
        items = list(node.items)
        items[index] = _put(items[index], rest, value, problems)
        return replace(node, items=tuple(items))
    wrong = f"`{step.trail}` {shown(node)} and has no {quoted(step.text)} in it"
    problems.at(step.at, wrong, expected=f"{step.trail}=value")
    return node


def _put_in_map(node: MapNode, step: _Step, rest: tuple[_Step, ...], value: Node, problems: Problems) -> MapNode:
    keys = node.keys()
    if step.text not in keys and rest and f"{step.text}.{rest[0].text}" in keys:
        step, rest = replace(step, text=f"{step.text}.{rest[0].text}"), rest[1:]  # a dimension, `dp_cache.tau`
    if step.text in keys:
        changed = [
            (key, _put(old, rest, value, problems) if key.text == step.text else old) for key, old in node.entries
        ]
        return replace(node, entries=tuple(changed))
    if not rest:
        return replace(node, entries=(*node.entries, (ScalarNode(step.at, step.text, step.text), value)))
    where = f"`{step.trail}`" if step.trail else "the spec"
    problems.at(
        step.at, f"{where} has no {quoted(step.text)}", expected=one_of(keys), hint=did_you_mean(step.text, keys)
    )
    return node


def _index(node: ListNode, step: _Step, problems: Problems) -> int | None:
    """The position that `step` names: a number, or the name of the one entry that has it."""
    names = [_name(item) for item in node.items]
    if step.text.isdecimal():
        if int(step.text) < len(node.items):
            return int(step.text)
        problems.at(step.at, f"`{step.trail}` has no entry {step.text}", expected=f"0 to {len(node.items) - 1}")
        return None
    if names.count(step.text) == 1:
        return names.index(step.text)
    if step.text in names:
        indices = ", ".join(str(index) for index, name in enumerate(names) if name == step.text)
        problems.at(
            step.at, f"several entries are named {quoted(step.text)}", expected=f"one of their numbers: {indices}"
        )
        return None
    known = [name for name in names if name]
    wrong = f"`{step.trail}` has no entry {quoted(step.text)}"
    expected = f"a number from 0 to {len(node.items) - 1}" + (f", or {one_of(dict.fromkeys(known))}" if known else "")
    problems.at(step.at, wrong, expected=expected, hint=did_you_mean(step.text, known))
    return None


def _name(item: Node) -> str | None:
    name = item.get("name") if isinstance(item, MapNode) else None
    return name.value if isinstance(name, ScalarNode) and isinstance(name.value, str) else None
