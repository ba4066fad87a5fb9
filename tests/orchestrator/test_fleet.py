"""Nodes, what trials want of them, and which workers a node gets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ExecutorError, RequestError
from orchestrator.executors.placing import places
from orchestrator.fleet import Node, Want, check_local, local_node, nodes_of, same_model, unmet
from orchestrator.machines import commonest_machine
from tests.orchestrator.specs import SMALL
from workers.devices import Offer
from workers.gcs import FRAME_HEADER_BYTES, HTTP2_PREFACE

H100 = Node("a", "big", 16, cuda=2, gpus=2, accelerator="H100", cuda_memory=160)
T4 = Node("b", "small", 4, cuda=1, gpus=1, accelerator="T4", cuda_memory=15)
MAC = Node("c", "mac", 10, mps=1, accelerator="M3-Max")
PLAIN = Node("d", "plain", 8)
HIDDEN = Node("e", "hidden", 8, gpus=4, accelerator="A100")
EVERY = {Want("cpu"), Want("cuda"), Want("mps")}


def record(**more: Any) -> dict[str, Any]:
    return {"NodeID": "x", "Alive": True, "NodeManagerHostname": "host", "NodeManagerAddress": "10.0.0.2", **more}


def test_a_node_is_read_from_what_it_advertises() -> None:
    resources = {"CPU": 16.0, "GPU": 2.0, "cuda": 2.0, "cuda_memory": 160.0, "accelerator_type:H100": 1.0}
    [node] = nodes_of([record(Resources=resources)])
    assert node == replace(H100, id="x", name="host")
    [leaving] = nodes_of([record(Resources={"CPU": 4.0})], ["x"])
    assert (leaving.cpus, leaving.state, leaving.usable) == (4, "leaving", False)
    [gone] = nodes_of([record(Resources={}, Alive=False, DeathReason=3)])
    assert (gone.state, gone.usable) == ("preempted", False)


@pytest.mark.parametrize(
    ("want", "nodes", "said"),
    [
        (Want("cuda"), [PLAIN], ["no worker offers cuda; there is plain: 8 cores", "nearest offer: `device: cpu`"]),
        (Want("cuda"), [PLAIN, MAC], ["mac: 10 cores, mps x 1 (M3-Max)", "nearest offer: `device: mps`"]),
        (Want("mps"), [H100], ["big: 16 cores, cuda x 2 (H100)", "nearest offer: `device: cuda`"]),
        (Want("cuda", "H100"), [T4, MAC], ["no worker offers cuda on H100", "nearest offer: `accelerator: T4`"]),
        (Want("cuda"), [HIDDEN], ["GPU x 4, which its node does not offer as `cuda`", "the GPU of hidden"]),
        (Want("cuda"), [replace(H100, gone="crashed")], ["the cluster has no node", "slotsweep worker --join"]),
        (Want("cuda"), [replace(H100, leaving=True)], ["leaving"]),
    ],
)
def test_what_is_missing_is_told_with_what_there_is_and_the_nearest_offer(
    want: Want, nodes: list[Node], said: list[str]
) -> None:
    told = unmet([frozenset({want})], nodes)
    assert told is not None
    assert all(part in told for part in said), told


def test_what_is_there_is_not_missing() -> None:
    demands = [frozenset({Want("cuda", "h100")}), frozenset({Want("mps"), Want("cpu")})]
    assert unmet(demands, [H100]) is None
    assert unmet([frozenset({Want("cuda")})], [local_node(Offer(4, cuda=1, accelerator="T4"))]) is None
    told = unmet([frozenset({Want("cuda")})], [local_node(Offer(4))], unusable="torch is built for cpu")
    assert "its GPU cannot be used: torch is built for cpu" in str(told)


@pytest.mark.parametrize(
    ("written", "advertised", "same"),
    [
        ("RTX 4090", "GeForce-RTX-4090", True),
        ("NVIDIA GeForce RTX 4090", "GeForce-RTX-4090", True),
        ("rtx4090", "GeForce-RTX-4090", True),
        ("RTX A6000", "RTX-A6000", True),
        ("m3 max", "M3-Max", True),
        ("H100", "H100", True),
        ("RTX 4070", "GeForce-RTX-4070-Laptop-GPU", False),
        ("GTX 1080", "GeForce-GTX-1080-Ti", False),
        ("H100", "H200", False),
        ("M3", "M3-Max", False),
        ("H100", None, False),
    ],
)
def test_models_may_be_written_as_people_write_them(written: str, advertised: str | None, same: bool) -> None:
    assert same_model(written, advertised) is same
    assert Want("cuda", written).met_by([Want("cuda", advertised)]) is same


def test_times_of_one_machine_are_wanted_from_its_nodes() -> None:
    """A node that does not tell may be of that kind: its workers will say."""
    want, twin = Want("cpu", machine="a" * 32), replace(PLAIN, machines={"cpu": "a" * 32})
    other = replace(PLAIN, machines={"cpu": "b" * 32, "cuda": "a" * 32})
    assert [node.meets(want) for node in (twin, PLAIN, other)] == [True, True, False]
    told = unmet([frozenset({want})], [other])
    assert told == (
        "no worker offers cpu of machine aaaaaaaa; there is plain: 8 cores, machine bbbbbbbb; its times are of one "
        "kind of machine: submit the spec again to measure on one that is there"
    )


def test_a_timed_sweep_is_for_the_machine_of_most_nodes() -> None:
    kinds = [replace(PLAIN, id=str(number), machines={"cpu": kind}) for number, kind in enumerate("abbca")]
    assert commonest_machine([*kinds, PLAIN], "cpu") == "b", "of two with as many, always the same"
    assert commonest_machine([*kinds, kinds[0]], "cpu") == "a"
    with pytest.raises(ExecutorError, match="plain did not tell what machine measures times on cpu"):
        commonest_machine([PLAIN], "cpu")


def kinds(node: Node, wants: set[Want] = EVERY, *, alone: bool = False) -> dict[str, int]:
    found = [place.device for place in places(node, wants, alone=alone)]
    return {device: found.count(device) for device in dict.fromkeys(found)}


def test_a_node_gets_workers_for_its_gpus_and_for_the_cores_left() -> None:
    assert kinds(H100) == {"cuda": 6, "cpu": 10}  # three workers share 80 GiB
    assert kinds(T4) == {"cuda": 1, "cpu": 3}
    assert kinds(MAC) == {"mps": 1, "cpu": 9}
    assert kinds(HIDDEN) == {"cpu": 8}
    assert kinds(H100, {Want("cuda", "T4"), Want("cpu")}) == {"cpu": 16}
    assert kinds(H100, {Want("cuda")}) == {"cuda": 6}
    assert kinds(replace(H100, leaving=True)) == {}
    assert kinds(H100, alone=True) == {"cuda": 1, "cpu": 1}
    assert kinds(MAC, alone=True) == {"mps": 1, "cpu": 1}, "which are rivals: one computes at a time"


def test_a_whole_node_is_all_that_it_offers() -> None:
    assert H100.whole == {"CPU": 16, "GPU": 2, "cuda": 2, "cuda_memory": 160}
    assert MAC.whole == {"CPU": 10, "mps": 1}


@given(
    st.builds(
        Node,
        st.just("n"),
        st.just("n"),
        st.integers(0, 64),
        cuda=st.integers(0, 8),
        mps=st.integers(0, 1),
        cuda_memory=st.none() | st.integers(1, 1000),
    ),
    st.sets(st.sampled_from(sorted(EVERY, key=str))),
    st.booleans(),
)
def test_workers_fit_on_their_node(node: Node, wants: set[Want], alone: bool) -> None:
    found = places(node, wants, alone=alone)
    assert len(set(found)) == len(found), "places are told apart"
    assert sum(place.cpus for place in found) <= node.cpus
    for device in ("cuda", "mps"):
        taken = [place for place in found if place.device == device]
        assert sum(place.devices for place in taken) <= node.count(device) + 1e-3 * node.count(device)
        assert bool(taken) == (node.count(device) > 0 and Want(device) in wants)
    memory = sum(place.resources(node).get("cuda_memory", 0.0) for place in found)
    assert memory <= (node.cuda_memory or 0) * (1 + 1e-3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["worker", "--join", "nohost"], "expected HOST:PORT"),
        (["worker", "--join", "127.0.0.1:1", "--token-file", "no-such-file"], "no-such-file cannot be read"),
        (["workers"], "RAY_ADDRESS: `nonsense` is no address of a Ray cluster"),
    ],
)
def test_wrong_requests_exit_with_2(slotsweep: Callable[..., Any], arguments: list[str], said: str) -> None:
    ran = slotsweep(*arguments, RAY_ADDRESS="nonsense")
    assert ran.code == 2
    assert said in ran.err


@pytest.fixture
def greets() -> Iterator[str]:
    """The address of what speaks HTTP/2, as a cluster's head does, and no more."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    server.accept()[0].sendall(HTTP2_PREFACE[-FRAME_HEADER_BYTES:])

        threading.Thread(target=answer, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("command", [["worker", "--join", "HEAD"], ["workers"], ["run", "sweep.yaml"]])
def test_a_token_that_is_not_there_is_said_before_rays_client_aborts(
    slotsweep: Callable[..., Any], tmp_path: Path, greets: str, command: list[str]
) -> None:
    (tmp_path / "sweep.yaml").write_text(SMALL)
    (tmp_path / ".ray").mkdir()
    empty = tmp_path / ".ray" / "auth_token"
    command = [greets if word == "HEAD" else word for word in command]
    named = str(tmp_path / "none")
    for environment, said in [
        ({"RAY_AUTH_TOKEN_PATH": named}, f"the token file {named} cannot be read"),
        ({"RAY_AUTH_MODE": "token"}, f"the token file {empty} cannot be read"),
        ({"RAY_AUTH_MODE": "token"}, f"the token file {empty} is empty"),
    ]:
        ran = slotsweep(*command, HOME=str(tmp_path), RAY_ADDRESS=greets, **environment)
        assert (ran.code, said in ran.err) == (2, True), ran.err
        if environment.keys() == {"RAY_AUTH_MODE"}:
            empty.touch()


def test_a_local_ray_makes_a_token_of_its_own_unless_a_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nosuch")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    check_local()
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/nosuch")
    with pytest.raises(RequestError, match="the token file /nosuch cannot be read"):
        check_local()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    check_local()
