"""The names of metrics are those that trials have."""

from __future__ import annotations

from typing import Any

import pytest

from models.mechanism import MECHANISMS
from models.training import TrainingConfig
from tasks.evaluate import SUMMED_METRICS, TIMING_METRICS, evaluate
from tasks.metrics import metrics_of, shared_metrics
from tasks.workload import WORKLOADS

SMALL = {"items": 8, "repeats": 3, "classes": 4, "dim": 16, "noise": 0.2}


def config_of(name: str) -> Any:
    config_class = MECHANISMS.config_class(name)
    required = {field: 4 for field, info in config_class.model_fields.items() if info.is_required()}
    trained = {"steps": 2, "streams": 2} if issubclass(config_class, TrainingConfig) else {}
    return config_class(name=name, **required, **trained)


@pytest.mark.parametrize("name", [name for name, _, one in MECHANISMS if not one.reads_lines and not one.reads_ids])
def test_trials_have_the_metrics_that_their_mechanism_names(name: str) -> None:
    workload = WORKLOADS.config_class("associative_recall")(name="associative_recall", **SMALL)
    streams = WORKLOADS.implementation("associative_recall")(workload)
    [outcome] = evaluate(streams, [config_of(name)], 0, 2, "float32")
    assert outcome.metrics is not None, outcome.message
    assert set(outcome.metrics) - TIMING_METRICS == set(metrics_of(name, ["associative_recall"]))


def test_mechanisms_share_those_that_all_have() -> None:
    assert shared_metrics(["dp_cache", "h2o"], []) == SUMMED_METRICS
    assert "pair_f1" in shared_metrics(["dp_parser", "drain_parser"], [])
    assert "pair_f1" not in shared_metrics(["dp_parser", "h2o"], [])
