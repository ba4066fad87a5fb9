"""The JSON Schema (draft 2020-12) of a spec, from which editors complete and check."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from orchestrator.spec.axes import LONGEST
from orchestrator.spec.entries import MECHANISM, WORKLOAD, Family
from orchestrator.spec.expectations import Expectation
from orchestrator.spec.schema import SpecFields

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_COUNT = {"type": "integer", "minimum": 1, "maximum": LONGEST}


def json_schema() -> Schema:
    """A new tree: the keys of a spec, and the fields of every known workload and mechanism, any of them an axis."""
    workload, workload_definitions = _entries_of(WORKLOAD)
    mechanism, mechanism_definitions = _entries_of(MECHANISM)
    top = SpecFields.model_json_schema()
    properties = top["properties"]
    description = properties["workload"]["description"]
    several = {"type": "array", "minItems": 1, "items": workload}
    properties["workload"] = {"description": description, "anyOf": [workload, several]}
    description = properties["mechanisms"]["description"]
    properties["mechanisms"] = {"description": description, "type": "array", "minItems": 1, "items": mechanism}
    definitions = {**top.pop("$defs", {}), **workload_definitions, **mechanism_definitions, **_number_axes()}
    return {"$schema": DIALECT, **top, "$defs": definitions}


def _entries_of(family: Family) -> tuple[Schema, Schema]:
    """One schema for any entry of the family, and the definitions it refers to."""
    classes = {name: config_class for name, config_class, _ in family.registry}
    keys, whole = models_json_schema(
        [(config_class, "validation") for config_class in classes.values()],
        ref_template=f"#/$defs/{family.noun}_{{model}}",
    )
    definitions = {f"{family.noun}_{name}": schema for name, schema in whole.get("$defs", {}).items()}
    branches = []
    for config_class in classes.values():
        reference = keys[config_class, "validation"]["$ref"]
        definition = definitions[reference.removeprefix("#/$defs/")]
        for field, schema in definition["properties"].items():
            if field != "name":
                definition["properties"][field] = _value_or_axis(schema, Expectation(config_class, (field,)))
        definition["required"] = sorted({"name", *definition.get("required", ())})
        branches.append({"$ref": reference})
    return {"oneOf": branches}, definitions


def _value_or_axis(schema: Schema, expectation: Expectation) -> Schema:
    """A field's schema widened by the axes that may stand on it; title, description and default stay outside."""
    about = {key: value for key, value in schema.items() if key in ("title", "description", "default")}
    value = {key: value for key, value in schema.items() if key not in about}
    values = {
        "type": "object",
        "description": "an axis: these values in turn",
        "properties": {
            "values": {"type": "array", "minItems": 1, "maxItems": LONGEST, "uniqueItems": True, "items": value}
        },
        "required": ["values"],
        "additionalProperties": False,
    }
    branches = [value, values]
    if expectation.numeric():
        branches.append({"$ref": "#/$defs/number_axis"})
    return {**about, "anyOf": branches}


def _number_axes() -> Schema:
    """Axes that make numbers."""
    number, positive = {"type": "number"}, {"type": "number", "exclusiveMinimum": 0}
    forms: dict[str, tuple[str, Schema]] = {
        "linspace": ("n numbers from low to high, both included, evenly spaced", _tuple([number, number, _COUNT])),
        "logspace": (
            "n numbers from low to high, both included, in equal ratios",
            _tuple([positive, positive, _COUNT]),
        ),
        "range": ("numbers from start up to stop, which is not included, by step", _tuple([number] * 3, at_least=2)),
    }
    branches = [
        {
            "type": "object",
            "description": f"an axis: {description}",
            "properties": {word: arguments},
            "required": [word],
            "additionalProperties": False,
        }
        for word, (description, arguments) in forms.items()
    ]
    return {"number_axis": {"oneOf": branches}}


def _tuple(items: list[Schema], at_least: int | None = None) -> Schema:
    return {"type": "array", "prefixItems": items, "items": False, "minItems": at_least or len(items)}
