"""What every client does, whether it asks the store on this machine or a service."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.client.base import Client, Comparing
from orchestrator.client.local import LocalClient
from orchestrator.client.remote import RemoteClient
from orchestrator.errors import NotThereError, RequestError
from orchestrator.job import Progress
from orchestrator.logs import SweepLog
from orchestrator.requests import SpecFile
from orchestrator.results import columns_of
from orchestrator.scheduler import StopRequest
from orchestrator.settings import Settings
from orchestrator.spec import SpecError
from orchestrator.store import schema
from orchestrator.store.contract import WORKER, trials_of, with_worker
from orchestrator.store.states import Role, SweepState
from orchestrator.store.store import Store
from tests.orchestrator.client.conftest import serving
from tests.orchestrator.specs import SMALL

TINY = SMALL.replace("seeds: 4", "seeds: 2").replace("episodes: 3", "episodes: 1")


@dataclass(frozen=True)
class Bench:
    """A client, the store behind it, and something that computes the store's sweeps as a service would."""

    client: Client
    store: Store
    settings: Settings
    folder: Path
    text_of: Callable[[object], str]

    def spec(self, text: str = TINY, name: str = "tiny.yaml", *overrides: str) -> SpecFile:
        """A spec on the user's machine."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return SpecFile(name, path, overrides)

    def submit(self, text: str = TINY) -> str:
        """The id of a new sweep."""
        [submitted] = self.client.submit([self.spec(text)]).submitted.values()
        return submitted.sweep

    def compute(self, sweep: str) -> None:
        """Have a sweep's trials computed, in this process."""
        LocalClient(self.settings, "inline").run(
            [sweep], on_progress=lambda _: None, stop=StopRequest(), tell=lambda _: None
        )


@pytest.fixture(params=["local", "remote"])
def bench(
    request: pytest.FixtureRequest,
    settings: Settings,
    store: Store,
    as_user: Callable[..., Settings],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    def text_of(renderable: object) -> str:
        from rich.console import Console

        console = Console(width=100)
        with console.capture() as captured:
            console.print(renderable)
        return captured.get()

    if request.param == "local":
        yield Bench(LocalClient(settings, "inline"), store, settings, tmp_path, text_of)
        return
    monkeypatch.setattr("orchestrator.client.watching.POLL_SECONDS", 0.1)
    with serving(settings, store) as url:
        yield Bench(RemoteClient(as_user(url)), store, settings, tmp_path, text_of)


class TestClient:
    """The contract."""

    def test_a_plan_is_described(self, bench: Bench) -> None:
        [summary] = bench.client.describe([bench.spec(TINY, "tiny.yaml", "seeds=3")], explained=True)
        assert (summary.name, summary.kind, summary.seeds, summary.trials, summary.reused) == (
            "small",
            "frontier",
            3,
            18,
            0,
        )
        assert summary.as_json()["explain"][0]["text"] == "never computed"
        assert summary.estimate.by_device.keys() == {"any"}
        json.dumps(summary.as_json())

    def test_what_is_wrong_with_a_spec_is_told_with_its_place(self, bench: Bench) -> None:
        bad = bench.spec(TINY.replace("seeds: 2", "seeds: two"), "bad.yaml", "workload.itms=3")
        for act in (lambda: bench.client.describe([bad], explained=False), lambda: bench.client.submit([bad])):
            with pytest.raises(SpecError) as caught:
                act()
            places = [(problem.place.source.name, problem.place.line) for problem in caught.value.problems]
            assert [line for _, line in places] == [8, 1]
            assert places[0][0].endswith("bad.yaml")
            assert places[1][0] == "--set workload.itms=3"
            assert "    8 | seeds: two" in str(caught.value)
            assert "did you mean `items`?" in str(caught.value)
        assert bench.store.statuses() == []

    def test_sweeps_are_queued_found_and_listed(self, bench: Bench) -> None:
        assert bench.client.sweeps() == []
        with pytest.raises(NotThereError, match="no sweep yet"):
            bench.client.sweep("last")
        with pytest.raises(NotThereError, match="there is no sweep `ffff`"):
            bench.client.sweep("ffff")
        with pytest.raises(NotThereError, match=r"there is no sweep `\.\./etc`"):
            bench.client.sweep("../etc")
        first = bench.submit()
        second = bench.submit(TINY.replace("seeds: 2", "seeds: 3"))
        assert [one.id for one in bench.client.sweeps()] == [second, first]
        assert bench.client.sweep("last").id == second
        found = bench.client.sweep(first[:8])
        assert (found.id, found.name, found.state, found.counts.pending) == (first, "small", "queued", 12)
        assert (found.trials, found.reused, found.report) == (12, 0, None)

    def test_a_suite_is_queued_by_the_names_of_its_specs(self, bench: Bench) -> None:
        files = [bench.spec(TINY, "a.yaml"), bench.spec(TINY.replace("seeds: 2", "seeds: 3"), "b.yaml")]
        submission = bench.client.submit(files)
        assert {name: one.trials for name, one in submission.submitted.items()} == {"a.yaml": 12, "b.yaml": 18}
        assert submission.left_out == {}

    def test_sweeps_are_steered(self, bench: Bench) -> None:
        sweep = bench.submit()
        assert bench.client.pause(sweep).state == SweepState.PAUSED
        assert bench.client.pause(sweep).state == SweepState.PAUSED
        assert bench.client.resume(sweep).sweep.state == SweepState.QUEUED
        assert bench.client.cancel(sweep).state == SweepState.CANCELLED
        assert bench.store.status(sweep).counts.cancelled == 12
        with pytest.raises(RequestError, match="only a queued or running sweep can be paused"):
            bench.client.pause(sweep)
        retried = bench.client.retry(sweep)
        assert (retried.sweep.state, retried.trials) == (SweepState.QUEUED, 12)
        assert bench.client.retry(sweep).trials == 0

    def test_a_sweep_is_run_and_what_it_found_is_told(self, bench: Bench) -> None:
        sweep = bench.submit()
        computing = threading.Thread(target=bench.compute, args=[sweep])
        if isinstance(bench.client, RemoteClient):
            computing.start()
        told: list[Progress] = []
        [outcome] = bench.client.run([sweep], on_progress=told.append, stop=StopRequest(), tell=lambda _: None)
        if computing.ident is not None:
            computing.join()
        assert (outcome.sweep.id, outcome.sweep.state, outcome.sweep.counts.done) == (sweep, "done", 12)
        assert outcome.report is not None
        assert "dp_cache" in bench.text_of(outcome.tables)
        assert told[-1].is_over

        own = LocalClient(bench.settings)
        rows = bench.client.results(sweep)
        assert rows == own.results(sweep)
        assert columns_of(rows) == columns_of(own.results(sweep))
        shown = bench.text_of(bench.client.summary(sweep)).splitlines()
        assert [line.rstrip() for line in shown] == [
            line.rstrip() for line in bench.text_of(own.summary(sweep)).splitlines()
        ]
        drawing = bench.client.report(sweep, bench.folder / "report")
        assert (drawing.sweep, drawing.path) == (sweep, bench.folder / "report" / "report.html")
        assert {"report.html", "spec.yaml", "frontier.csv"} <= {path.name for path in drawing.path.parent.iterdir()}
        with pytest.raises(RequestError, match="one device class and one machine"):
            bench.client.compare(Comparing((sweep,)))
        self._compare(bench, sweep)

    def _compare(self, bench: Bench, sweep: str) -> None:
        again = bench.submit(TINY.replace("name: small", "name: again"))
        bench.compute(again)
        compared = bench.client.compare(Comparing((sweep, again), prices={"cpu": 2.5}, tolerance=0.1))
        assert (compared.sweeps, compared.agree, len(compared.records)) == ((sweep, again), True, 1)
        assert (
            compared.rows
            == LocalClient(bench.settings).compare(Comparing((sweep, again), prices={"cpu": 2.5}, tolerance=0.1)).rows
        )
        page = bench.client.comparison_page(Comparing((sweep, again)), bench.folder / "compared")
        assert page.read_text(encoding="utf-8").startswith("<!doctype html>")

    def test_a_log_is_read_and_followed(self, bench: Bench) -> None:
        sweep = bench.submit()
        assert list(bench.client.log(sweep).entries) == []
        log = SweepLog(bench.settings, sweep)
        for number in range(3):
            log.info("batch done", batch=number)
        assert [entry["batch"] for entry in bench.client.log(sweep, tail=2).entries] == [1, 2]
        following = bench.client.log("last", tail=1, follow=True)
        seen = [next(following.entries)["batch"]]
        log.info("batch done", batch=3)
        seen.append(next(following.entries)["batch"])
        bench.store.set_sweep_state(sweep, SweepState.CANCELLED)
        log.info("sweep cancelled")
        assert (seen, [entry["event"] for entry in following.entries]) == ([2, 3], ["sweep cancelled"])

    def test_it_is_told_which_other_hosts_have_parts_of_a_log(self, bench: Bench) -> None:
        sweep, store = bench.submit(), bench.store
        with_worker(store)
        owner = store.register_orchestrator()
        store.claim(sweep, trials_of(store, sweep), WORKER, 60, owner)
        log = bench.client.log(sweep)
        assert (list(log.entries), list(log.rest())) == ([], [])
        with store.engine.begin() as connection:
            connection.execute(schema.orchestrators.update().values(host="elsewhere"))
        log = bench.client.log(sweep)
        assert (list(log.entries), list(log.rest())) == ([], ["elsewhere"])

    def test_the_fleet_is_listed(self, bench: Bench) -> None:
        sweep = bench.submit()
        assert bench.client.workers(every=True).workers == []
        bench.compute(sweep)
        until = time.monotonic() + 10  # a service remembers its fleet for a few seconds
        while not (roster := bench.client.workers(every=True)).workers and time.monotonic() < until:
            time.sleep(0.2)
        [worker] = roster.workers
        assert (worker.device, worker.done, roster.as_json()["nodes"]) == ("cpu", 12, [])

    def test_a_paper_is_judged_by_what_there_is(self, bench: Bench) -> None:
        with pytest.raises(RequestError, match="there are no claims of a paper `nothing`"):
            bench.client.measurements("nothing", submit=False)
        found = bench.client.measurements("dpcache", submit=False)
        assert (found.sweeps, found.missing) == ({}, [])
        certificate = bench.client.certificate("dpcache", found, bench.folder, 3.0)
        assert (certificate.paper, certificate.seconds) == ("dpcache", 3.0)
        assert {one.verdict for one in certificate.judgements} <= {"not measured", "not measurable here"}


def test_tokens_are_made_and_revoked_with_the_same_words(
    settings: Settings, store: Store, as_user: Callable[..., Settings]
) -> None:
    with serving(settings, store) as url:
        told = [
            [
                _refused(client.create_token, "a b", Role.VIEWER, None),
                _refused(client.create_token, "a", Role.VIEWER, days),
                _refused(client.revoke_token, "nobody"),
                client.create_token("a", Role.VIEWER, 1.0)[0].user,
            ]
            for days in (0.0, -1.0)
            for client in (LocalClient(settings), RemoteClient(as_user(url, Role.ADMIN)))
        ]
    assert told[0] == told[1]
    assert told[2] == told[3]
    assert told[0] == [
        "`a b` is no name of a user; expected letters, digits and . _ - + @",
        "a token cannot hold for 0 days; expected more than 0 and at most 36,500",
        "there is no token `nobody`: `slotsweep token list` lists them",
        "a",
    ]


def _refused(ask: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(RequestError) as caught:
        ask(*arguments)
    return str(caught.value)
