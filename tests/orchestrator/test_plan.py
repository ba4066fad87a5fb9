"""The plan: every combination once, in an order that shares streams, with stable keys; fast and flat in memory."""

from __future__ import annotations

import time
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator import machines
from orchestrator.batching import batches
from orchestrator.cli.spec_commands import _print_plan
from orchestrator.executors import ray_machines
from orchestrator.fleet import Node
from orchestrator.plan import Plan
from orchestrator.plan_summary import describe
from orchestrator.settings import Settings
from orchestrator.spec import Spec, canonical, from_canonical, read_spec
from orchestrator.store.records import CellRow, Pending
from tests.orchestrator.specs import SMALL

DEVICES = ("cpu", "cuda", "mps", "any")


def spec_of(items: list[int], budgets: list[int], seeds: int, temperatures: list[float]) -> Spec:
    return read_spec(
        f"""
name: product
kind: frontier
workload: {{name: associative_recall, items: {{values: {items}}}}}
mechanisms:
  - {{name: recency, budget: {{values: {budgets}}}, temperature: {{values: {temperatures}}}}}
  - {{name: full_attention}}
seeds: {seeds}
"""
    )


@settings(max_examples=30, deadline=None)
@given(
    items=st.lists(st.integers(1, 50), min_size=1, max_size=3, unique=True),
    budgets=st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True),
    temperatures=st.lists(st.sampled_from([0.05, 0.1, 1.0]), min_size=1, max_size=3, unique=True),
    seeds=st.integers(1, 5),
)
def test_the_plan_is_the_product_with_every_combination_once(
    items: list[int], budgets: list[int], temperatures: list[float], seeds: int
) -> None:
    plan = Plan(spec_of(items, budgets, seeds, temperatures))
    seen = Counter(
        (cell.workload["items"], cell.mechanism.get("budget"), cell.mechanism["temperature"], seed)
        for cell, seed, _ in plan.trials()
    )
    wanted = {(i, b, t, s) for i in items for b in budgets for t in temperatures for s in range(seeds)}
    wanted |= {(i, None, 0.05, s) for i in items for s in range(seeds)}
    assert seen == Counter(dict.fromkeys(wanted, 1))
    assert plan.trial_count == len(wanted)
    assert len({key for _, _, key in plan.trials()}) == len(wanted)


def test_three_times_four_times_two_is_twenty_four() -> None:
    plan = Plan(
        read_spec(SMALL.replace("seeds: 4", "seeds: 2").replace("[4, 8, 16]", "[4, 8, 16, 32, 64, 2, 3, 5, 6]"))
    )
    assert plan.trial_count == 24


def test_keys_do_not_depend_on_how_a_number_is_written() -> None:
    written = [{"similarity": 0.7}, {"tau": 0.3}, {"tau": 0.30000000000000004}, {"tau": 1 - 0.7}]
    keys = set()
    for fields in written:
        text = SMALL.replace(
            "similarity: {values: [0.5, 0.6]}", f"{next(iter(fields))}: {next(iter(fields.values()))!r}"
        )
        keys.add(tuple(key for _, _, key in Plan(read_spec(text)).trials()))
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("items: 8", "items: 9"),
        ("noise: 0.3", "noise: 0.31"),
        ("episodes: 3", "episodes: 4"),
        ("[4, 8, 16]", "[5, 9, 17]"),
    ],
)
def test_keys_depend_on_what_is_asked(before: str, after: str) -> None:
    keys = [{key for _, _, key in Plan(read_spec(text)).trials()} for text in (SMALL, SMALL.replace(before, after))]
    changed = keys[1] - keys[0]
    assert len(changed) == (12 if before.startswith("[") else 24)


def test_a_saved_spec_gives_the_same_plan() -> None:
    spec = read_spec(SMALL)
    again = from_canonical(canonical(spec))
    assert [t[2] for t in Plan(spec).trials()] == [t[2] for t in Plan(again).trials()]


def test_batches_share_streams_and_keep_every_trial() -> None:
    plan = Plan(read_spec(SMALL.replace("seeds: 4", "seeds: 500").replace("items: 8", "items: {values: [8, 9]}")))
    digests: dict[str, int] = {}
    cells: dict[int, CellRow] = {}
    pending = []
    for position, (cell, seed, _) in enumerate(plan.trials()):
        number = digests.setdefault(cell.digest, len(digests))
        cells[number] = cell
        pending.append(Pending(position, position, number, seed))

    def page(after: int, limit: int) -> list[Pending]:
        return pending[after + 1 : after + 1 + limit]

    made = list(batches(page, cells))
    assert [trial for batch in made for trial in batch.trials] == pending
    assert len(made) > 2
    for batch in made:
        assert len({cells[trial.cell].workload["items"] for trial in batch.trials}) == 1
        by_seed = Counter(trial.seed for trial in batch.trials)
        assert set(by_seed.values()) == {6}, "a seed's trials stay together"


def test_a_hundred_thousand_trials_plan_in_under_ten_seconds_and_flat_memory(pace: float) -> None:
    spec = read_spec(
        """
name: large
kind: frontier
workload: {name: associative_recall}
mechanisms:
  - {name: recency, budget: {range: [1, 101]}}
seeds: 1000
"""
    )
    plan = Plan(spec)
    began = time.perf_counter()
    tracemalloc.start()
    count = sum(1 for _ in plan.trials())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == plan.trial_count == 100_000
    assert time.perf_counter() - began < 10 * pace
    assert peak < 5_000_000


def test_any_is_a_device_class_of_its_own_in_a_key() -> None:
    """A trial for `any` serves who asks for any; who asks for a class gets trials of that class."""
    plans = {device: Plan(read_spec(SMALL + f"device: {device}\n")) for device in DEVICES}
    keys = {device: {key for _, _, key in plan.trials()} for device, plan in plans.items()}
    assert all(len(found) == 24 for found in keys.values())
    assert len(set().union(*keys.values())) == 24 * len(DEVICES)
    assert {key for _, _, key in Plan(read_spec(SMALL)).trials()} == keys["any"]


def test_a_fingerprint_covers_the_code_of_every_device_that_may_compute_the_trial() -> None:
    plans = {device: Plan(read_spec(SMALL + f"device: {device}\n")) for device in DEVICES}
    modules = {device: set(next(iter(plan.code().values()))) for device, plan in plans.items()}
    assert "tasks.evaluate_device" not in modules["cpu"]
    assert {"tasks.evaluate", "tasks.evaluate_device"} <= modules["any"] & modules["cuda"]


def test_where_times_are_measured_any_is_the_cpu() -> None:
    plan = Plan(read_spec(SMALL.replace("kind: frontier", "kind: cost_scaling")))
    assert {cell.device for group in plan.groups for cell in group.cells} == {"cpu"}


def test_a_plan_of_times_asks_no_node_what_machine_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which would start processes there: where none has told, what is reused is unknown."""

    def never(*_: object) -> None:
        raise AssertionError("a plan starts nothing")

    monkeypatch.setattr(ray_machines, "ask_machines", never)
    cluster = Settings.read({"SLOTSWEEP_HOME": str(tmp_path / "home"), "RAY_ADDRESS": "10.0.0.1:6379"})
    timed = read_spec(SMALL.replace("kind: frontier", "kind: cost_scaling"))
    silent, tells = Node("a", "a", 4), Node("b", "b", 4, machines={"cpu": "m" * 32})
    for nodes, untold, reused in (([silent], ("cpu",), None), ([silent, tells], (), 0)):
        monkeypatch.setattr(machines, "cluster_nodes", lambda _, nodes=nodes: nodes)
        plan = machines.planned(timed, cluster, ask=False)
        summary = describe(plan, cluster, explained=True)
        assert (summary.untold, summary.reused, summary.as_json()["reused"]) == (untold, reused, reused)
        assert {cell.machine for group in plan.groups for cell in group.cells} == {None if untold else "m" * 32}
        _print_plan(summary, None)
        said = capsys.readouterr().out
        assert ("the cluster has not told what machine measures times on cpu" in said) == bool(untold)
    monkeypatch.setattr(machines, "cluster_nodes", lambda _: [silent])
    with pytest.raises(AssertionError, match="starts nothing"):
        _ = machines.planned(timed, cluster).groups
