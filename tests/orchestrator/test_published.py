"""The numbers that the frontier job must show, through the whole system, on the synthetic and on a real workload."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from statistics import mean

import pytest

SYNTHETIC = """
name: published
kind: frontier
workload: {name: associative_recall, items: 64, repeats: 4, classes: 16, dim: 32, noise: 0.3}
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, similarity: 0.6}
  - {name: recency, budget: 64}
  - {name: h2o, budget: 64}
  - {name: item_lru, budget: 64}
  - {name: optimal, budget: {values: [0, 1, 16, 32, 48, 64, 65, 256]}}
seeds: 10
episodes: 300
"""

MOVIES = """
name: movies
kind: frontier
workload: {name: movielens, dataset: ml-latest-small, events: 10000, dim: 64, noise: 0.3}
mechanisms:
  - {name: dp_cache, similarity: 0.5}
  - {name: recency, budget: 1600}
  - {name: streaming_llm, budget: 1600}
  - {name: h2o, budget: 1600, variant: {values: [heavy_hitter, half_recent]}}
  - {name: snapkv, budget: 1600, pooling: {values: [true, false]}}
seeds: 2
"""


def rows_of(slotsweep, folder: Path, spec: str) -> list[dict]:
    (folder / "spec.yaml").write_text(spec)
    ran = slotsweep("run", "spec.yaml", "--executor", "inline", "--json", timeout=900)
    assert ran.code == 0, ran.err
    return json.loads(slotsweep("results", "last", "--json").out)


def measured(rows: list[dict], metric: str, **fields: object) -> float:
    wanted = {f"mechanism.{name}": value for name, value in fields.items()}
    return mean(row[f"metrics.{metric}"] for row in rows if all(row.get(k) == v for k, v in wanted.items()))


@pytest.mark.slow
def test_the_synthetic_table_of_the_paper(slotsweep, tmp_path: Path) -> None:
    """arXiv 2607.09889, Table 1 and Figure 2; recency against its closed form, the bound against its formula."""
    rows = rows_of(slotsweep, tmp_path, SYNTHETIC)
    assert measured(rows, "recall", name="full_attention") == pytest.approx(1.0, abs=0.002)
    assert measured(rows, "slots", name="full_attention") == 256
    assert measured(rows, "recall", name="dp_cache") >= 0.995
    assert measured(rows, "slots", name="dp_cache") == pytest.approx(64, abs=1)
    covered = 1 - math.comb(252, 64) / math.comb(256, 64)
    assert covered + (1 - covered) / 16 == pytest.approx(0.706, abs=0.001)
    assert measured(rows, "recall", name="recency") == pytest.approx(0.706, abs=0.02)
    assert measured(rows, "recall", name="h2o") == pytest.approx(0.92, abs=0.03)
    tie = measured(rows, "recall_all", name="item_lru") - measured(rows, "recall_all", name="dp_cache")
    assert abs(tie) < 0.001
    for budget in (0, 1, 16, 32, 48, 64, 65, 256):
        held = min(1, budget / 64)
        for metric in ("recall", "recall_all"):
            assert measured(rows, metric, name="optimal", budget=budget) == pytest.approx(held + (1 - held) / 16)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif("SLOTSWEEP_DATA" not in os.environ, reason="SLOTSWEEP_DATA names no folder with the data sets")
def test_the_movielens_recording(slotsweep, tmp_path: Path) -> None:
    """The manner of arXiv 2607.09889, Table 2 and Figure 3, on the first 10,000 ratings of ml-latest-small."""
    data = str(Path(os.environ["SLOTSWEEP_DATA"]).resolve())
    os.environ["SLOTSWEEP_DATA"] = data
    rows = rows_of(slotsweep, tmp_path, MOVIES)
    assert {row["metrics.items"] for row in rows} == {1388}
    assert measured(rows, "recall", name="dp_cache") >= 0.97
    assert measured(rows, "slots", name="dp_cache") <= 1388
    assert measured(rows, "recall", name="recency") == pytest.approx(0.70, abs=0.02)
    assert measured(rows, "recall", name="streaming_llm") == pytest.approx(0.70, abs=0.02)
    for variant in ("heavy_hitter", "half_recent"):
        assert measured(rows, "recall", name="h2o", variant=variant) < 0.66
    for pooling in (True, False):
        assert measured(rows, "recall", name="snapkv", pooling=pooling) < 0.6
