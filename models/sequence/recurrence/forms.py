"""Which form of a recurrence runs, and what its tensors must look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

Form = Literal["reference", "chunked", "compiled"]
FORMS: tuple[Form, ...] = ("reference", "chunked", "compiled")


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
