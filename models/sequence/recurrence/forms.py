"""Which form of a recurrence runs, and what its tensors must look like."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")

Form = Literal["reference", "chunked", "compiled"]
FORMS: tuple[Form, ...] = ("reference", "chunked", "compiled")


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Let `function` compute in 32 bits what comes in 16, whatever torch.autocast says: states add up many small parts.

    What is read comes back in the precision of the first tensor; a state to carry on stays in 32 bits.
    """

    @functools.wraps(function)
    def run(*arguments: P.args, **options: P.kwargs) -> R:
        import torch

        given: list[Any] = [*arguments, *options.values()]
        tensors = [part for part in given if isinstance(part, torch.Tensor)]
        device = tensors[0].device.type
        if not (any(map(is_half, tensors)) or (device != "meta" and torch.is_autocast_enabled(device))):
            return function(*arguments, **options)
        wide: list[Any] = [part.float() if is_half(part) else part for part in given]
        with torch.autocast(device, enabled=False):
            made: Any = function(*wide[: len(arguments)], **dict(zip(options, wide[len(arguments) :], strict=True)))
        made = (made[0].to(tensors[0].dtype), *made[1:]) if isinstance(made, tuple) else made.to(tensors[0].dtype)
        result: R = made
        return result

    return run


def is_half(part: object) -> bool:
    """Whether it is a tensor of 16-bit floats."""
    import torch

    return isinstance(part, torch.Tensor) and part.dtype in {torch.float16, torch.bfloat16}


def chosen(form: Form | None, tensor: Tensor) -> Form:
    """`form`, or the fastest where `tensor` is. Raises ValueError if that form cannot run there."""
    import torch

    compilable = tensor.device.type == "cpu" and tensor.dtype in {torch.float32, torch.float64}
    if form is None:
        return "compiled" if compilable else "chunked"
    if form not in FORMS:
        raise ValueError(f"form {form!r} is none of {', '.join(FORMS)}")
    if form == "compiled" and not compilable:
        raise ValueError(
            f"the compiled form runs on the CPU in float32 and float64, not on {tensor.device} in {tensor.dtype}; "
            "leave out `form`, or say 'chunked'"
        )
    return form


def check(name: str, sizes: dict[str, int], **tensors: tuple[Tensor | None, str]) -> None:
    """Compare shapes of a recurrence's tensors with letters such as "N T K", which `sizes` learns as it goes.

    Raises ValueError for a tensor of another shape, type or device than the first, and for sequences of no tokens.
    """
    first: Tensor | None = None
    for label, (tensor, letters) in tensors.items():
        if tensor is None:
            continue
        first = tensor if first is None else first
        axes = letters.split()
        if tensor.ndim == len(axes):
            for axis, size in zip(axes, tensor.shape, strict=True):
                sizes.setdefault(axis, size)
        wanted = [sizes.get(axis) for axis in axes]
        if list(tensor.shape) != wanted:
            raise ValueError(
                f"{name}: {label} must have shape [{', '.join(axes)}] = {wanted}, not {list(tensor.shape)}"
            )
        if tensor.dtype != first.dtype or tensor.device != first.device:
            raise ValueError(
                f"{name}: {label} is {tensor.dtype} on {tensor.device}, the first tensor {first.dtype} on "
                f"{first.device}; convert one of them"
            )
    if sizes.get("T") == 0:
        raise ValueError(f"{name}: a sequence needs at least one token, T is 0")
