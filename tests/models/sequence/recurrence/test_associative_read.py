"""Associative reads against a plain loop in float64: which entries are read, ties among them, gradients, streaming."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.sequence.recurrence import FORMS, Entries, Form, associative_read, associative_read_step

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def brute_force(
    q: Tensor, k: Tensor, v: Tensor, top_k: int, log_strength: Tensor | None, positions: list[int]
) -> tuple[list[list[list[float]]], float]:
    """Reads [N, P, d] in float64, one number at a time; and by how little, at least, the order of entries was decided.

    Scores of equal keys are equal; entries are sorted by falling score, and then from the most recent one back.
    """
    margin = math.inf
    reads = []
    for n in range(len(q)):
        keys, values = k[n].double().tolist(), v[n].double().tolist()
        strengths = [0.0] * len(keys) if log_strength is None else log_strength[n].double().tolist()
        reads.append([])
        for query, t in zip(q[n].double().tolist(), positions, strict=True):
            scores = {i: cosine(query, keys[i]) / math.sqrt(len(query)) + strengths[i] for i in range(t - 1)}
            order = sorted(scores, key=lambda i: (-scores[i], -i))
            if len(order) > top_k:
                least, next_best = order[top_k - 1], order[top_k]
                alike = keys[least] == keys[next_best] and strengths[least] == strengths[next_best]
                margin = margin if alike else min(margin, scores[least] - scores[next_best])
            kept = order[:top_k]
            weights = [math.exp(8.0 * scores[i]) for i in kept]
            total = sum(weights)
            reads[n].append(
                [sum(w * values[i][j] for w, i in zip(weights, kept, strict=True)) / total if kept else 0.0
                 for j in range(v.shape[2])]
            )  # fmt: skip
    return reads, margin


def cosine(one: list[float], other: list[float]) -> float:
    lengths = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in other))
    return sum(x * y for x, y in zip(one, other, strict=True)) / lengths if lengths > 0.0 else 0.0


def drawn(lanes: int, tokens: int, width: int, height: int, ids: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """q, k, v and log strengths; keys are those of `ids` different ones, looked up."""
    q, v = torch.randn(lanes, tokens, width, dtype=dtype), torch.randn(lanes, tokens, height, dtype=dtype)
    k = torch.randn(ids, width, dtype=dtype)[torch.randint(ids, (lanes, tokens))]
    return q, k, v, -torch.rand(lanes, tokens, dtype=dtype)


shapes = st.tuples(
    st.integers(1, 3), st.integers(1, 40), st.integers(1, 64), st.integers(1, 20), st.sampled_from([1, 2, 4, 50])
)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=30, deadline=None)
@given(shape=shapes, top_k=st.integers(1, 12), strong=st.booleans(), double=st.booleans(), seed=st.integers(0, 10_000))
def test_reads_are_those_of_the_plain_loop(
    form: Form, shape: tuple[int, int, int, int, int], top_k: int, strong: bool, double: bool, seed: int
) -> None:
    dtype = torch.float64 if double else torch.float32
    torch.manual_seed(seed)
    q, k, v, log_strength = drawn(*shape, dtype)
    strengths = log_strength if strong else None
    wanted, margin = brute_force(q, k, v, top_k, strengths, list(range(shape[1])))
    found = associative_read(q, k, v, top_k, strengths, form=form)
    if margin > 1e-6:
        torch.testing.assert_close(found.double(), torch.tensor(wanted).double(), rtol=0, atol=1e-5)
    assert found.isfinite().all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("top_k", [1, 4, 8])
def test_of_copies_the_latest_are_read_whatever_the_width_of_a_product(form: Form, top_k: int) -> None:
    """Values say which entry was read; lengths and widths are such that products have blocks and edges."""
    torch.manual_seed(0)
    for tokens, width in ((37, 5), (129, 64), (70, 33)):
        q, k, v, _ = drawn(2, tokens, width, 3, 3, torch.float32)
        assert_reads(form, q, k, v, top_k)


@pytest.mark.parametrize("form", FORMS)
def test_unlike_keys_with_equal_scores_are_read_by_age_together(form: Form) -> None:
    """Two keys at equal angles from the query, exactly; and keys with no direction, of which all scores are 0."""
    keys = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 0.5], [0.0, 0.0]])
    for order in ([0, 1, 0, 1, 2, 0, 0, 1], [1, 1, 1, 0, 0, 2, 1, 0], [3, 3, 2, 3, 2, 3, 3, 2]):
        k = keys[torch.tensor(order)][None]
        q = torch.tensor([1.0, 0.0]).expand(1, len(order), 2)
        assert_reads(form, q, k, torch.eye(len(order))[None], 3)


def assert_reads(form: Form, q: Tensor, k: Tensor, v: Tensor, top_k: int) -> None:
    wanted, _ = brute_force(q, k, v, top_k, None, list(range(q.shape[1])))
    found = associative_read(q, k, v, top_k, form=form)
    torch.testing.assert_close(found, torch.tensor(wanted), rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_zero_and_minus_zero_are_one_key(form: Form) -> None:
    k = torch.tensor([[0.0, 1.0], [-0.0, 1.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])[None]
    assert_reads(form, torch.tensor([0.3, 1.0]).expand(1, 5, 2), k, torch.eye(5)[None], 2)


@pytest.mark.parametrize("form", ["chunked", "compiled"])
@settings(max_examples=20, deadline=None)
@given(shape=shapes, top_k=st.integers(1, 12), strong=st.booleans(), seed=st.integers(0, 10_000))
def test_near_ties_do_not_matter_where_everything_is_kept(
    form: Form, shape: tuple[int, int, int, int, int], top_k: int, strong: bool, seed: int
) -> None:
    """Keys a rounding error apart: with room for all, weights differ by no more than that."""
    torch.manual_seed(seed)
    q, k, v, log_strength = drawn(*shape, torch.float32)
    k = k * (1.0 + 1e-7 * torch.randn_like(k))
    strengths = log_strength if strong else None
    wanted, _ = brute_force(q, k, v, shape[1], strengths, list(range(shape[1])))
    found = associative_read(q, k, v, shape[1] + top_k, strengths, form=form)
    torch.testing.assert_close(found.double(), torch.tensor(wanted).double(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", ["chunked", "compiled"])
@pytest.mark.parametrize("strong", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_those_of_the_loop(form: Form, strong: bool, dtype: torch.dtype) -> None:
    for seed, shape in enumerate([(2, 30, 8, 5, 4), (1, 300, 64, 16, 50), (3, 17, 1, 1, 2), (2, 2, 3, 3, 3)]):
        torch.manual_seed(seed)
        given_parts = drawn(*shape, dtype)
        towards = torch.randn_like(given_parts[2])
        gradients = []
        for how, kind in (("reference", torch.float64), (form, dtype)):
            parts = [part.to(kind).requires_grad_() for part in given_parts[: 4 if strong else 3]]
            read = associative_read(*parts[:3], 4, parts[3] if strong else None, form=how)
            gradients.append(torch.autograd.grad((read * towards).sum(), parts))
        for one, other in zip(*gradients, strict=True):
            scale = max(1.0, float(one.abs().max()))
            assert float((one - other).abs().max()) <= 2.0 * TOLERANCE[dtype] * scale


@pytest.mark.parametrize("form", ["chunked", "compiled"])
def test_gradients_are_those_of_differences(form: Form) -> None:
    torch.manual_seed(1)
    q, k, v, log_strength = (part.requires_grad_() for part in drawn(2, 9, 4, 3, 50, torch.float64))
    assert torch.autograd.gradcheck(lambda *x: associative_read(*x[:3], 3, x[3], form=form), (q, k, v, log_strength))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("positions", [[59], [0], [1, 0], [5, 40, 3, 59, 5], list(range(60))])
def test_reads_at_some_positions_are_those_of_all(form: Form, positions: list[int]) -> None:
    torch.manual_seed(2)
    q, k, v, log_strength = drawn(2, 60, 8, 6, 7, torch.float64)
    for strengths in (None, log_strength):
        whole = associative_read(q, k, v, 4, strengths, form=form)
        some = associative_read(q, k, v, 4, strengths, torch.tensor(positions), form=form)
        torch.testing.assert_close(some, whole[:, positions])


@pytest.mark.parametrize("strong", [False, True])
def test_token_by_token_reads_the_same(strong: bool) -> None:
    torch.manual_seed(3)
    q, k, v, log_strength = drawn(2, 30, 8, 6, 5, torch.float32)
    whole = associative_read(q, k, v, 4, log_strength if strong else None)
    state = Entries(k[:, :0], v[:, :0], log_strength[:, :0] if strong else None)
    for t in range(30):
        last = slice(t - 1, t)
        entry = Entries(k[:, last], v[:, last], log_strength[:, last] if strong else None) if t else None
        read, state = associative_read_step(q[:, t], state, 4, entry)
        torch.testing.assert_close(read, whole[:, t])


@pytest.mark.parametrize("form", FORMS)
def test_half_precision_is_computed_in_32_bits(form: Form) -> None:
    torch.manual_seed(5)
    parts = [part.bfloat16() for part in drawn(2, 40, 16, 6, 5, torch.float32)]
    with torch.autocast("cpu", torch.bfloat16):
        found = associative_read(*parts[:3], 4, parts[3], form=form)
        step, _ = associative_read_step(parts[0][:, 39], Entries(*(part[:, :38] for part in parts[1:])), 4)
    wanted = associative_read(*(part.float() for part in parts[:3]), 4, parts[3].float(), form=form)
    assert torch.equal(found, wanted.bfloat16())
    torch.testing.assert_close(step, found[:, 39], rtol=0.01, atol=0.01)


def test_what_cannot_be_read_has_no_influence() -> None:
    torch.manual_seed(4)
    q, k, v, _ = drawn(2, 40, 8, 6, 5, torch.float32)
    for form in FORMS:
        before = associative_read(q, k, v, 4, form=form)
        changed_k, changed_v = k.clone(), v.clone()
        changed_k[:, 19:], changed_v[:, 19:] = torch.randn(2, 21, 8), 1e30
        after = associative_read(q, changed_k, changed_v, 4, form=form)
        # Compiled, one product has all distinct keys: with more of them some CPUs round it otherwise.
        rounding = 1e-6 if form == "compiled" else 0.0
        torch.testing.assert_close(after[:, :21], before[:, :21], rtol=rounding, atol=rounding)
        assert before[:, :2].eq(0.0).all()


def test_bad_input_is_named() -> None:
    q, k, v, log_strength = drawn(2, 6, 4, 3, 5, torch.float32)
    with pytest.raises(ValueError, match="top_k must be at least 1, not 0"):
        associative_read(q, k, v, 0)
    with pytest.raises(ValueError, match=r"log_strength must have shape .* = \[2, 6\], not \[2, 5\]"):
        associative_read(q, k, v, 2, log_strength[:, :5])
    with pytest.raises(ValueError, match="at least one token"):
        associative_read(q[:, :0], k[:, :0], v[:, :0], 2)
