"""Webhooks: what arrives at a real receiver, when it fails, hangs, redirects or is gone, and when services die."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest

from orchestrator.errors import RequestError
from orchestrator.service.webhook_payload import Told
from orchestrator.service.webhook_settings import Webhook, read_public_url, take_webhooks
from orchestrator.service.webhooks import Schedule, Teller
from orchestrator.settings import Settings
from orchestrator.store.contract import WORKER, asked, failure, new_sweep, result, trials_of, with_worker
from orchestrator.store.states import Role, SweepState
from orchestrator.store.store import Store
from tests.orchestrator.conftest import Ran
from tests.orchestrator.service.conftest import Service, Serving
from tests.orchestrator.service.receiver import Answer, Receiver

README = Path(__file__).parents[3] / "README.md"
SECRET = "a secret of the tests"
QUICK = Schedule(first=0.05, most=0.2, attempts=5, timeout=20.0, poll=0.02, lease=4.0)
PATIENT = Schedule(first=60.0, poll=0.02)

Serve = Callable[..., Receiver]
ServeCommand = Callable[..., AbstractContextManager[Serving]]


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store = Store.open(url if request.param == "sqlite" else request.getfixturevalue("postgres_url"))
    yield store
    store.close()


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Store]:
    """For what no backend can make a difference to."""
    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    yield store
    store.close()


@pytest.fixture
def receivers() -> Iterator[Serve]:
    """Makes receivers that answer as given."""
    made: list[Receiver] = []

    def make(*answers: Answer | Callable[[], Answer]) -> Receiver:
        made.append(Receiver(*answers))
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


@pytest.fixture
def store_of_settings(settings: Settings) -> Iterator[Store]:
    """The store that commands use."""
    store = Store.open(settings.database_url)
    yield store
    store.close()


@contextmanager
def telling(store: Store, *urls: str, schedule: Schedule = QUICK, public_url: str | None = None) -> Iterator[Teller]:
    webhooks = [Webhook.at(url) for url in urls]
    teller = Teller(store, store.register_orchestrator(), webhooks, SECRET, public_url, schedule)
    teller.start()
    yield teller
    teller.stop(5.0)


def end(store: Store) -> str:
    """A sweep that ends."""
    sweep = store.submit(new_sweep(use_cache=False), asked(1, 1)).sweep
    store.set_sweep_state(sweep, SweepState.CANCELLED)
    return sweep


def settled(store: Store, number: int) -> None:
    """Wait until `number` deliveries were taken or given up."""
    until = time.monotonic() + 30
    while sum(row.next_attempt is None for row in store.told(100)) < number:
        assert time.monotonic() < until, store.told(100)
        time.sleep(0.01)


def test_events_arrive_with_what_happened(store: Store, receivers: Serve) -> None:
    receiver = receivers()
    with telling(store, receiver.url, public_url="https://sweeps.example.org"):
        with_worker(store)
        sweep = store.submit(new_sweep(), asked(1, 3)).sweep
        store.set_sweep_state(sweep, SweepState.RUNNING)
        trials = trials_of(store, sweep)
        lease = store.claim(sweep, trials, WORKER, 60)
        assert lease is not None
        store.accept(lease.attempt, WORKER, [result(trials[0]), result(trials[1]), failure(trials[2], "timeout")])
        store.set_sweep_state(sweep, SweepState.FAILED)
        receiver.wait_for(1)
        store.set_worker_state(WORKER, "quarantined")
        ended, quarantined = receiver.wait_for(2)
    told = Told.model_validate_json(ended.body)
    assert (told.version, told.event, told.worker) == (1, "failed", None)
    assert told.sweep is not None
    assert told.sweep.model_dump(exclude={"created", "finished"}) == {
        "id": sweep,
        "name": "name",
        "kind": "frontier",
        "user": None,
        "state": "failed",
        "trials": 3,
        "done": 2,
        "failed": 1,
        "cancelled": 0,
        "reused": 0,
        "reasons": {"timeout": 1},
        "page": f"https://sweeps.example.org/sweeps/{sweep}",
        "report": f"https://sweeps.example.org/sweeps/{sweep}/report",
    }
    assert quarantined.json["event"] == "quarantined"
    assert quarantined.json["sweep"] is None
    assert quarantined.json["worker"] == {"id": WORKER, "device": "cpu", "machine": "x", "state": "quarantined"}
    assert ended.headers["Content-Type"] == "application/json"
    assert ended.headers["webhook-id"] == told.id != quarantined.headers["webhook-id"]


@pytest.mark.parametrize(
    "secret", [SECRET, "whsec_" + base64.b64encode(bytes(range(24))).decode()], ids=["text", "base64"]
)
def test_the_documented_check_accepts_what_we_sign_and_nothing_else(
    local: Store, receivers: Serve, secret: str
) -> None:
    receiver = receivers()
    teller = Teller(local, local.register_orchestrator(), [Webhook.at(receiver.url)], secret, None, QUICK)
    teller.start()
    end(local)
    [request] = receiver.wait_for(1)
    teller.stop()
    found = re.search(r"```python\n(import base64.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    names: dict[str, Callable[..., bool]] = {}
    exec(found[1], names)
    is_ours, headers = names["is_ours"], {name.lower(): value for name, value in request.headers.items()}
    assert is_ours(headers, request.body, secret)
    assert not is_ours(headers, request.body + b" ", secret)
    assert not is_ours(headers, request.body, secret + "x" if secret == SECRET else SECRET)
    assert not is_ours({**headers, "webhook-id": "evt_other"}, request.body, secret)
    assert not is_ours({**headers, "webhook-timestamp": str(int(time.time()) - 3600)}, request.body, secret)
    assert not is_ours({}, request.body, secret)


def test_an_event_is_sent_until_it_is_taken_with_the_same_id(store: Store, receivers: Serve) -> None:
    receiver = receivers((500, {}), (302, {"Location": "/elsewhere"}), (404, {}), (200, {}))
    with telling(store, receiver.url):
        end(store)
        settled(store, 1)
    assert [request.path for request in receiver.requests] == ["/hook"] * 4
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    [row] = store.told(10)
    assert (row.attempts, row.error) == (4, None)
    assert row.delivered is not None


def test_what_no_receiver_takes_is_given_up(local: Store, receivers: Serve, caplog: pytest.LogCaptureFixture) -> None:
    gone, broken = receivers((410, {}), (200, {})), receivers((503, {}))
    with telling(local, gone.url, broken.url, "http://127.0.0.1:1/none"):
        end(local)
        settled(local, 3)
    assert (len(gone.requests), len(broken.requests)) == (1, QUICK.attempts)
    told = {row.webhook.partition(" ")[0]: (row.attempts, row.error) for row in local.told(10)}
    assert told[f"http://{gone.address}"] == (1, "it answered 410")
    assert told[f"http://{broken.address}"] == (QUICK.attempts, "it answered 503")
    assert "ConnectError" in (told["http://127.0.0.1:1"][1] or "")
    assert len([record for record in caplog.records if "was not told of event 1" in record.getMessage()]) == 3


def test_redirects_are_not_followed(local: Store, receivers: Serve) -> None:
    other = receivers()
    receiver = receivers((307, {"Location": other.url}))
    with telling(local, receiver.url):
        end(local)
        settled(local, 1)
    assert other.requests == []
    assert local.told(1)[0].error == "it answered 307, a redirect, and none is followed"


@pytest.mark.parametrize("form", ["seconds", "date", "nonsense"])
def test_a_receiver_says_when_to_come_again(local: Store, receivers: Serve, form: str) -> None:
    value = {"seconds": "7200", "date": formatdate(time.time() + 7200, usegmt=True), "nonsense": "soon"}[form]
    receiver = receivers((429, {"Retry-After": value}))
    with telling(local, receiver.url, schedule=PATIENT):
        began = time.time()
        end(local)
        until = time.monotonic() + 30
        while not local.told(1):
            assert time.monotonic() < until
            time.sleep(0.01)
    [row] = local.told(1)
    assert row.next_attempt is not None
    waits = row.next_attempt - began
    assert waits == pytest.approx(60, abs=20) if form == "nonsense" else waits == pytest.approx(7200, abs=30)


def test_a_receiver_that_hangs_delays_no_other(local: Store, receivers: Serve) -> None:
    released = threading.Event()

    def hang() -> Answer:
        released.wait(30)
        return 200, {}

    slow, quick = receivers(hang), receivers()
    with telling(local, slow.url, quick.url, schedule=Schedule(timeout=20.0, poll=0.02)):
        for _ in range(5):
            end(local)
        slow.wait_for(1)
        quick.wait_for(5)
        assert len(slow.requests) == 1
        released.set()


def test_a_receiver_that_never_answers_is_given_up_in_time(local: Store, receivers: Serve) -> None:
    released = threading.Event()
    receiver = receivers(lambda: (released.wait(30), (200, {}))[1], (200, {}))
    with telling(local, receiver.url, schedule=Schedule(first=0.05, timeout=1.0, poll=0.02)):
        end(local)
        settled(local, 1)
        released.set()
    [row] = local.told(1)
    assert (row.attempts > 1, row.error) == (True, None)


def test_only_one_of_two_services_tells_and_the_other_takes_over(store: Store, receivers: Serve) -> None:
    receiver = receivers()
    with telling(store, receiver.url) as first, telling(store, receiver.url):
        for _ in range(5):
            end(store)
        receiver.wait_for(5)
        time.sleep(0.2)
        assert len(receiver.requests) == 5
        first.stop(5.0)
        end(store)
        receiver.wait_for(6)
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 6


WITHOUT_NOTE = """
import sys
from orchestrator.service.webhook_settings import Webhook
from orchestrator.service.webhooks import Schedule, Teller
from orchestrator.store.store import Store
store = Store.open(sys.argv[1])
teller = Teller(store, store.register_orchestrator(), [Webhook.at(sys.argv[2])], sys.argv[3], None, Schedule(poll=0.02))
teller.start()
print("telling", flush=True)
sys.stdin.read()
"""


def test_a_service_that_is_killed_while_it_tells_tells_again(store: Store, receivers: Serve) -> None:
    """The receiver got the event, and nobody noted that: it comes again, with the id that tells so."""
    killed = threading.Event()
    receiver = receivers(lambda: (killed.wait(30), (200, {}))[1], (200, {}))
    url = store.engine.url.render_as_string(hide_password=False)
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", WITHOUT_NOTE, url, receiver.url, SECRET],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"telling\n"
    sweep = end(store)
    receiver.wait_for(1)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    later = end(store)
    killed.set()
    with telling(store, receiver.url):
        first, again, other = receiver.wait_for(3)
    assert first.headers["webhook-id"] == again.headers["webhook-id"] != other.headers["webhook-id"]
    assert [one.json["sweep"]["id"] for one in (first, again, other)] == [sweep, sweep, later]


def test_no_secret_of_an_address_is_stored_or_told(
    local: Store, receivers: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The receiver gets the password; nobody else reads it, nor the path, which often is one."""
    receiver = receivers((500, {}))
    url = f"http://ada:opensesame@{receiver.address}/T0/abracadabra?key=shibboleth"
    with (
        caplog.at_level(logging.DEBUG, "slotsweep"),
        telling(local, url, "http://bob:opensesame@127.0.0.1:1/abracadabra"),
    ):
        end(local)
        settled(local, 2)
    assert receiver.requests[0].path == "/T0/abracadabra?key=shibboleth"
    assert base64.b64decode(receiver.requests[0].headers["Authorization"].split()[1]) == b"ada:opensesame"
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("store.db*"))
    told = f"{kept!r} {caplog.text} {local.told(10)} {Webhook.at(url)!r}"
    assert "127.0.0.1" in told
    for word in ("opensesame", "abracadabra", "shibboleth", SECRET):
        assert word not in told


def test_waiting_times_double_and_end_a_day_after_the_event() -> None:
    schedule = Schedule()
    waits = [schedule.wait(failed) for failed in range(1, schedule.attempts)]
    assert waits[0] == pytest.approx(schedule.first, rel=0.2)
    assert all(later < 3.01 * earlier for earlier, later in pairwise(waits))
    assert max(waits) <= 1.2 * schedule.most
    assert sum(waits) == pytest.approx(86_400, rel=0.2)


def test_the_environment_says_whom_to_tell_and_keeps_no_secret() -> None:
    environment = {
        "SLOTSWEEP_WEBHOOKS": "https://one.example.org/a, http://two.example.org:8080/b\nhttps://one.example.org/a",
        "SLOTSWEEP_WEBHOOK_SECRET": SECRET,
        "SLOTSWEEP_PUBLIC_URL": "https://sweeps.example.org/",
    }
    addresses, secret = take_webhooks(environment)
    assert addresses == ("https://one.example.org/a", "http://two.example.org:8080/b")
    assert secret == SECRET
    assert set(environment) == {"SLOTSWEEP_PUBLIC_URL"}
    assert read_public_url(environment) == "https://sweeps.example.org"
    assert (take_webhooks({}), read_public_url({})) == (((), None), None)


@pytest.mark.parametrize(
    ("webhooks", "secret", "told"),
    [
        ("https://a.example.org/x ftp://b.example.org/hidden", SECRET, "address 2 of SLOTSWEEP_WEBHOOKS is none"),
        ("https://a.example.org:port/hidden", SECRET, "address 1 of SLOTSWEEP_WEBHOOKS is none"),
        ("https://a.example.org/hidden", "", "SLOTSWEEP_WEBHOOK_SECRET no secret"),
        ("https://a.example.org/hidden", "hidden", "SLOTSWEEP_WEBHOOK_SECRET is too short"),
        ("https://a.example.org/hidden", "whsec_hidden!", "no base64"),
    ],
    ids=["scheme", "port", "unsigned", "short", "base64"],
)
def test_what_the_environment_says_wrong_is_refused_without_quoting_it(webhooks: str, secret: str, told: str) -> None:
    with pytest.raises(RequestError, match=told) as caught:
        take_webhooks({"SLOTSWEEP_WEBHOOKS": webhooks, "SLOTSWEEP_WEBHOOK_SECRET": secret})
    assert "hidden" not in str(caught.value)


def test_a_public_address_that_is_none_is_refused() -> None:
    with pytest.raises(RequestError, match=r"SLOTSWEEP_PUBLIC_URL=sweeps\.example\.org is no address"):
        read_public_url({"SLOTSWEEP_PUBLIC_URL": "sweeps.example.org"})


def test_the_payload_is_json_that_any_program_reads(local: Store, receivers: Serve) -> None:
    receiver = receivers()
    with telling(local, receiver.url):
        end(local)
        [request] = receiver.wait_for(1)
    assert json.loads(request.body)["sweep"]["page"] is None
    assert {"version", "id", "event", "at", "sweep", "worker"} == set(json.loads(request.body))


def test_the_command_tells_webhooks_and_keeps_their_secrets(
    slotsweep_serve: ServeCommand, store_of_settings: Store, receivers: Serve
) -> None:
    """As an admin starts it: the environment says whom to tell, `/metrics` what came of it, stderr neither."""
    receiver = receivers()
    _, token = store_of_settings.create_token("prometheus", Role.VIEWER)
    environment = {
        "SLOTSWEEP_WEBHOOKS": f"http://ada:opensesame@{receiver.address}/hook",
        "SLOTSWEEP_WEBHOOK_SECRET": SECRET,
        "SLOTSWEEP_PUBLIC_URL": "https://sweeps.example.org",
    }
    with slotsweep_serve("--no-run", **environment) as serving:
        sweep = end(store_of_settings)
        [request] = receiver.wait_for(1)
        assert request.json["sweep"]["page"] == f"https://sweeps.example.org/sweeps/{sweep}"
        settled(store_of_settings, 1)
        told = httpx2.get(f"{serving.url}/metrics", headers={"Authorization": f"Bearer {token}"}).text
    assert 'slotsweep_duty_held{duty="tell webhooks"} 1.0' in told
    assert 'slotsweep_webhook_deliveries_total{outcome="delivered"} 1.0' in told
    assert "opensesame" not in serving.log.read_text()
    assert not store_of_settings.duties(), "a service that is stopped leaves its duty to the next one at once"


def test_the_command_refuses_webhooks_without_a_secret(slotsweep: Callable[..., Ran]) -> None:
    ran = slotsweep("serve", SLOTSWEEP_WEBHOOKS="https://example.org/opensesame")
    assert (ran.code, ran.out) == (2, "")
    assert "SLOTSWEEP_WEBHOOK_SECRET" in ran.err
    assert "opensesame" not in ran.err


def test_the_openapi_document_describes_what_is_sent(service: Service) -> None:
    document = service.client.get("/api/v1/openapi.json", headers=service.headers(Role.VIEWER)).json()
    body = document["webhooks"]["event"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/Told"}
    assert set(document["components"]["schemas"]["Told"]["properties"]) == set(Told.model_fields)
