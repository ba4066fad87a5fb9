"""Before any worker starts: compile the kernels a sweep needs, load (and fetch) the data it reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from models.config import MechanismConfig
from models.devices.device import DeviceClass
from models.devices.form import supports
from models.mechanism import MECHANISMS
from models.sequence.config import SequenceConfig
from models.stream import Phase, Stream, unit
from tasks.evaluate import evaluate
from tasks.workload import Workload
from workers.batch import load_mechanism, load_workload

TINY_TOKENS = 12


class TinyStreams(Workload[Any]):
    """Streams of a few tokens: enough to make every kernel compile for the types that real streams have."""

    def stream(self, seed: int, episode: int) -> Stream:
        rng = np.random.default_rng(seed)
        items = np.arange(TINY_TOKENS, dtype=np.int64) % (TINY_TOKENS // 2)
        base = unit(rng.standard_normal((TINY_TOKENS // 2, 4)))
        labels = np.arange(TINY_TOKENS // 2, dtype=np.int64) % 2
        phase = Phase(TINY_TOKENS, base, labels, np.arange(TINY_TOKENS // 2), np.array([0]))
        return Stream(base[items], labels[items], items, (phase,), classes=2, chance=0.5)

    @classmethod
    def tokens(cls, config: Any) -> int:
        return TINY_TOKENS


def compile_kernels(mechanisms: Iterable[dict[str, Any]], dtype: str) -> None:
    """Run each kind of `mechanisms` (identities) once on a tiny stream. Raises what the mechanism raises.

    Sequence models take a step on a few ids. Other mechanisms that learn are left out: they would be trained on streams
    that their options were not made for.
    """
    kinds: dict[tuple[Any, ...], MechanismConfig] = {}
    models: dict[tuple[Any, ...], SequenceConfig] = {}
    for config in map(load_mechanism, mechanisms):
        implementation = MECHANISMS.implementation(config.name)
        if isinstance(config, SequenceConfig):
            models.setdefault((config.name, config.precision), config)
        elif not implementation.trained:
            kinds.setdefault((config.name, implementation.group_key(config)), config)
    for model in models.values():
        from tasks.training import warm_up

        warm_up(model, dtype)
    evaluate(TinyStreams(None), list(kinds.values()), seed=0, episodes=1, dtype=dtype)


def warm_device(device: DeviceClass, mechanisms: Iterable[dict[str, Any]], dtype: str) -> None:
    """Run what `device` can run of `mechanisms` (identities) once on a tiny stream: its driver and kernels are loaded.

    Raises DeviceError if the device is not there, and what a mechanism raises.
    """
    from tasks.evaluate_device import evaluate_on

    kinds = {config.name: config for config in map(load_mechanism, mechanisms)}
    able = [
        config
        for config in kinds.values()
        if not MECHANISMS.implementation(config.name).trained and supports(config, device)
    ]
    evaluate_on(device, TinyStreams(None), able, seeds=[0], episodes=1, dtype=dtype)


def load_data(workloads: Iterable[dict[str, Any]]) -> None:
    """Make every workload once, which loads (and fetches) its data. Raises what the workload raises."""
    for workload in workloads:
        load_workload(workload)
