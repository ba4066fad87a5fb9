"""Grouping a sweep's pending trials into batches: trials that share streams, up to a target cost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from models.config import canonical_json
from models.mechanism import MECHANISMS
from orchestrator.plan import is_trained, trains_together
from orchestrator.store.records import CellRow, Pending
from tasks.workload import WORKLOADS, WorkloadConfig
from workers.batch import load_mechanism

PAGE = 4096
TARGET_SECONDS = 0.4
ACCELERATOR_TARGET_SECONDS = 4.0
MANY_TRIALS = 500
MOST_TRIALS = 2000
"""A batch ends after TARGET_SECONDS or MANY_TRIALS, but a seed's trials are split only beyond MOST_TRIALS. Batches that
are for an accelerator only are larger, in seconds of a CPU: it takes as many streams at once as its memory holds, and
launching kernels costs it the same for few trials as for many."""

STREAM_SECONDS = 2e-4
TOKEN_SECONDS = 2.5e-7
PAIR_SECONDS = 2.5e-9
MADE_SECONDS = 3e-6
CHUNKED_SECONDS = 1e-5
"""Rough costs of a stream, of a token read by one memory, and of one pair of tokens compared; and, of streams that are
read in chunks, of a token made and of one read. Only batch sizes, and estimates without measured costs, depend on
them."""


@dataclass(frozen=True)
class Batch:
    """Pending trials that run in one call; all read streams of one workload config."""

    cells: Mapping[int, CellRow]
    trials: tuple[Pending, ...]


def batches(
    pending: Callable[[int, int], list[Pending]], cells: Mapping[int, CellRow], *, by_seed: bool = False
) -> Iterator[Batch]:
    """Batches over `pending(after position, limit)`, read page by page, in plan order.

    A mechanism that is trained has batches of its own, with as many of its seeds as there are: they train together. A
    sequence model does so on accelerators alone: on CPUs each of its trials has a batch, and so a core, of its own.

    by_seed: whether each seed has batches of its own, except where seeds train together

    `cells` may grow meanwhile; it holds the cells of a page by the time `pending` returns it.
    """
    groups: dict[int, str] = {}
    costs: dict[str, tuple[float, float]] = {}
    together: dict[int, bool] = {}
    alone: dict[int, bool] = {}
    batch: list[Pending] = []
    seconds, limit = 0.0, MOST_TRIALS
    for trial in _paged(pending):
        if trial.cell not in groups:
            groups[trial.cell] = stream_group(cells[trial.cell])
            costs[groups[trial.cell]] = guessed_costs(cells[trial.cell])
            together[trial.cell] = trains_together(cells[trial.cell])
            alone[trial.cell] = trains_alone(cells[trial.cell])
        group = groups[trial.cell]
        per_stream, per_trial = costs[group]
        new_stream = not batch or trial.seed != batch[-1].seed
        target = TARGET_SECONDS if cells[trial.cell].device in ("cpu", "any") else ACCELERATOR_TARGET_SECONDS
        apart = by_seed and not together[trial.cell]
        full = apart or seconds >= target or len(batch) >= MANY_TRIALS
        limit = min(limit, trial.batch_limit or MOST_TRIALS, 1 if alone[trial.cell] else MOST_TRIALS)
        crowded = (full and new_stream) or len(batch) >= limit
        if batch and (crowded or groups[batch[-1].cell] != group):
            yield Batch(cells, tuple(batch))
            batch, seconds, limit = [], 0.0, trial.batch_limit or MOST_TRIALS
        seconds += per_trial + (per_stream if new_stream else 0.0)
        batch.append(trial)
    if batch:
        yield Batch(cells, tuple(batch))


def batches_of(trials: Iterable[Pending], cells: Mapping[int, CellRow]) -> Iterator[Batch]:
    """Batches over `trials` as they are listed."""
    pages = iter([list(trials)])
    return batches(lambda _after, _limit: next(pages, []), cells)


def shuffled(batches: Iterable[Batch]) -> list[Batch]:
    """The batches in an order that is random, but always the same: it follows from what they read and their seeds.

    Where time is measured, this keeps a machine that grows slower with time from passing for a cost that grows with the
    size of streams, which the plan goes through in order.
    """
    return sorted(batches, key=_draw)


def _draw(batch: Batch) -> str:
    first = batch.trials[0]
    return hashlib.sha256(f"{stream_group(batch.cells[first.cell])} {first.seed}".encode()).hexdigest()


def _paged(pending: Callable[[int, int], list[Pending]]) -> Iterator[Pending]:
    position = -1
    while page := pending(position, PAGE):
        yield from page
        position = page[-1].position


def stream_group(cell: CellRow) -> str:
    """What cells have in common whose trials may share a batch: models and memories never do, whatever they read."""
    reads_ids = MECHANISMS.implementation(cell.mechanism["name"]).reads_ids
    alone = _shape(cell) if trains_together(cell) else None
    return canonical_json([cell.workload, cell.episodes, cell.dtype, cell.device, reads_ids, alone])


def _shape(cell: CellRow) -> object:
    """What cells have in common whose trials train as one: everything but the learning rate of a sequence model."""
    implementation = MECHANISMS.implementation(cell.mechanism["name"])
    if not implementation.reads_ids:
        return cell.digest
    return [cell.fingerprint, *implementation.group_key(load_mechanism(cell.mechanism))]


def trains_alone(cell: CellRow) -> bool:
    """Whether each trial of a cell has a batch of its own: see `orchestrator.plan.trains_together`."""
    return is_trained(cell) and cell.machine is None and not trains_together(cell)


def guessed_costs(cell: CellRow) -> tuple[float, float]:
    """Guessed seconds for the streams of one seed, and for one trial that reads them."""
    if is_trained(cell):
        return 0.0, 0.0
    tokens = stream_tokens(cell.workload)
    config = stream_config(cell.workload)
    if WORKLOADS.implementation(config.name).is_long(config):
        return cell.episodes * MADE_SECONDS * tokens, cell.episodes * CHUNKED_SECONDS * tokens
    return (
        cell.episodes * (STREAM_SECONDS + PAIR_SECONDS * tokens * tokens),
        cell.episodes * TOKEN_SECONDS * tokens,
    )


def stream_tokens(workload: Mapping[str, object]) -> int:
    """Tokens in one stream of a workload, given as an identity."""
    config = stream_config(workload)
    return WORKLOADS.implementation(config.name).tokens(config)


def stream_config(workload: Mapping[str, object]) -> WorkloadConfig:
    """The config of a workload, given as an identity. Reads no data."""
    config = WORKLOADS.config_class(str(workload["name"])).model_validate(workload)
    assert isinstance(config, WorkloadConfig)
    return config
