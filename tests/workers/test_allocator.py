"""Freed memory is kept, up to a limit."""

import subprocess
import sys

import pytest

CODE = """
import resource, sys
import numpy as np
from workers.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
for _ in range(3):
    np.ones(4 << 20, np.uint8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    parts = [np.ones(4 << 20, np.uint8) for _ in range(4)]
    del parts
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone has these settings")
def test_blocks_that_come_and_go_are_not_fetched_anew() -> None:
    faults = {}
    for way in ("keep", "leave"):
        done = subprocess.run([sys.executable, "-P", "-c", CODE, way], capture_output=True, text=True, check=True)
        faults[way] = int(done.stdout)
    assert faults["keep"] < faults["leave"] / 4, faults
