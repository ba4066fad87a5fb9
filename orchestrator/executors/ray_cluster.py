"""Batches on Ray: persistent workers on every node of a local Ray, or of the cluster that RAY_ADDRESS names."""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from typing import Any

from models.devices.device import DeviceClass
from orchestrator import code_snapshot
from orchestrator.code_snapshot import CodeSnapshot, unpack_code
from orchestrator.errors import ExecutorError
from orchestrator.executors.base import Event, Finished, Joined, Leaving, Lost, Refused, Shortage
from orchestrator.executors.placing import Openings, Place, places
from orchestrator.executors.ray_preparing import PLUGIN_SECONDS, Preparer
from orchestrator.executors.ray_reserving import Reservations
from orchestrator.executors.ray_scaling import GpuNode, NodeRequests, bundle, requests
from orchestrator.executors.ray_session import (
    dead_local_processes,
    free_resources,
    ray_nodes,
    session_logs,
    start_ray,
    tell_machine,
)
from orchestrator.executors.ray_worker import worker_class
from orchestrator.fleet import Demand, Node, Want, unmet
from orchestrator.settings import Settings
from workers.batch import BatchTask
from workers.devices import this_machine_offers
from workers.host import Preparation, WorkerCard
from workers.log_capture import worker_log_tail

MOST_STARTS = 2
"""Times a worker may fail to start at one place."""

NODE_SECONDS = 1.0
"""How long the cluster may take to notice that a lost worker's whole node is gone."""

ORDERLY = ("preempted", "terminated", "drained")
"""Ends of a node that somebody wanted: its batches go back freely."""


@dataclass(frozen=True)
class _Worker:
    actor: Any
    place: Place
    card: WorkerCard

    @property
    def want(self) -> Want:
        """What it is for."""
        return Want.of(self.card)


class RayExecutor:
    """Starts (or joins) Ray while the kernels compile in a process beside it, then places workers on its nodes.

    With `alone` each node is held whole, with one worker a device class, and those of a node compute one after another:
    nothing disturbs what they measure, and nobody else's workers are placed there meanwhile. `stand_ins` are the
    devices that compute in place of classes that a cluster of fake nodes only pretends to have. `tell` is told what
    takes long before the first worker is there; mechanisms of plug-ins are tried for `plugin_seconds` at most.
    """

    name = "ray"
    depth = 2

    def __init__(
        self,
        preparation: Preparation,
        code: CodeSnapshot,
        settings: Settings,
        *,
        alone: bool,
        tell: Callable[[str], None] = lambda _: None,
        plugin_seconds: float = PLUGIN_SECONDS,
        stand_ins: Mapping[DeviceClass, DeviceClass] | None = None,
    ) -> None:
        self._alone = alone
        self._tell = tell
        self._plugin_seconds = plugin_seconds
        self.scales = settings.autoscales
        self._preparation = preparation
        self._code = code
        self._settings = settings
        self._stand_ins = stand_ins or {}
        self._workers: dict[str, _Worker] = {}
        self._held: dict[Any, tuple[str, int]] = {}
        self._starting: dict[Any, tuple[Any, Place]] = {}
        self._failures: Counter[Place] = Counter()
        self._closed: set[Place] = set()
        self._leaving: set[str] = set()
        self._left: dict[str, Place] = {}
        self._events: list[Event] = []
        self._nodes: dict[str, Node] = {}
        self._reservations = Reservations()
        self._requests = NodeRequests()
        self._wants: AbstractSet[Want] = frozenset()
        self._waiting: Mapping[Want, int] = {}

    # -- the fleet ---------------------------------------------------------------------------------------------------

    def start(self, wants: AbstractSet[Want], given_up: Callable[[], bool]) -> Sequence[WorkerCard]:
        preparer = Preparer(self._code, self._settings, given_up, self._tell, self._plugin_seconds)
        self._preparation = preparer.prepare(self._preparation, lambda: start_ray(self._settings))
        if given_up():
            return []
        import ray

        self._archive = ray.put(self._code.archive)
        self._read_nodes()
        self._staff(wants, dict.fromkeys(wants, math.inf))
        cards: list[WorkerCard] = []
        refusal = None
        while self._starting and not cards and not given_up():
            for event in self._greet(0.25):
                if isinstance(event, Joined):
                    cards.append(event.card)
                elif isinstance(event, Refused):
                    refusal = event.message
        if not cards and refusal is not None:
            raise ExecutorError(refusal)
        return cards

    def grow(self, wants: AbstractSet[Want], waiting: Mapping[Want, int]) -> None:
        if dead_local_processes():  # `wait` tells
            return
        self._read_nodes()
        for worker, there in list(self._workers.items()):
            node = self._nodes[there.place.node]
            if node.gone is not None:
                self._events.append(self._lost(worker, f"its node is gone: {node.gone}"))
            elif node.leaving and worker not in self._leaving:
                self._leaving.add(worker)
                self._events.append(Leaving(worker, f"node {node.name} is about to leave"))
        self._waiting = waiting
        self._staff(wants, waiting if self.scales else dict.fromkeys(wants, math.inf))
        if self.scales:
            needed = [want for want, count in waiting.items() if count and bundle(want)]
            self._requests.update({want: self._lacking(want) for want in needed})

    def _lacking(self, want: Want) -> int:
        """How much to ask for where more batches wait for `want` than workers hold; nothing while some are starting."""
        if self._is_starting(want):
            return 0
        there = [worker.place for worker in self._workers.values() if want.met_by([worker.want])]
        return requests(self._waiting[want], len(there), sum(place.devices or 1.0 for place in there))

    def _is_starting(self, want: Want) -> bool:
        """Whether a worker is starting that may be one for `want`."""
        places = [place for _, place in self._starting.values() if place.device == want.device]
        return any(self._nodes[place.node].meets(want) for place in places)

    def _read_nodes(self) -> None:
        found = ray_nodes(with_machines=self._alone)
        if self.scales and not self._alone:
            found = {key: GpuNode(**vars(node)) if node.cuda else node for key, node in found.items()}
        self._nodes |= found

    def shortage(self, demands: AbstractSet[Demand]) -> Shortage | None:
        nodes = list(self._nodes.values())
        absent = [demand for demand in demands if not any(node.meets(want) for node in nodes for want in demand)]
        unserved = absent or [demand for demand in demands if not any(map(self._served, demand))]
        if not unserved:
            return None
        short = frozenset(want for demand in unserved for want in demand)
        devices = frozenset(want.device for want in short)
        if absent:
            unusable = None if self._settings.ray_address else this_machine_offers().unusable
            asked = "; its autoscaler is asked for machines" if self.scales and any(map(bundle, short)) else ""
            return Shortage(f"{unmet(absent, nodes, unusable=unusable)}{asked}", absent=True, devices=devices)
        return Shortage(self._why_taken(short, nodes), absent=False, devices=devices)

    def _why_taken(self, short: AbstractSet[Want], nodes: Sequence[Node]) -> str:
        wanted = " or ".join(sorted(map(str, short)))
        if not self._alone:
            return f"every place on {wanted} is taken by others"
        able = [node for node in nodes if any(map(node.meets, short))]
        busy = [node for node in able if not self._reservations.held(node.id)]
        why = "others compute on each" if busy else "no worker could be started on any"
        names = ", ".join(node.name for node in busy or able)
        return f"times are measured on whole nodes, and {why} with {wanted}: {names}"

    def _served(self, want: Want) -> bool:
        """Whether there is a worker for `want`, or one is starting that may be, or nothing waits for one yet."""
        there = [worker.want for worker in self._workers.values()]
        return want.met_by(there) or self._is_starting(want) or (self.scales and not self._waiting.get(want))

    def rivals(self, worker: str) -> AbstractSet[str]:
        if not self._alone:
            return frozenset()
        node = self._workers[worker].place.node
        return {other for other, there in self._workers.items() if there.place.node == node and other != worker}

    def _staff(self, wants: AbstractSet[Want], wanted: Mapping[Want, float]) -> None:
        """Start workers in places that have none, as many as are `wanted`, as far as others have left room for them."""
        self._wants = wants
        free, openings = free_resources(), Openings(wanted)
        for _, place in self._starting.values():
            openings.take(place, self._nodes[place.node])
        in_use = self._nodes_in_use()
        for node in sorted(self._nodes.values(), key=lambda node: node.id not in in_use):  # so that others may end
            room = dict(free.get(node.id, node.whole))
            vacant = self._vacant(node)
            if self._alone:
                self._staff_whole(node, vacant, room, openings)
                continue
            for place in vacant:
                if not openings.allow(place, node):
                    continue
                cpus = place.cpus if place.device == "cpu" else min(place.cpus, int(room.get("CPU", 0)))
                needed = {"CPU": float(cpus), **place.resources(node)}
                if any(room.get(name, 0.0) < amount - 1e-6 for name, amount in needed.items()):
                    continue
                room.update({name: room.get(name, 0.0) - amount for name, amount in needed.items()})
                openings.take(place, node)
                self._start_worker(place, cpus)

    def _nodes_in_use(self) -> set[str]:
        starting = [place for _, place in self._starting.values()]
        return {place.node for place in [*starting, *(worker.place for worker in self._workers.values())]}

    def _vacant(self, node: Node) -> list[Place]:
        found = places(node, self._wants, alone=self._alone)
        return [place for place in found if place not in self._taken() and self._failures[place] < MOST_STARTS]

    def _staff_whole(self, node: Node, vacant: Sequence[Place], room: Mapping[str, float], openings: Openings) -> None:
        """Start workers in the `vacant` places of a node that is held; give it back if it has no worker."""
        allowed = [place for place in vacant if openings.allow(place, node)]
        if allowed and self._reservations.hold(node, room):
            for place in allowed:
                openings.take(place, node)
                self._start_worker(place, place.cpus)
        if node.id not in self._nodes_in_use():
            self._reservations.release(node.id)

    def _taken(self) -> set[Place]:
        starting = {place for _, place in self._starting.values()}
        return {worker.place for worker in self._workers.values()} | starting | self._closed

    def _start_worker(self, place: Place, cpus: int) -> Any:
        """Start a worker at `place`; the reference to its card."""
        import ray

        # By value: to import it, a worker would import our package, which then keeps its siblings unpinned beside it.
        ray.cloudpickle.register_pickle_by_value(code_snapshot)
        node = self._nodes[place.node]
        options: dict[str, Any] = {"num_cpus": cpus, "max_restarts": 0, "max_task_retries": 0}
        if resources := place.resources(node):
            options["resources"] = resources
        if place.device == "cuda" and node.gpus:  # Ray then shows the worker its own devices
            options["num_gpus"] = place.devices
        remote = ray.remote(**options)(worker_class())
        actor = remote.options(scheduling_strategy=self._strategy(place.node)).remote(
            self._archive,
            self._code.digest,
            (self._code.commit, self._code.dirty),
            str(self._settings.home),
            unpack_code,
            asdict(self._preparation),
            ("", os.getcwd(), os.path.dirname(os.path.realpath(sys.argv[0]))),
            {
                "device": place.device,
                "accelerator": place.accelerator,
                "stand_in": self._stand_ins.get(place.device),
                "share": min(1.0, place.devices) if place.device == "cuda" else 1.0,
            },
        )
        hello = actor.card.remote()
        self._starting[hello] = (actor, place)
        return hello

    def _strategy(self, node: str) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return self._reservations.strategy(node) if self._alone else NodeAffinitySchedulingStrategy(node, soft=False)

    def _greet(self, seconds: float) -> list[Event]:
        """Workers that are ready, and those that will never be, waiting up to `seconds` for the first."""
        import ray

        if dead := dead_local_processes():
            raise ExecutorError(f"Ray's process `{dead[0]}` died while a worker was started")
        ready, _ = ray.wait(list(self._starting), num_returns=1, timeout=seconds)
        return [event for hello in ready for event in self._welcome(hello)]

    def _welcome(self, hello: Any) -> list[Event]:
        """What became of a worker that was started: it has joined, or is started again, or is given up."""
        import ray

        actor, place = self._starting.pop(hello)
        try:
            card = WorkerCard(**ray.get(hello))
        except ray.exceptions.RayError as error:
            self._failures[place] += 1
            where = self._nodes[place.node].name
            if self._failures[place] < MOST_STARTS and not dead_local_processes() and self._usable(place.node):
                self._start_worker(place, place.cpus)
                return []
            return [Refused(place.device, f"a worker could not be started on {where}: {_short(error)}")]
        found = _Worker(actor, place, card)
        if self._alone:
            self._learn_machine(place.node, card)
            if not any(want.met_by([found.want]) for want in self._wants):  # its machine is another
                ray.kill(actor, no_restart=True)
                return []
        self._workers[card.id] = found
        return [Joined(card)]

    def _learn_machine(self, node: str, card: WorkerCard) -> None:
        """Know what kind of machine a node is, by what a worker says that has started there."""
        there = self._nodes[node]
        if card.machine is not None and there.machines.get(card.device) != card.machine:
            tell_machine(node, card.device, card.machine)
            self._nodes[node] = replace(there, machines={**there.machines, card.device: card.machine})

    def _usable(self, node: str) -> bool:
        self._read_nodes()
        return self._nodes[node].usable

    # -- batches -----------------------------------------------------------------------------------------------------

    def submit(self, worker: str, task: BatchTask) -> None:
        self._held[self._workers[worker].actor.run.remote(task)] = (worker, task.attempt)

    def wait(self, seconds: float) -> list[Event]:
        import ray

        if self._events:
            events, self._events = self._events, []
            return events
        if not self._held and not self._starting:
            return []
        if dead := dead_local_processes():
            message = f"Ray's process `{dead[0]}` died"
            self._starting.clear()
            return [Lost(worker, self._drop(worker), message) for worker in list(self._workers)]
        waiting = [*self._held, *self._starting]
        ready, _ = ray.wait(waiting, num_returns=1, timeout=seconds)
        if ready and len(waiting) > 1:
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        found: list[Event] = []
        for reference in ready:
            if reference in self._starting:
                found += self._welcome(reference)
            elif reference in self._held:  # else its worker was lost with an earlier reference
                found.append(self._take(reference))
        return found

    def _take(self, reference: Any) -> Event:
        import ray

        worker, _ = self._held[reference]
        try:
            report = ray.get(reference)
        except ray.exceptions.OutOfMemoryError as error:
            return self._lost(worker, _short(error), "out_of_memory")
        except ray.exceptions.RayError as error:
            return self._lost(worker, _short(error))
        del self._held[reference]
        return Finished(worker, report)

    def _lost(self, worker: str, message: str, reason: str = "worker_lost") -> Lost:
        there = self._workers[worker]
        end = self._end_of(there.place.node)
        if end in ORDERLY or worker in self._leaving:
            reason, message = "preempted", f"node {self._nodes[there.place.node].name} left: {end or 'told to go'}"
        log = worker_log_tail(there.card.pid, session_logs())
        return Lost(worker, self._drop(worker), message, reason, tuple(log))

    def _end_of(self, node: str) -> str | None:
        """Why a node is gone; None if it is still there after a moment, and only the worker is lost."""
        deadline = time.monotonic() + (NODE_SECONDS if self._settings.ray_address else 0.0)
        while True:
            if self._nodes[node].gone is not None:
                return self._nodes[node].gone
            self._read_nodes()
            if self._nodes[node].gone is None and time.monotonic() >= deadline:
                return None
            time.sleep(0.1)

    def _drop(self, worker: str) -> tuple[int, ...]:
        """Forget a worker; the attempts it held, in the order in which it was handed them."""
        held = [reference for reference, (holder, _) in self._held.items() if holder == worker]
        there = self._workers.pop(worker, None)
        if there is not None:
            self._left[worker] = there.place
        self._leaving.discard(worker)
        return tuple(self._held.pop(reference)[1] for reference in held)

    def kill(self, worker: str) -> Lost:
        there = self._workers.get(worker)
        log = worker_log_tail(-1 if there is None else there.card.pid, session_logs())
        return Lost(worker, self._end(worker), "killed", log=tuple(log))

    def dismiss(self, worker: str, *, for_good: bool = True) -> tuple[int, ...]:
        there = self._workers.get(worker)
        held = self._end(worker)
        if there is not None:
            del self._left[worker]
            if for_good:
                self._closed.add(there.place)
        return held

    def _end(self, worker: str) -> tuple[int, ...]:
        import ray

        if worker in self._workers:  # else it was lost this moment
            ray.kill(self._workers[worker].actor, no_restart=True)
        return self._drop(worker)

    def replace(self, worker: str) -> WorkerCard | None:
        place = self._left.pop(worker)
        if dead_local_processes() or place in self._taken() or not self._usable(place.node):
            return None
        if self._alone and not self._reservations.held(place.node):
            return None
        import ray

        self._requests.withdraw()  # the place is for its next worker
        hello = self._start_worker(place, place.cpus)
        try:
            while hello in self._starting:
                if dead_local_processes():
                    return None
                if ray.wait([hello], timeout=0.25)[0]:
                    for event in self._welcome(hello):
                        if isinstance(event, Joined):
                            return event.card
                        self._events.append(event)
        except ExecutorError:
            pass
        return None

    def stop(self) -> None:
        import ray

        self._workers.clear()
        self._held.clear()
        self._starting.clear()
        self._events.clear()
        self._failures.clear()
        self._closed.clear()
        self._leaving.clear()
        self._nodes.clear()
        self._reservations.forget()
        self._requests.forget()
        if ray.is_initialized():
            ray.shutdown()


def _short(error: Exception) -> str:
    """The last line of an error: Ray's messages run over many."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
