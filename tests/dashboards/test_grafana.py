"""The Grafana board and the alert rules: every expression is PromQL, of metrics and labels that a scrape has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML
from starlette.testclient import TestClient

import dashboards
from orchestrator.service.app import create_app
from orchestrator.service.options import ServiceOptions
from orchestrator.settings import Settings
from orchestrator.store.measuring_contract import fill
from orchestrator.store.states import Role
from orchestrator.store.store import Store

FOLDER = Path(dashboards.__file__).parent / "grafana"
BOARD: dict[str, Any] = json.loads((FOLDER / "slotsweep.json").read_text(encoding="utf-8"))
RULES: list[dict[str, Any]] = [
    rule
    for group in YAML(typ="safe").load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
PANELS: list[dict[str, Any]] = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
VARIABLES = {"$job": "slotsweep", "$__rate_interval": "5m"}
OF_TARGETS = {"job", "instance"}
"""Labels that Prometheus adds itself."""

Scrape = dict[str, dict[str, set[str]]]
"""Metric -> label -> its values."""


def expressions() -> Iterator[tuple[str, str]]:
    """(where it stands, the expression) with the board's variables set."""
    for panel in PANELS:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            yield f"panel {panel['title']} {target['refId']}", expression
    for rule in RULES:
        yield f"rule {rule['alert']}", rule["expr"]


@pytest.fixture(scope="module")
def scrape(tmp_path_factory: pytest.TempPathFactory) -> Scrape:
    """What a service tells that has seen a little of everything."""
    folder = tmp_path_factory.mktemp("scrape")
    store = Store.open(f"sqlite:///{folder / 'store.db'}")
    fill(store)
    _, secret = store.create_token("prometheus", Role.VIEWER)
    settings = Settings.read({"SLOTSWEEP_HOME": str(folder)})
    client = TestClient(create_app(settings, store, ServiceOptions()))
    client.get("/health")
    text = client.get("/metrics", headers={"Authorization": f"Bearer {secret}"}).text
    store.close()
    found: Scrape = {"up": {}}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return found


def selectors(expression: str) -> list[Any]:
    """The vector selectors in an expression."""
    found: list[Any] = []

    def collect(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(expression), collect)
    return found


def grouped(expression: str) -> set[str]:
    """The labels that an expression keeps by name."""
    found: set[str] = set()

    def collect(node: Any) -> None:
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            found.update(node.modifier.labels)

    promql_parser.walk(promql_parser.parse(expression), collect)
    return found


@pytest.mark.parametrize(("where", "expression"), list(expressions()), ids=[where for where, _ in expressions()])
def test_expressions_are_of_what_a_scrape_has(scrape: Scrape, where: str, expression: str) -> None:
    chosen = selectors(expression)
    assert chosen
    for selector in chosen:
        assert selector.name in scrape, where
        labels = scrape[selector.name]
        for matcher in selector.matchers.matchers:
            assert matcher.name in labels.keys() | OF_TARGETS, f"{selector.name} has no label {matcher.name}"
            if matcher.name in labels and matcher.op == promql_parser.MatchOp.Equal:
                assert matcher.value in labels[matcher.name], f"{selector.name} has no {matcher}"
    known = set().union(*(scrape[selector.name] for selector in chosen)) | OF_TARGETS
    assert grouped(expression) <= known, where


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("max(slotsweep_tracker_delay_seconds)", "name"),
        ('slotsweep_trials{status="done"}', "label"),
        ('slotsweep_trials{state="finished"}', "finished"),
        ("max by (kind) (slotsweep_trials)", "kind"),
    ],
    ids=["metric", "label", "value", "grouping"],
)
def test_what_no_scrape_has_is_found(scrape: Scrape, expression: str, fault: str) -> None:
    with pytest.raises(AssertionError):
        test_expressions_are_of_what_a_scrape_has(scrape, fault, expression)


def test_every_metric_is_on_the_board(scrape: Scrape) -> None:
    """Those of one family stand for each other."""
    shown = {selector.name for _, expression in expressions() for selector in selectors(expression)}
    families = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in shown}
    told = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in scrape}
    assert told - families == set()


def test_panels_say_what_they_show_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    for panel in PANELS:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        assert all(target["legendFormat"] or panel["type"] == "table" for target in panel["targets"])


def test_the_board_asks_for_the_data_source_and_the_job() -> None:
    variables = {variable["name"]: variable for variable in BOARD["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    assert variables["job"]["query"]["query"] == "label_values(slotsweep_service_info, job)"
    assert BOARD["id"] is None
    assert BOARD["schemaVersion"] == 42


def test_rules_say_what_is_wrong() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["description"].endswith((".", "?"))
        if "for" in rule:
            promql_parser.parse_duration(rule["for"])
