"""Suites: files that name several specs, to be run by one command."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from orchestrator.spec.document import compose
from orchestrator.spec.files import load
from orchestrator.spec.hints import nearest, one_of
from orchestrator.spec.nodes import ListNode, MapNode, Node, ScalarNode, quoted, shown
from orchestrator.spec.problems import Problems

SUITE_KEY = re.compile(r"^[\"']?suite[\"']?\s*:", re.MULTILINE)
KEYS = ("name", "description", "suite")


@dataclass(frozen=True)
class Suite:
    """Specs that belong together: names of ready-made ones, or files relative to the suite's own folder."""

    name: str
    members: tuple[str, ...]


def read_suite(path: Path) -> Suite | None:
    """The suite in the file at `path`; None where the file has no key `suite`, and may be a spec.

    Raises SpecError with every problem.
    """
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return None
    source = load(path)
    if not SUITE_KEY.search(source.text):
        return None
    problems = Problems()
    tree = compose(source, problems)
    if isinstance(tree, MapNode) and tree.get("suite") is not None:
        suite = _read(tree, path, problems)
        problems.raise_if_any()
        return suite
    return None


def _read(tree: MapNode, path: Path, problems: Problems) -> Suite:
    for key, value in tree.entries:
        if key.text not in KEYS:
            near = nearest(key.text, list(KEYS))
            hint = f"did you mean `{near}`?" if near else "what a sweep does stands in the spec that the suite names"
            problems.at(key.at, f"a suite has no key {quoted(key.text)}", expected=one_of(KEYS), hint=hint)
        elif key.text != "suite" and not _is_text(value):
            problems.add(value, f"`{key.text}` {shown(value)}", expected="text")
    name = tree.get("name")
    members = tree.get("suite")
    assert members is not None
    if not isinstance(members, ListNode) or not members.items:
        problems.add(
            members, f"`suite` {shown(members)}", expected="a list of specs: `suite: [quick-start, mine.yaml]`"
        )
        return Suite(path.stem, ())
    found: list[str] = []
    for item in members.items:
        if not isinstance(item, ScalarNode) or not _is_text(item):
            problems.add(item, f"an entry of `suite` {shown(item)}", expected="the name of a spec, or of its file")
        elif item.text in found:
            problems.add(item, f"{quoted(item.text)} is in `suite` already", expected="each once")
        else:
            found.append(item.text)
    text = name.text if isinstance(name, ScalarNode) and _is_text(name) else path.stem
    return Suite(text, tuple(found))


def _is_text(node: Node) -> bool:
    return isinstance(node, ScalarNode) and isinstance(node.value, str) and bool(node.value.strip())
