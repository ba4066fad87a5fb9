"""Memories that the papers name between a state and attention, against what each of them reduces to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models.fixed_state import reference_ridge
from models.stream import Floats, Stream, unit


@pytest.fixture
def stream(lab: SimpleNamespace) -> Stream:
    made: Stream = lab.recall_stream(0, items=30, classes=5, dim=12, noise=0.5)
    return made


def tokens_of(stream: Stream) -> tuple[Floats, Floats]:
    """Unit keys [L, d] as a memory of float32 stores them, and one-hot values [L, classes]."""
    return unit(stream.keys.astype(np.float32).astype(np.float64)), np.eye(stream.classes)[stream.values]


# --- Titans ---


@pytest.mark.parametrize("theta", [0.05, 0.25, 0.5])
def test_titans_linear_without_momentum_and_forgetting_is_the_delta_rule(
    lab: SimpleNamespace, stream: Stream, theta: float
) -> None:
    titans = lab.read_one("titans_linear", stream, theta=theta, eta=0.0, alpha=0.0)
    delta = lab.read_one("delta_rule", stream, beta=2.0 * theta)
    np.testing.assert_allclose(titans.states[-1], delta.states[-1], rtol=0.0, atol=1e-13)
    assert titans.answers[0].tolist() == delta.answers[0].tolist()


def test_titans_linear_is_stochastic_gradient_descent_with_momentum(lab: SimpleNamespace, stream: Stream) -> None:
    """Heavy-ball steps of PyTorch, and a decay of the state beside them."""
    torch = pytest.importorskip("torch")
    state = torch.zeros((stream.dim, stream.classes), dtype=torch.float64, requires_grad=True)
    descent = torch.optim.SGD([state], lr=0.1, momentum=0.6)
    for key, value in zip(*map(torch.from_numpy, tokens_of(stream)), strict=True):
        descent.zero_grad()
        ((value - key @ state) ** 2).sum().backward()
        before = state.detach().clone()
        descent.step()
        with torch.no_grad():
            state -= 0.03 * before
    held = lab.read_one("titans_linear", stream, theta=0.1, eta=0.6, alpha=0.03).states[-1]
    np.testing.assert_allclose(held, state.detach(), rtol=0.0, atol=1e-12)


def test_titans_mlp_is_stochastic_gradient_descent_of_a_network(lab: SimpleNamespace, stream: Stream) -> None:
    torch = pytest.importorskip("torch")
    group = lab.mechanism("titans_mlp", {"hidden": 16, "theta": 0.2, "eta": 0.6, "alpha": 0.03})
    group.start(stream, np.random.default_rng(0))
    first = torch.from_numpy(group.states[0].copy())
    inward, outward = (part.clone().requires_grad_() for part in first.split([stream.dim, stream.classes], dim=1))
    descent = torch.optim.SGD([inward, outward], lr=0.2, momentum=0.6)

    def network(keys: Any) -> Any:
        return torch.nn.functional.gelu(keys @ inward.T) @ outward / 4.0

    for key, value in zip(*map(torch.from_numpy, tokens_of(stream)), strict=True):
        descent.zero_grad()
        ((value - network(key)) ** 2).sum().backward()
        before = [inward.detach().clone(), outward.detach().clone()]
        descent.step()
        with torch.no_grad():
            inward -= 0.03 * before[0]
            outward -= 0.03 * before[1]
    reading = lab.read(group, stream, seed=0)[0]
    expected = torch.cat([inward, outward], 1).detach()
    np.testing.assert_allclose(reading.states[-1], expected, rtol=0.0, atol=1e-10)
    said = network(torch.from_numpy(unit(stream.phases[0].queries))).argmax(1).numpy()
    assert (said == stream.phases[0].answers).tolist() == reading.answers[0].astype(bool).tolist()


@pytest.mark.parametrize("name", ["titans_linear", "titans_mlp"])
def test_a_descent_that_diverges_is_told(lab: SimpleNamespace, name: str) -> None:
    stream = lab.recall_stream(0, items=1000, dim=2)
    with pytest.raises(FloatingPointError, match="not finite"), np.errstate(all="ignore"):
        lab.read_one(name, stream, theta=1.0, eta=0.9)


# --- the Kanerva machine ---


@pytest.mark.parametrize("noise", [0.01, 1.0])
def test_kanerva_machine_is_recursive_least_squares_is_ridge_on_its_addresses(
    lab: SimpleNamespace, stream: Stream, noise: float
) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    keys, values = tokens_of(stream)
    group = lab.mechanism("kanerva_machine", {"size": 20, "noise": noise, "temperature": 0.2})
    held = lab.read(group, stream)[0].states[-1]
    addresses = group.features(keys)
    np.testing.assert_allclose(addresses.sum(axis=1), 1.0)
    *_, recursive = reference_ridge(addresses, values, noise)
    batch = linear_model.Ridge(alpha=noise, fit_intercept=False, solver="svd").fit(addresses, values).coef_.T
    np.testing.assert_allclose(held, batch, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(recursive, batch, rtol=0.0, atol=1e-9)


def test_kanerva_machine_is_the_posterior_mean_of_a_gaussian(lab: SimpleNamespace, stream: Stream) -> None:
    """Conditioning the joint Gaussian of memory and values at once, without any recursion."""
    keys, values = tokens_of(stream)
    group = lab.mechanism("kanerva_machine", {"size": 8, "noise": 0.3})
    held = lab.read(group, stream)[0].states[-1]
    w = group.features(keys)
    np.testing.assert_allclose(held, w.T @ np.linalg.solve(w @ w.T + 0.3 * np.eye(len(w)), values), atol=1e-10)


# --- neural episodic control ---


@pytest.fixture
def copies(lab: SimpleNamespace) -> Stream:
    """30 items, popular and rare, as exact copies; values that change; every item's key asked for at two phase ends."""
    rng = np.random.default_rng(3)
    base = unit(rng.standard_normal((30, 12)))
    items = np.minimum(rng.zipf(1.2, size=500) - 1, 29)
    made: Stream = lab.stream(
        base[items], rng.integers(4, size=500), items=items, ends=(300, 500),
        queries=base, answers=rng.integers(4, size=30), classes=4,
    )  # fmt: skip
    return made


def held_by_episodic_control(lab: SimpleNamespace, stream: Stream, **fields: float) -> tuple[list[list[int]], Any]:
    group = lab.mechanism("neural_episodic_control", fields)
    held: list[list[int]] = []
    answer = group.answer

    def noted(*arguments: Any) -> Floats:
        tables = group.tables
        held.append(tables.tokens[0, : tables.counts[0]].tolist())
        answers: Floats = answer(*arguments)
        return answers

    group.answer = noted
    return held, lab.read(group, stream)[0]


@pytest.mark.parametrize("budget", [1, 4, 12, 30])
def test_neural_episodic_control_holds_what_caches_of_exact_keys_hold(
    lab: SimpleNamespace, copies: Stream, budget: int
) -> None:
    held, reading = held_by_episodic_control(lab, copies, budget=budget)
    lru = lab.read_one("item_lru", copies, budget=budget, tau=0.0)
    assert held == lru.tokens
    assert (reading.held, reading.peak) == (lru.held, lru.peak)
    for decay in (0.49, 0.01):
        assert held == lab.read_one("dp_cache", copies, tau=0.0, cap=budget, decay=decay).tokens


@pytest.mark.parametrize("budget", [4, 12, 30])
def test_neural_episodic_control_answers_like_the_cache_where_a_stored_key_is_asked_for(
    lab: SimpleNamespace, copies: Stream, budget: int
) -> None:
    cache = {"tau": 0.0, "cap": budget, "decay": 0.4, "keep": "last", "temperature": "argmax"}
    expected = lab.read_one("dp_cache", copies, **cache)
    held, reading = held_by_episodic_control(lab, copies, budget=budget, alpha=1.0, delta=1e-9)
    compared = 0
    for tokens, one, other in zip(held, reading.answers, expected.answers, strict=True):
        stored = np.isin(np.arange(30), copies.items[tokens])
        assert one[stored].tolist() == other[stored].tolist()
        compared += np.count_nonzero(stored)
    assert compared == sum(reading.counts)
    for delta in (1e-9, 1.0):
        nearest = lab.read_one("neural_episodic_control", copies, budget=budget, alpha=1.0, delta=delta, k=1)
        assert [answers.tolist() for answers in nearest.answers] == [answers.tolist() for answers in expected.answers]


def test_neural_episodic_control_reads_by_inverse_distance(lab: SimpleNamespace, stream: Stream) -> None:
    keys, values = tokens_of(stream)
    queries = unit(stream.phases[0].queries)
    squared = ((queries[:, None] - keys) ** 2).sum(axis=2)
    for k in (3, 50):
        nearest = squared <= np.sort(squared, axis=1)[:, k - 1 : k]
        expected = (nearest / (squared + 0.01) @ values).argmax(axis=1) == stream.phases[0].answers
        reading = lab.read_one("neural_episodic_control", stream, budget=1000, k=k, delta=0.01)
        assert reading.answers[0].astype(bool).tolist() == expected.tolist()


# --- product keys ---


@pytest.mark.parametrize("k", [1, 32, 256])
def test_product_keys_are_searched_as_if_one_by_one(lab: SimpleNamespace, stream: Stream, k: int) -> None:
    torch = pytest.importorskip("torch")
    group = lab.mechanism("product_key_memory", {"side": 16, "k": k})
    state = torch.from_numpy(lab.read(group, stream)[0].states[-1])
    left, right = map(torch.from_numpy, group.codebooks)
    keys = torch.cat([left.repeat_interleave(16, 0), right.repeat(16, 1)], 1)
    assert keys.norm(dim=1).numpy() == pytest.approx(1.0)
    tokens, values = map(torch.from_numpy, tokens_of(stream))
    met = torch.nn.functional.one_hot((tokens @ keys.T).argmax(1), 256).double()
    torch.testing.assert_close(state, met.T @ values / met.sum(0).clamp_min(1.0)[:, None])
    queries = unit(stream.phases[0].queries)
    scores, slots = (torch.from_numpy(queries) @ keys.T).topk(k)
    expected = ((scores / 0.05).softmax(1)[:, :, None] * state[slots]).sum(1)
    np.testing.assert_allclose(group.scores(group.halves(queries), group.config), expected, rtol=0.0, atol=1e-12)


# --- the slots of SparsePointer ---


@pytest.mark.parametrize(("budget", "above"), [(4, 0.85), (20, 0.85), (20, 0.5), (64, 0.7)])
def test_sparse_pointer_memory_follows_the_policy_of_the_trained_model(
    lab: SimpleNamespace, budget: int, above: float
) -> None:
    """With writes of strength 1; a slot is known by the token that it took in last."""
    torch = pytest.importorskip("torch")
    from models.sequence.slots import Policy, choose

    stream = lab.recall_stream(1)
    keys = torch.from_numpy(np.concatenate([np.zeros((1, stream.dim)), tokens_of(stream)[0]]))[None]
    policy = Policy(budget, 4, above, 0.05)
    chain = choose(keys, torch.ones(keys.shape[:2], dtype=torch.float64), policy).chain[0, 1:].tolist()
    last = sorted({slot: token for token, slot in enumerate(chain)}.values())
    reading = lab.read_one("sparse_pointer_memory", stream, budget=budget, merge_above=above)
    assert reading.tokens == [last[-budget:]]
    assert len(set(chain)) < len(chain), "some tokens merge"


# --- the infinite-former ---


def infinite(lab: SimpleNamespace, stream: Stream, **fields: Any) -> tuple[Any, Floats]:
    """A group that has read the stream, and its scores of the last phase's queries."""
    group = lab.mechanism("infinite_former", fields)
    lab.read(group, stream)
    heights = group.heights(unit(stream.phases[-1].queries), group.states[0], group.config)
    return group, heights @ group.states[0][:, stream.dim :]


def test_infinite_former_with_a_bump_a_token_is_full_attention(lab: SimpleNamespace, stream: Stream) -> None:
    """The signal goes through the tokens, and is read where they are."""
    length = len(stream)
    _, scores = infinite(lab, stream, basis=length, chunk=length, samples=length, spread=0.5, ridge=1e-6)
    keys, values = tokens_of(stream)
    weights = np.exp((unit(stream.phases[0].queries) @ keys.T - 1.0) / 0.05)
    np.testing.assert_allclose(scores, weights / weights.sum(axis=1, keepdims=True) @ values, rtol=0.0, atol=1e-4)


def test_infinite_former_fits_its_signal_by_ridge_and_contracts_what_it_has(
    lab: SimpleNamespace, stream: Stream
) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    group, _ = infinite(lab, stream, basis=12, chunk=60, samples=40, ridge=0.01, tau=0.6)
    tokens = np.concatenate(tokens_of(stream), axis=1)

    def bumps(times: Floats) -> Floats:
        return np.asarray(np.exp(-0.5 * (12 * times[:, None] - np.arange(0.5, 12.0)) ** 2))

    def fitted(times: Floats, signal: Floats) -> Floats:
        ridge = linear_model.Ridge(alpha=0.01, fit_intercept=False, solver="svd")
        return np.asarray(ridge.fit(bumps(times), signal).coef_.T)

    old, new = np.arange(0.5, 40.0) / 40, np.arange(0.5, 60.0) / 60
    first = fitted(new, tokens[:60])
    both = fitted(np.concatenate([0.6 * old, 0.6 + 0.4 * new]), np.concatenate([bumps(old) @ first, tokens[60:]]))
    assert len(stream) == 120
    np.testing.assert_allclose(group.states[0], both, rtol=0.0, atol=1e-9)


def test_infinite_former_integrates_its_signal_under_a_gaussian(lab: SimpleNamespace, stream: Stream) -> None:
    group, scores = infinite(lab, stream, basis=40, density="gaussian")
    state, queries = group.states[0], unit(stream.phases[0].queries)
    middles, own = np.arange(0.5, 40.0) / 40, 1.0 / 40
    shares = np.exp(queries @ state[:, : stream.dim].T / 0.05)
    shares /= shares.sum(axis=1, keepdims=True)
    mean = shares @ middles
    deviation = np.sqrt(shares @ (middles**2 + own**2) - mean**2)
    times = np.linspace(-4.0, 5.0, 20001)
    density = np.exp(-0.5 * ((times - mean[:, None]) / deviation[:, None]) ** 2)
    density /= density.sum(axis=1, keepdims=True)
    signal = np.exp(-0.5 * ((times[:, None] - middles) / own) ** 2) @ state[:, stream.dim :]
    np.testing.assert_allclose(scores, density @ signal, rtol=0.0, atol=1e-8)


def test_sticky_memories_are_sampled_where_attention_is() -> None:
    from models.mechanisms.infinite_former import quantiles

    places = quantiles(np.array([0.0, 3.0, 0.0, 1.0]), np.arange(0.5, 8.0) / 8)
    assert places.tolist() == pytest.approx(
        [0.25 + 0.25 * x / 12 for x in (1.0, 3.0, 5.0, 7.0, 9.0, 11.0)] + [0.8125, 0.9375]
    )


def test_a_read_leaves_the_infinite_former_as_it_was(lab: SimpleNamespace, stream: Stream) -> None:
    often = lab.stream(stream.keys, stream.values, ends=(10, 33, 64, 90, 120), classes=5)
    [*_, last] = lab.read_one("infinite_former", often, basis=20, sticky=True).states
    [once] = lab.read_one("infinite_former", stream, basis=20, sticky=True).states
    assert last.tobytes() == once.tobytes()


# --- what they cost ---


@pytest.mark.parametrize(
    ("name", "fields", "slots", "size"),
    [
        ("titans_linear", {}, 32, 2 * 32 * 16 * 4),
        ("titans_linear", {"eta": 0.0}, 32, 32 * 16 * 4),
        ("titans_mlp", {"hidden": 10}, 10, 2 * 10 * (32 + 16) * 4),
        ("titans_mlp", {"hidden": 10, "eta": 0.0}, 10, 10 * (32 + 16) * 4),
        ("kanerva_machine", {"size": 20}, 20, 20 * (16 + 32 + 20) * 4),
        ("product_key_memory", {"side": 8}, 64, 64 * 16 * 4 + 64 * 4 + 8 * 32 * 4),
        ("product_key_memory", {"side": 8, "keep": "last"}, 64, 64 * 4 + 8 * 32 * 4),
        ("infinite_former", {"basis": 30, "chunk": 7}, 30, 30 * (32 + 16) * 4 + 7 * (32 * 4 + 4)),
        ("neural_episodic_control", {"budget": 50}, 50, 50 * (32 * 4 + 16 * 4 + 4)),
        ("sparse_pointer_memory", {"budget": 50}, 50, 50 * (32 * 4 + 4 + 4)),
    ],
)
def test_sizes_are_those_of_the_arrays_that_a_rule_must_keep_and_readers_answer_as_a_trial_does(
    lab: SimpleNamespace, name: str, fields: dict[str, Any], slots: int, size: int
) -> None:
    stream = lab.recall_stream(0)
    group = lab.mechanism(name, fields)
    reading = lab.read(group, stream)[0]
    assert reading.counts == [slots]
    assert group.bytes_fixed() + slots * sum(group.bytes_per_slot(stream.dim, key_bytes=4)) == size
    read, phase = group.reader(), stream.phases[0]
    said = np.array([read(query) for query in unit(phase.queries)])
    assert (said == phase.answers).tolist() == (reading.answers[0] == 1.0).tolist()
