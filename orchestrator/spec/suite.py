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
TEXTS, LISTS = ("name", "description", "question"), ("suite", "ablations", "limits")
KEYS = (*TEXTS, *LISTS)


@dataclass(frozen=True)
class Suite:
    """Specs that belong together: names of ready-made ones, or files relative to the suite's own folder.

    Of one that asks a `question` an article is written; `ablations` are those of the specs that take its result apart,
    and `limits` what its reader must know beside what the sweeps tell.
    """

    name: str
    members: tuple[str, ...]
    description: str = ""
    question: str = ""
    ablations: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


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
        elif key.text in TEXTS and not _is_text(value):
            problems.add(value, f"`{key.text}` {shown(value)}", expected="text")
    members = _listed(tree, "suite", "a list of specs: `suite: [quick-start, mine.yaml]`", problems)
    ablations = _listed(tree, "ablations", "a list of those specs of `suite` that take its result apart", problems)
    for name, node in ablations.items() if members else ():
        if name not in members:
            problems.add(node, f"{quoted(name)} is not in `suite`", expected=one_of(list(members)))
    limits = _listed(tree, "limits", "a list of sentences", problems)
    for asked in ("ablations", "limits"):
        given = tree.get(asked)
        if given is not None and not _text_of(tree, "question"):
            problems.add(given, f"`{asked}` is of a suite that asks something", expected="`question: ...` beside it")
    return Suite(
        _text_of(tree, "name") or path.stem,
        tuple(members),
        _text_of(tree, "description"),
        _text_of(tree, "question"),
        tuple(ablations),
        tuple(limits),
    )


def _text_of(tree: MapNode, key: str) -> str:
    node = tree.get(key)
    return node.text if isinstance(node, ScalarNode) and _is_text(node) else ""


def _listed(tree: MapNode, key: str, expected: str, problems: Problems) -> dict[str, Node]:
    """The texts under `key`, each once, with their places; none where the key is not there."""
    listed = tree.get(key)
    if listed is None:
        return {}
    if not isinstance(listed, ListNode) or not listed.items:
        problems.add(listed, f"`{key}` {shown(listed)}", expected=expected)
        return {}
    found: dict[str, Node] = {}
    for item in listed.items:
        if not isinstance(item, ScalarNode) or not _is_text(item):
            told = "a sentence" if key == "limits" else "the name of a spec, or of its file"
            problems.add(item, f"an entry of `{key}` {shown(item)}", expected=told)
        elif item.text in found:
            problems.add(item, f"{quoted(item.text)} is in `{key}` already", expected="each once")
        else:
            found[item.text] = item
    return found


def _is_text(node: Node) -> bool:
    return isinstance(node, ScalarNode) and isinstance(node.value, str) and bool(node.value.strip())
