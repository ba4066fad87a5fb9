"""Workers that share a GPU: each packs its batches into its own share of the memory."""

from __future__ import annotations

import pytest
import torch

from models.devices.device import batch_memory, take_share

GIB = 2**30


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """A GPU of 80 GiB whose bookkeeping is in the test's hands."""
    state = {"free": 78.0 * GIB, "allocated": 0.0, "reserved": 0.0, "share": 1.0}
    for name, answer in {
        "mem_get_info": lambda: (int(state["free"]), 80 * GIB),
        "memory_allocated": lambda: int(state["allocated"]),
        "memory_reserved": lambda: int(state["reserved"]),
        "get_per_process_memory_fraction": lambda: state["share"],
        "set_per_process_memory_fraction": lambda share: state.update(share=share),
    }.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    return state


def test_a_worker_alone_may_take_half_of_what_is_free(gpu: dict[str, float]) -> None:
    assert batch_memory("cuda") == 39 * GIB
    gpu.update(free=58 * GIB, allocated=5 * GIB, reserved=20 * GIB)
    assert batch_memory("cuda") == (58 + 15) * GIB // 2, "what torch keeps without need is free"


def test_one_that_shares_keeps_to_its_share_however_much_is_free(gpu: dict[str, float]) -> None:
    """Three workers that start at once all see 78 GiB free."""
    take_share(0.25)
    assert batch_memory("cuda") == 10 * GIB
    gpu.update(allocated=12 * GIB, reserved=14 * GIB)
    assert batch_memory("cuda") == 4 * GIB
    gpu.update(free=1 * GIB)
    assert batch_memory("cuda") == 3 * GIB // 2, "others took more than theirs"
    gpu.update(allocated=21 * GIB, reserved=21 * GIB)
    assert batch_memory("cuda") == 0
