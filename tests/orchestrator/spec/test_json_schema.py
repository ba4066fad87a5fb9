"""The JSON Schema for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from models.mechanism import MECHANISMS
from orchestrator.spec import json_schema, read_suite, starter_spec
from tasks.kind import KINDS
from tasks.workload import WORKLOADS

HOUSE = Path(__file__).parents[3]
READY_MADE = [path for path in sorted((HOUSE / "tasks" / "specs").glob("**/*.yaml")) if read_suite(path) is None]


def parsed(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def errors(tree: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(json_schema()).iter_errors(tree)]


def entry(**fields: Any) -> dict[str, Any]:
    return {**parsed(starter_spec("frontier")), "mechanisms": [fields]}


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(json_schema())
    assert json_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("kind", KINDS.names())
def test_it_accepts_the_starters(kind: str) -> None:
    assert errors(parsed(starter_spec(kind))) == []


@pytest.mark.parametrize("path", READY_MADE, ids=lambda path: path.stem)
def test_it_accepts_ready_made_specs(path: Path) -> None:
    assert errors(parsed(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "tau",
    [0.4, {"values": [0.1, 0.2]}, {"linspace": [0.1, 0.8, 8]}, {"logspace": [0.1, 0.8, 3]}, {"range": [0, 1, 0.1]}],
)
def test_it_accepts_axes(tau: Any) -> None:
    assert errors(entry(name="dp_cache", tau=tau)) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "dp_cache", "tua": 0.4},
        {"name": "dp_cach"},
        {"tau": 0.4},
        {"name": "dp_cache", "tau": "0.4"},
        {"name": "dp_cache", "tau": {"values": []}},
        {"name": "dp_cache", "tau": {"logspace": [0, 1, 3]}},
        {"name": "dp_cache", "tau": {"linspace": [0, 1]}},
        {"name": "dp_cache", "tau": {"min": 0, "max": 1}},
        {"name": "dp_cache", "keep": {"linspace": [0, 1, 2]}},
        {"name": "h2o"},
    ],
)
def test_it_refuses_what_reading_refuses(fields: dict[str, Any]) -> None:
    assert errors(entry(**fields))


@pytest.mark.parametrize("change", [{"seeds": 0}, {"device": "gpu"}, {"sedes": 3}, {"mechanisms": []}, {"name": ""}])
def test_it_refuses_bad_keys_at_the_top(change: dict[str, Any]) -> None:
    assert errors({**parsed(starter_spec("frontier")), **change})


def tuning(**changes: Any) -> dict[str, Any]:
    return {**parsed(starter_spec("tuning")), **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"mechanisms": [{"name": "h2o"}], "search": {"h2o.budget": {"low": 8, "high": 64, "log": True}}},
        {"search": {"mechanism.tau": {"choices": [0.1, 0.2]}, "workload.noise": {"low": 0, "high": 1, "step": 0.1}}},
        {"sampler": ["tpe", {"name": "nsga2", "population": 20}]},
        {"pruner": {"name": "wilcoxon", "first": 4}},
        {"pruner": "none", "constraints": {"slots": {"at_most": 4, "at_least": 1}}},
    ],
)
def test_it_accepts_tuning(changes: dict[str, Any]) -> None:
    assert errors(tuning(**changes)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"search": {"dp_cache.tua": {"low": 0.1, "high": 0.9}}},
        {"search": {"dp_cache.tau": {"min": 0.1, "max": 0.9}}},
        {"search": {"dp_cache.tau": 0.4}},
        {"search": {}},
        {"objectives": {"recall": "max"}},
        {"objectives": ["recall"]},
        {"constraints": {"slots": 4}},
        {"trials": 0},
        {"sampler": "tpes"},
        {"sampler": []},
        {"pruner": {"name": "median", "field": "mechanism.steps"}},
        {"kind": "frontier"},
        {"held": 3},
    ],
)
def test_it_refuses_wrong_tuning(changes: dict[str, Any]) -> None:
    assert errors(tuning(**changes))


@pytest.mark.parametrize("key", ["search", "objectives", "trials"])
def test_it_misses_what_a_job_type_needs(key: str) -> None:
    tree = tuning()
    del tree[key]
    assert errors(tree)


def test_searched_fields_are_described_as_where_they_are_fixed() -> None:
    conditions = [one.get("then", {}).get("properties", {}) for one in json_schema()["allOf"]]
    [search] = [properties["search"] for properties in conditions if "search" in properties]
    tau = MECHANISMS.config_class("dp_cache").model_fields["tau"].description
    assert search["properties"]["dp_cache.tau"]["description"] == tau
    assert "mechanism.tau" in search["properties"]
    assert "workload.noise" in search["properties"]
    assert "dp_cache.name" not in search["properties"]


@pytest.mark.parametrize("registry", [MECHANISMS, WORKLOADS], ids=lambda registry: registry.noun)
def test_every_field_keeps_its_description_and_default(registry: Any) -> None:
    definitions = json_schema()["$defs"]
    for name, config_class, _ in registry:
        schema = definitions[f"{registry.noun}_{config_class.__name__}"]
        assert schema["properties"]["name"]["const"] == name
        for field, info in config_class.model_fields.items():
            if field != "name":
                assert schema["properties"][field]["description"], f"{name}.{field}"
                assert ("default" in schema["properties"][field]) is not info.is_required()
