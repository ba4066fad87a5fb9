"""Specs: one short YAML file in, a checked `Spec` out, or every problem in it at once."""

from __future__ import annotations

from orchestrator.spec.entries import Entry
from orchestrator.spec.json_schema import json_schema
from orchestrator.spec.problems import Problem, SpecError
from orchestrator.spec.read import read_spec, read_spec_text
from orchestrator.spec.saved import canonical, from_canonical
from orchestrator.spec.spec import Spec
from orchestrator.spec.starter import starter_spec
from orchestrator.spec.suite import Suite, read_suite
from orchestrator.spec.surroundings import Surroundings, Uploaded

__all__ = [
    "Entry",
    "Problem",
    "Spec",
    "SpecError",
    "Suite",
    "Surroundings",
    "Uploaded",
    "canonical",
    "from_canonical",
    "json_schema",
    "read_spec",
    "read_spec_text",
    "read_suite",
    "starter_spec",
]
