"""Batches that wait for workers that can run them."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from models.devices.device import DEVICE_CLASSES, DeviceClass
from orchestrator.batching import Batch
from orchestrator.fleet import Demand, Want
from orchestrator.store.records import Pending
from orchestrator.waiting import WaitingBatches

CPU: Demand = frozenset({Want("cpu")})
CUDA: Demand = frozenset({Want("cuda")})
BOTH = CPU | CUDA


def waiting(*batches: list[Demand]) -> WaitingBatches:
    """Batches of trials that each can run on some workers; a trial's cell says which."""
    able: dict[int, Demand] = {}
    made: list[Batch] = []
    for batch in batches:
        first = len(able)
        able.update(enumerate(batch, first))
        made.append(Batch({}, tuple(Pending(cell, cell, cell, 0) for cell in range(first, len(able)))))

    def read() -> Iterator[Batch]:
        return iter(made)

    return WaitingBatches(read, able.__getitem__)


def taken(batches: WaitingBatches, device: DeviceClass) -> list[list[int]]:
    found = []
    while (batch := batches.next(Want(device))) is not None:
        found.append([trial.trial for trial in batch.trials])
    return found


def test_a_batch_goes_whole_to_who_can_run_all_of_it() -> None:
    """On a cluster without accelerators, trials that share streams stay together."""
    assert taken(waiting([BOTH, CPU, BOTH], [CPU]), "cpu") == [[0, 1, 2], [3]]


def test_who_can_run_a_part_gets_that_part() -> None:
    batches = waiting([BOTH, CPU, BOTH], [CPU])
    assert taken(batches, "cuda") == [[0, 2]]
    assert batches.set_aside == {CPU}
    assert taken(batches, "cpu") == [[1], [3]]
    assert batches.set_aside == set()


def test_what_nobody_can_run_is_named() -> None:
    batches = waiting([CUDA], [CPU])
    assert taken(batches, "cpu") == [[1]]
    assert batches.set_aside == {CUDA}
    batches.start_over()
    assert batches.set_aside == set()


def test_urgent_batches_come_first_but_only_to_who_can_run_them() -> None:
    batches = waiting([CPU], [CUDA])
    urgent = batches.next(Want("cuda"))
    assert urgent is not None
    batches.hasten(urgent)
    assert taken(batches, "cpu") == [[0]]
    assert taken(batches, "cuda") == [[1]]


def test_a_model_and_a_machine_that_trials_name_are_kept_to() -> None:
    """What was measured on a machine is all that is stored under its name."""
    here, elsewhere = frozenset({Want("cpu", machine="a")}), frozenset({Want("cuda", "T4", "b")})
    batches = waiting([here, elsewhere], [here])
    for wrong in (Want("cpu"), Want("cpu", machine="b"), Want("cuda", "T4", "a"), Want("cuda", "H100", "b")):
        assert batches.next(wrong) is None
    assert batches.set_aside == {here, elsewhere}
    found = [batches.next(worker) for worker in (Want("cpu", "none", "a"), Want("cuda", "t4", "b"))]
    assert [[trial.trial for trial in batch.trials] for batch in found if batch is not None] == [[0], [1]]


def test_batches_are_counted_without_being_handed_out() -> None:
    batches = waiting([CUDA], [CPU, BOTH], [CPU], [CPU])
    assert batches.count(Want("cpu"), 2) == 2, "more are not read"
    assert batches.set_aside == {CUDA, CPU, BOTH}
    assert (batches.count(Want("cpu"), 9), batches.count(Want("cuda"), 9)) == (3, 2)
    assert taken(batches, "cpu") == [[1, 2], [3], [4]]
    assert (batches.count(Want("cpu"), 9), batches.count(Want("cuda"), 9)) == (0, 1)


demands = st.sets(st.sampled_from([Want(device) for device in DEVICE_CLASSES]), min_size=1).map(frozenset)


@given(st.lists(st.lists(demands, min_size=1, max_size=4), max_size=6), st.lists(st.sampled_from(DEVICE_CLASSES)))
def test_every_trial_is_handed_out_once_and_right(cells: list[list[Demand]], order: list[DeviceClass]) -> None:
    batches = waiting(*cells)
    able = [one for batch in cells for one in batch]
    seen: list[int] = []
    for device in order:
        batches.count(Want(device), 2)
        batch = batches.next(Want(device))
        trials = [trial.trial for trial in batch.trials] if batch is not None else []
        assert all(Want(device) in able[trial] for trial in trials)
        seen += trials
    for device in DEVICE_CLASSES:
        seen += [trial for batch in taken(batches, device) for trial in batch]
    assert sorted(seen) == list(range(len(able)))
