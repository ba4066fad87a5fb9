"""Suites of trained models in small: every sweep of them, with a few steps for each model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import tasks

SPECS = Path(tasks.__file__).parent / "specs"
SMALL: dict[str, Any] = {"steps": 2, "evaluations": 2, "warm_up": 1, "growing_steps": 2, "first_length": 32}
LENGTHS = [16, 32, 64]


def shrunk(tree: Any) -> Any:
    """A spec with a few steps, sequences and lengths, the models as they are."""
    for mechanism in tree["mechanisms"]:
        mechanism |= {name: value for name, value in SMALL.items() if name in mechanism}
        if "steps" in mechanism:
            mechanism["batch"] = 2
    if isinstance(tree["workload"].get("length"), dict):
        tree["workload"]["length"] = {"values": LENGTHS}
        tree["workload"] |= {"pairs": {"values": [1, 4]}} if "pairs" in tree["workload"] else {}
    if "search" in tree:
        chosen = {name: {"choices": one["choices"][:2]} for name, one in tree["search"].items() if "choices" in one}
        tree["search"] |= chosen
        tree |= {"held_out": 1, "trials": 3}
    tree["seeds"], tree["episodes"] = 1, 2
    return tree


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.xdist_group("ray")
@pytest.mark.skipif("SLOTSWEEP_DATA" not in os.environ, reason="SLOTSWEEP_DATA names no folder with the data sets")
@pytest.mark.parametrize("name", ["triple-latent", "retrieval"])
def test_every_study_runs_in_small(slotsweep, tmp_path: Path, name: str) -> None:
    yaml = YAML()
    suite = yaml.load(SPECS / name / "all.yaml")["suite"]
    files = []
    for member in suite:
        files.append(f"{member.replace('/', '-')}.yaml")
        yaml.dump(shrunk(yaml.load(SPECS / f"{member}.yaml")), tmp_path / files[-1])
    yaml.dump({"name": "in-small", "suite": files}, tmp_path / "suite.yaml")
    data = str(Path(os.environ["SLOTSWEEP_DATA"]).resolve())
    ran = slotsweep("run", "suite.yaml", "--json", SLOTSWEEP_DATA=data, timeout=900)
    assert ran.code == 0, ran.err
    *sweeps, total = [json.loads(line) for line in ran.out.splitlines()]
    assert len(sweeps) == len(suite)
    assert total["done"] == total["trials"] > 100
    assert all(Path(one["report"]).is_file() for one in sweeps)
