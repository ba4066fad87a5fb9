"""Clusters as files: which there are for each kind of place, written as YAML and checked before they are."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from orchestrator.cluster import aws, gcp, kuberay, skypilot
from orchestrator.cluster.checks import check
from orchestrator.cluster.options import ClusterOptions, Place

Tree = dict[str, Any]

RENDERERS: Mapping[Place, Callable[[ClusterOptions], Mapping[str, tuple[str, list[Tree]]]]] = {
    "aws": aws.files,
    "gcp": gcp.files,
    "kuberay": kuberay.files,
    "skypilot": skypilot.files,
}
"""By place: what makes files, each with what stands at its top, and its documents."""


def render(place: Place, options: ClusterOptions) -> dict[str, str]:
    """The files of a cluster, by their paths. Raises RequestError for options that do not fit the place."""
    check(place, options)
    return {path: written(top, trees) for path, (top, trees) in RENDERERS[place](options).items()}


def written(top: str, trees: Iterable[Tree]) -> str:
    """Documents as YAML, under a comment."""
    from ruamel.yaml import YAML
    from ruamel.yaml.scalarstring import walk_tree

    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 4096  # commands keep their lines
    yaml.representer.ignore_aliases = lambda _: True
    yaml.indent(mapping=2, sequence=4, offset=2)
    comment = "".join(f"# {line}".rstrip() + "\n" for line in top.strip().splitlines())
    documents = []
    for tree in trees:
        walk_tree(tree)  # text of several lines is written as such
        stream = io.StringIO()
        yaml.dump(tree, stream)
        documents.append(stream.getvalue())
    return comment + "---\n".join(documents)
