"""A long CSV file through `dp_cache` and `item_lru` in one sweep, beside a plain Python loop.

    python tests/benchmarks/long_streams.py [tokens]

10 million rows unless told otherwise, of 2,000 items by Zipf's law; d = 64, noise 0.3. Printed are the sweep's tokens
per second (the file read twice, keys made, two memories, 2,000 queries) and the peak of its process's memory, and those
of each memory alone, as its trial measured them. The loop is what one writes without slotsweep: a dictionary of items'
vectors, and per token one product of numpy with the slots. It reads the first 100,000 rows. Ratios are of one run.
"""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

TOKENS = 10_000_000
LOOP_TOKENS = 100_000
ITEMS, CLASSES, DIM, NOISE = 2000, 16, 64, 0.3
TAU, BUDGET = 0.4, 512
PART = 1 << 20

SPEC = f"""\
name: long-stream
kind: frontier
workload: {{name: csv_stream, path: PATH, key: item, value: class, dim: {DIM}, noise: {NOISE}}}
mechanisms:
  - {{name: dp_cache, tau: {TAU}}}
  - {{name: item_lru, tau: {TAU}, budget: {BUDGET}}}
seeds: 1
"""


def write_rows(path: Path, tokens: int) -> None:
    """A CSV of `tokens` rows, some at a time."""
    rng = np.random.default_rng(0)
    shares = 1.0 / np.arange(1, ITEMS + 1)
    with path.open("w", encoding="utf-8") as file:
        file.write("item,class\n")
        for start in range(0, tokens, PART):
            items = rng.choice(ITEMS, min(PART, tokens - start), p=shares / shares.sum())
            file.writelines(f"item-{item},class-{item % CLASSES}\n" for item in items.tolist())


def swept(path: Path, folder: Path) -> tuple[dict[str, dict[str, float]], float]:
    """Metrics of both trials by mechanism, and the seconds of their sweep."""
    spec = folder / "spec.yaml"
    spec.write_text(SPEC.replace("PATH", str(path)), encoding="utf-8")
    command = [str(Path(sys.executable).with_name("slotsweep"))]
    began = time.perf_counter()
    run = [*command, "run", str(spec), "--executor", "inline", "--json"]
    ran = subprocess.run(run, cwd=folder, check=True, stdout=subprocess.PIPE)
    seconds = time.perf_counter() - began
    sweep = json.loads(ran.stdout.splitlines()[-1])["sweep"]
    results = [*command, "results", sweep, "--format", "json"]
    told = subprocess.run(results, cwd=folder, check=True, stdout=subprocess.PIPE)
    rows = json.loads(told.stdout)
    return {
        row["mechanism.name"]: {
            name.removeprefix("metrics."): value for name, value in row.items() if name.startswith("metrics.")
        }
        for row in rows
    }, seconds


def looped(path: Path, budget: int | None) -> float:
    """Tokens per second of a plain loop: `dp_cache`, or with a `budget` `item_lru`."""
    rng = np.random.default_rng(0)
    vectors: dict[str, np.ndarray] = {}
    keys = np.empty((2 * ITEMS if budget is None else budget, DIM), dtype=np.float32)
    values: list[str] = []
    last_use: list[int] = []
    began, t = time.perf_counter(), 0
    with path.open(newline="", encoding="utf-8") as file:
        for t, row in enumerate(csv.DictReader(file)):
            if t == LOOP_TOKENS:
                break
            if row["item"] not in vectors:
                drawn = rng.standard_normal(DIM)
                vectors[row["item"]] = drawn / np.linalg.norm(drawn)
            key = vectors[row["item"]] + NOISE / DIM**0.5 * rng.standard_normal(DIM)
            key = (key / np.linalg.norm(key)).astype(np.float32)
            cosines = keys[: len(values)] @ key
            slot = int(cosines.argmax()) if values else -1
            if slot >= 0 and 1.0 - cosines[slot] <= TAU:
                last_use[slot] = t
            elif len(values) < len(keys):
                keys[len(values)] = key
                values.append(row["class"])
                last_use.append(t)
            else:
                slot = min(range(len(last_use)), key=last_use.__getitem__)
                keys[slot], values[slot], last_use[slot] = key, row["class"], t
    return t / (time.perf_counter() - began)


def main() -> None:
    """Print the table."""
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else TOKENS
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "rows.csv"
        write_rows(path, tokens)
        print(f"{tokens:,} rows, {path.stat().st_size / 1e6:,.0f} MB", flush=True)
        plain = {"dp_cache": looped(path, None), "item_lru": looped(path, BUDGET)}
        metrics, seconds = swept(path, Path(scratch))
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        print(f"sweep of both: {seconds:,.0f} s, {tokens / seconds:,.0f} tokens/s, peak {peak:.2f} GiB")
        both = 1.0 / sum(1.0 / rate for rate in plain.values())
        print(f"loops over the first {LOOP_TOKENS:,}, one after the other: {both:,.0f} tokens/s")
        print(f"ratio {tokens / seconds / both:.1f}")
        for name, measured in metrics.items():
            alone = 1e6 / measured["build_us_per_token"]
            print(
                f"{name}: memory alone {alone:,.0f} tokens/s, its loop {plain[name]:,.0f}; "
                f"recall {measured['recall']:.3f}, {measured['slots']:.0f} slots"
            )


if __name__ == "__main__":
    main()
