"""How fast a device reads memories, beside two named alternatives: `python tests/device/throughput.py cuda`.

Every rate is trials' episodes (a stream read and asked under one config) a second, the median of repeats after a
warm-up, in one run on one machine. Streams are made beforehand: all alternatives would spend the same time on that.

- fused on the device: `tasks.evaluate_device`, all streams and configs at once
- fused on the CPU: `tasks.evaluate`, numba kernels on one thread
- per-step loop: the same rule in plain torch on the same device, one stream and one config at a time
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

from models.config import MechanismConfig
from models.devices.device import DeviceClass, capabilities, require, synchronise
from models.mechanism import MECHANISMS
from models.stream import Stream
from tasks.evaluate import evaluate
from tasks.evaluate_device import evaluate_on
from tasks.workload import WORKLOADS, Workload

if TYPE_CHECKING:
    from torch import Tensor

REPEATS = 3
SEEDS = {"cuda": 8, "mps": 2, "cpu": 1}
EPISODES = {"cuda": 300, "mps": 100, "cpu": 10}
CPU_EPISODES = 20
LOOP_EPISODES = 2

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "dp_cache": [{"tau": round(0.1 * n, 1)} for n in range(1, 9)],
    "dp_cache, capped": [{"cap": cap, "decay": 0.99} for cap in (16, 24, 32, 48, 64)],
    "adaptive_dp_cache": [{"m0": m0} for m0 in (4, 8, 16, 32)],
    "item_lru": [{"budget": budget} for budget in (16, 24, 32, 48, 64)],
    "h2o": [{"budget": budget} for budget in (16, 24, 32, 48, 64, 96, 128, 192)],
    "tova": [{"budget": budget} for budget in (16, 32, 64, 128)],
}


class Kept(Workload[Any]):
    """Associative recall of the paper's first table (64 items, 4 times each), its streams made beforehand."""

    def __init__(self, seeds: int, episodes: int) -> None:
        config = WORKLOADS.config_class("associative_recall").model_validate({"name": "associative_recall"})
        made = WORKLOADS.implementation("associative_recall")(config)  # type: ignore[arg-type]
        self.streams = {(s, e): made.stream(s, e) for s in range(seeds) for e in range(episodes)}

    def stream(self, seed: int, episode: int) -> Stream:
        return self.streams[seed, episode]

    @classmethod
    def tokens(cls, config: Any) -> int:
        return 256


# --- the per-step loop ---


def loop_dp_cache(keys: Tensor, config: Any) -> list[int]:
    """Tokens that open a slot, as a first program for a GPU would find them."""
    slots = [0]
    for t in range(1, len(keys)):
        if float(1.0 - (keys[slots] @ keys[t]).max()) > config.tau:
            slots.append(t)
    return slots


def loop_h2o(keys: Tensor, config: Any) -> list[int]:
    """Tokens that the heavy-hitter oracle holds at the end."""
    import torch

    held = torch.arange(0, device=keys.device)
    score = keys.new_zeros(0)
    for t in range(len(keys)):
        held = torch.cat([held, held.new_tensor([t])])
        score = torch.cat([score, score.new_zeros(1)])
        score = score + (keys[held] @ keys[t] / config.temperature).softmax(0)
        if len(held) > config.budget:
            stays = torch.arange(len(held), device=keys.device) != score.argmin()
            held, score = held[stays], score[stays]
    tokens: list[int] = held.tolist()
    return tokens


LOOPS: dict[str, Callable[[Tensor, Any], list[int]]] = {"dp_cache": loop_dp_cache, "h2o": loop_h2o}


def read_in_a_loop(device: DeviceClass, name: str, streams: Sequence[Stream], configs: Sequence[Any]) -> None:
    """Each stream under each config: the loop, then one softmax read of all queries."""
    import torch

    for stream in streams:
        keys = torch.tensor(stream.keys, dtype=torch.float32).to(device)
        values = torch.tensor(stream.values).to(device)
        queries = torch.tensor(stream.phases[0].queries, dtype=torch.float32).to(device)
        for config in configs:
            slots = LOOPS[name](keys, config)
            weights = (queries @ keys[slots].T / 0.05).softmax(1)
            kinds = torch.nn.functional.one_hot(values[slots], stream.classes).to(weights.dtype)
            (weights @ kinds).argmax(1).tolist()


# --- measuring ---


def rate(work: Callable[[], object], episodes: int, device: DeviceClass) -> float:
    """Trials' episodes a second: `work` does so many of them."""
    work()
    seconds = []
    for _ in range(REPEATS):
        synchronise(device)
        began = time.perf_counter()
        work()
        synchronise(device)
        seconds.append(time.perf_counter() - began)
    return episodes / statistics.median(seconds)


def main(device: DeviceClass) -> None:
    """Print one line a mechanism."""
    import torch

    require(device)
    torch.set_num_threads(1)
    chip = capabilities(device)[0]
    seeds, episodes = SEEDS[device], EPISODES[device]
    workload = Kept(seeds, max(episodes, CPU_EPISODES))
    print(f"{chip.name}: {seeds * episodes} streams of 256 tokens, 64 items, 32 dimensions; trials' episodes a second")
    print("(`fused cpu` is one thread: all cores of a machine give up to as many times as much)")
    columns = (f"fused {device}", "fused cpu", f"loop {device}", "/ cpu", "/ loop")
    print(f"{'mechanism':20}{'configs':>8}" + "".join(f"{column:>12}" for column in columns))
    for title, fields in SETTINGS.items():
        name = title.split(",")[0]
        configs = [MECHANISMS.config_class(name).model_validate({"name": name, **one}) for one in fields]
        mechanisms = [config for config in configs if isinstance(config, MechanismConfig)]
        count = len(configs)

        def on_device(mechanisms: Sequence[MechanismConfig] = mechanisms) -> object:
            return evaluate_on(device, workload, mechanisms, range(seeds), episodes, "float32")

        def on_cpu(mechanisms: Sequence[MechanismConfig] = mechanisms) -> object:
            return evaluate(workload, mechanisms, 0, CPU_EPISODES, "float32")

        def in_a_loop(title: str = title, mechanisms: Sequence[MechanismConfig] = mechanisms[:2]) -> None:
            read_in_a_loop(device, title, [workload.stream(0, e) for e in range(LOOP_EPISODES)], mechanisms)

        fused = rate(on_device, count * seeds * episodes, device)
        cpu = rate(on_cpu, count * CPU_EPISODES, "cpu")
        loop = rate(in_a_loop, 2 * LOOP_EPISODES, device) if title in LOOPS else math.nan
        numbers = [f"{fused:.0f}", f"{cpu:.0f}", f"{loop:.1f}", f"{fused / cpu:.2f}", f"{fused / loop:.0f}"]
        if title not in LOOPS:
            numbers[2] = numbers[4] = ""
        print(f"{title:20}{count:8}" + "".join(f"{number:>12}" for number in numbers), flush=True)


if __name__ == "__main__":
    [asked] = sys.argv[1:]
    if asked not in get_args(DeviceClass):
        sys.exit(f"give one of {', '.join(get_args(DeviceClass))}")
    main(asked)  # type: ignore[arg-type]
