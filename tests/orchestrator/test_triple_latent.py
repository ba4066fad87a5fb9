"""The triple-latent paper's studies in small: every sweep of the suite, with a few steps for each model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import tasks

SPECS = Path(tasks.__file__).parent / "specs"
SMALL: dict[str, Any] = {"steps": 2, "evaluations": 2, "batch": 2, "warm_up": 1, "growing_steps": 2, "first_length": 32}
LENGTHS = [16, 32, 64]


def shrunk(tree: Any) -> Any:
    """A spec with a few steps, sequences and lengths, the models as they are."""
    for mechanism in tree["mechanisms"]:
        mechanism |= {name: value for name, value in SMALL.items() if name in mechanism}
    if isinstance(tree["workload"].get("length"), dict):
        tree["workload"]["length"] = {"values": LENGTHS}
    if "search" in tree:
        tree["search"] = {name: {"choices": one["choices"][:2]} for name, one in tree["search"].items()}
        tree["held_out"] = 1
    tree["seeds"], tree["episodes"] = 1, 2
    return tree


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.xdist_group("ray")
@pytest.mark.skipif("SLOTSWEEP_DATA" not in os.environ, reason="SLOTSWEEP_DATA names no folder with the data sets")
def test_every_study_of_the_paper_runs_in_small(slotsweep, tmp_path: Path) -> None:
    yaml = YAML()
    suite = yaml.load(SPECS / "triple-latent" / "all.yaml")["suite"]
    files = []
    for name in suite:
        files.append(f"{name.replace('/', '-')}.yaml")
        yaml.dump(shrunk(yaml.load(SPECS / f"{name}.yaml")), tmp_path / files[-1])
    yaml.dump({"name": "in-small", "suite": files}, tmp_path / "suite.yaml")
    data = str(Path(os.environ["SLOTSWEEP_DATA"]).resolve())
    ran = slotsweep("run", "suite.yaml", "--json", SLOTSWEEP_DATA=data, timeout=900)
    assert ran.code == 0, ran.err
    *sweeps, total = [json.loads(line) for line in ran.out.splitlines()]
    assert len(sweeps) == len(suite)
    assert total["done"] == total["trials"] > 100
    assert all(Path(one["report"]).is_file() for one in sweeps)
