"""Which studies a tuning spec asks for."""

from __future__ import annotations

import pytest

from orchestrator.plan import Plan
from orchestrator.spec import read_spec, starter_spec
from orchestrator.tuner.studies import studies_of

TEXT = """\
name: x
kind: tuning
workload:
  - {name: associative_recall, noise: {values: [0.1, 0.3]}}
  - {name: zipf_recall}
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, keep: {values: [first, last]}}
  - {name: h2o}
search:
  dp_cache.tau: {low: 0.1, high: 0.9}
  dp_cache.cap: {low: 8, high: 64, when: {dp_cache.keys: centroid}}
  dp_cache.keys: {choices: [first, centroid]}
  h2o.budget: {low: 16, high: 128}
objectives: {recall: maximize}
trials: 10
sampler: [tpe, random]
repeats: 2
held_out: 3
seeds: [9, 4, 6, 1, 2, 3]
"""


def test_the_product_of_workloads_mechanisms_samplers_and_repeats() -> None:
    studies = studies_of(read_spec(TEXT))
    assert [one.number for one in studies] == list(range(3 * 3 * 2 * 2))
    assert len({one.title for one in studies}) == len(studies)
    assert len({one.group for one in studies}) == len(studies) / 2
    assert [one.title for one in studies[:5]] == [
        "dp_cache keep first, associative_recall noise 0.1, tpe, repeat 1",
        "dp_cache keep first, associative_recall noise 0.1, tpe, repeat 2",
        "dp_cache keep first, associative_recall noise 0.1, random, repeat 1",
        "dp_cache keep first, associative_recall noise 0.1, random, repeat 2",
        "dp_cache keep last, associative_recall noise 0.1, tpe, repeat 1",
    ]
    assert studies[-1].title == "h2o, zipf_recall, random, repeat 2"
    assert [one.sampler.name for one in studies[:4]] == ["tpe", "tpe", "random", "random"]
    assert [one.repeat for one in studies[:4]] == [0, 1, 0, 1]


def test_what_is_searched_is_not_fixed() -> None:
    first = studies_of(read_spec(TEXT))[0]
    assert first.workload_fields == {"name": "associative_recall", "noise": 0.1}
    assert first.mechanism_fields == {"name": "dp_cache", "keep": "first"}
    assert [one.name for one in first.parameters] == ["mechanism.tau", "mechanism.keys", "mechanism.cap"]
    assert first.workload_class.model_validate(first.workload_fields)
    assert first.label.parameters == first.parameters
    assert (first.label.group, first.label.sampler) == (first.group, "tpe")


def test_seeds_differ_by_workload_mechanism_and_repeat_but_not_by_sampler() -> None:
    studies = studies_of(read_spec(TEXT))
    by_seed = {one.seed for one in studies}
    assert len(by_seed) == len(studies) / 2
    assert studies[0].seed == studies[2].seed != studies[1].seed
    assert studies[0].seed == 1268317919887565386  # on every machine
    assert not by_seed & {one.seed for one in studies_of(read_spec(TEXT, ["sampler_seed=1"]))}


def test_references_are_asked_for_on_the_seeds_held_out_and_nothing_else_at_first() -> None:
    spec = read_spec(TEXT)
    assert spec.held_out == (10, 11, 12)
    asked = list(Plan(spec).trials())
    assert {cell.mechanism["name"] for cell, _, _ in asked} == {"full_attention"}
    assert {seed for _, seed, _ in asked} == set(spec.held_out)


def test_a_dimension_of_the_workload_leaves_no_reference() -> None:
    text = TEXT.replace("search:", "search:\n  workload.dim: {low: 16, high: 64}")
    spec = read_spec(text)
    assert list(Plan(spec).trials()) == []
    assert [one.mechanism_fields["name"] for one in studies_of(spec)[:4]] == ["full_attention"] * 4
    assert "dim" not in studies_of(spec)[0].workload_fields


def test_fields_that_a_pruner_sets_are_not_fixed() -> None:
    text = starter_spec("tuning") + "pruner: {name: median, field: dp_cache.cap, levels: [8, 16]}\n"
    [study] = studies_of(read_spec(text))
    assert study.mechanism_fields == {"name": "dp_cache"}
    assert study.title == "dp_cache"


def test_samplers_of_one_name_are_told_apart() -> None:
    spec = read_spec(starter_spec("tuning") + "sampler: [tpe, {name: tpe, startup: 3}]\n")
    assert [one.title for one in studies_of(spec)] == ["dp_cache, tpe", "dp_cache, tpe startup 3"]


def test_other_specs_have_no_studies() -> None:
    with pytest.raises(ValueError, match="kind frontier has no studies"):
        studies_of(read_spec(starter_spec("frontier")))
