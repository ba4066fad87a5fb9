"""States are as large as reading every token makes them, told from the first."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, cat, zeros

from models.sequence.model import State, state_bytes
from models.sequence.state_size import FEW, bytes_after
from tests.models.sequence.presets import build, config
from tests.models.sequence.test_sequence_contract import SIZE, VOCABULARY, every_model

LENGTH = 3 * FEW + 5
IDS = torch.arange(LENGTH) % VOCABULARY


def counted(model: Any, ids: Tensor = IDS) -> tuple[int, int, int]:
    """What `bytes_after` says, what reading all tokens gives, and how many tokens it read itself."""
    steps, step = [0], model.next

    def next_(*given: Any) -> Any:
        steps[0] += 1
        return step(*given)

    model.next = next_
    told = bytes_after(model, ids)
    taken, state = steps[0], model.start()
    with torch.no_grad():
        for id_ in ids:
            step(id_.view(1, 1), state)
    return told, state_bytes(state, 1), taken


@every_model
def test_few_tokens_tell_the_state_of_every_model(name: str, fields: dict[str, Any]) -> None:
    if config(name, **SIZE, **fields).leaks_future:
        pytest.skip("cannot read token by token")
    told, whole, taken = counted(build(config(name, **SIZE, **fields), VOCABULARY, LENGTH, (1,)).eval())
    assert told == whole
    uneven = fields.get("memory") in ("novelty", "learned", "surprise")
    assert taken <= FEW + 1 or uneven


class Holds:
    """Keeps what `after` says that it has after so many tokens, told by the tensor itself or by a count."""

    def __init__(self, most: int | None = None, every: int = 1, by_count: bool = False) -> None:
        self.most, self.every, self.by_count = most, every, by_count

    def start(self) -> State:
        return {"read": 0, "kept": [{"rows": zeros(1, 0, 2)}]}

    def next(self, ids: Tensor, state: State) -> None:
        own = state["kept"][0]
        state["read"] += 1
        if self.by_count and state["read"] != own["rows"].shape[1] + 1:
            raise IndexError("no row of that number")
        if state["read"] % self.every == 0:
            own["rows"] = cat([own["rows"], zeros(1, 1, 2)], 1)
        if self.most is not None:
            own["rows"] = own["rows"][:, -self.most :]


@pytest.mark.parametrize("length", [1, FEW, FEW + 1, FEW + 2, LENGTH])
@pytest.mark.parametrize(
    "model",
    [Holds(), Holds(4), Holds(FEW // 2 + 3), Holds(FEW), Holds(FEW + 7), Holds(every=3), Holds(by_count=True)],
)
def test_whatever_keeps_tokens(model: Any, length: int) -> None:
    told, whole, _ = counted(model, IDS[:length])
    assert told == whole
