"""`slotsweep compare`: which sides are found in the store, what is printed, and what a user is told."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.mechanism import MECHANISMS
from orchestrator.compare import compare_sweeps
from orchestrator.errors import RequestError
from orchestrator.store.contract import new_sweep
from orchestrator.store.explaining import save_fingerprints
from orchestrator.store.records import CellRow, SweepRow, TrialResult
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store
from tasks.workload import WORKLOADS

Ran = Any
EPYC = {"cpu_model": "EPYC", "gpu": "none", "threads": 1, "torch": "2.9"}
XEON = {"cpu_model": "Xeon", "gpu": "none", "threads": 1, "torch": "2.9"}
H200 = {"cpu_model": "Xeon", "gpu": "H200", "threads": 1, "torch": "2.9"}
SECONDS = {"cpu": 4.0, "cuda": 0.5}


class Lab:
    """Makes sweeps whose trials workers on made-up machines have computed."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._workload = WORKLOADS.config_class("associative_recall")(name="associative_recall")

    def cell(self, device: str, budget: int, code: str = "code") -> CellRow:
        mechanism = MECHANISMS.config_class("recency")(name="recency", **{"budget": budget})
        shared = (self._workload.identity(), mechanism.identity(), 2, "float32", device, code)
        return CellRow(f"{device} {budget} {code} {len(self.store.sweeps())}", "frontier", *shared)

    def sweep(
        self,
        machines: dict[str, list[dict[str, Any]]],
        *,
        name: str = "name",
        budgets: tuple[int, ...] = (2, 4),
        shift: float = 0.0,
        code: str = "code",
        unfinished: tuple[str, ...] = (),
    ) -> SweepRow:
        """A sweep on the devices that are keys of `machines`; the machines of each take its trials in turn."""
        cells = [self.cell(device, budget, code) for device in machines for budget in budgets]
        asked = [(cell, seed, f"{cell.digest}:{seed}") for seed in range(4) for cell in cells]
        submitted = self.store.submit(replace(new_sweep(), name=name), asked)
        known = self.store.cells(submitted.sweep)
        turns: dict[str, int] = {}
        for pending in self.store.pending(submitted.sweep, -1, 1000):
            device = known[pending.cell].device
            if device in unfinished:
                continue
            turns[device] = turns.get(device, -1) + 1
            record = machines[device][turns[device] // len(budgets) % len(machines[device])] | {"device": device}
            worker = f"{device} {record['cpu_model']}"
            self.store.register_worker(worker, worker, record, executor="ray", device=device, pid=1)
            lease = self.store.claim(submitted.sweep, [pending.trial], worker, 60)
            assert lease is not None
            recall = 0.5 + pending.seed / 100 + (shift if device == "cuda" or not machines.get("cuda") else 0.0)
            metrics = {"recall": recall, "slots": 2.0, "bytes": 64.0, "chance": 0.1, "tokens": 9.0, "items": 3.0}
            seconds = SECONDS[device] * (1 + pending.seed)
            result = TrialResult(pending.trial, metrics, None, "", 1.0, 2.0, seconds, seconds, 1000)
            self.store.accept(lease.attempt, worker, [result])
        self.store.set_sweep_state(submitted.sweep, SweepState.DONE)
        return self.store.sweep(submitted.sweep)


@pytest.fixture
def lab(store: Store) -> Lab:
    return Lab(store)


def test_the_devices_of_one_sweep_are_compared_with_its_first(lab: Lab) -> None:
    sweep = lab.sweep({"cpu": [EPYC], "cuda": [H200]}, shift=0.004)
    [found] = compare_sweeps(lab.store, [sweep], prices={"cpu": 0.1, "cuda": 2.4})
    assert (found.a, found.b, found.tolerance, len(found.cells)) == ("cpu", "cuda", 0.01, 2)
    for cell in found.cells:
        assert (cell.seeds, cell.exceeding) == (4, ())
        assert cell.ratios["speed"].mean == pytest.approx(8.0)
        assert cell.costs is not None
        assert cell.costs[2] == pytest.approx(3.0)
    assert {(flag.name, flag.a, flag.b) for flag in found.flags} == {
        ("cpu_model", "EPYC", "Xeon"),
        ("gpu", "none", "H200"),
    }


def test_the_machines_of_one_sweep_are_compared_where_it_has_one_device(lab: Lab) -> None:
    sweep = lab.sweep({"cpu": [EPYC, XEON]})
    [found] = compare_sweeps(lab.store, [sweep])
    assert (found.a, found.b) == ("EPYC", "Xeon")
    assert [(cell.seeds, cell.only_a, cell.only_b) for cell in found.cells] == [(0, 2, 2)] * 2
    assert ("cpu_model", "EPYC", "Xeon") in {(flag.name, flag.a, flag.b) for flag in found.flags}


def test_two_sweeps_are_compared_device_by_device_and_changed_code_is_pointed_out(lab: Lab) -> None:
    both = lab.sweep({"cpu": [EPYC], "cuda": [H200]}, name="old")
    later = lab.sweep({"cuda": [H200]}, name="new", code="newer", shift=0.2)
    found, lacking = compare_sweeps(lab.store, [both, later])
    assert (lacking.a, lacking.b, lacking.only_a, lacking.only_b) == ("old on cpu", "new on cpu", 2, 0)
    assert not lacking.agree
    assert (found.a, found.b) == ("old on cuda", "new on cuda")
    assert all([one.metric for one in cell.exceeding] == ["recall"] for cell in found.cells)
    assert [flag.group for flag in found.flags] == ["code"]


def test_the_code_of_a_devices_own_modules_is_no_difference(lab: Lab) -> None:
    sweeps = [lab.sweep({"cpu": [EPYC]}, code="of cpu"), lab.sweep({"cuda": [H200]}, code="of cuda")]
    hashes = {"of cpu": {"models.rule": "1"}, "of cuda": {"models.rule": "1", "tasks.evaluate_device": "1"}}
    with lab.store.engine.begin() as connection:
        save_fingerprints(connection, hashes)
    [found] = compare_sweeps(lab.store, sweeps)
    assert all(cell.same_code for cell in found.cells)
    assert "code" not in {flag.group for flag in found.flags}


def test_two_sweeps_on_one_device_class_each_are_compared_as_they_are(lab: Lab) -> None:
    sweeps = [lab.sweep({"cpu": [EPYC]}), lab.sweep({"cuda": [H200]})]
    [found] = compare_sweeps(lab.store, sweeps)
    assert (found.a, found.b) == (f"{sweeps[0].id} on cpu", f"{sweeps[1].id} on cuda")


def test_what_cannot_be_compared_is_said_with_the_cure(lab: Lab) -> None:
    alone, half = lab.sweep({"cpu": [EPYC]}), lab.sweep({"cpu": [EPYC], "cuda": [H200]}, unfinished=("cuda",))
    with pytest.raises(RequestError, match=f"sweep {alone.id} ran on one device class and one machine: give a second"):
        compare_sweeps(lab.store, [alone])
    with pytest.raises(RequestError, match=f"finished 8 on cpu, 0 on cuda: `slotsweep resume {half.id}`"):
        compare_sweeps(lab.store, [half])
    with pytest.raises(RequestError, match=r"no cell in common .*differ in mechanism.budget \(2 and 32\)"):
        compare_sweeps(lab.store, [alone, lab.sweep({"cpu": [EPYC]}, budgets=(32, 64))])
    with pytest.raises(RequestError, match="--price names mps; what is compared ran on cpu"):
        compare_sweeps(lab.store, [alone, alone], prices={"mps": 1.0})
    both = lab.sweep({"cpu": [EPYC], "cuda": [H200]})
    with pytest.raises(RequestError, match="add --price cpu=PRICE"):
        compare_sweeps(lab.store, [both], prices={"cuda": 1.0})


def test_the_command_prints_table_csv_and_json_and_draws_a_page(
    lab: Lab, slotsweep: Callable[..., Ran], tmp_path: Path
) -> None:
    sweep = lab.sweep({"cpu": [EPYC], "cuda": [H200]}, shift=0.2)
    lab.store.close()
    table = slotsweep("compare", sweep.id, "--out", str(tmp_path / "page"))
    assert table.code == 0, table.err
    assert "cuda beside cpu" in table.out
    assert "0 of 2 cells agree to within the tolerance of 0.01" in " ".join(table.out.split())
    lines = list(csv.DictReader(io.StringIO(slotsweep("compare", "last", "--format", "csv").out)))
    assert {(line["metric"], line["exceeds"]) for line in lines} >= {("recall", "True"), ("slots", "False")}
    record = slotsweep("compare", "last", "--json", "--price", "cuda=2", "--price", "cpu=1", "--tolerance", "0.5").json
    assert record["sweeps"] == [sweep.id]
    assert [one["agree"] for one in record["comparisons"]] == [True]
    assert json.dumps(record).count('"costs": [') == 2
    page = (tmp_path / "page" / "report.html").read_text()
    assert "cuda beside cpu" in page
    assert "What else differs" in page
    assert (tmp_path / "page" / "compare.csv").exists()


def test_a_check_fails_where_results_differ_or_nothing_was_compared(lab: Lab, slotsweep: Callable[..., Ran]) -> None:
    apart = lab.sweep({"cpu": [EPYC], "cuda": [H200]}, shift=0.2)
    alike = lab.sweep({"cpu": [EPYC], "cuda": [H200]}, shift=0.004)
    no_common_seed = lab.sweep({"cpu": [EPYC, XEON]})
    shorter = lab.sweep({"cpu": [EPYC]}, budgets=(2,))
    longer = lab.sweep({"cpu": [EPYC]})
    lab.store.close()
    assert [slotsweep("compare", one.id).code for one in (apart, alike, no_common_seed)] == [0, 0, 0]
    assert [slotsweep("compare", one.id, "--check").code for one in (apart, alike, no_common_seed)] == [1, 0, 1]
    assert slotsweep("compare", shorter.id, longer.id, "--check").code == 1, "one has a cell that the other lacks"
    assert slotsweep("compare", apart.id, "--check", "--tolerance", "0.5", "--json").code == 0


def test_a_price_that_is_none_is_a_wrong_request(lab: Lab, slotsweep: Callable[..., Ran]) -> None:
    sweep = lab.sweep({"cpu": [EPYC], "cuda": [H200]})
    lab.store.close()
    for price in ("cuda", "cuda=cheap", "cuda=-1"):
        ran = slotsweep("compare", sweep.id, "--price", price)
        assert (ran.code, f"--price {price}" in ran.err) == (2, True)
