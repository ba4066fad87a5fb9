"""Which device classes may compute a trial."""

from __future__ import annotations

from typing import Any

import pytest

from models.devices.device import DEVICE_CLASSES
from models.devices.form import DEVICE_FORMS
from models.mechanism import MECHANISMS
from tasks.devices import AskedDevice, classes_for, hindrance
from tasks.kind import KINDS, Kind


def config(name: str) -> Any:
    return MECHANISMS.config_class(name).model_validate({"name": name, "budget": 4} if name == "recency" else {})


@pytest.mark.parametrize(
    ("asked", "kind", "dtype", "classes"),
    [
        ("any", "frontier", "float32", {"cpu", "cuda", "mps"}),
        ("any", "frontier", "float64", {"cpu", "cuda"}),
        ("cuda", "frontier", "float32", {"cuda"}),
        ("mps", "frontier", "float64", set()),
        ("cpu", "cost_scaling", "float32", {"cpu"}),
    ],
)
def test_what_may_compute_a_memory_with_a_form(asked: AskedDevice, kind: str, dtype: str, classes: set[str]) -> None:
    assert classes_for(asked, kind, config("recency"), dtype) == classes


def test_without_a_form_there_is_the_cpu() -> None:
    plain = [name for name, _, implementation in MECHANISMS if name not in DEVICE_FORMS and not implementation.trained]
    for name in plain:
        try:
            made = config(name)
        except ValueError:  # it has options without a default
            continue
        assert classes_for("any", "frontier", made, "float32") == {"cpu"}
        assert str(hindrance("cuda", "frontier", made, "float32")).startswith(f"`{name}` runs on cpu only")


def test_a_job_type_that_evaluates_in_its_own_way_runs_where_it_says() -> None:
    class Own(Kind):
        @classmethod
        def evaluate(cls, *_: Any) -> Any:
            return []

    class Both(Own):
        @classmethod
        def evaluate_on(cls, *_: Any) -> Any:
            return []

    assert Own.devices() == ("cpu",)
    assert Both.devices() == DEVICE_CLASSES == KINDS.implementation("frontier").devices()
