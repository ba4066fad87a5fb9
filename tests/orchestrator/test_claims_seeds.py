"""Which sweeps claims are judged by where none has exactly the trials of the spec."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.claims import Measurements, find_measurements, judge_paper
from orchestrator.settings import Settings
from orchestrator.store.store import Store
from tasks.certificate import Judgement
from tasks.claims import Paper

SPEC = """\
name: seeded
kind: frontier
workload: {name: associative_recall, items: 4, repeats: 2, classes: 4, dim: 8}
mechanisms: [{name: full_attention}]
seeds: [7, 0, 1, 2]
episodes: 2
"""

TUNED = """\
name: tuned
kind: tuning
workload: {name: associative_recall, items: 4, repeats: 2, classes: 4, dim: 8}
mechanisms: [{name: dp_cache}]
search: {dp_cache.tau: {low: 0.1, high: 0.9}}
objectives: {recall: maximize}
trials: 2
sampler: random
seeds: 2
held_out: 1
episodes: 2
"""


def paper_of(spec: Path) -> Paper:
    """Two claims that `spec` measures: one by all seeds, one by seed 7 alone."""

    def claim(name: str, **more: object) -> dict[str, object]:
        measure = {"metric": "recall_all", "mechanism": "full_attention", **more}
        return {
            "id": f"table-1/{name}", "where": "Table 1", "says": "It recalls all.", "published": 1.0,
            "sweep": str(spec), "measure": measure, "test": {"name": "bound", "at_least": 0.0},
        }  # fmt: skip

    claims = [claim("all"), claim("seven", seeds=[7])]
    return Paper.model_validate({"name": "p", "title": "t", "source": "s", "claims": claims})


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A spec file that stands for a ready-made one: claims name it by its path."""
    path = tmp_path / "seeded.yaml"
    path.write_text(SPEC, encoding="utf-8")
    return path


def found(store: Store, settings: Settings, spec: Path, *, submit: bool = False) -> Measurements:
    return find_measurements(store, settings, paper_of(spec), submit=submit)


def judged(store: Store, settings: Settings, spec: Path) -> list[Judgement]:
    measurements = found(store, settings, spec)
    return list(judge_paper(store, paper_of(spec), measurements, spec.parent, None).judgements)


def test_fewer_seeds_judge_what_they_can_and_say_so(slotsweep, store: Store, settings: Settings, spec: Path) -> None:
    few = slotsweep("run", str(spec), "--executor", "inline", "--json", "--set", "seeds=[0, 1, 2]")
    assert few.code == 0, few.err
    measurements = found(store, settings, spec, submit=True)
    assert (measurements.sweeps, measurements.missing) == ({str(spec): few.json["sweep"]}, [])
    told = "from 3 seeds (0, 1, 2) instead of 4 seeds (7, 0, 1, 2)"
    assert measurements.other == {str(spec): told}
    every, seven = judged(store, settings, spec)
    assert (every.verdict, every.n) == ("holds", 3)
    assert told in every.reason
    assert (seven.verdict, seven.measured) == ("not measured", ())
    assert "seed 7" in seven.reason

    slotsweep("run", str(spec), "--executor", "inline")
    whole = found(store, settings, spec)
    assert (whole.other, whole.sweeps[str(spec)] != few.json["sweep"]) == ({}, True)
    every, seven = judged(store, settings, spec)
    assert (every.n, seven.n, len(seven.measured)) == (4, 1, 1)
    assert "instead" not in every.reason

    slotsweep("run", str(spec), "--executor", "inline", "--set", "seeds=2")
    assert found(store, settings, spec) == whole, "a newer sweep with fewer seeds takes the place of no whole one"


def test_the_first_of_the_listed_seeds_are_a_part_of_the_whole(slotsweep, store: Store, spec: Path) -> None:
    assert slotsweep("run", str(spec), "--executor", "inline", "--set", "seeds=3").code == 0
    whole = slotsweep("run", str(spec), "--executor", "inline", "--json").json
    assert (whole["trials"], whole["reused"]) == (4, 3)


def test_other_cells_judge_nothing(slotsweep, store: Store, settings: Settings, spec: Path) -> None:
    assert slotsweep("run", str(spec), "--executor", "inline", "--set", "episodes=3").code == 0
    assert found(store, settings, spec).sweeps == {}
    [submitted] = found(store, settings, spec, submit=True).sweeps.values()
    assert store.sweep(submitted).state == "queued"


def test_a_sweep_that_tunes_is_found_though_its_trials_follow_from_results(
    slotsweep, store: Store, settings: Settings, spec: Path
) -> None:
    spec.write_text(TUNED, encoding="utf-8")
    ran = slotsweep("run", str(spec), "--executor", "inline", "--json")
    assert ran.code == 0, ran.err
    assert found(store, settings, spec, submit=True) == Measurements({str(spec): ran.json["sweep"]}, [], {}, {})
    spec.write_text(TUNED.replace("high: 0.9", "high: 0.8"), encoding="utf-8")
    assert found(store, settings, spec).sweeps == {}
