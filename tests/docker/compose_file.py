"""Compose files as Compose reads them, as far as ours need it: anchors and merges, variables, lists put over lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docker"
COMPOSE, LAN, EXAMPLE = FOLDER / "compose.yaml", FOLDER / "compose.lan.yaml", FOLDER / ".env.example"

VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<text>[^}]*))?\}")
"""`${NAME}`, `${NAME:-default}` and `${NAME:?message}`."""

Tree = dict[str, Any]


class MissingVariableError(Exception):
    """A variable that a file cannot do without has no value."""


def read(path: Path) -> Tree:
    """A YAML file; `!reset` gives what stands there."""
    yaml = YAML(typ="safe", pure=True)
    yaml.constructor.add_constructor("!reset", lambda loader, node: loader.construct_sequence(node))
    tree: Tree = yaml.load(path.read_text(encoding="utf-8"))
    return tree


def texts(tree: Any) -> Iterator[str]:
    """All texts of a tree."""
    if isinstance(tree, Mapping):
        for value in tree.values():
            yield from texts(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from texts(value)
    elif isinstance(tree, str):
        yield tree


def variables(tree: Tree) -> set[str]:
    """Names of the variables that a file asks its environment for, those of secrets among them."""
    named = {match["name"] for text in texts(tree) for match in VARIABLE.finditer(text)}
    return named | {secret["environment"] for secret in tree.get("secrets", {}).values()}


def fill(tree: Any, environment: Mapping[str, str]) -> Any:
    """`tree` with its variables filled in. Raises MissingVariableError."""
    if isinstance(tree, Mapping):
        return {key: fill(value, environment) for key, value in tree.items()}
    if isinstance(tree, list):
        return [fill(value, environment) for value in tree]
    if not isinstance(tree, str):
        return tree
    return VARIABLE.sub(lambda match: _value(match, environment), tree).replace("$$", "$")


def _value(match: re.Match[str], environment: Mapping[str, str]) -> str:
    given = environment.get(match["name"], "")
    if not given and match["kind"] == "?":
        raise MissingVariableError(f"{match['name']} {match['text']}")
    return given or (match["text"] if match["kind"] == "-" else "")


def over(below: Any, above: Any) -> Any:
    """What Compose makes of two files: mappings are joined, `command` and all else is replaced."""
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        joined = dict(below)
        for key, value in above.items():
            joined[key] = over(below[key], value) if key in below else value
        return joined
    return above


def example() -> dict[str, str]:
    """Variables of .env.example, with the values that they have there."""
    lines = [line for line in EXAMPLE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)
