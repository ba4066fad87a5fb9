"""A stand-in for Metal, which has no 64-bit floats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def no_float64() -> Iterator[None]:
    """Raise TypeError wherever torch computes with 64-bit floats, as it does on MPS; the host may convert them."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    ops = torch.ops.aten

    class Refusal(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            made = func(*args, **(kwargs or {}))
            if func is ops.lift_fresh.default:  # numpy's arrays, on the host
                return made
            seen = tree_leaves(made if func is ops._to_copy.default else (args, kwargs, made))
            if any(isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64 for leaf in seen):
                raise TypeError(f"{func} computes with float64, which MPS has not")
            return made

    with Refusal():
        yield
