"""Settings that can be run, and are hardly what was meant, are told of; the others are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.doubts import doubts
from orchestrator.plan import Plan
from orchestrator.plan_summary import describe
from orchestrator.settings import Settings
from orchestrator.spec import read_spec


def told(tmp_path: Path, mechanism: str, workload: str = "{name: token_recall, length: 64}", more: str = "") -> Plan:
    spec = tmp_path / "spec.yaml"
    kind = "tuning" if more else "training"
    spec.write_text(f"name: x\nkind: {kind}\nworkload: {workload}\nmechanisms: [{mechanism}]\nseeds: 1\n{more}")
    return Plan(read_spec(spec))


@pytest.mark.parametrize(
    ("mechanism", "doubt"),
    [
        ("{name: mamba_model, steps: 5, warm_up: 6}", "mamba_model: `warm_up` 6 of `steps` 5"),
        ("{name: mamba_model, steps: 5, first_length: 40, growing_steps: 6}", "`growing_steps` 6 of `steps` 5"),
        ("{name: mamba_model, steps: 5, evaluations: 6}", "`evaluations` 6 of `steps` 5"),
        ("{name: sparse_pointer, slots: 3, top_k: 4}", "`top_k` 4 of `slots` 3"),
        ("{name: triple_memory, top_k: 65}", "`top_k` 65: sequences of 64 ids"),
        ("{name: unimatrix, variant: assoc, top_k: 65}", "`top_k` 65: sequences of 64 ids"),
    ],
)
def test_each_is_told_once(tmp_path: Path, settings: Settings, mechanism: str, doubt: str) -> None:
    plan = told(tmp_path, f"{mechanism}, {mechanism.replace('}', ', learning_rate: 1e-3}')}")
    [sentence] = describe(plan, settings).doubts
    assert doubt in sentence


@pytest.mark.parametrize(
    "mechanism",
    [
        "{name: mamba_model, steps: 6, warm_up: 6, evaluations: 6, first_length: 40, growing_steps: 6}",
        "{name: mamba_model, steps: 0, evaluations: 6}",
        "{name: triple_memory, top_k: 64}",
        "{name: sparse_pointer}",
        "{name: unimatrix}",
    ],
)
def test_what_makes_sense_is_not(tmp_path: Path, mechanism: str) -> None:
    assert doubts(told(tmp_path, mechanism)) == ()


@pytest.mark.parametrize(("budget", "cut"), [(474, True), (475, False)])
def test_budgets_that_cut_every_prompt(tmp_path: Path, budget: int, cut: bool) -> None:
    plan = told(tmp_path, "{name: mamba_model}", f"{{name: ruler, budget: {budget}}}")
    assert ["takes 475 ids with its answer" in one for one in doubts(plan)] == [True] * cut


def test_fields_that_are_searched_have_no_value_yet(tmp_path: Path) -> None:
    more = "search: {mechanism.steps: {choices: [300, 400]}}\nobjectives: {recall: maximize}\ntrials: 2\npruner: none\n"
    assert doubts(told(tmp_path, "{name: mamba_model, warm_up: 300}", more=more)) == ()
