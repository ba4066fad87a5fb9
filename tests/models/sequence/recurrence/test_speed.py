"""A dense triple-latent layer, forward and backward, beside the same layer with plain loops over tokens."""

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


def test_512_tokens_cost_less_than_a_ninth_of_the_loop(benchmark: ModuleType) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        steps = benchmark.layer_steps(512)
        assert best_seconds(steps["reference"], 3) > 9.0 * best_seconds(steps["compiled"], 9)
    finally:
        torch.set_num_threads(threads)


def test_the_layer_is_the_same_in_every_form(benchmark: ModuleType) -> None:
    torch.manual_seed(0)
    layer = benchmark.DenseLayer()
    x = torch.randn(2, 100, 64)
    outputs, gradients = [], []
    for form in ("reference", "chunked", "compiled"):
        layer.zero_grad()
        made = layer(x, form)
        made.square().mean().backward()
        outputs.append(made.detach())
        gradients.append(torch.cat([part.grad.flatten() for part in layer.parameters()]))
    for first, *others in (outputs, gradients):
        for other in others:
            assert float((other - first).abs().max()) <= 1e-5 * float(first.abs().max())
