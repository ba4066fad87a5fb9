"""Files that fields of a spec name, as they are named from anywhere; see `orchestrator.spec.surroundings`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from models.config import Config
from orchestrator.spec.entries import MECHANISM, WORKLOAD, Family
from orchestrator.spec.nodes import ListNode, MapNode, Node, ScalarNode
from orchestrator.spec.problems import Problems
from orchestrator.spec.surroundings import NotHereError, Surroundings

Change = Callable[[Node], Node]

N = TypeVar("N", bound=Node)

POINTS = ("values", "choices")
"""Where an axis, and a dimension of a search, list values."""


class Located:
    """Makes paths absolute, and reports those that the spec may not name."""

    def __init__(self, surroundings: Surroundings, problems: Problems) -> None:
        self._surroundings = surroundings
        self._problems = problems

    def tree(self, tree: MapNode) -> MapNode:
        """The whole spec."""
        changes: dict[str, Change] = {
            "workload": lambda node: self._entries(node, WORKLOAD),
            "mechanisms": lambda node: self._entries(node, MECHANISM),
            "search": lambda node: self._search(node, tree),
        }
        return self._changed(tree, changes)

    def _entries(self, node: Node, family: Family) -> Node:
        """What stands under `workload` or `mechanisms`."""
        if isinstance(node, ListNode):
            return self._list(node, lambda item: self._entries(item, family))
        config_class = _class_of(node, family)
        if not isinstance(node, MapNode) or config_class is None:
            return node
        return self._changed(node, {key.text: self._field(config_class, key.text) for key, _ in node.entries})

    def _search(self, node: Node, tree: MapNode) -> Node:
        """Dimensions of fields of the workload; mechanisms read no files."""
        workload = tree.get("workload")
        entries = workload.items if isinstance(workload, ListNode) else (workload,)
        classes = [found for entry in entries if (found := _class_of(entry, WORKLOAD)) is not None]
        if not isinstance(node, MapNode) or not classes:
            return node
        named = [key.text for key, _ in node.entries if key.text.startswith("workload.")]
        return self._changed(node, {name: self._field(classes[0], name.partition(".")[2]) for name in named})

    def _field(self, config_class: type[Config], field: str) -> Change:
        """What becomes of the value of a field, or of the points of an axis on it."""

        def change(node: Node) -> Node:
            if isinstance(node, MapNode):
                return self._changed(node, dict.fromkeys(POINTS, change))
            if isinstance(node, ListNode):
                return self._list(node, change)
            if not isinstance(node, ScalarNode) or self._problems.spoiled(node):
                return node
            try:
                value = self._surroundings.located(config_class, field, node.value, override=node.at.source.rank > 0)
            except NotHereError as error:
                self._problems.add(node, error.wrong, expected=error.expected)
                return node
            return node if value == node.value else self._kept(node, replace(node, value=value, text=str(value)))

        return change

    def _changed(self, node: MapNode, changes: dict[str, Change]) -> MapNode:
        entries = tuple(
            (key, changes[key.text](value) if key.text in changes else value) for key, value in node.entries
        )
        if all(new is old for (_, new), (_, old) in zip(entries, node.entries, strict=True)):
            return node
        return self._kept(node, replace(node, entries=entries))

    def _list(self, node: ListNode, change: Change) -> ListNode:
        items = tuple(map(change, node.items))
        if all(new is old for new, old in zip(items, node.items, strict=True)):
            return node
        return self._kept(node, replace(node, items=items))

    def _kept(self, old: N, new: N) -> N:
        """`new`, of which is known what is known of `old`."""
        if self._problems.spoiled(old):
            self._problems.spoil(new)
        return new


def _class_of(node: Node | None, family: Family) -> type[Config] | None:
    """The config class of an entry, if its name is known."""
    name = node.get("name") if isinstance(node, MapNode) else None
    if not isinstance(name, ScalarNode) or not isinstance(name.value, str) or name.value not in family.registry:
        return None
    return family.registry.config_class(name.value)
