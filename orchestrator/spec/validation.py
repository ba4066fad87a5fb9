"""Asks a pydantic model about values that know their place, and turns its answers into problems."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from orchestrator.spec.expectations import Expectation
from orchestrator.spec.foreign import OPTION_WORDS
from orchestrator.spec.hints import did_you_mean, one_of
from orchestrator.spec.nodes import ListNode, MapNode, Node, shown, to_python
from orchestrator.spec.problems import Problems

M = TypeVar("M", bound=BaseModel)

OWN_WORDS = frozenset({"value_error", "assertion_error"})
"""Kinds of pydantic error whose message was written by a validator of the model."""


def validate(model: type[M], fields: Mapping[str, Any]) -> M:
    """`fields`, a JSON tree, as an instance of `model`, with no conversion between types. Raises ValidationError."""
    return model.model_validate_json(json.dumps(fields), strict=True)


def errors_of(model: type[BaseModel], fields: Mapping[str, Any]) -> list[ErrorDetails]:
    """What is wrong with `fields`; empty if nothing is."""
    try:
        validate(model, fields)
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def check_field(model: type[BaseModel], field: str, node: Node, problems: Problems, extra: Mapping[str, Any]) -> None:
    """Report what is wrong with `field` of `model` being `node`, whatever the other fields are.

    `extra` holds fields that must stand beside it (such as `name`). Checks across fields are made elsewhere.
    """
    seen: set[int] = set()
    for error in errors_of(model, {**extra, field: to_python(node)}):
        if error["loc"][:1] != (field,):
            continue
        inner, path = _walk(node, error["loc"][1:])
        if id(inner) not in seen:
            seen.add(id(inner))
            _report(model, (field, *path), inner, error, problems)


def message_of(error: ErrorDetails) -> str:
    """The message of a model's own validator without pydantic's preamble."""
    cause = error.get("ctx", {}).get("error")
    return str(cause) if cause is not None else error["msg"]


def _report(
    model: type[BaseModel], path: tuple[str | int, ...], node: Node, error: ErrorDetails, problems: Problems
) -> None:
    name = f"`{dotted(path)}`"
    missing = error["loc"][-1]
    if error["type"] == "missing" and isinstance(node, MapNode):
        problems.add(node, f"{name} has no `{missing}`", expected=str(Expectation(model, (*path, missing))))
        return
    if error["type"] == "extra_forbidden":
        names = Expectation(model, path[:-1]).names()
        hint = OPTION_WORDS.get(str(path[0]), {}).get(str(path[-1])) or did_you_mean(str(path[-1]), names)
        problems.add(node, f"unknown key {name}", expected=one_of(names), hint=hint)
        return
    expectation = Expectation(model, path)
    if error["type"] in OWN_WORDS:
        problems.add(node, f"{name}: {message_of(error)}")
        return
    expected = str(expectation.for_value(node)) or message_of(error)
    problems.add(node, f"{name} {shown(node)}", expected=expected, hint=expectation.cure(node))


def _walk(node: Node, location: tuple[int | str, ...]) -> tuple[Node, tuple[int | str, ...]]:
    """The node a pydantic location leads to, and the path to it. Names of union branches lead nowhere: skipped."""
    path: list[int | str] = []
    for part in location:
        inner: Node | None = None
        if isinstance(node, MapNode) and isinstance(part, str):
            inner = node.get(part)
        elif isinstance(node, ListNode) and isinstance(part, int) and part < len(node.items):
            inner = node.items[part]
        if inner is not None:
            node = inner
            path.append(part)
    return node, tuple(path)


def dotted(path: tuple[str | int, ...]) -> str:
    """`("seeds", "base")` as `seeds.base`."""
    return ".".join(map(str, path))
