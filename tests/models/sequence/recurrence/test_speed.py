"""A dense triple-latent layer, forward and backward, beside the same layer as a loop over tokens."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "recurrences.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_recurrences", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def best_seconds(step: Callable[[], None], rounds: int) -> float:
    """Of this thread, the only one at work: what other processes do in the meantime hardly counts."""
    step()
    times = []
    for _ in range(rounds):
        began = time.thread_time()
        step()
        times.append(time.thread_time() - began)
    return min(times)


def test_512_tokens_cost_less_than_a_tenth_of_a_loop(benchmark: ModuleType) -> None:
    """A 17th or so, in fact."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        steps = benchmark.layer_steps(512)
        assert best_seconds(steps["released"], 3) > 10.0 * best_seconds(steps["ours"], 9)
    finally:
        torch.set_num_threads(threads)


def test_the_layers_compared_are_one(benchmark: ModuleType) -> None:
    torch.manual_seed(0)
    layers = benchmark.layers()
    for weight in layers["ours"].parameters():  # so large that every part of the layer shows in its output
        weight.data.mul_(10.0)
    layers["released"].take(layers["ours"])
    x = torch.randn(2, 100, 64, requires_grad=True)
    outputs, gradients = [], []
    for name in ("released", "ours"):
        made = benchmark.output(layers[name], x)
        gradients.append(torch.autograd.grad(made.square().mean(), x)[0])
        outputs.append(made.detach())
    for first, other in (outputs, gradients):
        assert float((other - first).abs().max()) <= 1e-5 * float(first.abs().max())
