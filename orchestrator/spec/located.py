"""Files that fields of a spec name: in a file, relative paths begin at its folder, as those of plug-ins do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from models.config import Config
from orchestrator.spec.entries import MECHANISM, WORKLOAD, Family
from orchestrator.spec.nodes import ListNode, MapNode, Node, ScalarNode
from orchestrator.spec.problems import Problems

Change = Callable[[Node], Node]

N = TypeVar("N", bound=Node)

POINTS = ("values", "choices")
"""Where an axis, and a dimension of a search, list values."""


class Located:
    """Makes paths absolute. What stands in an override stays relative to the working directory."""

    def __init__(self, folder: Path, problems: Problems) -> None:
        self._folder = folder
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
            if not isinstance(node, ScalarNode) or node.at.source.rank:
                return node
            value = config_class.located(field, node.value, self._folder)
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
