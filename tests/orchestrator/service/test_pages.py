"""The service's pages: who sees and does what, sessions, forms, errors, and what stands on them of a real sweep."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from starlette.routing import Route

from models.mechanism import MECHANISMS
from orchestrator.service import artist
from orchestrator.service.access import COOKIE
from orchestrator.service.headers import POLICY
from orchestrator.service.routes import pages
from orchestrator.service.routes.login import onward_of
from orchestrator.store.contract import asked, failure, new_sweep, trials_of, with_worker
from orchestrator.store.serving import OutlookRow
from orchestrator.store.states import Role, SweepState
from orchestrator.store.store import Store
from tests.orchestrator.conftest import Ran
from tests.orchestrator.service.browsing import Reader, log_in, reader
from tests.orchestrator.service.conftest import API, Service, StartService, bearer
from tests.orchestrator.specs import FAILING_PLUGIN

HOSTILE = "<script>alert(1)</script>"
OPEN = {"/login", "/static/{name}", "/favicon.ico"}
"""What answers without a token."""


@pytest.fixture
def submitter(service: Service) -> Reader:
    return reader(service, Role.SUBMITTER)


def submit(store: Store, user: str | None = "submitter", **changes: object) -> str:
    """A queued sweep of six trials."""
    return store.submit(replace(new_sweep(use_cache=False), user=user, **changes), asked()).sweep  # type: ignore[arg-type]


def fail_all(store: Store, sweep: str, message: str = "boom") -> None:
    """End a sweep with all its trials failed."""
    with_worker(store)
    store.set_sweep_state(sweep, SweepState.RUNNING)
    lease = store.claim(sweep, trials_of(store, sweep), "worker-1", 60)
    assert lease is not None
    store.accept(lease.attempt, "worker-1", [replace(failure(trial), message=message) for trial in lease.trials])
    store.set_sweep_state(sweep, SweepState.FAILED)


def all_routes() -> Iterator[Route]:
    """Every route of the pages."""
    pending = list(pages.router.routes)
    for route in pending:
        if isinstance(route, Route):
            yield route
        else:
            pending += route.original_router.routes  # type: ignore[attr-defined]


def routes() -> Iterator[tuple[str, str]]:
    """Every method and address of the pages."""
    for route in all_routes():
        for method in sorted((route.methods or set()) - {"HEAD"}):
            yield method, route.path


def test_nothing_answers_without_a_session_but_the_login(service: Service) -> None:
    sweep = submit(service.store)
    found = [(method, path) for method, path in routes() if path not in OPEN]
    assert len(found) > 20
    for method, path in found:
        address = path.replace("{identity}", sweep).replace("{name}", "dpcache")
        address = re.sub(r"\{\w+\}", "pause", address)
        for headers in ({}, {"cookie": f"{COOKIE}=guess"}):
            answer = service.client.request(method, address, headers=headers, follow_redirects=False)
            assert answer.status_code == 303, (method, path, answer.status_code)
            assert answer.headers["location"].startswith("/login"), path
            assert answer.content == b"", path
    assert service.store.sweep(sweep).state == "queued"


@pytest.mark.parametrize("odd", ["", " ", "-1", "9" * 40, "nan", "x" * 500, "\u00e9\x00", "%", "../..", "last"])
def test_no_address_and_no_query_breaks_a_page(
    service: Service, submitter: Reader, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    """Of any route, whichever of its parameters has the odd value, or all of them."""
    monkeypatch.setattr(artist.Artist, "draw", lambda *_: None)
    sweep = submit(service.store)
    asked = 0
    for route in all_routes():
        if "GET" not in (route.methods or ()):
            continue
        names = [one.alias for one in route.dependant.query_params]  # type: ignore[attr-defined]
        queries: list[dict[str, str]] = [{}, *({name: odd} for name in names), dict.fromkeys(names, odd)]
        for identity in (sweep, odd):
            path = re.sub(r"\{\w+\}", quote(odd, safe=""), route.path.replace("{identity}", quote(identity, safe="")))
            for query in queries:
                answer = submitter.get(f"{path}?{urlencode(query)}")
                assert answer.status_code < 500, (path, query, answer.text)
                asked += 1
    assert asked > 60


def test_a_report_of_an_older_state_is_drawn_anew(
    service: Service, submitter: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On its page as through the API."""
    sweep = submit(service.store)
    old = service.settings.report_folder(sweep) / "report.html"
    old.parent.mkdir(parents=True)
    old.write_text("what it was before it was retried")
    fail_all(service.store, sweep)
    service.store.set_report(sweep, str(old))
    new = old.with_name("new.html")
    new.write_text("what it is now")
    monkeypatch.setattr(artist.Artist, "draw", lambda *asked: artist.Drawn(str(new), None, asked[2], 0.0, 0.0, 0.0))
    assert submitter.text(f"/sweeps/{sweep}/report/") == "what it is now"
    os.utime(old)
    assert submitter.text(f"/sweeps/{sweep}/report/") == "what it was before it was retried"


def test_a_token_is_no_session_and_a_session_no_token(service: Service, submitter: Reader) -> None:
    answer = service.client.get("/", headers=service.headers(Role.ADMIN), follow_redirects=False)
    assert answer.status_code == 303
    assert submitter.get("/api/v1/tokens").status_code == 401


def test_a_login_leads_to_where_one_was_going(service: Service) -> None:
    client = service.client
    answer = client.get("/sweeps/abc/log?level=warnings", follow_redirects=False)
    assert answer.headers["location"] == "/login?onward=%2Fsweeps%2Fabc%2Flog%3Flevel%3Dwarnings"
    form = client.get(answer.headers["location"]).text
    assert 'name="onward" value="/sweeps/abc/log?level=warnings"' in form
    assert '<a href="/sweeps/abc/log?level=warnings">Go on' in form
    data = {"token": service.tokens[Role.VIEWER], "onward": "/sweeps/abc/log?level=warnings"}
    answer = client.post("/login", data=data, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sweeps/abc/log?level=warnings")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    assert service.tokens[Role.VIEWER] not in cookie


def test_over_https_the_cookie_is_sent_over_nothing_else(start_service: StartService) -> None:
    with start_service(secure=True) as service:
        data = {"token": service.tokens[Role.VIEWER]}
        answer = service.client.post("/login", data=data, follow_redirects=False)
        assert "secure" in answer.headers["set-cookie"].lower()
        assert service.client.get("/health").headers["strict-transport-security"] == "max-age=31536000"


def test_whatever_answers_get_answers_head(service: Service, submitter: Reader) -> None:
    assert "strict-transport-security" not in submitter.get("/").headers
    for address in ("/", "/health", "/login", f"{API}/me"):
        asked, whole = (submitter.client.request(method, address) for method in ("HEAD", "GET"))
        assert (asked.status_code, asked.content) == (whole.status_code, b"")
        assert asked.headers["content-length"] == str(len(whole.content))


@pytest.mark.parametrize(
    "address",
    ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/\t/evil.example", "evil",
     "/a\r\nSet-Cookie: x=y", "/login", "/logout", "", "/@evil.example"],
)  # fmt: skip
def test_a_login_leads_nowhere_else(address: str, service: Service) -> None:
    assert onward_of(address) == "/"
    data = {"token": service.tokens[Role.VIEWER], "onward": address}
    assert service.client.post("/login", data=data, follow_redirects=False).headers["location"] == "/"


@pytest.mark.parametrize("token", ["", "  ", "guess", "slotsweep_" + "x" * 43, HOSTILE, "\x00", "é"])
def test_a_wrong_token_is_told_and_begins_nothing(token: str, service: Service) -> None:
    answer = service.client.post("/login", data={"token": token}, follow_redirects=False)
    assert answer.status_code == 403
    assert 'role="alert"' in answer.text
    assert "set-cookie" not in answer.headers
    assert HOSTILE not in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 303),
        ({"sec-fetch-site": "none"}, 303),
        ({"origin": "http://testserver"}, 303),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_no_other_site_logs_its_readers_in(headers: dict[str, str], status: int, service: Service) -> None:
    data = {"token": service.tokens[Role.VIEWER]}
    assert service.client.post("/login", data=data, headers=headers, follow_redirects=False).status_code == status


def test_a_session_ends_with_a_logout_and_with_its_token(service: Service) -> None:
    row, secret = service.store.create_token("ada", Role.VIEWER)
    one, two = log_in(service, secret), log_in(service, secret)
    kept = one.client.cookies[COOKIE]
    answer = one.send("/logout")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert service.client.get("/", headers={"cookie": f"{COOKIE}={kept}"}, follow_redirects=False).status_code == 303
    assert two.get("/").status_code == 200
    service.store.revoke_token(row.id)
    assert two.get("/").status_code == 303


@pytest.mark.parametrize("csrf", ["", "guess", "é"])
def test_a_form_of_another_session_changes_nothing(csrf: str, service: Service, submitter: Reader) -> None:
    sweep = submit(service.store)
    other = reader(service, Role.SUBMITTER).csrf
    for token in (csrf, other):
        answer = submitter.send(f"/sweeps/{sweep}/pause", csrf=token)
        assert answer.status_code == 403
        assert "not of your session" in answer.text
    assert submitter.client.post(f"/sweeps/{sweep}/cancel", follow_redirects=False).status_code == 403
    assert submitter.send("/logout", csrf=csrf).status_code == 403
    assert service.store.sweep(sweep).state == "queued"
    assert submitter.get("/").status_code == 200


def test_everybody_is_offered_what_they_may_do_and_can_do_no_more(service: Service) -> None:
    readers = {role: reader(service, role) for role in Role}
    owners: dict[str | None, list[Role]] = {
        "submitter": [Role.SUBMITTER, Role.ADMIN],
        "viewer": [Role.ADMIN],  # who submitted it as somebody else once
        "somebody else": [Role.ADMIN],
        None: [Role.ADMIN],
    }
    for owner, may in owners.items():
        sweep = submit(service.store, owner)
        for role, who in readers.items():
            offered = who.offers(f"/sweeps/{sweep}")
            assert offered == ({"pause", "cancel"} if role in may else set()), (owner, role)
            if role not in may:
                assert {who.send(f"/sweeps/{sweep}/{act}").status_code for act in ("pause", "cancel", "retry")} == {403}
                assert who.get(f"/sweeps/{sweep}/cancel").status_code == 403
        assert service.store.sweep(sweep).state == "queued"


def test_a_sweep_is_paused_resumed_cancelled_and_taken_up_again(service: Service, submitter: Reader) -> None:
    sweep = submit(service.store)
    page = f"/sweeps/{sweep}"

    def send(action: str) -> str:
        answer = submitter.send(f"{page}/{action}")
        assert (answer.status_code, answer.headers["location"]) == (303, page)
        return service.store.sweep(sweep).state

    assert send("pause") == "paused"
    assert submitter.offers(page) == {"resume", "cancel"}
    assert send("resume") == "queued"
    assert "Cancel name?" in submitter.text(f"{page}/cancel")
    assert send("cancel") == "cancelled"
    assert service.store.sweep(sweep).counts.cancelled == 6
    assert submitter.offers(page) == {"resume"}
    assert submitter.get(f"{page}/cancel").headers["location"] == page
    assert send("resume") == "queued"
    assert service.store.sweep(sweep).counts.pending == 6


def test_what_cannot_be_done_now_is_told(service: Service, submitter: Reader) -> None:
    sweep = submit(service.store)
    fail_all(service.store, sweep)
    for action in ("pause", "cancel"):
        answer = submitter.send(f"/sweeps/{sweep}/{action}")
        assert answer.status_code == 400
        assert f"sweep {sweep} is failed" in answer.text
    assert submitter.send(f"/sweeps/{sweep}/explode").status_code == 422


def test_failures_are_grouped_with_what_was_printed_and_retried(service: Service, submitter: Reader) -> None:
    sweep = submit(service.store)
    fail_all(service.store, sweep, f"Traceback (most recent call last):\n  x\nValueError: {HOSTILE}")
    page = f"/sweeps/{sweep}"
    text = submitter.text(page)
    assert HOSTILE not in text
    assert re.search(r"<summary><b>user_error</b> 6 trials: <span class=\"said\">ValueError: &lt;script&gt;", text)
    assert submitter.offers(page) == {"retry"}
    assert submitter.send(f"{page}/retry").status_code == 303
    assert service.store.sweep(sweep).state == "queued"
    assert "user_error" not in submitter.text(f"{page}/parts/state")


def test_the_list_is_filtered_and_paged(service: Service, submitter: Reader) -> None:
    names = [f"sweep number {n}" for n in range(27)]
    ids = [submit(service.store, "ada" if n % 2 else "bob & co", name=name) for n, name in enumerate(names)]
    service.store.set_sweep_state(ids[3], SweepState.PAUSED)

    def listed(query: str) -> list[str]:
        return re.findall(r'href="/sweeps/\w+">([^<]+)</a>', submitter.text(f"/{query}"))

    assert listed("") == names[:1:-1]
    assert listed("?page=2") == listed("?page=99") == names[1::-1]
    assert listed("?user=ada") == names[25::-2]
    assert listed("?user=bob+%26+co&q=NUMBER+2") == [names[n] for n in (26, 24, 22, 20, 2)]
    assert listed("?state=paused") == [names[3]]
    assert listed(f"?q={ids[5]}") == [names[5]]
    assert listed("?q=nothing") == []
    assert submitter.get("/?state=lost").status_code == 400
    assert submitter.get("/?page=0").status_code == 422
    assert "27 sweeps, page 2 of 2" in submitter.text("/parts/sweeps?page=2")


def test_a_page_says_why_a_sweep_waits_and_when_it_ends(service: Service, submitter: Reader) -> None:
    one, two = submit(service.store), submit(service.store)
    service.store.set_outlook(OutlookRow(one, 1.0, waiting=f"no node has cuda {HOSTILE}"))
    service.store.set_outlook(OutlookRow(two, 1.0, seconds_left=75.0, growth="2 of 4 rounds"))
    for address in ("/", f"/sweeps/{one}", f"/sweeps/{one}/parts/state"):
        assert "waits: no node has cuda &lt;script&gt;" in submitter.text(address)
    for address in ("/parts/sweeps", f"/sweeps/{two}"):
        assert "1 min 15 s left" in submitter.text(address)
        assert "2 of 4 rounds" in submitter.text(address)


def test_a_beginning_of_an_id_leads_to_its_page_and_none_to_none(service: Service, submitter: Reader) -> None:
    sweep = submit(service.store)
    assert submitter.get(f"/sweeps/{sweep[:6]}").headers["location"] == f"/sweeps/{sweep}"
    missing = submitter.get("/sweeps/zzz")
    assert missing.status_code == 404
    assert "there is no sweep `zzz`" in missing.text
    assert submitter.get(f"/sweeps/{sweep}/report").headers["location"] == f"/sweeps/{sweep}/report/"
    assert submitter.get(f"/sweeps/{sweep}/report/").status_code == 404


def test_browsers_get_pages_and_programs_json(service: Service, submitter: Reader) -> None:
    headers = bearer(service.tokens[Role.ADMIN])
    answer = service.client.get("/api/v1/nothing", headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")
    assert answer.json()["message"] == "there is nothing at /api/v1/nothing"
    page = submitter.get(f"/nothing/{HOSTILE}")
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert HOSTILE not in page.text
    assert "Log out" in page.text
    assert submitter.client.put("/").status_code == 405
    anonymous = service.client.get("/nothing")
    assert anonymous.status_code == 404
    assert "Log out" not in anonymous.text


def test_what_breaks_tells_nothing_and_keeps_the_policy(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = reader(service, Role.ADMIN)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(service.store, "statuses", broken)
    answer = admin.get("/")
    assert answer.status_code == 500
    assert "secret of the inside" not in answer.text
    assert answer.headers["content-security-policy"] == POLICY


def test_pages_load_one_style_sheet_and_one_script_which_are_kept(service: Service) -> None:
    text = service.client.get("/login").text
    files = re.findall(r'(?:href|src)="(/static/[^"]+)"', text)
    assert len(files) == 2
    for file in files:
        answer = service.client.get(file)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert service.client.get("/static/other.js").status_code == 404
    assert service.client.get("/static/..%2f..%2fpyproject.toml").status_code == 404
    assert service.client.get("/login").headers["content-security-policy"] == POLICY


def test_workers_are_listed_with_what_they_hold(service: Service, submitter: Reader) -> None:
    sweep = submit(service.store)
    with_worker(service.store)
    service.store.claim(sweep, trials_of(service.store, sweep), "worker-1", 60)
    row = re.sub(r"<[^>]+>", " ", submitter.text("/workers")).split()
    assert row[row.index("worker-1") :][:5] == ["worker-1", "cpu", "x", "ready", "6"]
    assert "worker-1" in submitter.text("/parts/workers?all=1")


@pytest.fixture
def forget_plug_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test's plug-in registers goes with the test."""
    MECHANISMS.names()
    monkeypatch.setattr(MECHANISMS, "_entries", dict(MECHANISMS._entries))
    yield
    sys.modules.pop("faulty_mechanism", None)


def test_a_sweep_that_ran_is_shown_whole(
    service: Service, submitter: Reader, slotsweep_here: Callable[..., Ran], tmp_path: Path, forget_plug_in: None
) -> None:
    (tmp_path / "faulty_mechanism.py").write_text(FAILING_PLUGIN, encoding="utf-8")
    spec = tmp_path / "faulty.yaml"
    spec.write_text(
        "name: faulty\nkind: frontier\ndescription: What fails.\n"
        "workload: {name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16, noise: 0.3}\n"
        "mechanisms:\n  - {name: faulty, fault: {values: [raise, none]}}\n  - {name: recency, budget: 8}\n"
        "seeds: 2\nepisodes: 3\nplugins: [faulty_mechanism.py]\n",
        encoding="utf-8",
    )
    ran = slotsweep_here("run", str(spec), "--executor", "inline", "--json")
    assert ran.code == 1, ran.err
    sweep = ran.json["sweep"]
    page = f"/sweeps/{sweep}"
    text = submitter.text(page)
    for told in (
        "What fails.",
        "6: 3 cells with 2 seeds",
        "told to fail",
        "name: faulty",
        f"slotsweep dashboard {sweep}",
    ):
        assert told in text, told
    _check_chart(submitter, page)
    _check_files(submitter, page, slotsweep_here)
    entries = submitter.text(f"{page}/log")
    assert entries.index("sweep failed") < entries.index("sweep running")
    assert "sweep running" not in submitter.text(f"{page}/log?level=warnings")
    assert "ValueError: told to fail" in submitter.text(f"{page}/parts/log?level=warnings")
    assert "/compare?a=" not in text, "there is nothing to compare it with"
    assert "choose under <i>with</i>" in submitter.text(f"/compare?a={sweep}")
    submit(service.store)
    assert f"/compare?a={sweep}" in submitter.text(page)
    compared = submitter.text(f"/compare?a={sweep}&by=device")
    assert "`device: [cpu, cuda]`" in compared or "Being drawn" in compared


def _check_chart(submitter: Reader, page: str) -> None:
    """The chart is there once it was drawn, and not sent again to who has it."""
    until = time.monotonic() + 120
    while (chart := submitter.get(f"{page}/parts/chart")).status_code == 204 and time.monotonic() < until:
        time.sleep(0.1)
    assert "recency" in chart.text
    version = re.search(r'data-version="([^"]+)"', chart.text)
    assert version is not None
    assert submitter.get(f"{page}/parts/chart?seen={version[1]}").status_code == 204
    assert "<svg" in submitter.text(page)


def _check_files(submitter: Reader, page: str, slotsweep_here: Callable[..., Ran]) -> None:
    """Results are those of the command; the report comes with a policy of its own, and its files."""
    sweep = page.rpartition("/")[2]
    answer = submitter.get(f"{page}/results.csv")
    assert answer.text == slotsweep_here("results", sweep, "--format", "csv").out
    assert answer.headers["content-disposition"] == f'attachment; filename="{sweep}.csv"'
    assert len(json.loads(submitter.text(f"{page}/results.json"))) == 6
    assert submitter.get(f"{page}/results.parquet").content[:4] == b"PAR1"
    assert submitter.get(f"{page}/results.exe").status_code in (404, 422)
    report = submitter.get(f"{page}/report/")
    assert "slotsweep report" in report.text
    assert "default-src 'none'" in report.headers["content-security-policy"]
    assert "sandbox" in report.headers["content-security-policy"]
    assert submitter.get(f"{page}/report/frontier.csv").text.startswith("panel,mechanism")
    for name in ("missing.png", "..%2F..%2Fslotsweep.db", "%2Fetc%2Fpasswd"):
        assert submitter.get(f"{page}/report/{name}").status_code == 404


def test_a_sweep_that_grows_is_not_called_a_product(service: Service, submitter: Reader) -> None:
    sweep = submit(service.store, kind="tuning")
    assert "as many as results ask for" in submitter.text(f"/sweeps/{sweep}")
    assert "with 3 seeds" not in submitter.text(f"/sweeps/{sweep}")
    assert "with 3 seeds" in submitter.text(f"/sweeps/{submit(service.store)}")


def test_what_a_cancelled_sweep_leaves_to_others_is_told(service: Service, submitter: Reader) -> None:
    sweep = submit(service.store)
    other = service.store.submit(new_sweep(), asked()).sweep
    assert service.store.sweep(other).counts.pending == 6
    service.store.set_sweep_state(sweep, SweepState.CANCELLED)
    service.store.cancel_pending(sweep)
    text = submitter.text(f"/sweeps/{sweep}")
    assert "<dt>left to others</dt><dd>6</dd>" in text
    assert "<dt>waiting</dt>" not in text


def test_a_drawing_that_is_out_of_date_says_so_and_is_drawn_anew(
    service: Service, submitter: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = service.store.submit(new_sweep(), asked(0, 0)).sweep
    page = f"/sweeps/{sweep}"
    until = time.monotonic() + 120
    monkeypatch.setattr(artist, "EVERY_SECONDS", 1e9)
    while "Being drawn" in submitter.text(page) and time.monotonic() < until:
        time.sleep(0.1)
    assert "As of <time" not in submitter.text(page)
    service.store.set_sweep_state(sweep, SweepState.CANCELLED)
    assert "As of <time" in submitter.text(page)
    monkeypatch.setattr(artist, "EVERY_SECONDS", 0.0)
    while "As of <time" in submitter.text(page) and time.monotonic() < until:
        time.sleep(0.1)
    assert "As of <time" not in submitter.text(page)
