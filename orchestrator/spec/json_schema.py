"""The JSON Schema (draft 2020-12) of a spec, from which editors complete and check."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from models.config import Config
from orchestrator.spec.axes import LONGEST
from orchestrator.spec.entries import MECHANISM, WORKLOAD, Family
from orchestrator.spec.expectations import Expectation
from orchestrator.spec.options import all_option_names, kinds_with, option_names
from orchestrator.spec.schema import SpecFields
from tasks.kind import KINDS
from tasks.kinds.tuning import TuningConfig

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_COUNT = {"type": "integer", "minimum": 1, "maximum": LONGEST}


def json_schema() -> Schema:
    """A new tree: the keys of a spec, and the fields of every known workload and mechanism, any of them an axis.

    What must be there, and the keys of one job type, depend on `kind`.
    """
    workload, workload_definitions = _entries_of(WORKLOAD)
    mechanism, mechanism_definitions = _entries_of(MECHANISM)
    options, option_definitions = _options()
    top = SpecFields.model_json_schema()
    properties = top["properties"]
    description = properties["workload"]["description"]
    several = {"type": "array", "minItems": 1, "items": workload}
    properties["workload"] = {"description": description, "anyOf": [workload, several]}
    description = properties["mechanisms"]["description"]
    properties["mechanisms"] = {"description": description, "type": "array", "minItems": 1, "items": mechanism}
    for key in all_option_names():
        about = [schema[key].get("description") for schema in options.values() if key in schema]
        properties[key] = {"description": f"{' or '.join(kinds_with(key))}: {about[0]}"}
    definitions = {
        **top.pop("$defs", {}),
        **workload_definitions,
        **mechanism_definitions,
        **option_definitions,
        **_number_axes(),
    }
    conditions = [*_conditions(options), _entries_complete()]
    return {"$schema": DIALECT, **top, "allOf": conditions, "$defs": definitions}


def _options() -> tuple[dict[str, Schema], Schema]:
    """The schemas of the keys that each job type has, by job type and key, and the definitions they refer to."""
    classes = {name: config_class for name, config_class, _ in KINDS if option_names(config_class)}
    keys, whole = models_json_schema(
        [(config_class, "validation") for config_class in classes.values()], ref_template="#/$defs/option_{model}"
    )
    definitions = {f"option_{name}": schema for name, schema in whole.get("$defs", {}).items()}
    found = {}
    for kind, config_class in classes.items():
        reference = keys[config_class, "validation"]["$ref"]
        properties = definitions.pop(reference.removeprefix("#/$defs/"))["properties"]
        found[kind] = {key: schema for key, schema in properties.items() if key != "name"}
        if issubclass(config_class, TuningConfig):
            found[kind]["search"] = _search(found[kind]["search"])
    return found, definitions


def _search(schema: Schema) -> Schema:
    """The schema of `search` with every field by name, each described as where it is fixed."""
    owners = {"workload": WORKLOAD.registry, "mechanism": MECHANISM.registry}
    names: dict[str, str] = {}
    for shared, registry in owners.items():
        for name, config_class, _ in registry:
            for owner in (shared, name) if registry is MECHANISM.registry else (shared,):
                fields = config_class.model_fields.items()
                names |= {f"{owner}.{field}": info.description or "" for field, info in fields if field != "name"}
    dimension = schema["additionalProperties"]
    properties = {name: {"description": description, **dimension} for name, description in names.items()}
    return {**schema, "properties": properties, "additionalProperties": False}


def _conditions(options: dict[str, Schema]) -> list[Schema]:
    """For each job type with keys of its own: what they accept there; and that those of others are not there."""
    conditions: list[Schema] = []
    for kind, properties in options.items():
        fields = KINDS.config_class(kind).model_fields
        required = [key for key in properties if fields[key].is_required()]
        conditions.append({"if": _of_kind([kind]), "then": {"properties": properties, "required": required}})
    return [
        *conditions,
        *({"if": {"required": [key]}, "then": _of_kind(kinds_with(key))} for key in all_option_names()),
    ]


def _of_kind(kinds: list[str]) -> Schema:
    return {"properties": {"kind": {"enum": kinds}}, "required": ["kind"]}


def _entries_complete() -> Schema:
    """Required fields of workloads and mechanisms, which only a search may stand for."""
    proposing = [name for name, _, implementation in KINDS if implementation.proposes]
    workload, mechanism = (
        [_complete(config_class) for _, config_class, _ in family.registry if _needed(config_class)]
        for family in (WORKLOAD, MECHANISM)
    )
    entry = {"allOf": [True, *workload]}
    several = {"if": {"type": "array"}, "then": {"items": entry}, "else": entry}
    complete = {"properties": {"workload": several, "mechanisms": {"items": {"allOf": [True, *mechanism]}}}}
    return {"if": _of_kind(proposing), "else": complete}


def _needed(config_class: type[Config]) -> list[str]:
    return sorted(name for name, field in config_class.model_fields.items() if field.is_required())


def _complete(config_class: type[Config]) -> Schema:
    name = {"properties": {"name": {"const": config_class.model_fields["name"].default}}, "required": ["name"]}
    return {"if": name, "then": {"required": _needed(config_class)}}


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
        definition["required"] = ["name"]
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
