"""Keys at the top of a spec that belong to one job type, whatever it is."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import Field

from orchestrator.spec import SpecError, canonical, from_canonical, json_schema, read_spec
from tasks.kind import KINDS, KindConfig
from tasks.kinds.frontier import Frontier

TEXT = """\
name: x
kind: probing
workload: {name: associative_recall}
mechanisms: [{name: full_attention}]
seeds: 3
"""


class ProbingConfig(KindConfig):
    name: Literal["probing"] = "probing"
    depth: int = Field(ge=1, description="how deep")
    words: list[str] = Field(default_factory=list, description="what to look for")


@pytest.fixture(autouse=True)
def one_kind_more(monkeypatch: pytest.MonkeyPatch, fixed_registries: None) -> None:
    KINDS.names()
    monkeypatch.setattr(KINDS, "_entries", {**KINDS._entries, "probing": (ProbingConfig, Frontier)})


def problems(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read_spec(text)
    return [f"{one.place.line}:{one.place.column}: {one.wrong} {one.hint}".strip() for one in caught.value.problems]


def test_they_are_read_and_saved() -> None:
    spec = read_spec(TEXT + "depth: 2\n")
    assert spec.options == ProbingConfig(depth=2)
    assert from_canonical(json.loads(json.dumps(canonical(spec)))) == spec


def test_they_are_checked_where_they_stand_with_all_else() -> None:
    assert problems(TEXT.replace("seeds: 3", "seeds: 0") + "depth: 0\nword: [a]\n") == [
        "5:8: `seeds` is `0`",
        "6:8: `depth` is `0`",
        "7:1: unknown key `word` did you mean `words`?",
    ]
    assert problems(TEXT) == ["1:1: the spec has no `depth`"]


def test_those_of_another_job_type_are_named() -> None:
    assert problems(TEXT + "depth: 1\ntrials: 3\n") == ["7:1: `trials` belongs to `kind: tuning`"]
    assert problems(TEXT.replace("probing", "frontier") + "depth: 1\ndepht: 1\n") == [
        "6:1: `depth` belongs to `kind: probing`",
        "7:1: unknown key `depht` did you mean `depth`? It belongs to `kind: probing`",
    ]


def test_without_a_known_job_type_none_of_them_is_a_problem() -> None:
    assert problems(TEXT.replace("probing", "probin") + "depth: 1\ntrials: 3\n") == [
        "2:7: unknown kind `probin` did you mean `probing`?"
    ]


@pytest.mark.parametrize(("change", "valid"), [({"depth": 2}, True), ({}, False), ({"depth": 2, "trials": 3}, False)])
def test_the_schema_knows_them(change: dict[str, int], valid: bool) -> None:
    tree = {
        "name": "x",
        "kind": "probing",
        "workload": {"name": "associative_recall"},
        "mechanisms": [{"name": "full_attention"}],
        "seeds": 3,
        **change,
    }
    schema = json_schema()
    schema["properties"]["kind"] = True  # the names of job types are listed when the module is loaded
    assert Draft202012Validator(schema).is_valid(tree) is valid
