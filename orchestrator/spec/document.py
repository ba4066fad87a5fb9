"""YAML 1.2 text to a tree of nodes with positions: plain data only, no tags, bounded aliases."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from orchestrator.spec.nodes import ListNode, MapNode, Node, ScalarNode, quoted
from orchestrator.spec.problems import Place, Problems, Source
from orchestrator.spec.scalars import OCTAL_LOOKING, resolve
from orchestrator.spec.syntax import place_of, report_syntax

MOST_VALUES = 1_000_000
"""Values a document may have once its aliases are written out; more is a mistake or an attack."""

DEEPEST = 50
"""Levels of nesting; a spec needs five."""

UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def compose(source: Source, problems: Problems, text: str | None = None) -> Node | None:
    """The one document of `source` as a tree, or None after a problem that leaves no tree.

    `text` stands in for the source's own text where only a part of it is YAML (with spaces in place of the rest).
    """
    text = source.text if text is None else text
    if match := UNPRINTABLE.search(text):
        code = f"U+{ord(match[0]):04X}"
        problems.at(Place.of_index(source, match.start()), f"control character {code}", expected="printable text")
        return None
    composer = _Composer(source, problems, text)
    try:
        return composer.document()
    except MarkedYAMLError as error:
        report_syntax(error, composer.opened, source, problems)
    except _TooMuchError as error:
        problems.at(error.place, error.wrong, expected=error.expected)
    return None


@dataclass
class _TooMuchError(Exception):
    place: Place
    wrong: str
    expected: str


@dataclass(frozen=True)
class _Anchored:
    node: Node
    weight: int


class _Composer:
    """Turns the parser's events into nodes, and remembers what it is inside of when the parser stops."""

    def __init__(self, source: Source, problems: Problems, text: str) -> None:
        self.opened: list[CollectionStartEvent] = []
        self._source = source
        self._problems = problems
        self._events: Iterator[Event] = YAML(typ="safe", pure=True).parse(text)
        self._anchors: dict[str, _Anchored | None] = {}
        self._weight = 0

    def document(self) -> Node | None:
        """The first document; more than one is a problem."""
        node: Node | None = None
        found = False
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                if found:
                    wrong = "a second document begins here"
                    self._problems.at(self._place(event), wrong, expected="one spec a file: remove this `---`")
                    break
                found = True
                if event.version not in (None, (1, 2)):
                    wrong = f"the file asks for YAML {'.'.join(map(str, event.version))}"
                    self._problems.at(Place(self._source), wrong, expected="YAML 1.2: remove the %YAML line")
                node = self._node(next(self._events))
        if node is None or (isinstance(node, ScalarNode) and node.value is None and not node.text):
            self._problems.at(Place(self._source), "the spec is empty", hint="`slotsweep init` writes a starter")
            return None
        return node

    def _node(self, event: Event) -> Node:
        if isinstance(event, AliasEvent):
            return self._alias(event)
        assert isinstance(event, NodeEvent)
        self._count(1, event)
        before = self._weight
        anchor = event.anchor
        if anchor:
            self._anchors[anchor] = None
        node = self._scalar(event) if isinstance(event, ScalarEvent) else self._collection(event)
        if getattr(event, "tag", None):
            self._problems.add(
                node, "a tag (`!`) is not read", expected="plain YAML: remove the `!` and the word after it"
            )
        if anchor:
            self._anchors[anchor] = _Anchored(node, self._weight - before + 1)
        return node

    def _alias(self, event: AliasEvent) -> Node:
        name, place = str(event.anchor), self._place(event)
        anchored = self._anchors.get(name)
        if anchored is None:
            node = ScalarNode(place, None, f"*{name}")
            if name in self._anchors:
                self._problems.add(node, f"`*{name}` stands inside the value it names", expected="a value without end")
            else:
                wrong = f"nothing above is marked `&{name}`"
                self._problems.add(node, wrong, expected="an anchor before its alias; or quotes around text with a `*`")
            return node
        self._count(anchored.weight, event)
        return replace(anchored.node, at=place)

    def _scalar(self, event: ScalarEvent) -> ScalarNode:
        text: str = event.value
        plain = event.style is None
        node = ScalarNode(self._place(event), resolve(text) if plain else text, text, plain)
        if isinstance(node.value, float) and not math.isfinite(node.value):
            self._problems.add(node, f"{quoted(text)} is not a finite number", expected="a finite number")
        elif plain and OCTAL_LOOKING.fullmatch(text):
            digits = text.lstrip("+-0") or "0"
            expected = f"{digits}, or 0o{digits} for base 8" if set(digits) <= set("01234567") else digits
            self._problems.add(
                node, f"{quoted(text)} is base 8 to some readers and base 10 to others", expected=expected
            )
        elif any("\ud800" <= char <= "\udfff" for char in text):
            self._problems.add(node, "half a surrogate pair is no character", expected=r"the character, or \U escapes")
        elif "\0" in text:
            self._problems.add(node, "the character NUL is no text", expected="text without it")
        return node

    def _collection(self, event: NodeEvent) -> Node:
        assert isinstance(event, CollectionStartEvent)
        if len(self.opened) >= DEEPEST:
            raise _TooMuchError(self._place(event), f"nested more than {DEEPEST} deep", "a flat spec")
        self.opened.append(event)
        node = self._list(event) if isinstance(event, SequenceStartEvent) else self._map(event)
        self.opened.pop()
        return node

    def _list(self, start: CollectionStartEvent) -> ListNode:
        items: list[Node] = []
        while not isinstance(event := next(self._events), CollectionEndEvent):
            items.append(self._node(event))
        return ListNode(self._place(start), tuple(items))

    def _map(self, start: CollectionStartEvent) -> MapNode:
        entries: dict[str, tuple[ScalarNode, Node]] = {}
        merges = False
        while not isinstance(event := next(self._events), CollectionEndEvent):
            key = self._node(event)
            value = self._node(next(self._events))
            if self._good_key(key, value, entries):
                assert isinstance(key, ScalarNode)
                if isinstance(value, ScalarNode) and value.value is None and not value.text:
                    value = replace(value, at=key.at)  # the parser marks a value that is not there at the next token
                entries[key.text] = (key, value)
            merges = merges or (isinstance(key, ScalarNode) and key.text == "<<")
        node = MapNode(self._place(start), tuple(entries.values()))
        if merges:
            self._problems.spoil(node)
        return node

    def _good_key(self, key: Node, value: Node, entries: dict[str, tuple[ScalarNode, Node]]) -> bool:
        if not isinstance(key, ScalarNode) or not isinstance(key.value, str):
            alone = isinstance(key, ScalarNode) and isinstance(value, ScalarNode) and not value.text
            hint = "several values for a field are written {values: [a, b, c]}" if alone else ""
            self._problems.add(key, "this key is not text", expected="a name before the `:`", hint=hint)
        elif key.text == "<<":
            self._problems.add(key, "merge keys (`<<`) belong to YAML 1.1", expected="the fields written out")
        elif key.text in entries:
            first = entries[key.text][0].at
            self._problems.add(
                key, f"duplicate key {quoted(key.text)}", expected=f"it once; it stands on line {first.line} already"
            )
        else:
            return True
        return False

    def _count(self, weight: int, event: Event) -> None:
        self._weight += weight
        if self._weight > MOST_VALUES:
            wrong = f"more than {MOST_VALUES} values once aliases are written out"
            raise _TooMuchError(self._place(event), wrong, "fewer")

    def _place(self, event: Event) -> Place:
        return place_of(event.start_mark, self._source)
