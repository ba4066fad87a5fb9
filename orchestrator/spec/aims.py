"""Metrics that a spec names: what a study aims at, and what seeds are added for."""

from __future__ import annotations

from collections.abc import Sequence

from models.config import Config
from orchestrator.spec.hints import did_you_mean, one_of
from orchestrator.spec.nodes import MapNode, ScalarNode, quoted
from orchestrator.spec.problems import Place, Problems
from tasks.evaluate import TIMING_METRICS
from tasks.kind import KINDS
from tasks.metrics import metrics_of, shared_metrics
from tasks.workload import WORKLOADS


def check_metric(
    name: str, at: Place, workloads: Sequence[type[Config]], mechanisms: Sequence[type[Config]], problems: Problems
) -> None:
    """Report a metric that trials of these mechanisms do not have on these workloads, or that is a time."""
    names, read = _names(mechanisms), [one for one in _names(workloads) if one in WORKLOADS]
    known = shared_metrics(names, read)
    lacking = [one for one in names if name not in metrics_of(one, read)]
    if not names or not lacking:
        return
    if name in TIMING_METRICS:
        wrong = f"{quoted(name)} is a time: it depends on what else the machine computes"
        problems.at(at, wrong, expected=one_of(known), hint="times are measured by `kind: cost_scaling`")
    elif len(lacking) < len(names):
        problems.at(at, f"trials of {lacking[0]} have no {quoted(name)}", expected=one_of(known))
    else:
        wrong = f"unknown metric {quoted(name)}"
        problems.at(at, wrong, expected=one_of(known), hint=did_you_mean(name, known))


def _names(classes: Sequence[type[Config]]) -> list[str]:
    return [str(config_class.model_fields["name"].default) for config_class in classes]


def check_until(
    tree: MapNode,
    kind: str | None,
    workloads: Sequence[type[Config]],
    mechanisms: Sequence[type[Config]],
    problems: Problems,
) -> None:
    """Check what seeds are added for, and that the job type lets them be."""
    node = tree.get("seeds")
    until = node.get("until") if isinstance(node, MapNode) else None
    if not isinstance(until, MapNode) or problems.spoiled(until) or kind is None:
        return
    why = ""
    if KINDS.implementation(kind).proposes:
        why = "all proposals are compared on the same seeds"
    elif KINDS.implementation(kind).measures_time:
        why = "its trials are measured in one random order"
    if why:
        wrong = f"`until` is not for `kind: {kind}`: {why}"
        problems.add(until, wrong, expected="a count, {count: 10, base: 7}, or a list of seeds")
        return
    metric = until.get("metric")
    if isinstance(metric, ScalarNode) and isinstance(metric.value, str) and problems.clean(metric):
        check_metric(metric.value, metric.at, workloads, mechanisms, problems)
