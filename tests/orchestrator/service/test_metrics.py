"""What Prometheus is told: right, well-formed, the same from every replica, and cheap to ask for."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from orchestrator.service import store_metrics
from orchestrator.service.app import create_app
from orchestrator.service.metrics import Metrics
from orchestrator.service.options import ServiceOptions
from orchestrator.settings import Settings
from orchestrator.store.contract import asked, new_sweep
from orchestrator.store.measuring_contract import HOOKS, fill
from orchestrator.store.states import Role
from orchestrator.store.store import Store
from tests.orchestrator.service.conftest import StartService, bearer

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(params=["sqlite", "postgresql"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store = Store.open(url if request.param == "sqlite" else request.getfixturevalue("postgres_url"))
    fill(store)
    yield store
    store.close()


def families_of(text: str) -> list[Metric]:
    return list(text_string_to_metric_families(text))


def samples_of(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families_of(text)
        for sample in family.samples
    }


def told(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def test_a_scrape_tells_what_is_in_the_store(filled: Store) -> None:
    """The numbers of `fill`."""
    filled.take_duty("run sweeps", filled.register_orchestrator(), 60)
    samples = samples_of(Metrics(filled, HOOKS).text().decode())
    expected = {
        ("slotsweep_sweeps", "state", "running"): 1,
        ("slotsweep_sweeps", "state", "paused"): 0,
        ("slotsweep_waiting_trials", "user", "bob"): 3,
        ("slotsweep_waiting_trials", "user", ""): 1,
        ("slotsweep_busy_workers", "device", "cpu"): 1,
        ("slotsweep_held_batches", "device", "cpu"): 1,
        ("slotsweep_held_trials", "device", "cuda"): 0,
        ("slotsweep_leases_lost_total", "reason", "worker_lost"): 1,
        ("slotsweep_leases_lost_total", "reason", "timeout"): 0,
        ("slotsweep_trial_wall_seconds_bucket", "le", "1.0"): 1,
        ("slotsweep_trial_wall_seconds_bucket", "le", "5.0"): 3,
        ("slotsweep_trial_wall_seconds_bucket", "le", "60.0"): 4,
        ("slotsweep_trial_wall_seconds_bucket", "le", "+Inf"): 4,
        ("slotsweep_webhook_deliveries_total", "outcome", "delivered"): 1,
        ("slotsweep_webhook_deliveries_total", "outcome", "given_up"): 1,
        ("slotsweep_duty_taken", "duty", "run sweeps"): 1,
        ("slotsweep_duty_held", "duty", "run sweeps"): 1,
        ("slotsweep_duty_held", "duty", "tell webhooks"): 0,
    }
    assert {key: told(samples, key[0], **{key[1]: key[2]}) for key in expected} == expected
    assert told(samples, "slotsweep_trials", state="pending", reason="") == 4
    assert told(samples, "slotsweep_trials", state="failed", reason="timeout") == 1
    assert told(samples, "slotsweep_trials", state="cancelled", reason="cancelled") == 1
    assert sum(value for (name, _), value in samples.items() if name == "slotsweep_trials") == 11
    assert told(samples, "slotsweep_workers", device="cpu", state="ready") == 1
    assert told(samples, "slotsweep_workers", device="cuda", state="quarantined") == 1
    plain = {
        "slotsweep_trials_done_total": 4,
        "slotsweep_trial_wall_seconds_sum": 46,
        "slotsweep_batches_done_total": 2,
        "slotsweep_sweep_start_seconds_count": 2,
        "slotsweep_sweep_first_result_seconds_count": 1,
        "slotsweep_sweeps_without_worker": 1,
        "slotsweep_webhook_attempts_total": 3,
        "slotsweep_webhook_undelivered": 2,
        "slotsweep_tracker_refused": 0,
    }
    assert {name: told(samples, name) for name in plain} == plain
    assert told(samples, "slotsweep_tracker_undelivered") == len(filled.notices(None, 1000))
    for lag in ("slotsweep_tracker_lag_seconds", "slotsweep_webhook_lag_seconds", "slotsweep_queue_wait_seconds"):
        assert 0 < told(samples, lag) < 600, lag


def test_a_worker_whose_orchestrator_is_not_heard_of_is_silent(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_metrics, "LEASE_SECONDS", -10.0)
    samples = samples_of(Metrics(filled, HOOKS).text().decode())
    states = [told(samples, "slotsweep_workers", device="cpu", state=state) for state in ("ready", "silent")]
    assert states == [0, 1]


def test_metrics_are_as_promtool_wants_them(filled: Store) -> None:
    """Help and type before the samples of each family, once; no sample twice; base units and suffixes in the names."""
    text = Metrics(filled, HOOKS).text().decode()
    families = families_of(text)
    assert all(family.documentation.endswith(".") and family.type != "unknown" for family in families)
    assert max(Counter(family.name for family in families).values()) == 1
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert max(Counter(line.rpartition(" ")[0] for line in lines).values()) == 1
    for family in families:
        assert re.fullmatch(r"slotsweep_[a-z_]+", family.name)
        assert not re.search(r"_(milliseconds|minutes|hours|ms|kb|count|gauge|counter)$", family.name)
        suffixes = {sample.name.removeprefix(family.name) for sample in family.samples}
        allowed = {"counter": {"_total"}, "gauge": {""}, "histogram": {"_bucket", "_sum", "_count"}}
        assert suffixes <= allowed[family.type], family.name
    histograms = [family for family in families if family.type == "histogram"]
    for family in histograms:
        values = [sample.value for sample in family.samples if sample.name.endswith("_bucket")]
        assert values == sorted(values), family.name


def test_labels_are_few_and_hold_nothing_of_a_sweep(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_metrics, "MOST_USERS", 1)
    families = families_of(Metrics(filled, HOOKS).text().decode())
    labels = {name for family in families for sample in family.samples for name in sample.labels}
    assert labels == {
        "state", "reason", "user", "device", "le", "outcome", "duty", "version", "schema", "database",
    }  # fmt: skip
    [waiting] = [family for family in families if family.name == "slotsweep_waiting_trials"]
    assert {sample.labels["user"]: sample.value for sample in waiting.samples} == {"bob": 3, "others": 1}


def test_replicas_tell_the_same_of_the_store(filled: Store) -> None:
    one, other = (families_of(Metrics(filled, HOOKS).text().decode()) for _ in range(2))
    shared = [(a, b) for a, b in zip(one, other, strict=True) if a.documentation.endswith(store_metrics.SHARED)]
    assert len(shared) > 20
    for a, b in shared:
        if not a.name.endswith(("_lag_seconds", "_wait_seconds", "_age_seconds")):
            assert a.samples == b.samples


def test_numbers_are_kept_so_that_asking_again_reads_nothing(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """And for longer if reading them took long."""
    metrics, asks = Metrics(filled, HOOKS), []
    first = samples_of(metrics.text().decode())
    count = filled.trial_numbers
    monkeypatch.setattr(filled, "trial_numbers", lambda: (asks.append(time.sleep(0.01)), count())[1])
    filled.submit(new_sweep(use_cache=False), asked(1, 3))
    assert (
        samples_of(metrics.text().decode())["slotsweep_trials", frozenset({("state", "pending"), ("reason", "")})] == 4
    )
    assert asks == []
    monkeypatch.setattr(store_metrics, "KEEP_SECONDS", 0.0)
    fresh = Metrics(filled, HOOKS)
    fresh.text()
    fresh.text()
    assert len(asks) == 1, "what took 0.01 s is kept for 0.2 s"
    monkeypatch.setattr(store_metrics, "KEEP_TIMES", 0.0)
    fresh = Metrics(filled, HOOKS)
    fresh.text()
    assert told(samples_of(fresh.text().decode()), "slotsweep_trials", state="pending", reason="") == 7
    assert len(asks) == 3
    assert told(first, "slotsweep_metrics_age_seconds") < 60


def test_metrics_need_a_token(start_service: StartService) -> None:
    with start_service() as service:
        for headers in ({}, bearer("slotsweep_wrong")):
            answer = service.client.get("/metrics", headers=headers)
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert "slotsweep_" not in answer.text
        for role in Role:
            answer = service.client.get("/metrics", headers=service.headers(role))
            assert answer.status_code == 200
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert families_of(answer.text)


def test_requests_are_counted_by_route(settings: Settings, store: Store) -> None:
    """Never by address, of which there are as many as somebody tries."""
    app = create_app(settings, store, ServiceOptions())

    @app.get("/broken/{what}")
    def broken(what: str) -> None:
        raise ValueError(what)

    _, secret = store.create_token("ada", Role.ADMIN)
    client = TestClient(app, raise_server_exceptions=False, headers=bearer(secret))
    for path in ("/health", "/health", "/api/v1/webhooks", "/nothing/1", "/nothing/2", "/broken/1", "/broken/2"):
        client.get(path)
    client.delete("/api/v1/tokens/00000000")
    client.request("BREW", "/health")
    samples = samples_of(client.get("/metrics").text)
    counted = {
        (labels["method"], labels["route"], labels["status"]): value
        for (name, pairs), value in samples.items()
        if name == "slotsweep_http_requests_total" and (labels := dict(pairs))
    }
    assert counted["GET", "/health", "200"] == 2
    assert counted["GET", "/api/v1/webhooks", "200"] == 1
    assert counted["GET", "unmatched", "404"] == 2
    assert counted["GET", "/broken/{what}", "500"] == 2
    assert ("other", "/health", "405") in counted
    assert [route for method, route, _ in counted if method == "DELETE"] == ["/api/v1/tokens/{token}"]
    assert told(samples, "slotsweep_http_request_duration_seconds_count", route="/health", method="GET") == 2
    assert not any(name.endswith("_created") for name, _ in samples)


def test_admins_see_what_became_of_events(start_service: StartService) -> None:
    with start_service() as service:
        fill(service.store)
        told = service.client.get("/api/v1/webhooks", headers=service.headers(Role.ADMIN)).json()
        assert [(one["webhook"], one["event"], one["attempts"], one["error"]) for one in told] == [
            (HOOKS[0], "quarantined", 1, "refused"),
            (HOOKS[0], "failed", 1, None),
            (HOOKS[1], "failed", 1, "refused"),
        ]
        assert len(service.client.get("/api/v1/webhooks?limit=1", headers=service.headers(Role.ADMIN)).json()) == 1
        assert service.client.get("/api/v1/webhooks", headers=service.headers(Role.SUBMITTER)).status_code == 403
        assert service.client.get("/api/v1/webhooks").status_code == 401
