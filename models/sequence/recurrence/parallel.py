"""Kernels over lanes on as many threads as torch may use."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[Any]


def over_lanes(kernel: Callable[..., None], lanes: int, *arguments: Any) -> None:
    """`kernel(first, stop, *arguments)` for all lanes in 0..lanes-1; on several threads each has its share.

    The kernels do not hold the interpreter's lock, so plain threads run at once. numba's own would not do: not every
    layer of them may be called by two threads of one process.
    """
    import torch

    threads = min(torch.get_num_threads(), lanes)
    parts = list(itertools.pairwise(lanes * i // threads for i in range(threads + 1)))
    others = [pool(os.getpid()).submit(kernel, *part, *arguments) for part in parts[1:]]
    kernel(*parts[0], *arguments)
    for other in others:
        other.result()


@functools.cache
def pool(process: int) -> ThreadPoolExecutor:
    """Threads of `process`: those of a parent do not live on in a child that it forked."""
    return ThreadPoolExecutor(os.cpu_count(), f"lanes-{process}")


def array(tensor: Tensor) -> Array:
    """The numbers of a tensor on the CPU, in order; copied only if they are not."""
    return np.asarray(tensor.detach().contiguous().numpy())
