"""What a machine offers, and what it checks and says before it joins a cluster."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workers import gcs
from workers.devices import Offer, apple_model, nvidia_gpus, nvidia_model, this_machine_offers
from workers.gcs import Cluster, ClusterError, ClusterRequestError, split_address
from workers.join import NECESSARY, differences, not_told, our_versions, ray_environment, start_command, use_token_file


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("Tesla T4", "T4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA RTX A6000", "RTX-A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000"),
        ("NVIDIA GeForce RTX 4090", "GeForce-RTX-4090"),
        ("NVIDIA GeForce GTX 1080 Ti", "GeForce-GTX-1080-Ti"),
        ("NVIDIA TITAN RTX", "TITAN-RTX"),
        ("nonsense", "nonsense"),
    ],
)
def test_models_have_rays_names(name: str, model: str) -> None:
    from ray._private.accelerators.nvidia_gpu import NvidiaGPUAcceleratorManager

    assert nvidia_model(name) == model == NvidiaGPUAcceleratorManager._gpu_name_to_accelerator_type(name)


@pytest.mark.parametrize(
    ("brand", "model"), [("Apple M3 Max\n", "M3-Max"), ("Apple M4", "M4"), ("Intel(R) Core(TM) i9", None)]
)
def test_apples_chips_have_rays_names(brand: str, model: str | None) -> None:
    assert apple_model(brand) == model


def test_what_a_node_advertises() -> None:
    assert Offer(8).resources() == {}
    assert Offer(8, cuda=2, accelerator="H100", cuda_memory=160).resources() == {"cuda": 2, "cuda_memory": 160}
    assert Offer(8, mps=1, accelerator="M3-Max").resources() == {"mps": 1, "accelerator_type:M3-Max": 1}
    assert Offer(8, mps=1).devices == ("cpu", "mps")


def test_a_gpu_that_torch_was_not_built_for_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.devices.nvidia_gpus", lambda: (["NVIDIA H100 80GB HBM3"], 80))
    monkeypatch.setattr("importlib.metadata.version", lambda _: "2.13.0+cpu")
    offer = this_machine_offers(4)
    assert (offer.devices, offer.unusable) == (("cpu",), "torch 2.13.0+cpu is built for cpu")
    for build in ("2.13.0+cu130", "2.13.0"):
        monkeypatch.setattr("importlib.metadata.version", lambda _, build=build: build)
        assert this_machine_offers(4) == Offer(4, cuda=1, accelerator="H100", cuda_memory=80)


@pytest.mark.parametrize(
    ("shown", "names"),
    [
        (None, ["NVIDIA H200", "Tesla T4", "Tesla T4"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("1", ["Tesla T4"]),
        ("2, 0", ["Tesla T4", "NVIDIA H200"]),
        ("0,7,1", ["NVIDIA H200"]),
        ("GPU-bb22", ["Tesla T4"]),
        ("GPU-b,0", []),
        ("MIG-1", ["NVIDIA H200 MIG 1g.18gb"]),
        ("0,MIG-2", ["NVIDIA H200"]),
    ],
)
def test_only_gpus_that_cuda_shows_are_counted(
    monkeypatch: pytest.MonkeyPatch, shown: str | None, names: list[str]
) -> None:
    """Ray refuses to start with more of them; an ambiguous or unknown one ends the list, as it does for CUDA."""
    import pynvml

    chips = [("NVIDIA H200", 140, "GPU-aa11"), ("Tesla T4", 15, "GPU-bb22"), ("Tesla T4", 15, "GPU-bb33")]
    instances = {"MIG-1": ("NVIDIA H200 MIG 1g.18gb", 16, "MIG-1")}

    def instance(name: str) -> tuple[str, int, str]:
        if name not in instances:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return instances[name]

    for name, answer in {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: len(chips),
        "nvmlDeviceGetHandleByIndex": chips.__getitem__,
        "nvmlDeviceGetHandleByUUID": instance,
        "nvmlDeviceGetUUID": lambda chip: chip[2],
        "nvmlDeviceGetName": lambda chip: chip[0],
        "nvmlDeviceGetMemoryInfo": lambda chip: SimpleNamespace(total=chip[1] << 30),
    }.items():
        monkeypatch.setattr(pynvml, name, answer)
    if shown is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    memory = {chip[0]: chip[1] for chip in [*chips, *instances.values()]}
    assert nvidia_gpus() == (names, sum(memory[name] for name in names))


def test_a_mac_joins_with_its_gpu_as_mps_only(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster: Any = SimpleNamespace(address="10.0.0.1:6379", own_ip="10.0.0.7")
    command = start_command(cluster, Offer(10, mps=1, accelerator="M3-Max"), "one")
    assert "--num-gpus=0" in command
    assert '--resources={"mps": 1.0, "accelerator_type:M3-Max": 1.0}' in command
    monkeypatch.setattr("sys.platform", "darwin")
    assert ray_environment()["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "1"


def test_the_token_is_in_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret-of-the-environment")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "")
    token = tmp_path / "token"
    token.write_text("secret-of-the-file")
    use_token_file(token)
    cluster: Any = SimpleNamespace(address="10.0.0.1:6379", own_ip="10.0.0.7")
    assert "secret" not in " ".join(start_command(cluster, Offer(4), "one"))
    assert ray_environment()["RAY_AUTH_TOKEN_PATH"] == str(token)
    assert "RAY_AUTH_TOKEN" not in ray_environment(), "Ray would prefer it to the file"
    for bad in (tmp_path / "missing", tmp_path / "empty"):
        if bad.name == "empty":
            bad.write_text("\n")
        with pytest.raises(ClusterRequestError, match=f"token file {bad} "):
            use_token_file(bad)


def test_what_differs_is_said_exactly() -> None:
    ours = our_versions()
    assert differences(ours, ours, NECESSARY) == []
    assert differences(ours, {"python": ours["python"]}, NECESSARY) == [], "the head need not tell all"
    other = ours | {"ray": "2.99.0", "python": "3.12.1"}
    assert differences(ours, other, NECESSARY) == [
        f"python is {ours['python']} here and 3.12.1 on the head",
        f"ray is {ours['ray']} here and 2.99.0 on the head",
    ]
    assert not_told(ours) == ""
    assert not_told({"python": "3.12.1", "ray": "2.99.0"}) == "slotsweep"
    assert set(ours) >= set(NECESSARY)
    assert json.dumps(ours)


@pytest.mark.parametrize("address", ["nowhere", "ray://10.0.0.1:10001", "10.0.0.1", ":6379", "10.0.0.1:port"])
def test_addresses(address: str) -> None:
    with pytest.raises(ClusterRequestError, match="expected HOST:PORT"):
        split_address(address)


def test_a_head_that_is_not_there_is_named_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ClusterError, match=f"nothing answers at 127.0.0.1:{port}"):
        Cluster(f"127.0.0.1:{port}")


@pytest.mark.parametrize("says", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_what_listens_but_is_no_ray_is_named_soon(monkeypatch: pytest.MonkeyPatch, says: bytes) -> None:
    monkeypatch.setattr(gcs, "REACH_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            connection, _ = server.accept()
            connection.sendall(says)
            connection.recv(1000)
            time.sleep(1.0)
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(ClusterError, match=f"what listens at 127.0.0.1:{port} is no Ray cluster"):
            Cluster(f"127.0.0.1:{port}")
        assert time.monotonic() - began < 15.0
