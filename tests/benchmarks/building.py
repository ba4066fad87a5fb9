"""How near the blocked build comes to the machine's matrix product, beside a loop over tokens; one thread, one run.

    python tests/benchmarks/building.py

20,000 tokens of 1,000 items, d = 64. Rates are in the 2 N K d operations of comparing every token with every slot;
the blocked build is spared some of these, as it stops looking once a slot is clearly nearest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
os.environ.update(ONE_THREAD)  # before numpy loads its BLAS

import numpy as np  # noqa: E402

from models.blocked import build_slots, naive_build_slots  # noqa: E402
from models.stream import unit  # noqa: E402

TOKENS, ITEMS, DIM = 20_000, 1_000, 64
TAU = 0.5
SIDE = 1024
ROUNDS = 30


def main() -> None:
    """Measure in turns, so that a busy moment meets all alike, and print the best of each."""
    rng = np.random.default_rng(0)
    items = rng.permutation(np.repeat(np.arange(ITEMS), TOKENS // ITEMS))
    base = unit(rng.standard_normal((ITEMS, DIM)))
    keys = (base[items] + 0.3 * rng.standard_normal((TOKENS, DIM)) / np.sqrt(DIM)).astype(np.float32)
    left, right = rng.standard_normal((2, SIDE, SIDE)).astype(np.float32)
    product = np.empty_like(left)
    one, other = build_slots(keys, TAU), naive_build_slots(keys, TAU)
    assert np.array_equal(one.assignment, other.assignment)
    assert len(one.slots) == ITEMS
    comparisons = 2.0 * TOKENS * ITEMS * DIM
    work: dict[str, tuple[float, Callable[[], object]]] = {
        f"matrix product, {SIDE} a side": (2.0 * SIDE**3, lambda: np.matmul(left, right, out=product)),
        "blocked build": (comparisons, lambda: build_slots(keys, TAU)),
        "loop over tokens": (comparisons, lambda: naive_build_slots(keys, TAU)),
    }
    best = dict.fromkeys(work, float("inf"))
    for _ in range(ROUNDS):
        for name, (_, step) in work.items():
            best[name] = min(best[name], seconds(step))
    rates = {name: operations / best[name] / 1e9 for name, (operations, _) in work.items()}
    roof = next(iter(rates.values()))
    print(f"slots of {TOKENS:,} tokens of {ITEMS:,} items, d = {DIM}, one thread; nominal rates: 2 N K d over the time")
    for name, rate in rates.items():
        print(f"{name:<32} {1e3 * best[name]:8.1f} ms {rate:8.1f} GF/s  = {rate / roof:5.2f} of the matrix product")


def seconds(step: Callable[[], object]) -> float:
    """Seconds of this thread, the only one at work, so that time spent waiting for other processes does not count."""
    began = time.thread_time()
    step()
    return time.thread_time() - began


if __name__ == "__main__":
    main()
