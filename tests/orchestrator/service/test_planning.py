"""Planners: what a request brings is read in processes of their own, with limits of time, memory and size."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.service.orders import Order, RefusedError, SpecOrder
from orchestrator.service.planning import (
    MOST_WAITING,
    PLANNERS_EACH,
    RETRY_SECONDS,
    Planners,
    Queue,
    _DiedError,
    _Planner,
)
from orchestrator.settings import Settings
from orchestrator.store.store import Store
from tests.orchestrator.specs import SMALL

MOST = 1_000_000

PLUGGED = """\
name: plugged
kind: frontier
workload: {name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16, noise: 0.3}
mechanisms:
  - {name: brought}
seeds: 2
plugins: [brought_code.py]
"""

BROUGHT = '''
from typing import Literal

from models.config import SlotConfig
from models.mechanism import MECHANISMS, mechanism

FullAttention = MECHANISMS.implementation("full_attention")


class BroughtConfig(SlotConfig):
    """Another name of full attention."""

    name: Literal["brought"] = "brought"


@mechanism(BroughtConfig)
class Brought(FullAttention):
    """The same."""
'''


@pytest.fixture
def planners(settings: Settings) -> Iterator[Planners]:
    planners = Planners(settings, 60.0)
    yield planners
    planners.close()


def ask(planners: Planners, **order: Any) -> Any:
    return asyncio.run(planners.carry_out(Order(**{"most_trials": MOST, **order}), "ada"))


def refusal(planners: Planners, **order: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        ask(planners, **order)
    return caught.value


def plugged(folder: Path, code: str) -> SpecOrder:
    path = folder / "brought_code.py"
    path.write_text(code)
    return SpecOrder(name="plugged.yaml", text=PLUGGED, plugins={"brought_code.py": path})


def test_describe_and_submit_give_what_the_commands_give(planners: Planners, settings: Settings) -> None:
    specs = (SpecOrder(name="a", text=SMALL), SpecOrder(name="b", text=SMALL, overrides=("seeds=2", "name=other")))
    described = ask(planners, task="describe", specs=specs)
    assert [(one["trials"], one["reused"]) for one in described] == [(24, 0), (12, 0)]
    given = ask(planners, task="submit", specs=specs, user="ada")
    assert given["left_out"] == {}
    store = Store.open(settings.database_url)
    rows = {name: store.sweep(one["sweep"]) for name, one in given["submitted"].items()}
    assert [(row.name, row.user, row.trials, row.state) for row in rows.values()] == [
        ("small", "ada", 24, "queued"),
        ("other", "ada", 12, "queued"),
    ]
    assert rows["a"].spec_path is None


def test_nothing_is_submitted_where_one_spec_is_wrong(planners: Planners, settings: Settings) -> None:
    specs = (SpecOrder(name="a", text=SMALL), SpecOrder(name="b", text=SMALL.replace("dp_cache", "dp_cash")))
    error = refusal(planners, task="submit", specs=specs)
    assert error.refusal.status == 422
    [problem] = error.refusal.problems
    assert (problem["file"], problem["line"], problem["column"]) == ("b", 6, 12)
    assert problem["hint"] == "did you mean `dp_cache`?"
    assert Store.open(settings.database_url).sweeps() == []


def test_code_that_comes_with_a_spec_stays_in_a_process_of_its_own(planners: Planners, tmp_path: Path) -> None:
    given = ask(planners, task="submit", specs=[plugged(tmp_path, BROUGHT)])
    assert given["submitted"]["plugged.yaml"]["trials"] == 2
    for text in (PLUGGED, PLUGGED.replace("plugins: [brought_code.py]\n", "")):
        error = refusal(planners, task="describe", specs=[SpecOrder(name="x", text=text)])
        assert "unknown mechanism `brought`" in error.refusal.problems[0]["message"] or "plug-ins" in str(
            [problem["message"] for problem in error.refusal.problems]
        )


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("import os\nos._exit(3)\n", 422, "ended without an answer"),
        ("raise SystemExit(0)\n", 422, "1 problem in the spec"),
        ("print('x' * 100)\nimport os\nos.write(1, b'{}')\nvalue = 1 / 0\n", 422, "1 problem in the spec"),
        ("block = bytearray(2**36)\n", 422, "MemoryError"),
        (
            "import contextlib, os\nfor one in range(3, 20):\n"
            "    with contextlib.suppress(OSError): os.write(one, b'{}\\n')\n",
            422,
            "wrote",
        ),
        (
            BROUGHT + "\n    def __init_subclass__(cls): pass\nBroughtConfig.identity = lambda self: 1 / 0\n",
            422,
            "division",
        ),
    ],
)
def test_code_that_does_harm_harms_its_own_request_only(
    planners: Planners, tmp_path: Path, code: str, status: int, said: str
) -> None:
    error = refusal(planners, task="describe", specs=[plugged(tmp_path, code)])
    assert error.refusal.status == status
    assert said in f"{error} {[problem['message'] for problem in error.refusal.problems]}"
    assert ask(planners, task="describe", specs=[SpecOrder(name="x", text=SMALL)])[0]["trials"] == 24


def test_what_takes_too_long_is_ended_with_all_that_it_started(settings: Settings, tmp_path: Path) -> None:
    planners = Planners(settings, 4.0)
    mark = tmp_path / "child.pid"
    code = (
        "import pathlib, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"pathlib.Path({str(mark)!r}).write_text(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    began = time.monotonic()
    error = refusal(planners, task="describe", specs=[plugged(tmp_path, code)])
    assert "takes more than the 4 s" in str(error)
    assert time.monotonic() - began < 30
    until = time.monotonic() + 10
    while _runs(int(mark.read_text())) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _runs(int(mark.read_text()))
    planners.close()


def test_users_take_turns_and_none_has_every_planner() -> None:
    """Nor more than so many requests that wait."""
    begun: list[str] = []

    async def work(queue: Queue, user: str, may_end: asyncio.Event) -> None:
        async with queue.turn(user):
            begun.append(user)
            await may_end.wait()

    async def all_at_once() -> None:
        queue, may_end = Queue(), asyncio.Event()
        greedy = [asyncio.create_task(work(queue, "eve", may_end)) for _ in range(PLANNERS_EACH + MOST_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(RefusedError) as refused:
            async with queue.turn("eve"):
                pass
        assert (refused.value.refusal.status, refused.value.refusal.retry_after) == (429, RETRY_SECONDS)
        others = [asyncio.create_task(work(queue, user, may_end)) for user in ("ada", "bob")]
        gone = asyncio.create_task(work(queue, "carl", may_end))
        await asyncio.sleep(0.01)
        assert begun == ["eve"] * PLANNERS_EACH + ["ada"]
        gone.cancel()
        may_end.set()
        await asyncio.gather(*greedy, *others)
        assert begun.index("bob") == PLANNERS_EACH + 1 or begun[PLANNERS_EACH + 1 : PLANNERS_EACH + 3].count("bob") == 1
        assert "carl" not in begun
        assert (queue._running.total(), dict(queue._waiting)) == (0, {})

    asyncio.run(all_at_once())


def test_a_request_that_comes_again_after_its_planner_died_submits_nothing(
    planners: Planners, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planner dies when all is stored and before it says so."""
    spec = SpecOrder(name="x", text=SMALL)
    ask(planners, task="describe", specs=[spec])
    whole = _Planner.ask

    def die(planner: _Planner, order: Order) -> object:
        monkeypatch.setattr(_Planner, "ask", whole)
        whole(planner, order)
        raise _DiedError

    monkeypatch.setattr(_Planner, "ask", die)
    given = ask(planners, task="submit", specs=[spec], key="once")
    [sweep] = Store.open(settings.database_url).sweeps()
    assert given["submitted"]["x"] == {"sweep": sweep.id, "trials": 24, "reused": 0}


def test_a_request_whose_client_has_gone_is_not_carried_out(settings: Settings, tmp_path: Path) -> None:
    planners = Planners(settings, 60.0)
    code = "import time\ntime.sleep(600)\n"

    async def leave() -> None:
        order = Order(task="submit", specs=(plugged(tmp_path, code),), most_trials=MOST)
        request = asyncio.create_task(planners.carry_out(order, "ada"))
        await asyncio.sleep(2.0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(request, 30)

    asyncio.run(leave())
    assert Store.open(settings.database_url).sweeps() == []
    assert ask(planners, task="describe", specs=[SpecOrder(name="x", text=SMALL)])[0]["trials"] == 24
    planners.close()


def _runs(pid: int) -> bool:
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(found.stdout.strip()) and not found.stdout.strip().startswith("Z")


def test_a_planner_that_died_idle_is_replaced(planners: Planners) -> None:
    spec = SpecOrder(name="x", text=SMALL)
    ask(planners, task="describe", specs=[spec])
    [idle] = planners._idle
    os.kill(idle._process.pid, signal.SIGKILL)
    idle._process.wait()
    assert ask(planners, task="describe", specs=[spec])[0]["trials"] == 24


def test_growth_beyond_the_limit_is_refused_at_its_place(planners: Planners) -> None:
    text = """\
name: tune
kind: tuning
workload: {name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16}
mechanisms: [{name: dp_cache}]
search: {dp_cache.tau: {low: 0.1, high: 0.9}}
objectives: {recall: maximize}
trials: 100000
seeds: 20
"""
    error = refusal(planners, task="submit", specs=[SpecOrder(name="tune.yaml", text=text)])
    [problem] = error.refusal.problems
    assert (problem["line"], problem["message"]) == (7, "this spec makes up to 2,000,020 trials")


def test_problems_are_told_within_measure(planners: Planners) -> None:
    text = SMALL + "".join(f"key{number}: {'x' * 600}\n" for number in range(200))
    error = refusal(planners, task="describe", specs=[SpecOrder(name="x", text=text)])
    assert str(error) == "200 problems in the spec, the first 100 of which are listed"
    assert len(error.refusal.problems) == 100
    assert max(len(problem["text"]) for problem in error.refusal.problems) == 500
