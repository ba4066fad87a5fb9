"""Rendered clusters, read back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML

from orchestrator.cluster.options import ClusterOptions, Place
from orchestrator.cluster.rendering import render

Tree = dict[str, Any]


def documents(text: str) -> list[Tree]:
    """The documents of a file."""
    return list(YAML(typ="safe", pure=True).load_all(text))


def rendered(place: Place, file: str, **options: Any) -> list[Tree]:
    """The documents of a file of a cluster with `options`."""
    return documents(render(place, ClusterOptions.model_validate(options))[file])


def one(place: Place, file: str, **options: Any) -> Tree:
    """The only document of a file."""
    [tree] = rendered(place, file, **options)
    return tree


def pods(tree: Any) -> Iterator[Tree]:
    """All pod templates in a tree."""
    if isinstance(tree, dict):
        if "template" in tree and "spec" in tree["template"]:
            yield tree["template"]
        for value in tree.values():
            yield from pods(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from pods(value)
