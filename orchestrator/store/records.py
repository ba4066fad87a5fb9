"""Plain records that go into the store and come out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from orchestrator.code_snapshot import CodeSnapshot
from tasks.devices import AskedDevice
from tasks.search import ProposalState


@dataclass(frozen=True)
class NewSweep:
    """A sweep as submitted.

    spec   its canonical JSON form, from which it can run without the file
    code   what its workers will run, whatever is edited meanwhile
    fingerprints   of that code, for the cells that it will propose (see `orchestrator.plan.Plan`); None: none
    """

    name: str
    kind: str
    spec: dict[str, Any]
    spec_text: str
    spec_path: str | None
    code: CodeSnapshot
    software: dict[str, Any]
    use_cache: bool = True
    priority: int = 0
    infrastructure_retries: int = 3
    code_retries: int = 0
    user: str | None = None
    fingerprints: dict[str, str] | None = None


@dataclass(frozen=True)
class CellRow:
    """A trial without its seed, as stored. `digest` is its identity; `machine` is named where times are measured."""

    digest: str
    kind: str
    workload: dict[str, Any]
    mechanism: dict[str, Any]
    episodes: int
    dtype: str
    device: AskedDevice
    fingerprint: str
    machine: str | None = None


@dataclass(frozen=True)
class CellCost:
    """What finished trials of a cell took on workers of one device class.

    Seconds are those in which the worker had a processor: what else the machine did is not counted.

    attempts             batches that they ran in
    wall_seconds         of a trial, median; own_seconds: the part that is no share of streams read together, None:
                         unknown
    peak_memory_bytes    largest; device_memory_bytes: the same of a device's own memory
    result_bytes         that a result's metrics and series take as JSON, mean
    """

    cell: CellRow
    device: str
    trials: int
    attempts: int
    wall_seconds: float
    own_seconds: float | None
    peak_memory_bytes: int | None
    device_memory_bytes: int | None = None
    result_bytes: float | None = None


@dataclass(frozen=True)
class StreamCost:
    """What was done once for all trials that read the streams of one seed, `seconds` in the median of `runs` times.

    cell: one of those that read them
    """

    cell: CellRow
    device: str
    runs: int
    seconds: float


@dataclass(frozen=True)
class RunCost:
    """What a command that had workers took.

    start   seconds from its beginning to its first batch
    trials  it computed
    beside  seconds after that, until the report was drawn and the tracker had heard of everything, that its workers'
            share of computing does not explain; None where this cannot be told
    """

    start: float
    trials: int
    beside: float | None


@dataclass(frozen=True)
class CrewSeen:
    """Workers of one device class on `machines`, last seen at `last_seen` (seconds since the epoch)."""

    device: str
    workers: int
    machines: int
    last_seen: float


@dataclass(frozen=True)
class Submitted:
    """A sweep's id and what became of its trials at submission."""

    sweep: str
    trials: int
    reused: int


@dataclass(frozen=True)
class Pending:
    """A trial that waits to be computed: its place in the sweep, its row, its cell's row and its seed.

    batch_limit: most trials a batch with it may have, after larger ones ran out of memory or time; None: any number
    """

    position: int
    trial: int
    cell: int
    seed: int
    batch_limit: int | None = None


@dataclass(frozen=True)
class WaitingCell:
    """A cell (a row) with `trials` of a sweep that wait, at positions from `first` to `last`."""

    cell: int
    first: int
    last: int
    trials: int


@dataclass(frozen=True)
class SweepTrial:
    """A trial that a sweep asks for: its place, row, cell's row, seed, state, and what came back when it is done."""

    position: int
    trial: int
    cell: int
    seed: int
    state: str
    metrics: dict[str, float] | None = None


@dataclass(frozen=True)
class ProposalRow:
    """A proposal of a study (numbered within its sweep), as stored.

    batch       proposals of one batch were made together
    attributes  what the sampler must have at hand to go on
    cell        its digest; None where the params make no config, see `error`
    same_as     the number of an earlier proposal with the same cell
    seeds       how many of the sweep's seeds it was judged by; None: it is open or failed
    best        whether no other of its study is better, once all are known
    """

    study: int
    number: int
    batch: int
    params: dict[str, Any]
    attributes: dict[str, Any]
    cell: str | None
    same_as: int | None = None
    enqueued: bool = False
    state: ProposalState = "open"
    error: str | None = None
    seeds: int | None = None
    best: bool = False


@dataclass(frozen=True)
class Verdict:
    """What became of a proposal; see `ProposalRow`."""

    state: ProposalState = "open"
    error: str | None = None
    seeds: int | None = None


@dataclass(frozen=True)
class Claim:
    """Trials (rows) of a sweep that a worker is to compute together."""

    sweep: str
    trials: tuple[int, ...]
    worker: str


@dataclass(frozen=True)
class Lease:
    """Trials held by one attempt. `attempt` is the fencing token: it only grows."""

    attempt: int
    trials: tuple[int, ...]


@dataclass(frozen=True)
class TrialResult:
    """What a worker reports of one trial: metrics (and series of numbers), or one reason and a message.

    own_seconds          the part of wall_seconds that is not its share of streams read together; None where unknown
    peak_memory_bytes    the worker's while the trial ran, and those that were computed in one call with it
    energy_joules        its share, by time, of what the processor or GPU took for its batch; None where it cannot be
                         read, see energy_reason
    energy_reason        why this trial has none though its worker has a counter
    device_memory_bytes  most memory taken on an accelerator, as peak_memory_bytes; None on a CPU and where it cannot
                         be read
    """

    trial: int
    metrics: dict[str, float] | None
    reason: str | None
    message: str
    started: float
    finished: float
    wall_seconds: float
    cpu_seconds: float | None
    peak_memory_bytes: int | None
    series: dict[str, list[float]] = field(default_factory=dict)
    energy_joules: float | None = None
    energy_reason: str | None = None
    device_memory_bytes: int | None = None
    own_seconds: float | None = None


@dataclass(frozen=True)
class AttemptReport:
    """What a worker reports of an attempt, with the last lines that it wrote.

    second_opinion: trials that fail get one more try whatever their budget, as the worker may be at fault
    """

    attempt: int
    worker: str
    results: tuple[TrialResult, ...]
    log: str | None = None
    second_opinion: bool = False


@dataclass(frozen=True)
class StoredTrial:
    """One trial as stored, and a sweep that asked for it.

    device   class of the device that computed it; None if none has
    metrics  None unless it is done
    """

    key: str
    sweep: str
    cell: CellRow
    seed: int
    state: str
    reason: str | None
    device: str | None
    metrics: dict[str, float] | None


@dataclass(frozen=True)
class AttemptRow:
    """One execution of a batch, as stored. `log` holds the last lines its worker wrote."""

    id: int
    worker: str | None
    state: str
    reason: str | None
    trials: int
    stale: int
    started: float
    finished: float | None
    log: str | None


@dataclass(frozen=True)
class WorkerRow:
    """A worker as stored: what its agreement probe found, its machine's flat record, what it holds and has done."""

    id: str
    device: str
    state: str
    executor: str
    pid: int
    started: float
    last_seen: float
    agreement: dict[str, Any] | None
    record: dict[str, Any]
    batches: int
    trials: int
    done: int


@dataclass(frozen=True)
class Accepted:
    """What `accept` did with a report: trials done, failed for good, sent back to pending, and dropped as stale."""

    done: int = 0
    failed: int = 0
    retried: int = 0
    stale: int = 0


@dataclass(frozen=True)
class Counts:
    """A sweep's trials by state."""

    pending: int = 0
    leased: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        """All trials of the sweep."""
        return self.pending + self.leased + self.done + self.failed + self.cancelled

    @property
    def open(self) -> int:
        """Trials that still have to be computed."""
        return self.pending + self.leased


@dataclass(frozen=True)
class SweepRow:
    """A sweep as stored, with its trials counted."""

    id: str
    name: str
    kind: str
    state: str
    priority: int
    spec: dict[str, Any]
    spec_text: str
    spec_path: str | None
    code: str
    use_cache: bool
    infrastructure_retries: int
    code_retries: int
    trials: int
    reused: int
    software: dict[str, Any]
    user: str | None
    created: float
    started: float | None
    finished: float | None
    report: str | None
    fingerprints: dict[str, str] | None
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True)
class Notice:
    """Something the tracker must hear of: a trial's outcome, or (trial None) a change of the sweep itself."""

    id: int
    sweep: str
    trial: int | None
    position: int | None
