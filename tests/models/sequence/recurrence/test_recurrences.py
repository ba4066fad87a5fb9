"""Each form of a recurrence against the plain loop: values, gradients, decays of all kinds, carried states."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.sequence import recurrence
from models.sequence.recurrence import Form
from tests.no_float64 import no_float64

FAST_FORMS: tuple[Form, ...] = ("chunked", "compiled")
NAMES = ("decayed_sum", "linear_attention", "gated_delta")
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}

sizes = st.tuples(
    st.integers(1, 4), st.one_of(st.integers(1, 20), st.sampled_from([63, 64, 65, 130, 200])),
    st.integers(1, 64), st.integers(1, 64),
)  # fmt: skip
decays = st.sampled_from(["open", "near one", "any", "near zero", "shut", "mixed"])


def log_decays(kind: str, lanes: int, tokens: int) -> Tensor:
    """Logarithms <= 0, from exactly 0 to -1e4."""
    scales = {"open": 0.0, "near one": 1e-3, "any": 1.0, "near zero": 30.0, "shut": 1e4}
    drawn = -torch.rand(lanes, tokens, dtype=torch.float64)
    if kind == "mixed":
        return drawn * torch.tensor(list(scales.values()))[torch.randint(len(scales), (lanes, tokens))]
    return drawn * scales[kind]


def inputs(name: str, lanes: int, tokens: int, width: int, height: int, decay: str, dtype: torch.dtype) -> list[Tensor]:
    """What a recurrence reads, the state before it among them; keys have length 1, and every third is the first."""
    q, k = torch.randn(2, lanes, tokens, width, dtype=torch.float64)
    k[:, ::3] = k[:, :1].clone()
    k = torch.nn.functional.normalize(k, dim=-1)
    v = torch.randn(lanes, tokens, height, dtype=torch.float64)
    log_decay, beta = log_decays(decay, lanes, tokens), 2.0 * torch.rand(lanes, tokens, dtype=torch.float64)
    state = torch.randn(lanes, width, height, dtype=torch.float64)
    made = {
        "decayed_sum": [v, log_decay, state[:, 0]],
        "linear_attention": [q, k, v, log_decay, state],
        "gated_delta": [q, k, v, log_decay, beta, state],
    }
    return [part.to(dtype) for part in made[name]]


def results(name: str, parts: list[Tensor], form: Form | None = None) -> list[Tensor]:
    """All that a recurrence returns, and the gradients of a random weighting of it."""
    parts = [part.detach().clone().requires_grad_() for part in parts]
    made = getattr(recurrence, name)(*parts, form=form)
    made = [made] if name == "decayed_sum" else list(made)
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(part.shape, generator=generator, dtype=torch.float64).to(part.dtype) for part in made]
    loss = sum((part * weight).sum() for part, weight in zip(made, weights, strict=True))
    assert isinstance(loss, Tensor)
    return [*(part.detach() for part in made), *torch.autograd.grad(loss, parts)]


def assert_close(found: list[Tensor], wanted: list[Tensor], tolerance: float) -> None:
    """Errors beside the largest number of a tensor, or of any tensor where that is small: a sum cancels."""
    largest = max(float(part.abs().max()) for part in wanted)
    for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.isfinite().all(), i
        scale = max(float(other.abs().max()), 0.1 * largest)
        assert float((one - other).abs().max()) <= tolerance * scale, i


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", FAST_FORMS)
@settings(max_examples=25, deadline=None)
@given(shape=sizes, decay=decays, double=st.booleans(), seed=st.integers(0, 10_000))
def test_forms_agree_with_the_loop(
    name: str, form: Form, shape: tuple[int, int, int, int], decay: str, double: bool, seed: int
) -> None:
    dtype = torch.float64 if double else torch.float32
    torch.manual_seed(seed)
    parts = inputs(name, *shape, decay, dtype)
    wanted = results(name, [part.double() for part in parts], "reference")
    assert_close([part.double() for part in results(name, parts, form)], wanted, TOLERANCE[dtype])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", FAST_FORMS)
def test_gradients_are_those_of_differences(name: str, form: Form) -> None:
    torch.manual_seed(0)
    parts = [part.requires_grad_() for part in inputs(name, 2, 11, 3, 4, "any", torch.float64)]
    assert torch.autograd.gradcheck(lambda *given: getattr(recurrence, name)(*given, form=form), parts)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", recurrence.FORMS)
def test_a_sequence_in_two_parts_is_the_sequence(name: str, form: Form) -> None:
    torch.manual_seed(1)
    *parts, state = inputs(name, 3, 150, 5, 6, "any", torch.float64)
    run = getattr(recurrence, name)
    early, late = [part[:, :70] for part in parts], [part[:, 70:] for part in parts]
    if name == "decayed_sum":
        whole, first = run(*parts, state, form=form), run(*early, state, form=form)
        second = run(*late, first[:, -1], form=form)
    else:
        (whole, end), (first, middle) = run(*parts, state, form=form), run(*early, state, form=form)
        second, last = run(*late, middle, form=form)
        torch.testing.assert_close(last, end)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)


@pytest.mark.parametrize("name", NAMES)
def test_token_by_token_reads_the_same_without_a_state_before(name: str) -> None:
    torch.manual_seed(2)
    *parts, _ = inputs(name, 3, 20, 5, 6, "mixed", torch.float64)
    whole = getattr(recurrence, name)(*parts)
    state, reads = None, []
    for t in range(20):
        read, state = getattr(recurrence, f"{name}_step")(*(part[:, t] for part in parts), state)
        reads.append(read)
    torch.testing.assert_close(torch.stack(reads, dim=1), whole if name == "decayed_sum" else whole[0])
    torch.testing.assert_close(state, whole[:, -1] if name == "decayed_sum" else whole[1])


@pytest.mark.parametrize("name", NAMES)
def test_strided_inputs_and_threads_change_nothing(name: str) -> None:
    torch.manual_seed(3)
    parts = inputs(name, 5, 40, 8, 8, "any", torch.float32)
    strided = [part.repeat_interleave(2, dim=1)[:, ::2] for part in parts]
    wanted, threads = results(name, parts), torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        found = results(name, strided)
    finally:
        torch.set_num_threads(threads)
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", FAST_FORMS)
def test_only_what_may_need_a_gradient_is_kept(name: str, form: Form) -> None:
    torch.manual_seed(4)
    parts = inputs(name, 2, 30, 4, 4, "any", torch.float32)
    run: Callable[..., Any] = getattr(recurrence, name)
    plain = run(*parts, form=form)
    written = 0 if name == "decayed_sum" else 1
    leaves = [part.clone().requires_grad_(i == written) for i, part in enumerate(parts)]
    tracked = run(*leaves, form=form)
    with torch.no_grad():
        silent = run(*leaves, form=form)
    for one, other, third in zip(*([x] if name == "decayed_sum" else x for x in (plain, tracked, silent)), strict=True):
        assert torch.equal(one, other)
        assert torch.equal(one, third)
        assert other.requires_grad
        assert not one.requires_grad
        assert not third.requires_grad


@pytest.mark.parametrize("name", NAMES)
def test_states_that_fade_to_nothing_are_not_slow(name: str) -> None:
    torch.manual_seed(5)
    *parts, state = inputs(name, 8, 2000, 16, 16, "near one", torch.float32)
    fading = [torch.zeros_like(part) if part.ndim == 3 else part for part in parts]
    fading[1 if name == "decayed_sum" else 3] = torch.full((8, 2000), math.log(0.7))

    def fastest(given: list[Tensor]) -> float:
        times = []
        for _ in range(7):
            began = time.thread_time()
            results(name, given)
            times.append(time.thread_time() - began)
        return min(times)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert fastest([*fading, state]) < 3.0 * fastest([*parts, state])
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", recurrence.FORMS)
def test_half_precision_is_computed_in_32_bits(name: str, form: Form) -> None:
    torch.manual_seed(6)
    parts = [part.bfloat16() for part in inputs(name, 2, 100, 8, 8, "near one", torch.float32)]
    wanted = results(name, [part.float() for part in parts], form)
    with torch.autocast("cpu", torch.bfloat16):
        found = results(name, parts, form)
    for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.dtype == (torch.float32 if i == 1 and name != "decayed_sum" else torch.bfloat16)
        scale = float(other.abs().max())
        assert float((one.float() - other).abs().max()) <= 0.03 * scale, i


@pytest.mark.parametrize("name", NAMES)
def test_bad_input_is_named(name: str) -> None:
    parts = inputs(name, 2, 6, 4, 4, "any", torch.float32)
    run = getattr(recurrence, name)
    log_decay = 1 if name == "decayed_sum" else 3
    with pytest.raises(ValueError, match=f"{name}: log_decay must have shape .* = \\[2, 6\\], not \\[2, 5\\]"):
        run(*(part[:, :5] if i == log_decay else part for i, part in enumerate(parts)))
    with pytest.raises(ValueError, match="at least one token"):
        run(*(part[:, :0] for part in parts[:-1]))
    with pytest.raises(ValueError, match=r"log_decay is torch\.float64 on cpu, the first tensor torch\.float32"):
        run(*(part.double() if i == log_decay else part for i, part in enumerate(parts)))
    with pytest.raises(ValueError, match="none of reference, chunked, compiled"):
        run(*parts, form="fused")
    with pytest.raises(ValueError, match="compiled form runs on the CPU in float32 and float64"):
        run(*(part.to("meta") for part in parts), form="compiled")


def test_the_chunked_forms_need_no_64_bit_floats() -> None:
    torch.manual_seed(7)
    made: list[Tensor] = []
    with no_float64():
        q, k, v = (torch.randn(2, 150, 8, requires_grad=True) for _ in range(3))
        log_decay, beta, unit = -torch.rand(2, 150), torch.rand(2, 150), torch.nn.functional.normalize(k, dim=-1)
        made.append(recurrence.decayed_sum(v, log_decay, form="chunked"))
        made += recurrence.linear_attention(q, k, v, log_decay, form="chunked")
        made += recurrence.gated_delta(q, unit, v, log_decay, beta, form="chunked")
        made.append(recurrence.associative_read(q, k, v, 4, log_decay, form="chunked"))
        torch.stack([part.sum() for part in made]).sum().backward()
    assert all(part.grad is not None and part.grad.isfinite().all() for part in (q, k, v))
