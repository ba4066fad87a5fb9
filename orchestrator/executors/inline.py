"""Everything in this process, one batch at a time: for debuggers, for tests, and where Ray is not wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from orchestrator.errors import PreparationError
from orchestrator.executors.base import Event, Finished, Lost, Refused, Shortage
from orchestrator.fleet import Demand, Node, Want, local_node, unmet
from orchestrator.kernel_cache import use_kernel_cache
from workers.batch import BatchTask
from workers.devices import Offer, this_machine_offers
from workers.hardware import this_machine
from workers.host import Preparation, WorkerCard, WorkerHost


class InlineExecutor:
    """This process is the worker: on the CPU, and on each device of this machine that trials name."""

    name = "inline"
    depth = 1
    scales = False

    def __init__(self, preparation: Preparation, kernels: Path) -> None:
        self._preparation = preparation
        self._kernels = kernels
        self._hosts: dict[str, WorkerHost] = {}
        self._tasks: deque[tuple[str, BatchTask]] = deque()
        self._refusals: list[Refused] = []

    def start(self, wants: AbstractSet[Want], given_up: Callable[[], bool]) -> Sequence[WorkerCard]:
        use_kernel_cache(self._kernels)
        node = self._node(this_machine_offers())
        cards = []
        self._refusals.clear()
        for device in dict.fromkeys(want.device for want in wants if node.meets(want)):
            try:
                host = WorkerHost(self._preparation, device, None if device == "cpu" else node.accelerator)
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                if device == "cpu":
                    raise PreparationError(why) from error
                self._refusals.append(Refused(device, f"a worker could not be started on {device}: {why}"))
                continue
            self._hosts[host.card.id] = host
            cards.append(host.card)
        if self._refusals and not cards:
            raise PreparationError("; ".join(refused.message for refused in self._refusals))
        return cards

    def grow(self, wants: AbstractSet[Want], waiting: Mapping[Want, int]) -> None:
        """The machine is what it is."""

    def shortage(self, demands: AbstractSet[Demand]) -> Shortage | None:
        there = [Want.of(host.card) for host in self._hosts.values()]
        short = frozenset(
            want.device for demand in demands if not any(want.met_by(there) for want in demand) for want in demand
        )
        if not short:
            return None
        offer = this_machine_offers()
        why = unmet(demands, [self._node(offer)], unusable=offer.unusable)
        return Shortage(why or "this process is no worker any more", absent=True, devices=short)

    def _node(self, offer: Offer) -> Node:
        return local_node(offer, {device: this_machine(device) for device in offer.devices})

    def rivals(self, worker: str) -> AbstractSet[str]:
        return self._hosts.keys() - {worker}

    def submit(self, worker: str, task: BatchTask) -> None:
        self._tasks.append((worker, task))

    def wait(self, seconds: float) -> list[Event]:
        if self._refusals:
            refusals, self._refusals = self._refusals, []
            return [*refusals]
        if not self._tasks:
            return []
        worker, task = self._tasks.popleft()
        return [Finished(worker, self._hosts[worker].run(task))]

    def kill(self, worker: str) -> Lost:
        return Lost(worker, self.dismiss(worker), "dropped")

    def dismiss(self, worker: str, *, for_good: bool = True) -> tuple[int, ...]:
        attempts = tuple(task.attempt for holder, task in self._tasks if holder == worker)
        self._tasks = deque((holder, task) for holder, task in self._tasks if holder != worker)
        self._hosts.pop(worker, None)
        return attempts

    def replace(self, worker: str) -> WorkerCard | None:
        return None

    def stop(self) -> None:
        self._tasks.clear()
        self._hosts.clear()
