"""How many threads numeric libraries may use, so that workers on one machine do not fight over its cores."""

from __future__ import annotations

import os
import sys

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""What OpenMP, OpenBLAS, MKL, numba and Apple's Accelerate read when they are loaded."""


def thread_environment(threads: int) -> dict[str, str]:
    """Environment variables that hold a new process to `threads` threads. Raises ValueError below 1."""
    if threads < 1:
        raise ValueError(f"a process needs at least 1 thread, not {threads}")
    return dict.fromkeys(THREAD_VARIABLES, str(threads))


def pin_threads(threads: int) -> None:
    """Hold this process and its future children to `threads` threads, in libraries loaded already too.

    Raises ValueError below 1. numba, once loaded, keeps the size of its pool: it cannot go above it, and children are
    told of it.
    """
    os.environ.update(thread_environment(threads))
    if "numba" in sys.modules:
        _pin_numba(threads)
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(threads)
    if "numpy" in sys.modules:
        import threadpoolctl

        # Last: numba's own setting may load OpenMP with the machine's number of threads.
        threadpoolctl.threadpool_limits(threads)


def _pin_numba(threads: int) -> None:
    import numba

    # numba reads the environment again at every compilation, and refuses to compile where it contradicts the pool.
    pool = numba.config.NUMBA_NUM_THREADS
    os.environ["NUMBA_NUM_THREADS"] = str(pool)
    numba.set_num_threads(min(threads, pool))


def usable_cpus() -> int:
    """Logical CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_in_use() -> int:
    """The largest number of threads a numeric library of this process may use.

    Loaded libraries are asked; before any is loaded, the environment that they will read decides.
    """
    if "numpy" in sys.modules:
        import threadpoolctl

        counts = [int(library["num_threads"]) for library in threadpoolctl.threadpool_info()]
        if counts:
            return max(counts)
    variables = (os.environ.get(name, "") for name in THREAD_VARIABLES)
    return max((int(value) for value in variables if value.isdigit()), default=usable_cpus())
