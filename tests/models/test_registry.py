"""Implementations are found by name: one alone where its name says where it is, all of them otherwise."""

import subprocess
import sys

import pytest

from models.devices.form import DEVICE_FORMS
from models.mechanism import MECHANISMS
from models.registry import Registry
from tasks.kind import KINDS
from tasks.workload import WORKLOADS


@pytest.mark.parametrize("registry", [MECHANISMS, WORKLOADS, KINDS, DEVICE_FORMS], ids=lambda one: one.noun)
def test_ours_live_in_modules_of_their_names(registry: Registry[object]) -> None:
    ours = [(name, kind.__module__) for name, _, kind in registry if kind.__module__.startswith(("models.", "tasks."))]
    assert ours
    assert [(name, module) for name, module in ours if module.rpartition(".")[2] != name] == []


def test_one_is_had_without_the_others() -> None:
    code = """
import sys
from models.mechanism import MECHANISMS
assert "tova" in MECHANISMS and "models.mechanisms.tova" in sys.modules
assert MECHANISMS.config_class("dp_cache").model_fields["name"].default == "dp_cache"
assert "models.mechanisms.s4d" not in sys.modules
assert "no_such" not in MECHANISMS and "models.mechanisms.s4d" in sys.modules
assert "s4d" in MECHANISMS.names()
"""
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("name", ["no_such", "", "..config", "__init__", "a b", "dp_cache.x"])
def test_unknown_names_are_unknown(name: str) -> None:
    assert name not in MECHANISMS
    with pytest.raises(KeyError):
        MECHANISMS.config_class(name)
