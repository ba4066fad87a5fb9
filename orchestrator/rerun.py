"""Running one stored trial again, here: whether the same comes back, and what its memory did."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from models.devices.device import DeviceClass
from models.mechanism import MECHANISMS
from orchestrator.errors import RequestError, StoreError
from orchestrator.kernel_cache import use_kernel_cache
from orchestrator.pinned import load_pinned_plugins
from orchestrator.plan import code_fingerprint
from orchestrator.settings import Settings
from orchestrator.store.records import StoredTrial
from orchestrator.store.store import Store
from tasks.kind import KINDS

if TYPE_CHECKING:
    from tasks.replay import Replay


@dataclass(frozen=True)
class Rerun:
    """A trial that was run again.

    metrics   what came back; None if it failed, with `reason` and `message`
    differs   names of the stored metrics that came back otherwise, those that measure time and memory left out; None if
              nothing is stored to compare with
    edited    whether the code that computes it was edited since
    episode   which of its streams `replay` tells of; replay: None where its mechanism reads no keys and values
    """

    trial: StoredTrial
    metrics: dict[str, float] | None
    reason: str | None
    message: str
    differs: tuple[str, ...] | None
    edited: bool
    episode: int
    replay: Replay | None

    def as_json(self) -> dict[str, Any]:
        """The contract of `trial --json`."""
        cell = asdict(self.trial.cell)
        return {
            "key": self.trial.key,
            "sweep": self.trial.sweep,
            "state": self.trial.state,
            "seed": self.trial.seed,
            "device": self.trial.device,
            **{name: cell[name] for name in ("kind", "workload", "mechanism", "episodes", "dtype")},
            "stored": self.trial.metrics,
            "metrics": self.metrics,
            "reason": self.reason,
            "message": self.message,
            "differs": None if self.differs is None else list(self.differs),
            "edited": self.edited,
            "episode": self.episode,
            "replay": None if self.replay is None else asdict(self.replay),
        }


def rerun(store: Store, settings: Settings, key: str, episode: int) -> Rerun:
    """Run the trial whose key begins with `key` in this process, on the device class that computed it.

    Nothing is stored. Raises RequestError if there is no such trial, its device is not here, or it has no stream number
    `episode`.
    """
    try:
        trial = store.trial(key)
    except StoreError as error:
        raise RequestError(str(error)) from error
    cell = trial.cell
    if not 0 <= episode < cell.episodes:
        raise RequestError(f"trial {trial.key} has the episodes 0 to {cell.episodes - 1}; there is no {episode}")
    load_pinned_plugins(store, store.sweep(trial.sweep), settings.home / "code")
    use_kernel_cache(settings.kernels)
    device = _device_here(trial)
    outcome = _computed(trial, device)
    differs = None
    if trial.metrics is not None and outcome.metrics is not None:
        differs = _differing(cell.kind, trial.metrics, outcome.metrics)
    return Rerun(
        trial=trial,
        metrics=outcome.metrics,
        reason=outcome.reason,
        message=outcome.message,
        differs=differs,
        edited=code_fingerprint(cell.kind, cell.workload["name"], cell.mechanism["name"], cell.device)
        != cell.fingerprint,
        episode=episode,
        replay=_replayed(trial, episode) if outcome.metrics is not None else None,
    )


def _device_here(trial: StoredTrial) -> DeviceClass:
    from workers.devices import this_machine_offers

    device = trial.device or trial.cell.device
    offered = this_machine_offers().devices
    if device == "any":
        return offered[0]
    if device not in offered:
        raise RequestError(f"trial {trial.key} was computed on {device}; this machine has {', '.join(offered)}")
    return device


def _computed(trial: StoredTrial, device: DeviceClass) -> Any:
    """The trial's outcome, computed alone."""
    from workers.batch import BatchTask, run_batch

    cell = trial.cell
    task = BatchTask(
        attempt=0,
        kind=cell.kind,
        workload=cell.workload,
        mechanisms=(cell.mechanism,),
        trials=((0, trial.seed, 0),),
        episodes=cell.episodes,
        dtype=cell.dtype,
        device=device,
    )
    [report] = run_batch(task).trials
    return report.outcome


def _differing(kind: str, stored: dict[str, float], now: dict[str, float]) -> tuple[str, ...]:
    from tasks.comparing import compared_metrics

    if KINDS.implementation(kind).measures_time:
        return ()
    names = compared_metrics([*stored, *now])
    return tuple(name for name in names if stored.get(name) != now.get(name))


def _replayed(trial: StoredTrial, episode: int) -> Replay | None:
    from tasks.replay import replay
    from tasks.workload import Workload
    from workers.batch import load_mechanism, load_workload

    implementation = MECHANISMS.implementation(trial.cell.mechanism["name"])
    workload = load_workload(trial.cell.workload)
    if implementation.reads_ids or implementation.reads_lines or not isinstance(workload, Workload):
        return None
    if workload.is_long(workload.config):
        return None
    return replay(workload, load_mechanism(trial.cell.mechanism), trial.seed, episode, trial.cell.dtype)
