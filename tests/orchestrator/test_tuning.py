"""Sweeps that tune: as many proposals as were asked for, the same ones every time, and more seeds where they count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.job import Progress
from orchestrator.owner import Owner
from orchestrator.plan import Plan
from orchestrator.runner import execute, submit_plan
from orchestrator.scheduler import StopRequest
from orchestrator.settings import Settings
from orchestrator.spec import from_canonical, read_spec
from orchestrator.store.records import ProposalRow
from orchestrator.store.store import Store
from orchestrator.tuner.live import LiveStudy, Told
from orchestrator.tuner.proposals import proposals_of
from orchestrator.tuner.tuner import Tuner
from tasks.search import Proposal
from tests.orchestrator.conftest import Ran

Command = Callable[..., Ran]

TUNE = """\
name: tune
kind: tuning
workload: {name: associative_recall, items: 12, repeats: 3, classes: 8, dim: 16, noise: 0.4}
mechanisms:
  - {name: dp_cache}
  - {name: full_attention}
search:
  dp_cache.tau: {low: 0.05, high: 0.95}
  dp_cache.keep: {choices: [first, last]}
objectives: {recall: maximize}
constraints: {slots: {at_most: 12}}
trials: 24
batch: 4
seeds: 8
held_out: 6
episodes: 2
"""

FUSSY_PLUGIN = '''\
"""A memory that fails, or takes no such configs, where it is told to."""

import os
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from models.config import SlotConfig
from models.mechanism import MECHANISMS, mechanism

FullAttention = MECHANISMS.implementation("full_attention")


class FussyConfig(SlotConfig):
    """Takes a and b whose sum is below 15; fails where a is 7, unless a file says that it is mended."""

    name: Literal["fussy"] = "fussy"
    a: int = 0
    b: int = 0

    @model_validator(mode="after")
    def _small(self):
        if self.a + self.b >= 15:
            raise ValueError("a + b must be below 15")
        return self


@mechanism(FussyConfig)
class Fussy(FullAttention):
    batch_over = ("a", "b")

    def answer(self, block, phase):
        if any(config.a == 7 for config in self.configs) and not Path(os.environ["MENDED"]).exists():
            raise ValueError("a is 7")
        return super().answer(block, phase)
'''

FUSSY = """\
name: fussy
kind: tuning
plugins: [fussy_memory.py]
workload: {name: associative_recall, items: 4, repeats: 2, classes: 4, dim: 8, noise: 0.3}
mechanisms: [{name: fussy}]
search:
  fussy.a: {low: 6, high: 8}
  fussy.b: {low: 6, high: 8}
objectives: {recall: maximize}
sampler: grid
trials: 9
batch: 2
seeds: 2
held_out: 3
episodes: 1
"""


@pytest.fixture
def tune(slotsweep: Command, tmp_path: Path) -> Callable[..., str]:
    """Runs a tuning spec inline; the sweep's id."""

    def run(text: str = TUNE, *overrides: str, code: int = 0, **environment: str) -> str:
        (tmp_path / "tune.yaml").write_text(text, encoding="utf-8")
        options = [part for override in overrides for part in ("--set", override)]
        ran = slotsweep("run", "tune.yaml", "--executor", "inline", "--json", *options, **environment)
        assert ran.code == code, ran.err
        return str(ran.json["sweep"])

    return run


def proposals(store: Store, sweep: str) -> list[Proposal]:
    row = store.sweep(sweep)
    return proposals_of(store, row, from_canonical(row.spec))


def test_as_many_proposals_as_asked_for_and_the_best_on_seeds_of_their_own(
    tune: Callable[..., str], store: Store, slotsweep: Command
) -> None:
    sweep = tune()
    made = proposals(store, sweep)
    assert [one.number for one in made] == list(range(24))
    assert {one.state for one in made} == {"complete", "stopped"}
    for one in made:
        seeds = set(one.metrics["recall"])
        assert seeds == set(range(8)) if one.state == "complete" else seeds == set(range(5))
        assert bool(one.held_out) == (set(one.held_out.get("recall", {})) == set(range(8, 14)))
    [best] = [one for one in made if one.held_out]
    feasible = [one for one in made if one.state == "complete" and max(one.metrics["slots"].values()) <= 12]
    assert best.number in [one.number for one in feasible]
    means = {one.number: sum(one.metrics["recall"].values()) for one in feasible}
    assert means[best.number] == max(means.values())
    rows = slotsweep("results", sweep, "--format", "json")
    table = [row for row in rows.json if row["mechanism.name"] == "full_attention"]
    assert [row["seed"] for row in table] == list(range(8, 14)), "a reference is evaluated on the held-out seeds"
    assert {row["proposal"] for row in table} == {None}
    assert {row["proposal"] for row in rows.json if row["best"]} == {best.number}


def test_the_same_spec_makes_the_same_proposals_and_all_are_answered_from_the_store(
    tune: Callable[..., str], store: Store
) -> None:
    first, second = tune(), tune()
    assert store.proposals(first) == store.proposals(second)
    again = store.sweep(second)
    assert again.reused == again.trials == store.sweep(first).trials
    other = tune(TUNE, "sampler_seed=1")
    assert [one.params for one in store.proposals(other)] != [one.params for one in store.proposals(first)]


def test_proposals_of_repeats_differ_and_those_of_one_study_are_distinct(
    tune: Callable[..., str], store: Store
) -> None:
    sweep = tune(TUNE, "repeats=2", "trials=12")
    made = store.proposals(sweep)
    assert [len([one for one in made if one.study == study]) for study in (0, 1)] == [12, 12]
    points = [tuple(one.params.items()) for one in made]
    assert len(set(points)) == len(points)


def test_duplicate_proposals_share_trials_and_are_counted(tune: Callable[..., str], store: Store) -> None:
    text = TUNE.replace("{low: 0.05, high: 0.95}", "{low: 0.2, high: 0.8, step: 0.2}")
    sweep = tune(text, "sampler=random")
    made = store.proposals(sweep)
    assert len(made) == 24
    assert len({one.cell for one in made}) <= 8
    originals = {one.number: one for one in made if one.same_as is None}
    assert len(originals) == len({one.cell for one in made})
    for one in made:
        if one.same_as is not None:
            assert originals[one.same_as].cell == one.cell
    trials = store.sweep_trials(sweep)
    assert len({(one.cell, one.seed) for one in trials}) == len(trials), "each is in the sweep once"
    report = Path(store.sweep(sweep).report or "").with_name("report.html").read_text(encoding="utf-8")
    assert "duplicates" in report


def test_every_combination_once_and_those_that_do_not_go_together_fail_alone(
    tune: Callable[..., str], store: Store, tmp_path: Path, slotsweep: Command
) -> None:
    (tmp_path / "fussy_memory.py").write_text(FUSSY_PLUGIN)
    mended = tmp_path / "mended"
    sweep = tune(FUSSY, code=1, MENDED=str(mended))
    made = {(one.params["mechanism.a"], one.params["mechanism.b"]): one for one in store.proposals(sweep)}
    assert set(made) == {(a, b) for a in (6, 7, 8) for b in (6, 7, 8)}
    for (a, b), one in made.items():
        if a + b >= 15:
            assert one.state == "failed"
            assert one.cell is None
            assert str(one.error) == "a + b must be below 15"
        else:
            assert one.state == ("failed" if a == 7 else "complete"), one
    mended.touch()
    again = slotsweep("retry", sweep, "--failed", "--json", MENDED=str(mended))
    assert again.code == 0, again.err
    done = slotsweep("resume", sweep, "--executor", "inline", "--json", MENDED=str(mended))
    assert done.code == 0, done.err
    after = {(one.params["mechanism.a"], one.params["mechanism.b"]): one.state for one in store.proposals(sweep)}
    assert {pair for pair, state in after.items() if state == "failed"} == {(7, 8), (8, 7), (8, 8)}


def test_known_points_come_first_and_an_earlier_study_is_learned_from(tune: Callable[..., str], store: Store) -> None:
    points = "enqueue: [{dp_cache.tau: 0.4, dp_cache.keep: last}, {mechanism.tau: 0.3}]\n"
    first = tune(TUNE + points)
    made = store.proposals(first)
    assert made[0].params == {"mechanism.tau": 0.4, "mechanism.keep": "last"}
    assert made[1].params["mechanism.tau"] == 0.3
    assert [one.enqueued for one in made] == [True, True, *[False] * 22]
    second = tune(TUNE + f"warm_start: {first}\n", "trials=4")
    fresh = tune(TUNE, "trials=4")
    assert [one.params for one in store.proposals(second)] != [one.params for one in store.proposals(fresh)]


def test_longer_trials_only_for_what_did_well_in_shorter_ones(tune: Callable[..., str], store: Store) -> None:
    text = TUNE.replace("name: dp_cache}", "name: distilled_gate, budget: 12}")
    text = text.replace("  dp_cache.keep: {choices: [first, last]}\n", "").replace(
        "  dp_cache.tau", "  distilled_gate.tau"
    )
    pruner = "pruner: {name: successive_halving, field: distilled_gate.steps, levels: [4, 12, 36]}\n"
    text = text.replace("constraints: {slots: {at_most: 12}}\n", pruner)
    overrides = ("trials=9", "seeds=2", "batch=9", "episodes=20")
    sweep = tune(text, *overrides)
    made = store.proposals(sweep)
    assert len(made) == 9
    assert len(store.sweep_trials(sweep)) <= Plan(read_spec(text, overrides)).trial_count
    cells = store.cells(sweep)
    steps: dict[int, set[int]] = {}
    for trial in store.sweep_trials(sweep):
        if trial.seed < 2:
            steps.setdefault(cells[trial.cell].mechanism["steps"], set()).add(trial.cell)
    assert {level: len(found) for level, found in steps.items()}.keys() == {4, 12, 36}
    complete = [one for one in made if one.state == "complete"]
    assert len(steps[4]) == 9 > len(steps[12]) >= 3, "a third, and what ties with the last of it"
    assert len(steps[12]) >= len(steps[36]) == len(complete) >= 1


def test_pareto_fronts_of_several_objectives_are_held_out_whole(tune: Callable[..., str], store: Store) -> None:
    text = TUNE.replace("{recall: maximize}", "{recall: maximize, slots: minimize}").replace("constraints", "#")
    sweep = tune(text, "sampler=nsga2", "trials=20", "batch=10")
    made = proposals(store, sweep)
    front = [one for one in made if one.held_out]
    means = [(sum(one.metrics["recall"].values()) / 8, -sum(one.metrics["slots"].values()) / 8) for one in front]
    assert len(front) > 1
    assert not any(a != b and a[0] >= b[0] and a[1] >= b[1] for a in means for b in means)


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_four_workers_and_one_base_seed_make_distinct_proposals_that_one_worker_makes_too(
    slotsweep: Command, store: Store, tmp_path: Path
) -> None:
    """Scenario 21."""
    (tmp_path / "tune.yaml").write_text(TUNE.replace("noise: 0.4", "noise: {values: [0.3, 0.5]}"), encoding="utf-8")
    made: list[list[ProposalRow]] = []
    for arguments, more in (((), {"RAY_NUM_CPUS": "4"}), (("--executor", "inline"), {})):
        ran = slotsweep("run", "tune.yaml", "--json", "--no-cache", *arguments, **more)
        assert ran.code == 0, ran.err
        made.append(store.proposals(ran.json["sweep"]))
    assert made[0] == made[1]
    for study in (0, 1):
        points = [tuple(one.params.items()) for one in made[0] if one.study == study]
        assert len(set(points)) == len(points) == 24


def test_a_sweep_that_is_cancelled_between_decisions_is_not_done(
    tune: Callable[..., str], store: Store, settings: Settings
) -> None:
    """All trials that it asked for are there, and yet it has not made its proposals."""
    undisturbed = tune()
    stop, spec = StopRequest(), read_spec(TUNE)
    sweep = submit_plan(store, Plan(spec), use_cache=False).sweep

    def cancel(progress: Progress) -> None:
        if len(store.proposals(sweep)) >= 8:
            stop.escalate()
            stop.escalate()

    [outcome] = execute(settings, store, [sweep], executor="inline", on_progress=cancel, stop=stop, owner=Owner(store))
    made = store.proposals(sweep)
    assert outcome.sweep.state == "cancelled"
    assert 8 <= len(made) < 24
    params = [one.params for one in store.proposals(undisturbed)]
    assert [one.params for one in made] == params[: len(made)]
    assert store.grow(sweep, []) == []


def test_a_sweep_that_tunes_can_be_given_more_proposals_and_nothing_else(
    tune: Callable[..., str], store: Store, slotsweep: Command, tmp_path: Path
) -> None:
    sweep = tune(TUNE, "trials=24")
    before = store.proposals(sweep)
    spec = tmp_path / "tune.yaml"
    spec.write_text(TUNE.replace("high: 0.95", "high: 0.9"), encoding="utf-8")
    refused = slotsweep("resume", sweep, "--executor", "inline")
    assert refused.code == 2
    assert "more `trials`" in refused.err
    assert "+  dp_cache.tau: {low: 0.05, high: 0.9}" in refused.err
    submitted = slotsweep("run", "tune.yaml", "--executor", "inline", "--json").json["sweep"]
    spec.write_text(TUNE.replace("high: 0.95", "high: 0.9").replace("trials: 24", "trials: 32"), encoding="utf-8")
    more = slotsweep("resume", submitted, "--executor", "inline", "--json")
    assert more.code == 0, more.err
    assert len(store.proposals(submitted)) == 32
    assert len(store.proposals(sweep)) == len(before) == 24


def test_a_restored_study_is_told_what_the_live_one_was(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of cells that other studies proposed too, and gave more seeds."""
    text = TUNE.replace("{low: 0.05, high: 0.95}", "{low: 0.1, high: 0.9, step: 0.1}")
    text = text.replace("batch: 4\n", "batch: 4\nrepeats: 4\npruner: {name: wilcoxon, first: 4, p: 0.4}\n")
    told: list[tuple[str, int, Told]] = []
    tell = LiveStudy.tell

    def noting(self: LiveStudy, number: int, one: Told, by_level: Any = None) -> None:
        told.append((self._study.study_name, number, one))
        tell(self, number, one, by_level)

    monkeypatch.setattr(LiveStudy, "tell", noting)
    spec = read_spec(text)
    sweep = submit_plan(store, Plan(spec)).sweep
    execute(
        settings,
        store,
        [sweep],
        executor="inline",
        on_progress=lambda _: None,
        stop=StopRequest(),
        owner=Owner(store),
    )
    live = sorted(told, key=lambda one: one[:2])
    told.clear()
    Tuner(store, store.sweep(sweep), spec)
    assert len(live) == 4 * 24
    assert sorted(told, key=lambda one: one[:2]) == live
    rows = store.proposals(sweep)
    assert {row.seeds for row in rows if row.state == "stopped"} == {4}
    trials = store.sweep_trials(sweep)
    cells = {row: cell.digest for row, cell in store.cells(sweep).items()}
    seeds = Counter(cells[trial.cell] for trial in trials if trial.seed < 8)
    assert any(row.state == "stopped" and seeds[row.cell or ""] > 4 for row in rows), "nothing was shared: no test"


def test_most_proposals_of_a_short_study_are_made_from_results(tune: Callable[..., str], store: Store) -> None:
    without_batch = TUNE.replace("batch: 4\n", "")
    for sampler, least in (("tpe", 20), ("nsga2", 15)):
        sweep = tune(without_batch, f"sampler={sampler}")
        made = store.proposals(sweep)
        assert sum(one.batch > 0 for one in made) >= least
