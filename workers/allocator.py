"""What the C library does with memory that is freed."""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""glibc's numbers of the two settings (mallopt(3))."""

KEPT_BYTES = 256 << 20
"""Free memory at the end of the heap above which it goes back to the system."""

LARGEST_KEPT = 32 << 20
"""Bytes of a block above which it is the system's own, and goes back at once; glibc allows no more."""


def keep_freed_memory() -> None:
    """Let this process keep freed blocks for the next ones, where the C library is glibc.

    Tensors of some megabytes come and go with every operation. Left to itself glibc takes each from the system and
    gives it back, and every page of it has to be cleared again: a twentieth of the time of small models' training.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(MMAP_THRESHOLD, LARGEST_KEPT)
