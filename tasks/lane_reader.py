"""One trained sequence model as workloads ask it: for logits, what follows a prompt, and how large its state is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from models.devices.device import DeviceClass
from models.stream import Ints

if TYPE_CHECKING:
    from torch import Tensor

    from models.sequence.model import SequenceModel


class LaneReader:
    """A model of one lane; see `tasks.sequences.Reader`."""

    def __init__(
        self,
        model: SequenceModel,
        device: DeviceClass,
        length: int,
        precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.model, self.device, self.length, self.precision = model.eval(), device, length, precision

    def logits(self, ids: Ints, at: Ints | None = None) -> Tensor:
        import torch

        with torch.no_grad(), self.precision():
            places = None if at is None else torch.from_numpy(at).to(self.device)
            logits: Tensor = self.model(torch.from_numpy(ids).to(self.device)[None], places)[0]
        return logits.float()

    def greedy(self, ids: Ints, count: int, stops: frozenset[int]) -> list[list[int]]:
        outputs: list[list[int]] = [[] for _ in ids]
        running = np.ones(len(ids), dtype=bool)
        for _ in range(count):
            seen = np.ascontiguousarray(ids[:, -self.length :])
            following = self.logits(seen, np.array([seen.shape[1] - 1]))[:, 0].argmax(1).cpu().numpy()
            for row, id_ in enumerate(following.tolist()):
                running[row] &= id_ not in stops
                if running[row]:
                    outputs[row].append(id_)
            if not running.any():
                break
            ids = np.concatenate([ids, following[:, None]], axis=1)
        return outputs

    def state_bytes(self, vocabulary: int) -> int:
        """Bytes that reading token by token keeps after a sequence of full length."""
        import torch

        from models.sequence.state_size import bytes_after

        return bytes_after(self.model, torch.arange(self.length, device=self.device) % vocabulary)
