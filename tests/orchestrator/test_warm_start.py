"""Studies that begin with results of an earlier sweep: which ones they take, that these stay, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.pinned import pinned_spec
from orchestrator.plan import Plan
from orchestrator.store.store import Store
from orchestrator.tuner.live import Known, LiveStudy
from orchestrator.tuner.studies import studies_of, tuning_options
from orchestrator.tuner.warm_start import known_results
from tests.orchestrator.conftest import Ran
from tests.orchestrator.specs import SMALL

Command = Callable[..., Ran]

FIRST = """\
name: first
kind: tuning
workload: {name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 8, noise: {values: [0.3, 0.5]}}
mechanisms:
  - {name: dp_cache, keep: {values: [first, last]}}
search:
  dp_cache.tau: {low: 0.05, high: 0.95}
objectives: {recall: maximize}
sampler: [random, tpe]
repeats: 2
trials: 6
batch: 3
pruner: none
seeds: 4
held_out: 2
episodes: 2
"""

SECOND = FIRST.replace("name: first", "name: second", 1).replace("{values: [0.3, 0.5]}", "0.5")
SECOND = SECOND.replace("repeats: 2\ntrials", "repeats: 3\ntrials").replace("[random, tpe]", "[tpe, qmc]")


@pytest.fixture
def run(slotsweep: Command, tmp_path: Path) -> Callable[..., str]:
    """Runs a spec inline; the sweep's id."""

    def run(text: str, *overrides: str) -> str:
        (tmp_path / "spec.yaml").write_text(text, encoding="utf-8")
        options = [part for override in overrides for part in ("--set", override)]
        ran = slotsweep("run", "spec.yaml", "--executor", "inline", "--json", *options)
        assert ran.code == 0, ran.err
        return str(ran.json["sweep"])

    return run


def known(store: Store, sweep: str) -> dict[int, list[Known]]:
    """What each study of a stored sweep begins with."""
    row = store.sweep(sweep)
    return known_results(store, Plan(pinned_spec(store, row), fingerprints=row.fingerprints))


def test_a_study_takes_results_of_its_own_mechanism_workload_sampler_and_repeat(
    run: Callable[..., str], store: Store
) -> None:
    first = run(FIRST)
    second = run(SECOND, f"warm_start='{first[:6]}'", "trials=2")
    earlier = {
        (one.workload_fields["noise"], one.mechanism_fields["keep"], one.sampler.name, one.repeat): [
            row.params for row in store.proposals(first) if row.study == one.number
        ]
        for one in studies_of(pinned_spec(store, store.sweep(first)))
    }
    spec = pinned_spec(store, store.sweep(second))
    assert tuning_options(spec).warm_start == first, "the whole id"
    taken = known(store, second)
    assert len(taken) == 2 * 2 * 3
    for study in studies_of(spec):
        sampler = "tpe" if study.sampler.name == "tpe" else "random"
        expected = earlier[0.5, study.mechanism_fields["keep"], sampler, study.repeat % 2]
        assert [one.params for one in taken[study.number]] == expected, study.title
        assert len(expected) == 6
        live = LiveStudy(study.parameters, tuning_options(spec).goal, study.sampler, study.seed)
        assert live.warm_start(taken[study.number]) == 6
    page = Path(store.sweep(second).report or "").with_name("report.html").read_text(encoding="utf-8")
    assert f"began with 6 results of sweep {first}" in page


OTHERS = [
    ("episodes: 2", "episodes: 3"),
    ("episodes: 2", "episodes: 2\ndtype: float64"),
    ("items: 8", "items: 9"),
    ("keep: first", "temperature: 0.1"),
    ("name: dp_cache, keep: first", "name: adaptive_dp_cache, eta: 0.1"),
]


def test_results_of_other_configs_are_not_taken_and_those_with_defaults_written_out_are(
    run: Callable[..., str], store: Store, slotsweep: Command, tmp_path: Path
) -> None:
    text = FIRST.replace("noise: {values: [0.3, 0.5]}", "noise: 0.5").replace("{values: [first, last]}", "first")
    text = text.replace("dp_cache.tau", "mechanism.tau").replace("trials: 6", "trials: 3").replace("repeats: 2\nt", "t")
    first = run(text, "sampler=random")
    for (before, after), taken in [*((one, 0) for one in OTHERS), (("keep: first", "temperature: 0.05"), 3)]:
        (tmp_path / "second.yaml").write_text(
            text.replace(before, after) + f"warm_start: '{first}'\n", encoding="utf-8"
        )
        submitted = slotsweep("submit", "second.yaml").out.strip()
        assert {len(one) for one in known(store, submitted).values()} == {taken}, after


def test_what_is_taken_stays_though_the_earlier_sweep_makes_more_proposals(
    run: Callable[..., str], store: Store, slotsweep: Command, tmp_path: Path
) -> None:
    one = FIRST.replace("{values: [0.3, 0.5]}", "0.5").replace("{values: [first, last]}", "first")
    first = run(one.replace("trials: 6", "trials: 4"))
    second = SECOND.replace("{values: [first, last]}", "first") + f"warm_start: '{first[:7]}'\n"
    (tmp_path / "second.yaml").write_text(second, encoding="utf-8")
    submitted = slotsweep("submit", "second.yaml", "--no-cache").out.strip()
    undisturbed = slotsweep("run", "second.yaml", "--executor", "inline", "--json").json["sweep"]
    before = known(store, submitted)

    (tmp_path / "spec.yaml").write_text(one.replace("trials: 6", "trials: 9"), encoding="utf-8")
    more = slotsweep("resume", first, "--executor", "inline", "--json")
    assert more.code == 0, more.err
    assert len(store.proposals(first)) == 4 * 9
    assert known(store, submitted) == before

    ran = slotsweep("resume", submitted, "--executor", "inline", "--json")
    assert ran.code == 0, ran.err
    assert store.proposals(submitted) == store.proposals(undisturbed)
    (tmp_path / "second.yaml").write_text(second.replace("trials: 6", "trials: 7"), encoding="utf-8")
    assert slotsweep("resume", submitted, "--executor", "inline").code == 0
    assert known(store, submitted) == before
    assert len(store.proposals(submitted)) == 2 * 3 * 7


def test_what_cannot_be_begun_with_is_refused_before_anything_is_submitted(
    run: Callable[..., str], store: Store, slotsweep: Command, tmp_path: Path
) -> None:
    def refused(name: str, *overrides: str, command: str = "submit") -> str:
        before = [one.id for one in store.sweeps()]
        (tmp_path / "second.yaml").write_text(SECOND + f"warm_start: '{name}'\n", encoding="utf-8")
        options = [part for override in overrides for part in ("--set", override)]
        ran = slotsweep(command, "second.yaml", *options)
        assert ran.code == 2, ran.err
        assert [one.id for one in store.sweeps()] == before
        return " ".join(ran.err.split())

    assert "there is no sweep `ffffff`" in refused("ffffff", command="run")
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    other = slotsweep("submit", "small.yaml").out.strip()
    assert "only a tuning sweep will do" in refused(other)
    (tmp_path / "first.yaml").write_text(FIRST, encoding="utf-8")
    queued = slotsweep("submit", "first.yaml").out.strip()
    assert f"sweep {queued} is queued" in refused(queued)

    first = run(FIRST, "seeds={count: 5, base: 3}", "trials=1", "repeats=1", "sampler=random")
    leak = refused(first)
    assert "seed 4 is held out" in leak
    assert "`seeds: {count: 4, base: 4}`" in leak
    second = run(
        SECOND, f"warm_start='{first}'", "seeds={count: 4, base: 4}", "trials=1", "repeats=1", "sampler=random"
    )
    assert set(pinned_spec(store, store.sweep(second)).held_out) == {8, 9}
    assert "seed 7 is held out" in refused(second, "seeds={count: 4, base: 3}"), "and those of the one before that"
