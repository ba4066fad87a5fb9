"""A YAML document as a tree of values that know where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orchestrator.spec.problems import Place, visible

Atom = str | int | float | bool | None

QUOTE_WIDTH = 40


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A value and the place of its first character."""

    at: Place

    def children(self) -> tuple[Node, ...]:
        """The values inside this one."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class ScalarNode(Node):
    """Text, number, truth value or null; `text` is how it was written and `plain` whether without quotes."""

    value: Atom
    text: str
    plain: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class ListNode(Node):
    """A sequence."""

    items: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        return self.items


@dataclass(frozen=True, slots=True, eq=False)
class MapNode(Node):
    """A mapping with distinct text keys, in file order."""

    entries: tuple[tuple[ScalarNode, Node], ...]

    def children(self) -> tuple[Node, ...]:
        return tuple(value for _, value in self.entries)

    def get(self, key: str) -> Node | None:
        """The value of `key`, or None."""
        return next((value for name, value in self.entries if name.text == key), None)

    def key(self, key: str) -> ScalarNode | None:
        """The node of `key` itself, or None."""
        return next((name for name, _ in self.entries if name.text == key), None)

    def keys(self) -> list[str]:
        """All keys, in file order."""
        return [name.text for name, _ in self.entries]


def to_python(node: Node) -> Any:
    """The value of `node` as a JSON tree."""
    if isinstance(node, MapNode):
        return {key.text: to_python(value) for key, value in node.entries}
    if isinstance(node, ListNode):
        return [to_python(item) for item in node.items]
    assert isinstance(node, ScalarNode)
    return node.value


def shown(node: Node) -> str:
    """What `node` is, as a predicate: "`field` is a list"."""
    if isinstance(node, MapNode):
        return "is a mapping" if node.entries else "is an empty mapping"
    if isinstance(node, ListNode):
        return "is a list" if node.items else "is an empty list"
    assert isinstance(node, ScalarNode)
    if node.value is None:
        return "is null" if node.text else "has no value"
    if isinstance(node.value, str):
        return f"is the text {quoted(node.text)}" if node.plain else f"is the text {quoted(node.text, mark=chr(34))}"
    return f"is {quoted(node.text)}"


def quoted(text: str, mark: str = "`") -> str:
    """`text` between marks, cut to a readable length."""
    cut = text if len(text) <= QUOTE_WIDTH else f"{text[:QUOTE_WIDTH]}..."
    return f"{mark}{visible(cut)}{mark}"
