"""The actor that is a worker on Ray."""

from __future__ import annotations

from typing import Any


def worker_class() -> type:
    """The actor's class. It is local, hence sent by value: nothing of ours is imported before our path stands first."""

    class BatchWorker:
        def __init__(
            self,
            archive: bytes,
            digest: str,
            checkout: tuple[str | None, bool | None],
            home: str,
            unpack: Any,
            preparation: dict[str, Any],
            driver_folders: tuple[str, ...],
            place: dict[str, Any],
        ) -> None:
            import os
            import sys

            os.environ["NUMBA_CACHE_DIR"] = f"{home}/kernels"
            commit, dirty = checkout
            if commit is not None and dirty is not None:  # as `workers.hardware` reads it: an archive has no `.git`
                os.environ["SLOTSWEEP_GIT"] = f"{commit} {'dirty' if dirty else 'clean'}"
            # Ray puts these first, but a numpy.py in somebody's working directory is not numpy.
            sys.path.sort(key=lambda path: path in driver_folders)
            sys.path.insert(0, str(unpack(archive, digest, f"{home}/code")))
            from workers.host import Preparation, WorkerHost

            self.host = WorkerHost(Preparation(**preparation), **place)

        def card(self) -> dict[str, Any]:
            from dataclasses import asdict

            return asdict(self.host.card)

        def run(self, task: Any) -> Any:
            return self.host.run(task)

    return BatchWorker
