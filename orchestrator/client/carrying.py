"""What is sent of a spec's file: its text, and the source of the plug-ins that it names by their files."""

from __future__ import annotations

from typing import Any

from orchestrator.requests import SpecFile
from orchestrator.spec.document import compose
from orchestrator.spec.files import load
from orchestrator.spec.nodes import ListNode, MapNode, ScalarNode
from orchestrator.spec.overrides import apply_overrides
from orchestrator.spec.problems import Problems, Source


def upload_of(spec: SpecFile) -> dict[str, Any]:
    """A spec as the API takes it. Raises SpecError for a file, or that of a plug-in, that cannot be read."""
    source = load(spec.path)
    return {
        "name": spec.name,
        "text": source.text,
        "overrides": list(spec.overrides),
        "plugins": _plugins(spec, source),
    }


def _plugins(spec: SpecFile, source: Source) -> dict[str, str]:
    """Source by the name that the spec gives a file. What else is wrong with the spec the service will say."""
    if "plugins" not in source.text and not any("plugins" in text for text in spec.overrides):
        return {}
    ignored, missing = Problems(), Problems()
    tree = apply_overrides(compose(source, ignored), spec.overrides, ignored)
    node = tree.get("plugins") if isinstance(tree, MapNode) else None
    items = node.items if isinstance(node, ListNode) else ()
    found: dict[str, str] = {}
    for item in items:
        if not isinstance(item, ScalarNode) or not item.text.endswith(".py"):
            continue
        path = spec.path.parent / item.text
        try:
            found[item.text] = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            missing.add(item, f"the plug-in's file {path} cannot be read: {reason}")
    missing.raise_if_any()
    return found
