"""What is said of specs whose streams are read in chunks, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

import tasks.own
from models.mechanism import MECHANISMS
from orchestrator.spec.problems import SpecError
from orchestrator.spec.read import read_spec
from tasks.devices import classes_for, hindrance
from tasks.workload import WORKLOADS, WorkloadConfig

SPEC = """\
name: mine
kind: frontier
workload: {name: csv_stream, path: rows.csv, key: k, value: v}
mechanisms:
  - {name: dp_cache}
  - {name: recency, budget: 4}
seeds: 2
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table of which five rows are many."""
    monkeypatch.setattr(tasks.own, "LONGEST_STREAM", 4)
    (tmp_path / "rows.csv").write_text("k,v\na,1\nb,2\na,1\nc,1\nd,2\n", encoding="utf-8")
    return tmp_path


def told(folder: Path, text: str) -> str:
    (folder / "spec.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        read_spec(folder / "spec.yaml")
    return str(caught.value)


def test_mechanisms_that_read_in_chunks_are_taken(folder: Path) -> None:
    (folder / "spec.yaml").write_text(SPEC, encoding="utf-8")
    spec = read_spec(folder / "spec.yaml")
    [workload] = spec.workloads()
    assert WORKLOADS.implementation("csv_stream").is_long(workload)


def test_others_are_refused_once_each_with_the_names_of_those(folder: Path) -> None:
    found = told(folder, SPEC.replace("{name: recency, budget: 4}", "{name: knn, k: {values: [1, 2]}}"))
    assert "spec.yaml:6:5: `mechanisms.1`: knn holds or compares all tokens" in found
    assert "item_lru" in found
    assert found.endswith("1 problem in the spec")
    short = SPEC.replace("value: v", "value: v, events: 4").replace("name: recency, budget: 4", "name: knn")
    (folder / "spec.yaml").write_text(short, encoding="utf-8")
    assert read_spec(folder / "spec.yaml").name == "mine"


def test_job_types_that_measure_times_are_refused(folder: Path) -> None:
    found = told(folder, SPEC.replace("kind: frontier", "kind: cost_scaling"))
    assert "read in chunks: not for `kind: cost_scaling`" in found


def test_a_column_that_is_not_there_is_told_where_the_workload_stands(folder: Path) -> None:
    found = told(folder, SPEC.replace("value: v", "value: vv"))
    assert "spec.yaml:3:11" in found
    assert "rows.csv has no column `vv`; did you mean `v`? It has `k`, `v`" in found


def test_the_cpu_alone_reads_in_chunks(folder: Path) -> None:
    config = WORKLOADS.config_class("csv_stream")(path=str(folder / "rows.csv"), key="k")
    assert isinstance(config, WorkloadConfig)
    memory = MECHANISMS.config_class("recency")(budget=3)
    assert classes_for("any", "frontier", memory, "float32", config) == {"cpu"}  # type: ignore[arg-type]
    reason = hindrance("cuda", "frontier", memory, "float32", config)  # type: ignore[arg-type]
    assert reason is not None
    assert "which the CPU alone does" in reason
