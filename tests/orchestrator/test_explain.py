"""`plan --explain`: each cause by hand, the nearest cell against brute force, the store's part, and the command."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.explain import Explanation, Known, explain
from orchestrator.neighbours import Neighbours, flat_fields
from orchestrator.plan import Plan, trial_key
from orchestrator.plan_summary import describe
from orchestrator.resuming import follow_edits
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from orchestrator.store.contract import WORKER, failure, new_sweep, result, with_worker
from orchestrator.store.explaining import done_cells, latest_states, recorded_modules, save_fingerprints
from orchestrator.store.records import CellRow
from orchestrator.store.store import Store
from tests.orchestrator.specs import FAILING_PLUGIN, SMALL, write_small


def small(before: str = "", after: str = "") -> Plan:
    """The plan of SMALL (6 cells, 4 seeds), with `before` replaced by `after`."""
    assert before in SMALL
    return Plan(read_spec(SMALL.replace(before, after) if before else SMALL))


def cells_of(plan: Plan) -> list[CellRow]:
    return [cell for group in plan.groups for cell in group.cells]


def all_done(plan: Plan, modules: dict[str, dict[str, str]] | None = None) -> Known:
    """What a store knows in which the whole of `plan` is done."""
    return Known({key: ("done", None) for _, _, key in plan.trials()}, cells_of(plan), modules or plan.code())


def summed(explanations: Sequence[Explanation]) -> list[tuple[int, int, str]]:
    return [(each.trials, each.cells, each.text) for each in explanations]


def test_nothing_known_means_never_computed() -> None:
    [explanation] = explain(small(), Known())
    assert (explanation.trials, explanation.cells, explanation.text) == (24, 6, "never computed")
    assert explanation.mechanisms == ["full_attention", "dp_cache", "recency"]


def test_what_is_done_needs_no_explanation() -> None:
    assert explain(small(), all_done(small())) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("noise: 0.3", "noise: 0.31", [(24, 6, "workload.noise 0.3 → 0.31")]),
        ("episodes: 3", "episodes: 4", [(24, 6, "episodes 3 → 4")]),
        ("episodes: 3", "episodes: 3\ndevice: cuda", [(24, 6, "device any → cuda")]),
        ("episodes: 3", "episodes: 3\ndtype: float64", [(24, 6, "dtype float32 → float64")]),
        ("[4, 8, 16]", "[4, 8, 17]", [(4, 1, "mechanism.budget 16 → 17")]),
        ("[4, 8, 16]", "[5, 9, 16]", [(8, 2, "mechanism.budget 4 → 5 and 1 more such change")]),
        ("[4, 8, 16]", "[5, 9, 17]", [(12, 3, "mechanism.budget 4 → 5 and 2 more such changes")]),
        ("budget:", "temperature: argmax, budget:", [(12, 3, "mechanism.temperature 0.05 → argmax")]),
        ("seeds: 4", "seeds: 6", [(12, 6, "new seeds of known cells: 4–5")]),
        ("seeds: 4", "seeds: [0, 7, 9, 10, 11]", [(24, 6, "new seeds of known cells: 7, 9–11")]),
        ("8, repeats: 2", "9, repeats: 3", [(24, 6, "workload.items 8 → 9; workload.repeats 2 → 3")]),
        (
            "items: 8, repeats: 2, classes: 4, dim: 16",
            "items: 9, repeats: 3, classes: 5, dim: 17",
            [(24, 6, "never computed")],
        ),
        ("recency, budget", "tova, budget", [(12, 3, "never computed")]),
        (
            "associative_recall, items: 8, repeats: 2,",
            "zipf_recall, items: 8, events: 16,",
            [(24, 6, "never computed")],
        ),
    ],
)
def test_what_changed_is_named(before: str, after: str, expected: list[tuple[int, int, str]]) -> None:
    assert summed(explain(small(before, after), all_done(small()))) == expected


def test_the_nearest_number_counts() -> None:
    done = [cell for noise in (0.1, 0.3, 0.5) for cell in cells_of(small("noise: 0.3", f"noise: {noise}"))]
    for order in (done, done[::-1]):
        [explanation] = explain(small("noise: 0.3", "noise: 0.31"), Known(done=order))
        assert explanation.text == "workload.noise 0.3 → 0.31"


def aged(known: Known, code: str = "before") -> Known:
    """`known`, computed by other code."""
    return Known(done=[replace(cell, digest=f"{code} {cell.digest}", fingerprint=code) for cell in known.done])


def test_changed_modules_are_named() -> None:
    plan = small()
    hashes = plan.code()[cells_of(plan)[0].fingerprint]
    old = hashes | {"models.kernel": "other", "models.gone": "was here"}
    del old["tasks.seeds"]
    known = replace(aged(all_done(plan)), modules={"before": old})
    texts = {name: each for each in explain(plan, known) for name in each.mechanisms}
    assert texts["full_attention"].text == "the code changed: models.gone, models.kernel, tasks.seeds"
    assert texts["full_attention"].cause.why == "code_changed"
    assert "models.mechanisms.dp_cache" in (texts["dp_cache"].cause.modules or ())
    assert sum(each.trials for each in explain(plan, known)) == 24


def test_code_that_was_not_recorded_is_said_to_have_changed() -> None:
    known = aged(all_done(small()))
    [explanation] = explain(small(), known)
    assert explanation.text == "the code changed (in which modules was not recorded then)"
    assert (explanation.cause.code, explanation.cause.modules) == (True, None)
    [explanation] = explain(small("noise: 0.3", "noise: 0.31"), known)
    assert explanation.text == "workload.noise 0.3 → 0.31; the code changed (in which modules was not recorded then)"


def test_the_same_config_by_older_code_is_nearer_than_another_config() -> None:
    known = aged(all_done(small()))
    other = all_done(small("noise: 0.3", "noise: 0.2"))
    [explanation] = explain(small(), Known(done=[*known.done, *other.done]))
    assert explanation.cause.why == "code_changed"


def test_a_field_that_came_or_went_with_the_code_is_named() -> None:
    plan = small()
    known = aged(all_done(plan))
    without = [replace(cell, workload={k: v for k, v in cell.workload.items() if k != "noise"}) for cell in known.done]
    [explanation] = explain(plan, Known(done=without))
    assert explanation.text.startswith("workload.noise absent → 0.3; the code changed")
    assert explanation.as_json()["fields"] == [{"field": "workload.noise", "to": 0.3, "changes": 1}]
    beyond = [replace(cell, workload=cell.workload | {"old": True}) for cell in known.done]
    [explanation] = explain(plan, Known(done=beyond))
    assert explanation.text.startswith("workload.old true → absent; the code changed")
    assert explanation.as_json()["fields"] == [{"field": "workload.old", "from": True, "changes": 1}]


def test_each_trial_of_a_cell_has_its_own_cause() -> None:
    plan = small("seeds: 4", "seeds: 8")
    cells = cells_of(plan)
    states = {0: ("done", None), 1: ("failed", "timeout"), 2: ("failed", "user_error"), 3: ("cancelled", "cancelled")}
    states |= {4: ("pending", "worker_lost"), 5: ("leased", None)}
    known = Known({trial_key(cell, seed): state for cell in cells for seed, state in states.items()}, cells)
    assert sorted(summed(explain(plan, known))) == sorted(
        [
            (6, 6, "failed before: timeout"),
            (6, 6, "failed before: user_error"),
            (6, 6, "cancelled before"),
            (12, 6, "asked for by an earlier sweep too, and not done yet: computed once for both"),
            (12, 6, "new seeds of known cells: 6–7"),
        ]
    )


def test_json_has_every_part_of_a_cause() -> None:
    [explanation] = explain(small("[4, 8, 16]", "[4, 5, 6, 8, 16]"), all_done(small()))
    assert explanation.as_json() == {
        "why": "fields_differ",
        "trials": 8,
        "cells": 2,
        "mechanisms": ["recency"],
        "fields": [{"field": "mechanism.budget", "from": 4, "to": 5, "changes": 2}],
        "code": False,
        "modules": [],
        "seeds": [],
        "reason": None,
        "text": "mechanism.budget 4 → 5 and 1 more such change",
    }


CELLS = st.builds(
    lambda values, mechanism, code: CellRow(
        digest="",
        kind="frontier",
        workload={"name": "w", "a": values[0], "b": values[1]},
        mechanism={"name": mechanism, "c": values[2], "d": values[3]},
        episodes=values[4],
        dtype="float32",
        device="cpu",
        fingerprint=code,
    ),
    st.tuples(
        st.sampled_from([1, 2, 3, 0.5]), *[st.integers(0, 2)] * 2, st.sampled_from(["x", None, True]), st.just(1)
    ),
    st.sampled_from(["m", "n"]),
    st.sampled_from(["old", "new"]),
)


def difference(one: CellRow, other: CellRow) -> int:
    a, b = flat_fields(one), flat_fields(other)
    return sum(a[name] != b[name] for name in a) + (one.fingerprint != other.fingerprint)


@given(st.lists(CELLS, min_size=1, max_size=60), CELLS)
def test_the_nearest_cell_is_that_of_a_search_through_all(done: list[CellRow], cell: CellRow) -> None:
    """Exactly so for cells that differ in one field; beyond, a near one is found whenever a half is equal."""
    comparable = [other for other in done if other.mechanism["name"] == cell.mechanism["name"]]
    least = min((difference(other, cell) for other in comparable), default=99)
    nearest = Neighbours(done).nearest(cell)
    if least <= 1:
        assert nearest is not None
        assert difference(nearest.cell, cell) == least
    if nearest is not None:
        assert nearest.cell.mechanism["name"] == cell.mechanism["name"]
        fields = flat_fields(nearest.cell)
        assert {change.field: change.before for change in nearest.changes} == {
            name: fields[name] for name, value in flat_fields(cell).items() if fields[name] != value
        }


def test_among_many_values_of_one_field_the_nearest_is_found() -> None:
    base = cells_of(small())[-1]

    def with_budget(budget: float) -> CellRow:
        return replace(base, mechanism=base.mechanism | {"budget": budget})

    values = [7 * n % 1000 for n in range(1000)]
    neighbours = Neighbours([with_budget(value * 10) for value in values])
    for wanted in (-50, 3, 4996, 5004, 12_345):
        found = neighbours.nearest(with_budget(wanted))
        assert found is not None
        [change] = found.changes
        assert change.before == min((value * 10 for value in values), key=lambda value: abs(value - wanted))


@pytest.fixture(params=["sqlite", "postgresql"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    store = with_worker(Store.open(url))
    yield store
    store.close()


def finish(store: Store, plan: Plan, *, failing: int = 0) -> None:
    """Submit `plan` and finish it, its last `failing` trials with a failure."""
    sweep = store.submit(new_sweep(), plan.trials(), plan.code()).sweep
    trials = [pending.trial for pending in store.pending(sweep, -1, 1_000_000)]
    lease = store.claim(sweep, trials, WORKER, 60)
    assert lease is not None
    good = len(trials) - failing
    reports = [result(trial) for trial in trials[:good]] + [failure(trial, "timeout") for trial in trials[good:]]
    for _ in range(10):  # a batch that runs out of time is halved before a trial is blamed
        store.accept(lease.attempt, WORKER, reports)
        trials = [pending.trial for pending in store.pending(sweep, -1, 1_000_000)]
        lease = store.claim(sweep, trials[:1], WORKER, 60) if trials else None
        if lease is None:
            return
        reports = [failure(trial, "timeout") for trial in lease.trials]


def test_the_store_tells_what_bears_on_a_plan(any_store: Store) -> None:
    plan = small()
    keys = [key for _, _, key in plan.trials()]
    assert latest_states(any_store.engine, keys) == {}
    assert done_cells(any_store.engine, ["associative_recall"], ["recency"]) == []
    finish(any_store, plan, failing=2)
    states = latest_states(any_store.engine, [*keys, "unknown"])
    assert states == dict.fromkeys(keys[:-2], ("done", None)) | dict.fromkeys(keys[-2:], ("failed", "timeout"))
    assert done_cells(any_store.engine, ["associative_recall"], ["recency", "tova"]) == cells_of(plan)[3:]
    assert done_cells(any_store.engine, ["zipf_recall"], ["recency"]) == []
    finish(any_store, plan)
    assert set(latest_states(any_store.engine, keys).values()) == {("done", None)}, "the newest generation counts"


def test_modules_are_recorded_once(any_store: Store) -> None:
    first, other = {"models.a": "1", "models.b": "2"}, {"models.a": "3"}
    with any_store.engine.begin() as connection:
        save_fingerprints(connection, {})
        save_fingerprints(connection, {"x": first})
        save_fingerprints(connection, {"x": other, "y": other})
    assert recorded_modules(any_store.engine, ["x", "y", "z"]) == {"x": first, "y": other}


def test_a_hundred_thousand_trials_are_explained_in_five_seconds(settings: Settings, pace: float) -> None:
    """10,000 cells of 10 seeds against a store that holds as many cells of another noise."""
    text = """
name: large
kind: frontier
workload: {name: associative_recall, items: {range: [1, 11]}, noise: NOISE}
mechanisms:
  - {name: recency, budget: {range: [1, 1001]}}
seeds: 10
"""
    with_worker(store := Store.open(settings.database_url))
    finish(store, Plan(read_spec(text.replace("NOISE", "0.3").replace("seeds: 10", "seeds: 1"))))
    store.close()
    plan = Plan(read_spec(text.replace("NOISE", "0.31")))
    plain = time.perf_counter()
    describe(plan, settings)
    began = time.perf_counter()
    summary = describe(plan, settings, explained=True)
    seconds = (time.perf_counter() - began) - (began - plain)
    assert summary.explanations is not None
    told = [(each["trials"], each["cells"], each["text"]) for each in summary.explanations]
    assert told == [(100_000, 10_000, "workload.noise 0.3 → 0.31")]
    assert seconds < 5 * pace


def test_the_command_explains(slotsweep, settings: Settings, tmp_path: Path) -> None:
    spec = str(write_small(tmp_path))
    fresh = slotsweep("plan", spec, "--explain")
    assert fresh.code == 0
    assert fresh.out.splitlines()[-2:] == [
        "  trials  cells  mechanisms                         why they are not reused",
        "      24      6  full_attention, dp_cache, recency  never computed",
    ]
    assert settings.database_file is not None
    assert not settings.database_file.exists()
    assert "explain" not in slotsweep("plan", spec, "--json").json

    with_worker(store := Store.open(settings.database_url))
    finish(store, small(), failing=1)
    store.close()
    answer: dict[str, Any] = slotsweep("plan", spec, "--explain", "--json", "--set", "seeds=5").json
    assert [(each["trials"], each["text"]) for each in answer["explain"]] == [
        (6, "new seeds of known cells: 4"),
        (1, "failed before: timeout"),
    ]
    assert answer["trials"] - answer["reused"] == 7
    with_worker(store := Store.open(settings.database_url))
    finish(store, small())
    store.close()
    assert slotsweep("plan", spec, "--explain").out.splitlines()[-1] == "every trial is reused"


def test_submitting_and_extending_a_sweep_record_its_code(slotsweep, settings: Settings, tmp_path: Path) -> None:
    spec = write_small(tmp_path)
    assert slotsweep("submit", str(spec)).code == 0
    plan = small()
    store = Store.open(settings.database_url)
    assert recorded_modules(store.engine, plan.code()) == plan.code()
    spec.write_text(SMALL.replace("recency, budget: {values: [4, 8, 16]}", "recency, budget: {values: [4, 8, 16, 20]}"))
    [sweep] = store.sweeps()
    assert follow_edits(store, sweep, settings) == 4
    spec.write_text(spec.read_text().replace("- {name: full_attention}", "- {name: full_attention}\n  - {name: knn}"))
    [sweep] = store.sweeps()
    assert follow_edits(store, sweep, settings) == 4
    code = Plan(read_spec(spec)).code()
    assert len(code) == len(plan.code()) + 1
    assert recorded_modules(store.engine, code) == code
    store.close()


def test_editing_a_plug_in_is_explained(slotsweep, settings: Settings, tmp_path: Path) -> None:
    plugin, spec = tmp_path / "edited_memory.py", tmp_path / "spec.yaml"
    plugin.write_text(FAILING_PLUGIN)
    spec.write_text(
        SMALL.replace("seeds: 4", "seeds: 1\nplugins: [edited_memory.py]").replace(
            "  - {name: full_attention}", "  - {name: faulty}\n  - {name: full_attention}"
        )
    )
    plan = Plan(read_spec(spec))
    with_worker(store := Store.open(settings.database_url))
    finish(store, plan)
    store.close()
    plugin.write_text(FAILING_PLUGIN + "\n\n# a comment\n")
    assert slotsweep("plan", str(spec), "--explain").out.splitlines()[-1] == "every trial is reused"
    plugin.write_text(FAILING_PLUGIN.replace("row[:] = np.inf", "row[:] = -np.inf"))
    ran = slotsweep("plan", str(spec), "--explain")
    assert ran.out.splitlines()[-1].split() == ["1", "1", "faulty", "the", "code", "changed:", "edited_memory"]
