"""How large a state is after a long sequence, from its first tokens: to read them all would take a step for each."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from torch import Tensor, no_grad

from models.sequence.model import state_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from models.sequence.model import SequenceModel, State

FEW = 16
"""Tokens that are read one by one; what the last half of them does to shapes is taken for what every later one does."""

Shapes = list[tuple[int, ...]]


def bytes_after(model: SequenceModel, ids: Tensor) -> int:
    """Bytes of the state of one lane after one sequence `ids` [T].

    Tensors that are as large after each of the last tokens read stay so. Those that grow by as much with each are made
    as long as all tokens but the last would make them, and then read that one: if it adds as much, so did all. Where it
    does not (a window has a most that it holds), or growth is uneven, all tokens are read.
    """
    if len(ids) <= FEW:
        return state_bytes(_read(model, ids), 1)
    state, shapes = model.start(), []
    with no_grad():
        for id_ in ids[:FEW]:
            model.next(id_.view(1, 1), state)
            shapes.append([tuple(part.shape) for part in _tensors(state)])
    steps = [_step(*pair) for pair in zip(shapes[FEW // 2 :], shapes[FEW // 2 + 1 :], strict=False)]
    if steps[0] is not None and all(step == steps[0] for step in steps):
        if not any(map(any, steps[0])):
            return state_bytes(state, 1)
        long = _stretched(state, iter(steps[0]), len(ids) - 1 - FEW)
        with suppress(RuntimeError, IndexError, KeyError, ValueError), no_grad():  # it minds how many it has read
            model.next(ids[-1].view(1, 1), long)
            wanted = [_sum(*both, len(ids) - FEW) for both in zip(shapes[-1], steps[0], strict=True)]
            if [tuple(part.shape) for part in _tensors(long)] == wanted:
                return state_bytes(long, 1)
    return state_bytes(_read(model, ids), 1)


def _read(model: SequenceModel, ids: Tensor) -> State:
    state = model.start()
    with no_grad():
        for id_ in ids:
            model.next(id_.view(1, 1), state)
    return state


def _tensors(state: Any) -> Iterator[Tensor]:
    """All tensors in a state, always in the same order."""
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, dict | list | tuple):
        for part in state.values() if isinstance(state, dict) else state:
            yield from _tensors(part)


def _step(before: Shapes, after: Shapes) -> Shapes | None:
    """What one token added to each shape; None where tensors came, went, or grew in more than one direction."""
    if [len(shape) for shape in before] != [len(shape) for shape in after]:
        return None
    added = [tuple(b - a for a, b in zip(*both, strict=True)) for both in zip(before, after, strict=True)]
    grows_one_way = all(sum(map(bool, one)) <= 1 and min(one, default=0) >= 0 for one in added)
    return added if grows_one_way else None


def _sum(shape: tuple[int, ...], step: tuple[int, ...], times: int) -> tuple[int, ...]:
    return tuple(size + times * more for size, more in zip(shape, step, strict=True))


def _stretched(state: Any, steps: Iterator[tuple[int, ...]], times: int) -> Any:
    """A state whose tensors are as large as after so many more tokens, by repeating what they begin with."""
    if isinstance(state, Tensor):
        step = next(steps)
        for dim, more in enumerate(step):
            if more:
                size = state.shape[dim] + times * more
                return state.narrow(dim, 0, 1).repeat_interleave(size, dim)
        return state
    if isinstance(state, dict):
        return {name: _stretched(part, steps, times) for name, part in state.items()}
    if isinstance(state, list | tuple):
        parts = [_stretched(part, steps, times) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    return state
