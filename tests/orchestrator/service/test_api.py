"""The API as a program without slotsweep's own client meets it."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from orchestrator.caps import Caps
from orchestrator.logs import SweepLog, log_file
from orchestrator.runner import policy_of
from orchestrator.service.routes.logs import POSITION
from orchestrator.store.states import Role
from tests.orchestrator.service.conftest import API, Service
from tests.orchestrator.specs import SMALL


def submitted(service: Service, role: Role = Role.SUBMITTER, text: str = SMALL) -> str:
    """The id of a sweep that somebody with `role` submits."""
    answer = service.client.post(
        f"{API}/sweeps", json={"specs": [{"name": "small.yaml", "text": text}]}, headers=service.headers(role)
    )
    assert answer.status_code == 201, answer.text
    identity: str = answer.json()["submitted"]["small.yaml"]["sweep"]
    return identity


def test_sweeps_are_submitted_listed_and_steered_by_their_owner(service: Service) -> None:
    client, owner, viewer = service.client, service.headers(Role.SUBMITTER), service.headers(Role.VIEWER)
    sweep = submitted(service)
    shown = client.get(f"{API}/sweeps/{sweep[:6]}", headers=viewer).json()
    assert (shown["id"], shown["user"], shown["state"], shown["counts"]["pending"]) == (
        sweep,
        "submitter",
        "queued",
        24,
    )
    assert client.get(f"{API}/sweeps/last", headers=owner).json()["id"] == sweep
    assert client.get(f"{API}/sweeps/last", headers=viewer).status_code == 404
    for action, state in (("pause", "paused"), ("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
        answer = client.post(f"{API}/sweeps/{sweep}/{action}", headers=owner)
        assert (answer.status_code, answer.json()["sweep"]["state"]) == (200, state)
        assert client.get(f"{API}/sweeps/{sweep}", headers=owner).json()["state"] == state
    assert client.post(f"{API}/sweeps/{sweep}/pause", headers=owner).status_code == 400
    retried = client.post(f"{API}/sweeps/{sweep}/retry", headers=service.headers(Role.ADMIN)).json()
    assert (retried["trials"], retried["sweep"]["state"]) == (24, "queued")
    assert client.post(f"{API}/sweeps/{sweep}/pause", headers=viewer).status_code == 403
    others = submitted(service, Role.ADMIN)
    assert client.post(f"{API}/sweeps/{others}/pause", headers=owner).status_code == 403
    page = client.get(f"{API}/sweeps?limit=1&state=queued", headers=viewer).json()
    assert ([one["id"] for one in page["sweeps"]], page["total"]) == ([others], 2)
    assert client.get(f"{API}/sweeps?user=submitter", headers=viewer).json()["total"] == 1


def test_a_plan_is_described_and_what_is_wrong_has_its_place(service: Service) -> None:
    client, viewer = service.client, service.headers(Role.VIEWER)
    specs = [{"name": "small.yaml", "text": SMALL, "overrides": ["seeds=2"]}]
    [plan] = client.post(f"{API}/plans", json={"specs": specs}, headers=viewer).json()
    assert (plan["name"], plan["trials"], plan["seeds"]) == ("small", 12, 2)
    specs[0]["text"] = SMALL.replace("seeds: 4", "seeds: four")
    specs[0]["overrides"] = []
    refused = client.post(f"{API}/plans", json={"specs": specs}, headers=viewer)
    [problem] = refused.json()["problems"]
    assert (refused.status_code, problem["file"], problem["line"]) == (422, "small.yaml", 8)
    assert client.post(f"{API}/sweeps", json={"specs": specs}, headers=viewer).status_code == 403


def test_results_come_in_three_formats_and_a_summary_as_text(service: Service) -> None:
    client, viewer = service.client, service.headers(Role.VIEWER)
    sweep = submitted(service)
    rows = client.get(f"{API}/sweeps/{sweep}/results", headers=viewer).json()
    assert (len(rows), rows[0]["state"], next(iter(rows[0]))) == (24, "pending", "sweep")
    lines = client.get(f"{API}/sweeps/{sweep}/results?format=csv", headers=viewer).text.splitlines()
    assert (len(lines), lines[0].split(",")[:3]) == (25, ["sweep", "trial", "key"])
    assert client.get(f"{API}/sweeps/{sweep}/results?format=parquet", headers=viewer).content[:4] == b"PAR1"
    assert "dp_cache" in client.get(f"{API}/sweeps/{sweep}/summary?width=80", headers=viewer).text


@pytest.mark.slow
def test_the_report_is_a_page_and_a_zip_of_plain_files(service: Service) -> None:
    viewer = service.headers(Role.VIEWER)
    sweep = submitted(service)
    page = service.client.get(f"{API}/sweeps/{sweep}/report", headers=viewer)
    assert page.text.startswith("<!doctype html>")
    assert "sandbox" in page.headers["Content-Security-Policy"]
    archive = zipfile.ZipFile(
        io.BytesIO(service.client.get(f"{API}/sweeps/{sweep}/report.zip", headers=viewer).content)
    )
    assert {"report.html", "spec.yaml"} <= set(archive.namelist())


def test_a_log_is_read_on_across_rotation(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    viewer = service.headers(Role.VIEWER)
    sweep = submitted(service)
    address = f"{API}/sweeps/{sweep}/log"
    assert service.client.get(address, headers=viewer).text == ""
    log = SweepLog(service.settings, sweep)
    monkeypatch.setattr("orchestrator.logs.ROTATE_BYTES", 1000)
    monkeypatch.setattr("orchestrator.service.routes.logs.PAGE_BYTES", 300)
    seen: list[int] = []
    position = ""
    for number in range(40):
        log.info("batch done", batch=number)
        if number % 3 == 0:
            while True:
                answer = service.client.get(address, params={"after": position}, headers=viewer)
                position = answer.headers[POSITION]
                if not answer.text:
                    break
                seen += [json.loads(line)["batch"] for line in answer.text.splitlines()]
    assert seen == list(range(40))
    with log_file(service.settings, sweep).open("ab") as file:
        file.write(b'{"torn": ')
    assert service.client.get(address, params={"after": position}, headers=viewer).text == ""
    last = service.client.get(address, params={"tail": 2}, headers=viewer).text.splitlines()
    assert [json.loads(line)["batch"] for line in last] == [38, 39]


def test_papers_workers_and_the_caller_are_told(service: Service) -> None:
    viewer = service.headers(Role.VIEWER)
    assert service.client.get(f"{API}/me", headers=viewer).json() == {"user": "viewer", "role": "viewer"}
    assert service.client.get(f"{API}/workers?all=true", headers=viewer).json()["workers"] == []
    assert service.client.get(f"{API}/claims/nothing", headers=viewer).status_code == 404
    assert service.client.get(f"{API}/compare?sweep=aaaa", headers=viewer).status_code == 404
    nothing_done = service.client.get(f"{API}/compare?sweep={submitted(service)}", headers=viewer)
    assert (nothing_done.status_code, "no finished trial" in nothing_done.text) == (400, True)


def test_caps_travel_with_a_submission_and_are_checked(service: Service) -> None:
    owner, body = service.headers(Role.SUBMITTER), {"specs": [{"name": "small.yaml", "text": SMALL}]}
    limits = {"max_hours": 2.5, "max_cost": 10, "prices": {"cuda": 0.5}}
    answer = service.client.post(f"{API}/sweeps", json={**body, **limits}, headers=owner)
    sweep = answer.json()["submitted"]["small.yaml"]["sweep"]
    assert policy_of(service.store.sweep(sweep)).caps == Caps(2.5, 10.0, {"cuda": 0.5})
    for wrong, status in (
        ({"max_cost": 10}, 400),
        ({"max_hours": 0}, 422),
        ({"max_cost": 1, "prices": {"tpu": 1}}, 422),
        ({"max_cost": 1, "prices": {"cpu": -1}}, 422),
    ):
        answer = service.client.post(f"{API}/sweeps", json={**body, **wrong}, headers=owner)
        assert answer.status_code == status, answer.text
