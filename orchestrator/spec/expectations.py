"""What a field accepts, in words, read off its JSON Schema; and what to write instead of a common slip."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from orchestrator.spec.hints import did_you_mean
from orchestrator.spec.nodes import ListNode, MapNode, Node, ScalarNode
from orchestrator.spec.scalars import resolve
from orchestrator.spec.schema import ONE_LINE

Schema = dict[str, Any]

TRUTH_WORDS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
SYNONYMS = {
    **{"gpu": "cuda", "nvidia": "cuda", "metal": "mps", "apple": "mps", "auto": "any", "all": "any"},
    **{
        "fp16": "float16",
        "half": "float16",
        "bf16": "bfloat16",
        "fp32": "float32",
        "fp64": "float64",
        "double": "float64",
    },
    **{"max": "maximize", "maximise": "maximize", "min": "minimize", "minimise": "minimize"},
    **{"tpesampler": "tpe", "bayes": "tpe", "bayesian": "gp", "gpsampler": "gp", "randomsampler": "random"},
    **{"nsgaii": "nsga2", "nsga-ii": "nsga2", "nsgaiisampler": "nsga2", "nsgaiii": "nsga3", "nsga-iii": "nsga3"},
    **{
        "sobol": "qmc",
        "halton": "qmc",
        "qmcsampler": "qmc",
        "cma-es": "cmaes",
        "cma": "cmaes",
        "cmaessampler": "cmaes",
    },
    **{"gridsampler": "grid", "exhaustive": "brute_force", "nop": "none", "wilcoxonpruner": "wilcoxon"},
    **{"asha": "successive_halving", "medianstopping": "median", "hyperbandpruner": "hyperband"},
}
NOTHING_WORDS = frozenset({"none", "nil", "undefined"})
HYDRA_SWEEP = re.compile(r"(choice|range|interval|tag|grid_search)\(.*\)|[^,\s]+(,[^,\s]+)+")


@lru_cache(maxsize=256)
def model_schema(model: type[BaseModel]) -> Schema:
    """The JSON Schema of `model`, made once."""
    return model.model_json_schema()


class Expectation:
    """What the value at a path inside a model may be."""

    def __init__(self, model: type[BaseModel], path: tuple[str | int, ...]) -> None:
        self._definitions: Schema = model_schema(model).get("$defs", {})
        self._branches = list(self._flatten(model_schema(model)))
        for part in path:
            self._branches = [branch for parent in self._branches for branch in self._step(parent, part)]

    def __str__(self) -> str:
        words = list(dict.fromkeys(self._describe(branch) for branch in self._branches))
        return ", or ".join(words)

    def for_value(self, node: Node) -> Expectation:
        """What values of the JSON type of `node` may be.

        All that is accepted if none of that type is, or if `node` is text, which may be a slip for anything.
        """
        kind = _json_type(node)
        branches = [branch for branch in self._branches if branch.get("type") in kind and "const" not in branch]
        if kind == {"string"} and len(branches) < len(self._branches):
            return self
        return self._narrowed(branches) if branches else self

    def _narrowed(self, branches: list[Schema]) -> Expectation:
        narrowed = copy(self)
        narrowed._branches = branches
        return narrowed

    def types(self) -> set[str]:
        """JSON types among the accepted values (`const` and `enum` count as `choice`)."""
        return {
            "choice" if {"const", "enum"} & branch.keys() else branch.get("type", "any") for branch in self._branches
        }

    def names(self) -> list[str]:
        """Keys of the mapping the value may be, none where any or no mapping will do."""
        return list(dict.fromkeys(name for branch in self._branches for name in branch.get("properties", {})))

    def choices(self) -> list[str]:
        """Words the value may be."""
        values = [v for branch in self._branches for v in [branch.get("const"), *branch.get("enum", ())]]
        return [value for value in values if isinstance(value, str)]

    def whole(self) -> bool:
        """Whether numbers must be whole."""
        types = self.types()
        return "integer" in types and "number" not in types

    def numeric(self) -> bool:
        """Whether a number is accepted at all."""
        return bool({"integer", "number", "any"} & self.types())

    def cure(self, node: Node) -> str:
        """What to write in place of `node`, where the slip is a known one; else nothing."""
        if isinstance(node, ScalarNode):
            return self._cure_text(node) if isinstance(node.value, str) else self._cure_number(node)
        if isinstance(node, ListNode) and not {"array", "any"} & self.types():
            return "an axis is written {values: [...]}"
        if isinstance(node, MapNode) and "array" in self.types() and "object" not in self.types():
            return "put `- ` before each entry of the list"
        return ""

    def _cure_text(self, node: ScalarNode) -> str:
        text, types = node.text.strip(), self.types()
        choices = self.choices()
        if SYNONYMS.get(text.casefold()) in choices:
            return f"write {SYNONYMS[text.casefold()]}"
        if choice := did_you_mean(text, choices):
            return choice
        if "boolean" in types and text.casefold() in TRUTH_WORDS:
            return f"write {TRUTH_WORDS[text.casefold()]}: YAML 1.2 reads {text} as text"
        if "boolean" in types and isinstance(resolve(text), bool):
            return f"write {text} without quotes"
        if "null" in types and text.casefold() in NOTHING_WORDS:
            return "write null"
        if not self.numeric():
            return ""
        if not node.plain and isinstance(resolve(text), int | float):
            return f"write {text} without quotes"
        digits = re.sub(r"(?<=\d)[_,](?=\d{3}\b)", "", text)
        if digits != text and isinstance(resolve(digits), int | float):
            return f"write {digits}"
        return "an axis is written {values: [...]}" if HYDRA_SWEEP.fullmatch(text) else ""

    def _cure_number(self, node: ScalarNode) -> str:
        value, types = node.value, self.types()
        if isinstance(value, float) and self.whole() and value.is_integer():
            return f"write {int(value)}"
        if value in (0, 1) and "boolean" in types:
            return f"write {'true' if value else 'false'}"
        if value is not None and types <= {"string", "null"}:
            return f'write "{node.text}" in quotes'
        return ""

    def _flatten(self, schema: Schema) -> Iterator[Schema]:
        if "$ref" in schema:
            yield from self._flatten(self._definitions[schema["$ref"].rsplit("/", 1)[1]])
        elif branches := schema.get("anyOf") or schema.get("oneOf"):
            for branch in branches:
                yield from self._flatten(branch)
        else:
            yield schema

    def _step(self, schema: Schema, part: str | int) -> Iterator[Schema]:
        rest = schema.get("additionalProperties")
        inner = schema.get("items") if isinstance(part, int) else schema.get("properties", {}).get(part, rest)
        if isinstance(inner, dict):
            yield from self._flatten(inner)

    def _describe(self, schema: Schema) -> str:
        if "const" in schema:
            return _word(schema["const"])
        if "enum" in schema:
            return f"one of {', '.join(_word(value) for value in schema['enum'])}"
        match schema.get("type"):
            case "integer":
                return f"a whole number{_bounds(schema)}"
            case "number":
                return f"a number{_bounds(schema)}"
            case "boolean":
                return "true or false"
            case "null":
                return "null"
            case "string":
                length = _length(schema, "minLength", "maxLength", "character")
                return (
                    f"text{length}{', on one line, no spaces around it' if schema.get('pattern') == ONE_LINE else ''}"
                )
            case "array":
                items = ", or ".join(self._describe(branch) for branch in self._flatten(schema.get("items", {})))
                return f"a list{_length(schema, 'minItems', 'maxItems', 'item')}, each {items}"
            case "object":
                names = ", ".join(schema.get("properties", {}))
                return f"a mapping {{{names}}}" if names else "a mapping"
            case _:
                return "a value"


def _json_type(node: Node) -> set[str]:
    if isinstance(node, MapNode):
        return {"object"}
    if isinstance(node, ListNode):
        return {"array"}
    value = node.value if isinstance(node, ScalarNode) else None
    types: dict[type, set[str]] = {bool: {"boolean"}, int: {"integer", "number"}, float: {"number"}, str: {"string"}}
    return types.get(type(value), {"null"})


def _word(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else f"`{value}`"


def _bounds(schema: Schema) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f" from {_number(schema['minimum'])} to {_number(schema['maximum'])}"
    words = {
        "minimum": "of at least",
        "exclusiveMinimum": "above",
        "maximum": "of at most",
        "exclusiveMaximum": "below",
        "multipleOf": "that is a multiple of",
    }
    bounds = [f"{word} {_number(schema[key])}" for key, word in words.items() if key in schema]
    return f" {' and '.join(bounds)}" if bounds else ""


def _number(value: float) -> str:
    if isinstance(value, int) and value > 2**32 and (value + 1).bit_count() == 1:
        return f"2**{value.bit_length()} - 1"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _length(schema: Schema, shortest: str, longest: str, noun: str) -> str:
    """How many characters or items there must be, if there must be some."""
    low, high = schema.get(shortest, 0), schema.get(longest)
    if high is not None:
        return f" of {low} to {high} {noun}s"
    return f" of at least {low} {noun}{'s' if low != 1 else ''}" if low else ""
