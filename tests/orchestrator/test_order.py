"""The order in which batches are handed out: random where time is measured, the plan's elsewhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from orchestrator.job import Job
from orchestrator.plan import Plan
from orchestrator.spec import read_spec
from orchestrator.spec.spec import Policy
from orchestrator.store.contract import new_sweep
from orchestrator.store.store import Store
from workers.hardware import this_machine
from workers.host import WorkerCard

SPEC = """
name: order
kind: KIND
workload: {name: associative_recall, items: 8, repeats: {values: [1, 2, 3, 4, 5, 6]}}
mechanisms: [{name: full_attention}, {name: recency, budget: 4}]
seeds: 6
device: cpu
"""
WORKER = WorkerCard("worker", "cpu", 1, "machine", {}, machine=this_machine())

Read = tuple[int, int]
"""Repeats of items in a stream, and its seed."""


def handed_out(store: Store, kind: str) -> list[list[Read]]:
    """What the trials of each batch read, in the order of batches."""
    submitted = store.submit(replace(new_sweep(), kind=kind), Plan(read_spec(SPEC.replace("KIND", kind))).trials())
    job = Job(store, store.sweep(submitted.sweep), Policy())
    found = []
    while batch := job.next_batch(WORKER):
        found.append([(batch.cells[trial.cell].workload["repeats"], trial.seed) for trial in batch.trials])
    return found


def test_where_time_is_measured_sizes_and_seeds_come_in_random_order(store: Store) -> None:
    order = handed_out(store, "cost_scaling")
    reads = [batch[0] for batch in order]
    assert all(batch == [read] * 2 for batch, read in zip(order, reads, strict=True)), "one seed, both mechanisms"
    everything = [(repeats, seed) for repeats in range(1, 7) for seed in range(6)]
    assert sorted(reads) == everything
    assert reads != everything
    sizes = [repeats for repeats, _ in reads]
    runs = 1 + sum(a != b for a, b in pairwise(sizes))
    assert runs > 20, "a size's seeds are spread over the whole time: in plan order there would be 6 runs"
    halves = sum(sizes[:18]) / 18, sum(sizes[18:]) / 18
    assert halves == pytest.approx((3.5, 3.5), abs=0.8), "neither half has the small sizes to itself: 2 and 5"


def test_the_random_order_is_the_same_whoever_runs_the_sweep(store: Store) -> None:
    submitted = store.submit(
        replace(new_sweep(use_cache=False), kind="cost_scaling"),
        Plan(read_spec(SPEC.replace("KIND", "cost_scaling"))).trials(),
    )
    job = Job(store, store.sweep(submitted.sweep), Policy())
    first = [job.next_batch(WORKER) for _ in range(5)]
    job.start_over()
    assert [job.next_batch(WORKER) for _ in range(5)] == first
    again = Job(store, store.sweep(submitted.sweep), Policy())
    assert [again.next_batch(WORKER) for _ in range(5)] == first


def test_elsewhere_batches_follow_the_plan(store: Store) -> None:
    reads = [read for batch in handed_out(store, "frontier") for read in batch]
    assert reads == sorted(reads)
