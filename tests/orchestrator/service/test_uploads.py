"""What requests bring: plug-ins from those who may, files from where they may lie, and no more than there may be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store.states import Role
from tests.orchestrator.service.conftest import API, Service, StartService
from tests.orchestrator.service.test_planning import BROUGHT, PLUGGED
from tests.orchestrator.specs import SMALL

TEXT = """\
name: own-text
kind: training
workload: {name: text_file, path: %s, length: 8}
mechanisms:
  - {name: transformer, width: 16, layers: 1}
seeds: 1
"""


def post(service: Service, route: str, role: Role, **spec: Any) -> Any:
    given = {"specs": [{"name": "mine.yaml", "text": SMALL, **spec}]}
    return service.client.post(f"{API}/{route}", headers=service.headers(role), json=given)


def plug_in(service: Service, route: str, role: Role, name: str = "brought_code.py", code: str = BROUGHT) -> Any:
    return post(service, route, role, text=PLUGGED.replace("brought_code.py", name), plugins={name: code})


def test_code_is_taken_where_it_is_let_in_and_kept_with_the_sweep(start_service: StartService) -> None:
    with start_service(allow_plugins=True) as service:
        answer = plug_in(service, "sweeps", Role.SUBMITTER)
        assert answer.status_code == 201
        row = service.store.sweep(answer.json()["submitted"]["mine.yaml"]["sweep"])
        [kept] = row.spec["plugins"]
        assert Path(kept).is_relative_to(service.settings.home / "plugins")
        assert Path(kept).read_text() == BROUGHT
        assert (service.store.code(row).unpack(service.settings.home / "unpacked") / "brought_code.py").is_file()
        assert plug_in(service, "plans", Role.SUBMITTER).json()[0]["reused"] == 0
        again = plug_in(service, "sweeps", Role.ADMIN, code=BROUGHT.replace("The same.", "Still the same."))
        assert again.status_code == 201
        other = service.store.sweep(again.json()["submitted"]["mine.yaml"]["sweep"])
        assert other.spec["plugins"] != row.spec["plugins"]


@pytest.mark.parametrize(("allowed", "role"), [(False, Role.ADMIN), (True, Role.VIEWER)])
def test_code_is_refused_unless_it_is_let_in_and_from_who_may_bring_it(
    start_service: StartService, allowed: bool, role: Role
) -> None:
    with start_service(allow_plugins=allowed) as service:
        answer = plug_in(service, "plans", role)
        assert answer.status_code == 403
        assert "plug-ins" in answer.json()["message"]
        named = post(service, "plans", role, text=PLUGGED).json()["problems"]
        why = "this service takes no plug-ins" if not allowed else "only submitters may name plug-ins"
        assert any(problem["message"].startswith(why) for problem in named)
        assert not (service.settings.home / "plugins").exists()


def test_modules_are_not_loaded_where_code_is_not_let_in(service: Service) -> None:
    answer = post(service, "plans", Role.ADMIN, text=PLUGGED.replace("brought_code.py", "this"))
    assert answer.status_code == 422
    assert "this service takes no plug-ins" in [problem["message"] for problem in answer.json()["problems"]]
    hidden = post(
        service, "plans", Role.ADMIN, text=PLUGGED.replace("plugins: [brought_code.py]", '"plug\\x69ns": [this]')
    )
    assert "this service takes no plug-ins" in [problem["message"] for problem in hidden.json()["problems"]]


@pytest.mark.parametrize("name", ["../evil.py", "/etc/cron.d/evil.py", "..\\evil.py", "a b.py", "x.so", ".py", "os.py"])
def test_names_of_code_lead_nowhere_else(start_service: StartService, name: str) -> None:
    with start_service(allow_plugins=True) as service:
        answer = plug_in(service, "sweeps", Role.SUBMITTER, json.dumps(name)[1:-1], "VALUE = 1\n")
        assert answer.status_code in (400, 422)
        kept = [path for path in service.settings.home.rglob("*evil*.py") if path.is_file()]
        assert all(path.parent.parent == service.settings.home / "plugins" for path in kept)


def test_files_of_the_service_are_never_plug_ins(start_service: StartService, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text("raise AssertionError\n")
    with start_service(allow_plugins=True) as service:
        answer = post(service, "plans", Role.ADMIN, text=PLUGGED.replace("brought_code.py", str(tmp_path / "there.py")))
        assert answer.status_code == 422
        assert "did not come with the spec" in answer.text


def test_files_of_specs_lie_where_they_may(
    start_service: StartService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLOTSWEEP_DATA", raising=False)
    folder = tmp_path / "corpora"
    folder.mkdir()
    (folder / "a.txt").write_text("word " * 2000)
    (tmp_path / "b.txt").write_text("word " * 2000)
    with start_service(data_folders=(folder,)) as service:
        assert post(service, "plans", Role.VIEWER, text=TEXT % "a.txt").status_code == 200
        for path in (tmp_path / "b.txt", "../b.txt", "/etc/hostname"):
            answer = post(service, "plans", Role.VIEWER, text=TEXT % path)
            assert answer.status_code == 422
            [problem] = answer.json()["problems"]
            assert (problem["line"], problem["column"]) == (3, 35)
            assert problem["expected"] == f"a file in {folder}"
    monkeypatch.setenv("SLOTSWEEP_DATA", str(tmp_path))
    with start_service() as service:
        assert post(service, "plans", Role.VIEWER, text=TEXT % "b.txt").status_code == 200


def test_there_is_a_limit_to_everything(start_service: StartService) -> None:
    with start_service(allow_plugins=True, plugin_bytes=1000, most_specs=2, most_trials=20) as service:
        answer = plug_in(service, "plans", Role.SUBMITTER, code=f"{BROUGHT}# {'x' * 1000}\n")
        assert answer.status_code == 400
        assert "the plug-ins have" in answer.json()["message"]
        many = {"specs": [{"name": str(number), "text": SMALL} for number in range(3)]}
        answer = service.client.post(f"{API}/plans", headers=service.headers(Role.VIEWER), json=many)
        assert (answer.status_code, answer.json()["message"]) == (
            400,
            "this request brings 3 specs; expected 2 at most",
        )
        [problem] = post(service, "sweeps", Role.SUBMITTER).json()["problems"]
        assert (problem["line"], problem["message"]) == (7, "this spec makes 24 trials")
        assert service.store.sweeps() == []
