"""Many processes on one SQLite file."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import func, select

from orchestrator.store import schema
from orchestrator.store.engine import reading
from orchestrator.store.store import Store

WRITERS = 8


@pytest.mark.slow
def test_eight_writers_and_a_polling_reader_share_one_sqlite_file(
    tmp_path: Path, full: bool, tell: Callable[[str], None]
) -> None:
    """Scenario 22: no "database is locked", no lost row; for a minute in the full form, eight seconds in the short."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store = Store.open(url)
    program, seconds = str(Path(__file__).with_name("writer.py")), "60" if full else "8"
    writers = [
        subprocess.Popen(
            [sys.executable, "-P", program, url, f"writer-{index}", seconds],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(WRITERS)
    ]
    seen, slowest = [0], 0.0
    while any(writer.poll() is None for writer in writers):
        began = time.monotonic()
        seen.append(sum(row.counts.done for row in store.sweeps()))
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.05)
    said = [writer.communicate() for writer in writers]
    assert [(writer.returncode, errors) for writer, (_, errors) in zip(writers, said, strict=True)] == [(0, "")] * 8
    written = [int(output) for output, _ in said]
    assert min(written) > 0
    assert seen == sorted(seen), "a reader saw rows vanish"
    with reading(store.engine) as connection:
        stored = connection.execute(select(func.count()).select_from(schema.results)).scalar_one()
        waiting = connection.execute(select(func.count()).where(schema.outbox.c.delivered.is_(None))).scalar_one()
    assert (stored, waiting) == (sum(written), 0)
    tell(f"{stored} results by {WRITERS} writers, {len(seen)} reads, the slowest in {slowest:.2f} s")
