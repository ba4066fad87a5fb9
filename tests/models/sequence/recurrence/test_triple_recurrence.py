"""Whole recurrences of triple-latent layers: every form, the kernel's gradients, positions, streaming, threads."""

from __future__ import annotations

import math
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.sequence.recurrence import (
    Form,
    triple_recurrence,
    triple_recurrence_at,
    triple_recurrence_step,
)

FAST_FORMS: tuple[Form, ...] = ("chunked", "compiled")
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
GATES = {"half open": 0.0, "any": 2.0, "far": 30.0, "open or shut": 1e4}

shapes = st.tuples(
    st.integers(1, 4), st.one_of(st.integers(1, 20), st.sampled_from([63, 64, 65, 130, 200])),
    st.integers(1, 4), st.integers(1, 20), st.sampled_from([0, 0, 1, 5, 8]),
)  # fmt: skip


def inputs(rows: int, tokens: int, heads: int, size: int, slots: int, gates: str = "any") -> list[Tensor]:
    """Factors, gates and, where there are slots, choices."""
    parts = [
        torch.randn(rows, tokens, 4, heads, size, dtype=torch.float64).tanh(),
        GATES[gates] * torch.randn(rows, tokens, 2, heads, dtype=torch.float64),
    ]
    if slots:
        parts.append(torch.randn(rows, tokens, heads, slots, dtype=torch.float64).softmax(-1))
    return parts


def results(parts: list[Tensor], form: Form | None = None) -> list[Tensor]:
    """Reads, and the gradients of a random weighting of them."""
    parts = [part.detach().clone().requires_grad_() for part in parts]
    read = triple_recurrence(*parts, form=form)
    weight = torch.randn(read.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(read.dtype)
    return [read.detach(), *torch.autograd.grad((read * weight).sum(), parts)]


def assert_close(found: list[Tensor], wanted: list[Tensor], tolerance: float) -> None:
    """Errors beside the largest number of a tensor, or of any tensor where that is small: a sum cancels."""
    largest = max(float(part.abs().max()) for part in wanted)
    for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.isfinite().all(), i
        scale = max(float(other.abs().max()), 0.1 * largest)
        assert float((one.double() - other).abs().max()) <= tolerance * scale, i


def by_hand(parts: list[Tensor]) -> Tensor:
    """The published equations, one number of a memory after another (arXiv 2606.05175)."""
    (a, b, left, right), (keep, pair_keep) = parts[0].unbind(2), parts[1].sigmoid().unbind(2)
    rows, tokens, heads, size = a.shape
    width = parts[2].shape[3] if len(parts) > 2 else size
    read = torch.zeros(rows, tokens, heads, width, dtype=a.dtype)
    for r in range(rows):
        for h in range(heads):
            s, pairs = torch.zeros(size, dtype=a.dtype), torch.zeros(2, size, width, dtype=a.dtype)
            for t in range(tokens):
                here = (r, t, h)
                value = parts[2][here] if len(parts) > 2 else b[here]
                for memory, key in ((0, s), (1, b[here])):
                    for i in range(size):
                        fresh = (1 - pair_keep[here]) * key[i] * value
                        pairs[memory, i] = pair_keep[here] * pairs[memory, i] + fresh
                s = keep[here] * s + (1 - keep[here]) * a[here]
                first, second = left[here] @ pairs[0], right[here] @ pairs[1]
                read[here] = first * (second if len(parts) > 2 else right[here])
    return read


@pytest.mark.parametrize("slots", [0, 3])
@pytest.mark.parametrize("form", ["reference", *FAST_FORMS])
def test_reads_are_those_of_the_equations(form: Form, slots: int) -> None:
    torch.manual_seed(0)
    parts = inputs(2, 70, 3, 4, slots)
    torch.testing.assert_close(triple_recurrence(*parts, form=form), by_hand(parts), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("form", FAST_FORMS)
@settings(max_examples=30, deadline=None)
@given(shape=shapes, gates=st.sampled_from(list(GATES)), double=st.booleans(), seed=st.integers(0, 10_000))
def test_forms_agree_with_the_loop(
    form: Form, shape: tuple[int, int, int, int, int], gates: str, double: bool, seed: int
) -> None:
    dtype = torch.float64 if double else torch.float32
    torch.manual_seed(seed)
    parts = [part.to(dtype) for part in inputs(*shape, gates)]
    wanted = results([part.double() for part in parts], "reference")
    assert_close(results(parts, form), wanted, TOLERANCE[dtype])


@pytest.mark.parametrize("slots", [0, 3])
@pytest.mark.parametrize("form", FAST_FORMS)
def test_gradients_are_those_of_differences(form: Form, slots: int) -> None:
    torch.manual_seed(1)
    parts = [part.requires_grad_() for part in inputs(2, 9, 2, 3, slots)]
    assert torch.autograd.gradcheck(lambda *given: triple_recurrence(*given, form=form), parts)


@pytest.mark.parametrize("slots", [0, 3])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_strided_inputs_and_threads_change_nothing(slots: int, threads: int) -> None:
    torch.manual_seed(2)
    parts = [part.float() for part in inputs(3, 80, 3, 8, slots)]
    strided = [part.repeat_interleave(2, dim=1)[:, ::2] for part in parts]
    wanted, before = results(parts, "compiled"), torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        found = results(strided, "compiled")
    finally:
        torch.set_num_threads(before)
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("slots", [0, 3])
@pytest.mark.parametrize("form", FAST_FORMS)
def test_any_of_the_inputs_may_need_a_gradient(form: Form, slots: int) -> None:
    torch.manual_seed(3)
    parts = inputs(2, 30, 2, 4, slots)
    plain, whole = triple_recurrence(*parts, form=form), results(parts, form)
    assert not plain.requires_grad
    weight = torch.randn(plain.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for i in range(len(parts)):
        leaves = [part.clone().requires_grad_(i == j) for j, part in enumerate(parts)]
        read = triple_recurrence(*leaves, form=form)
        assert torch.equal(read, plain)
        torch.testing.assert_close(torch.autograd.grad((read * weight).sum(), leaves[i])[0], whole[1 + i])


@pytest.mark.parametrize("slots", [0, 3])
@pytest.mark.parametrize("asked", [1, 8, 9, 40])
def test_reads_and_gradients_at_some_positions_are_those_of_all(asked: int, slots: int) -> None:
    torch.manual_seed(4)
    parts = [part.requires_grad_() for part in inputs(2, 90, 2, 4, slots)]
    at = torch.randperm(90)[:asked].sort().values
    factors, gates, *choices = parts
    few = triple_recurrence_at(factors[:, :, :2], factors[:, at, 2:], gates, at, *choices)
    whole = triple_recurrence(*parts)[:, at]
    torch.testing.assert_close(few, whole)
    weight = torch.randn_like(whole)
    for one, other in zip(*(torch.autograd.grad((x * weight).sum(), parts) for x in (few, whole)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("slots", [0, 3])
def test_token_by_token_reads_the_same(slots: int) -> None:
    torch.manual_seed(5)
    parts = inputs(2, 20, 3, 4, slots)
    factors, gates, *choices = parts
    state: dict[str, Tensor] = {}
    reads = []
    for t in range(20):
        now = slice(t, t + 1)
        chosen = choices[0][:, now] if choices else None
        read, state = triple_recurrence_step(factors[:, now], gates[:, now], chosen, state)
        reads.append(read)
    torch.testing.assert_close(torch.cat(reads, dim=1), triple_recurrence(*parts))


@pytest.mark.parametrize("slots", [0, 8])
def test_states_that_fade_to_nothing_are_not_slow(slots: int) -> None:
    torch.manual_seed(6)
    parts = [part.float() for part in inputs(4, 2000, 2, 16, slots)]
    fading = [part.clone() for part in parts]
    fading[0][:, 10:, :2] = 0
    fading[1][:] = -math.log(1 / 0.7 - 1)

    def fastest(given: list[Tensor]) -> float:
        times = []
        for _ in range(7):
            began = time.thread_time()
            results(given, "compiled")
            times.append(time.thread_time() - began)
        return min(times)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert fastest(fading) < 3.0 * fastest(parts)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("slots", [0, 3])
@pytest.mark.parametrize("form", ["reference", *FAST_FORMS])
def test_half_precision_is_computed_in_32_bits(form: Form, slots: int) -> None:
    torch.manual_seed(7)
    parts = [part.bfloat16() for part in inputs(2, 100, 2, 8, slots)]
    wanted = results([part.float() for part in parts], form)
    with torch.autocast("cpu", torch.bfloat16):
        found = results(parts, form)
    for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.dtype == torch.bfloat16
        assert float((one.float() - other).abs().max()) <= 0.03 * float(other.abs().max()), i


def test_bad_input_is_named() -> None:
    factors, gates, choices = inputs(2, 6, 3, 4, 5)
    with pytest.raises(ValueError, match=r"gates must have shape .* = \[2, 6, 2, 3\], not \[2, 5, 2, 3\]"):
        triple_recurrence(factors, gates[:, :5], choices)
    with pytest.raises(ValueError, match=r"factors must have shape .* = \[2, 6, 4, 3, 4\], not \[2, 6, 2, 3, 4\]"):
        triple_recurrence(factors[:, :, :2], gates)
    with pytest.raises(ValueError, match=r"choices must have shape .* not \[2, 6, 2, 5\]"):
        triple_recurrence(factors, gates, choices[:, :, :2])
    with pytest.raises(ValueError, match="at least one token"):
        triple_recurrence(factors[:, :0], gates[:, :0])
    with pytest.raises(ValueError, match=r"asked must have shape .* = \[2, 1, 2, 3, 4\], not \[2, 3, 2, 3, 4\]"):
        triple_recurrence_at(factors[:, :, :2], factors[:, :3, 2:], gates, torch.tensor([1]))
    with pytest.raises(ValueError, match="compiled form runs on the CPU in float32 and float64"):
        triple_recurrence(factors.to("meta"), gates.to("meta"), form="compiled")
