"""What a trained model does, measured rather than believed: whether it looks ahead, and whether its two forms agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from models.stream import Ints

if TYPE_CHECKING:
    from torch import Tensor

    from models.sequence.model import SequenceModel
    from tasks.lane_reader import LaneReader

CHECKED = 128
"""Ids of the sequences that models are checked on, at most."""

STEPPED = 24
"""Of these so many are also read one by one, at most."""

CLEAR = 1e-3
"""Outputs that differ by more of the largest logit differ, whatever the rounding of 32 bits."""

SINGLE, DOUBLE = 1e-5, 1e-9
"""Rounding of logits in 32 and 64 bits, in parts of the largest. Between nothing and CLEAR, 64 bits decide: a look
ahead may be as faint as the rounding of a Fourier transform, 1e-6, but in 64 bits that is 1e-15."""

Doubled = Callable[[], "SequenceModel"]
"""Makes the same model in 64 bits, in evaluation on the CPU."""


def looks_ahead(reader: LaneReader, doubled: Doubled, vocabulary: int) -> bool:
    """Whether logits depend on ids that come later, on sequences of up to 128 ids, as the model is now.

    All ids from a place on are changed, for the second place, the middle and the last; logits before it must stay.
    """
    ids, places = _changed(min(reader.length, CHECKED), vocabulary)
    apart = _ahead(reader.logits(ids), places)
    if apart == 0.0 or apart > CLEAR:
        return apart > CLEAR
    exact = _in_double(doubled, lambda model: _ahead(_logits(model, ids), places))
    return apart > SINGLE if exact is None else exact > DOUBLE


def check_steps(reader: LaneReader, doubled: Doubled, vocabulary: int, name: str) -> None:
    """Raise ValueError where reading token by token gives other logits than reading whole sequences."""
    ids = _random_ids(min(reader.length, STEPPED), vocabulary)
    apart = _between_forms(reader.model, ids)
    if apart <= SINGLE:
        return
    exact = _in_double(doubled, lambda model: _between_forms(model, ids))
    if exact is None or exact > DOUBLE:
        raise ValueError(
            f"`{name}` read token by token gives other logits than read whole, by {apart:.1g} of the largest: its "
            "`next` computes another function than its `forward`, so that the size of its state tells nothing"
        )


def _changed(length: int, vocabulary: int) -> tuple[Ints, list[int]]:
    """A sequence, then the same with all ids changed from each of some places on [1 + P, T], and these places."""
    ids = _random_ids(length, vocabulary)
    places = sorted({1, length // 2, length - 1} - {0}) if length > 1 else []
    others = (ids + 1 + _random_ids(length, max(1, vocabulary - 1), 1)) % vocabulary
    return np.stack([ids, *(np.where(np.arange(length) < place, ids, others) for place in places)]), places


def _random_ids(length: int, vocabulary: int, seed: int = 0) -> Ints:
    return np.random.default_rng(seed).integers(vocabulary, size=length)


def _ahead(logits: Tensor, places: list[int]) -> float:
    """The largest difference before `places` between the first of the sequences [1 + P, T, V] and each other one."""
    gaps = [
        float((logits[0, :place] - other[:place]).abs().max()) for place, other in zip(places, logits[1:], strict=True)
    ]
    return _share(max(gaps, default=0.0), logits)


def _between_forms(model: SequenceModel, ids: Ints) -> float:
    """The largest difference between the logits of `ids` [T] read one by one and read whole."""
    import torch

    device = next(model.parameters()).device
    tokens, state = torch.from_numpy(ids).to(device), model.start()
    with torch.no_grad():
        whole = model(tokens[None, None])[0, 0]
        stepped = torch.stack([model.next(id_.view(1, 1), state)[0, 0] for id_ in tokens])
    return _share(float((stepped - whole).abs().max()), whole)


def _share(apart: float, logits: Tensor) -> float:
    """In parts of the largest of `logits`; numbers that are not finite differ from nothing: they are told elsewhere."""
    size = float(logits.abs().max())
    return apart / size if np.isfinite(size) and size > 0.0 else 0.0


def _logits(model: SequenceModel, ids: Ints) -> Tensor:
    import torch

    with torch.no_grad():
        logits: Tensor = model(torch.from_numpy(ids)[None])[0]
    return logits


def _in_double(doubled: Doubled, measure: Callable[[SequenceModel], float]) -> float | None:
    """What `measure` gives of the model in 64 bits; None where it knows 32 alone, as one that makes tensors itself."""
    try:
        return measure(doubled())
    except (RuntimeError, TypeError):
        return None
