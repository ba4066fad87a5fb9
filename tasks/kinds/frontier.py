"""Frontiers: recall against measured size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tasks.cells import Row
from tasks.kind import Kind, KindConfig, kind
from tasks.summary import Summary


class FrontierConfig(KindConfig):
    """Recall against measured size: which memory recalls most at or under each number of slots and bytes."""

    name: Literal["frontier"] = "frontier"


@kind(FrontierConfig)
class Frontier(Kind):
    """Every cell is a point; the best of a mechanism make its frontier."""

    starter = """\
name: my-frontier          # names the sweep, here and in MLflow
kind: frontier             # recall against measured size, with intervals over seeds

# What makes the streams of (key, value) tokens. `slotsweep list workloads` shows all workloads and their fields.
workload:
  name: associative_recall
  items: 64                # distinct items
  repeats: 4               # tokens of each item
  classes: 16
  dim: 32
  noise: 0.3               # expected length of the noise on a key

# The memories to compare. `slotsweep list mechanisms` shows all mechanisms and their fields.
# Any field of a workload or mechanism may be an axis; the sweep runs the product of all axes:
#   {values: [16, 64, 256]}      these values
#   {linspace: [0.1, 0.8, 8]}    8 values from 0.1 to 0.8, evenly spaced, both ends included
#   {logspace: [16, 256, 5]}     5 values from 16 to 256 in equal ratios, both ends included (16, 32, 64, 128, 256)
#   {range: [0, 100, 10]}        0, 10, ..., 90: the stop is not included
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, tau: {linspace: [0.2, 0.8, 4]}}  # novelty threshold; `similarity: 0.6` may stand for `tau: 0.4`
  - {name: h2o, budget: {values: [16, 32, 64, 128]}}
  - {name: recency, budget: {values: [16, 32, 64, 128]}}

seeds: 10                  # seeds 0 to 9; or {count: 10, base: 7}, or a list. Every mechanism sees the same streams
episodes: 50               # streams a trial averages over
device: any                # cpu | cuda | mps | any, or a list: run on each and compare
# dtype: float32           # number format in which keys are stored: float32 | float16 | bfloat16 | float64
# plugins: [my_memory.py]  # modules that define mechanisms or workloads of your own
"""

    @classmethod
    def summarise(cls, rows: Sequence[Row]) -> Summary:
        from tasks.frontier import summarise

        return summarise(rows)
