"""Memories of fixed size against independent implementations, closed forms, and each other."""

from __future__ import annotations

import importlib
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models.fixed_state import read_state
from models.mechanism import ABSTAINED
from models.stream import Floats, Stream, unit


def state_of(lab: SimpleNamespace, name: str, stream: Stream, **fields: Any) -> Floats:
    state: Floats = lab.read_one(name, stream, **fields).states[-1]
    return state


def tokens_of(stream: Stream) -> tuple[Floats, Floats]:
    """Unit keys [L, d] as a memory of float32 stores them, and one-hot values [L, classes]."""
    return unit(stream.keys.astype(np.float32).astype(np.float64)), np.eye(stream.classes)[stream.values]


@pytest.fixture
def stream(lab: SimpleNamespace) -> Stream:
    made: Stream = lab.recall_stream(0, items=30, classes=5, dim=12, noise=0.5)
    return made


# --- linear attention and superposition ---


def test_superposition_without_decay_is_linear_attention_on_plain_keys(lab: SimpleNamespace, stream: Stream) -> None:
    one = lab.read_one("superposition", stream)
    other = lab.read_one("linear_attention", stream, feature_map="identity")
    np.testing.assert_allclose(one.states[-1], other.states[-1], atol=1e-12)
    assert one.answers[0].tolist() == other.answers[0].tolist()


@pytest.mark.parametrize("feature_map", ["elu", "relu"])
def test_linear_attention_is_attention_with_products_of_features(
    lab: SimpleNamespace, stream: Stream, feature_map: str
) -> None:
    torch = pytest.importorskip("torch")
    phi = (lambda x: torch.nn.functional.elu(x) + 1.0) if feature_map == "elu" else torch.relu
    keys, values = tokens_of(stream)
    queries = unit(stream.phases[0].queries)
    weights = (phi(torch.from_numpy(queries)) @ phi(torch.from_numpy(keys)).T).numpy()
    expected = weights @ values / weights.sum(axis=1, keepdims=True)
    group = lab.mechanism("linear_attention", {"feature_map": feature_map})
    lab.read(group, stream)
    np.testing.assert_allclose(group.query_features(queries) @ group.states[0], expected, atol=1e-12)


def test_a_query_without_features_in_common_reads_the_lowest_class(lab: SimpleNamespace) -> None:
    apart = lab.stream([[1.0, 0.0]], [1], queries=[[0.0, 1.0]], answers=[0])
    assert lab.read_one("linear_attention", apart, feature_map="relu").answers[0].tolist() == [1.0]


def test_superposition_forgets_by_its_decay(lab: SimpleNamespace) -> None:
    """One key, class 0 three times, then class 1 four tokens later twice: 3 decay^6 against 1 + decay."""
    keys = [[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3 + [[1.0, 0.0]] * 2
    fading = lab.stream(keys, [0, 0, 0, 2, 2, 2, 1, 1], queries=[[1.0, 0.0]], answers=[0])
    for decay, right in ((1.0, 1.0), (0.99, 1.0), (0.9, 0.0)):
        assert (decay**7 + decay**6 + decay**5 > decay + 1.0) == right
        assert lab.read_one("superposition", fading, decay=decay).answers[0].tolist() == [right]


# --- the delta rule ---


def test_gated_delta_rule_without_forgetting_is_the_delta_rule(lab: SimpleNamespace, stream: Stream) -> None:
    gated = lab.read_one("gated_delta_rule", stream, alpha=1.0, beta=0.3)
    plain = lab.read_one("delta_rule", stream, beta=0.3)
    assert gated.states[-1].tobytes() == plain.states[-1].tobytes()


def test_delta_rule_is_gradient_descent_on_the_squared_error(lab: SimpleNamespace, stream: Stream) -> None:
    """A linear Titans memory without momentum and forgetting, of rate beta / 2."""
    torch = pytest.importorskip("torch")
    state = torch.zeros((stream.dim, stream.classes), dtype=torch.float64, requires_grad=True)
    for key, value in zip(*map(torch.from_numpy, tokens_of(stream)), strict=True):
        (gradient,) = torch.autograd.grad(((value - key @ state) ** 2).sum(), state)
        state = (state - 0.15 * gradient).detach().requires_grad_()
    np.testing.assert_allclose(state_of(lab, "delta_rule", stream, beta=0.3), state.detach(), atol=1e-12)


def test_delta_rule_of_full_rate_recalls_the_last_token_exactly(lab: SimpleNamespace, stream: Stream) -> None:
    keys, values = tokens_of(stream)
    np.testing.assert_allclose(keys[-1] @ state_of(lab, "delta_rule", stream, beta=1.0), values[-1], atol=1e-12)


def naive(module: str) -> ModuleType:
    """A recurrence of flash-linear-attention, which needs einops and Triton."""
    try:
        return importlib.import_module(f"fla.ops.{module}.naive")
    except ImportError as error:
        pytest.skip(f"flash-linear-attention cannot be imported: {error}")


def fla_arguments(stream: Stream, shape: str) -> list[Any]:
    """q (not used), k and v of one batch and one head, in float32, and a scalar for each token."""
    torch = pytest.importorskip("torch")
    keys, values = (torch.from_numpy(array).float()[None, None] for array in tokens_of(stream))
    scalar = torch.ones(keys.shape[:3])
    if shape == "tokens, heads":
        keys, values, scalar = (x.transpose(1, 2) for x in (keys, values, scalar))
    return [torch.zeros_like(keys), keys, values, scalar]


def test_delta_rule_is_that_of_flash_linear_attention(lab: SimpleNamespace, stream: Stream) -> None:
    q, k, v, ones = fla_arguments(stream, "heads, tokens")
    _, state = naive("delta_rule").delta_rule_recurrence(q, k, v, 0.3 * ones)
    np.testing.assert_allclose(state_of(lab, "delta_rule", stream, beta=0.3), state[0, 0], atol=1e-5)


def test_gated_delta_rule_is_that_of_flash_linear_attention(lab: SimpleNamespace, stream: Stream) -> None:
    q, k, v, ones = fla_arguments(stream, "tokens, heads")
    recurrence = naive("gated_delta_rule").naive_recurrent_gated_delta_rule
    _, state = recurrence(q, k, v, 0.3 * ones, ones * float(np.log(0.97)), output_final_state=True)
    np.testing.assert_allclose(state_of(lab, "gated_delta_rule", stream, alpha=0.97, beta=0.3), state[0, 0], atol=1e-5)


def test_linear_attention_is_that_of_flash_linear_attention(lab: SimpleNamespace, stream: Stream) -> None:
    q, k, v, _ = fla_arguments(stream, "tokens, heads")
    recurrence = naive("linear_attn").naive_recurrent_linear_attn
    _, state = recurrence(q, k.relu(), v, output_final_state=True)
    np.testing.assert_allclose(state_of(lab, "linear_attention", stream, feature_map="relu"), state[0, 0], atol=1e-5)


# --- ridge ---


def squared_loss(state: Floats, keys: Floats, values: Floats, ridge: float) -> float:
    return float(((values - keys @ state) ** 2).sum() + ridge * (state**2).sum())


@pytest.mark.parametrize("ridge", [1e-6, 0.1, 10.0])
def test_ridge_memory_is_ridge_regression(lab: SimpleNamespace, stream: Stream, ridge: float) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    keys, values = tokens_of(stream)
    fitted = linear_model.Ridge(alpha=ridge, fit_intercept=False, solver="svd").fit(keys, values)
    np.testing.assert_allclose(state_of(lab, "ridge_memory", stream, ridge=ridge), fitted.coef_.T, atol=1e-9)


def test_ridge_memory_is_a_kanerva_machine(lab: SimpleNamespace, stream: Stream) -> None:
    """Exact Bayesian update of a memory of mean R and row covariance U (arXiv 1804.01756, Eqs. 2-5)."""
    keys, values = tokens_of(stream)
    mean, covariance, noise = np.zeros((stream.dim, stream.classes)), np.eye(stream.dim), 0.7
    for address, value in zip(keys, values, strict=True):
        surprise = value - address @ mean
        along = covariance @ address
        gain = along / (address @ along + noise)
        mean = mean + np.outer(gain, surprise)
        covariance = covariance - np.outer(gain, along)
    np.testing.assert_allclose(state_of(lab, "ridge_memory", stream, ridge=0.7), mean, atol=1e-10)


def test_no_other_linear_state_has_a_smaller_loss(lab: SimpleNamespace, stream: Stream) -> None:
    keys, values = tokens_of(stream)
    least = squared_loss(state_of(lab, "ridge_memory", stream, ridge=0.5), keys, values, 0.5)
    for beta in (0.05, 0.1, 0.5, 1.0):
        assert least < squared_loss(state_of(lab, "delta_rule", stream, beta=beta), keys, values, 0.5)
    assert least < squared_loss(state_of(lab, "superposition", stream), keys, values, 0.5)


# --- quadratic features ---


def test_products_of_quadratic_features_are_squared_cosines(lab: SimpleNamespace) -> None:
    keys = unit(np.random.default_rng(0).standard_normal((20, 7)))
    features = lab.mechanism("quadratic_memory", {}).features(keys)
    assert features.shape == (20, 28)
    np.testing.assert_allclose(features @ features.T, (keys @ keys.T) ** 2, atol=1e-12)


def test_quadratic_memory_is_attention_by_squared_cosine(lab: SimpleNamespace, stream: Stream) -> None:
    keys, values = tokens_of(stream)
    queries = unit(stream.phases[0].queries)
    group = lab.mechanism("quadratic_memory", {})
    lab.read(group, stream)
    scores = group.query_features(queries) @ group.states[0]
    np.testing.assert_allclose(scores, (queries @ keys.T) ** 2 @ values, atol=1e-12)


@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_quadratic_memory_with_a_ridge_is_kernel_ridge_regression(
    lab: SimpleNamespace, stream: Stream, ridge: float
) -> None:
    kernel_ridge = pytest.importorskip("sklearn.kernel_ridge")
    keys, values = tokens_of(stream)
    queries = unit(stream.phases[0].queries)
    fitted = kernel_ridge.KernelRidge(alpha=ridge, kernel="poly", degree=2, gamma=1.0, coef0=0.0).fit(keys, values)
    group = lab.mechanism("quadratic_memory", {"ridge": ridge})
    lab.read(group, stream)
    np.testing.assert_allclose(group.features(queries) @ group.states[0], fitted.predict(queries), atol=1e-9)


# --- the read ---


def test_a_state_of_zeros_abstains_and_a_query_of_zeros_does_not() -> None:
    features = np.array([[0.0, 0.0], [1.0, 0.0]])
    for rounding in (0.0, 1e-12):
        assert read_state(features, np.full((2, 3), rounding)).tolist() == [ABSTAINED, ABSTAINED]
    assert read_state(features, np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])).tolist() == [0, 2]


def test_ties_are_read_as_the_lowest_class_whatever_the_rounding() -> None:
    state = np.array([[0.3, np.nextafter(0.3, 1.0), 0.2], [-0.5, -0.5, np.nextafter(-0.5, 0.0)]])
    assert read_state(np.eye(2), state).tolist() == [0, 0]
    assert read_state(np.eye(2), state + 1e-6 * np.eye(2, 3, 1)).tolist() == [1, 2]


def test_only_keys_of_zeros_leave_a_state_that_abstains(lab: SimpleNamespace) -> None:
    stream = lab.stream(np.zeros((3, 2)), [0, 1, 0], queries=[[1.0, 0.0]], answers=[0])
    for name in ("superposition", "delta_rule", "gated_delta_rule", "ridge_memory", "quadratic_memory"):
        assert np.isnan(lab.read_one(name, stream).answers[0]).all(), name


def test_a_write_that_corrects_twice_the_error_takes_back_the_write_before_it(lab: SimpleNamespace) -> None:
    """With beta = 2, k S is 2 v after one write and 0 after two, whatever is left of rounding."""
    keys = np.random.default_rng(0).standard_normal((1, 7)).repeat(2, axis=0)
    once, twice = lab.read_one("delta_rule", lab.stream(keys, [1, 1], ends=(1, 2)), beta=2.0).answers
    assert once.tolist() == [1.0, 1.0]
    assert np.isnan(twice).all()


# --- size ---


@pytest.mark.parametrize(
    ("name", "fields", "rows", "size"),
    [
        ("superposition", {}, 32, 32 * 16 * 4),
        ("linear_attention", {}, 32, 32 * 16 * 4 + 32 * 4),
        ("linear_attention", {"feature_map": "identity"}, 32, 32 * 16 * 4),
        ("delta_rule", {}, 32, 32 * 16 * 4),
        ("gated_delta_rule", {}, 32, 32 * 16 * 4),
        ("ridge_memory", {}, 32, 32 * 16 * 4 + 32 * 32 * 4),
        ("quadratic_memory", {}, 528, 528 * 16 * 4),
        ("quadratic_memory", {"ridge": 1.0}, 528, 528 * 16 * 4 + 528 * 528 * 4),
    ],
)
def test_size_is_that_of_the_arrays_a_rule_must_keep(
    lab: SimpleNamespace, name: str, fields: dict[str, Any], rows: int, size: int
) -> None:
    stream = lab.recall_stream(0)
    group = lab.mechanism(name, fields)
    reading = lab.read(group, stream)[0]
    assert reading.counts == [rows]
    assert (reading.peak, reading.held) == (rows, rows * len(stream))
    assert rows * sum(group.bytes_per_slot(stream.dim, key_bytes=2)) == size


# --- the published comparison and reruns of it ---


def mean_recall(lab: SimpleNamespace, name: str, streams: list[Stream], **fields: Any) -> float:
    group = lab.mechanism(name, fields)
    readings = (lab.read(group, stream)[0] for stream in streams)
    return float(np.mean([np.mean([answers.mean() for answers in reading.answers]) for reading in readings]))


@pytest.mark.parametrize(("dim", "recall"), [(16, 0.58), (32, 0.819), (64, 0.965)])
def test_superposition_is_the_published_state_space_model(lab: SimpleNamespace, dim: int, recall: float) -> None:
    """arXiv 2607.09889, Table 1: .82 +- .02 at state dimension 32, for 64 items shown four times."""
    streams = [lab.recall_stream(seed, dim=dim) for seed in range(150)]
    assert mean_recall(lab, "superposition", streams) == pytest.approx(recall, abs=0.012)


def test_other_fixed_states_of_the_same_width_recall_more_or_less(lab: SimpleNamespace) -> None:
    """That a fixed state caps recall depends on the rule and on the features."""
    streams = [lab.recall_stream(seed) for seed in range(60)]
    assert mean_recall(lab, "linear_attention", streams) == pytest.approx(0.13, abs=0.03)
    assert mean_recall(lab, "delta_rule", streams, beta=0.1) == pytest.approx(0.865, abs=0.02)
    assert mean_recall(lab, "ridge_memory", streams) == pytest.approx(0.938, abs=0.02)
    assert mean_recall(lab, "quadratic_memory", streams) > 0.999


@pytest.mark.parametrize(("decay", "recall"), [(1.0, 0.785), (0.995, 0.968)])
def test_the_published_floor_under_changing_working_sets_is_one_of_not_forgetting(
    lab: SimpleNamespace, decay: float, recall: float
) -> None:
    """arXiv 2607.09889, Table 7: .77 for the state-space model, .89 for the adaptive cache."""
    from tasks.workload import WORKLOADS

    phased = WORKLOADS.implementation("phased_recall")(WORKLOADS.config_class("phased_recall")(name="phased_recall"))
    streams = [phased.stream(seed, 0) for seed in range(60)]
    assert mean_recall(lab, "superposition", streams, decay=decay) == pytest.approx(recall, abs=0.01)
