"""Trainings on disk: where a long one stands, so that it can go on after its worker was interrupted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.training import Lane

EVERY = 30.0
"""Seconds of training between two saves: what an interruption costs at most. Shorter trainings are never saved."""


@dataclass
class SavedTraining:
    """The file of one training; None: nothing is saved. Whoever holds the same trials again finds it."""

    path: Path | None
    _last: float = field(default=0.0)

    @classmethod
    def of(cls, folder: Path | None, workload: str, lanes: Sequence[Lane], dtype: str) -> SavedTraining:
        """The file in `folder` of these lanes on `workload` (an identity)."""
        if folder is None:
            return cls(None)
        text = "\n".join([workload, dtype, *(lane.name for lane in lanes)])
        return cls(folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.pt")

    def save(self, seconds: float, state: Callable[[], dict[str, Any]]) -> None:
        """Save `state()` if `seconds` of training have passed since the last time. A full disk is no reason to stop."""
        if self.path is None or seconds - self._last < EVERY:
            return
        import torch

        self._last = seconds
        part = self.path.with_suffix(f".{os.getpid()}")
        with suppress(OSError, RuntimeError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(state(), part)
            part.replace(self.path)

    def load(self) -> dict[str, Any] | None:
        """What was saved last; None where nothing was. Raises what torch raises where that cannot be read."""
        if self.path is None or not self.path.exists():
            return None
        import torch

        state: dict[str, Any] = torch.load(self.path, map_location="cpu", weights_only=True)
        self._last = state["seconds"]
        return state

    def forget(self) -> None:
        """The training has ended."""
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()
                self.path.parent.rmdir()
