"""A cluster on Kubernetes: a RayCluster for the KubeRay operator, and the service beside it."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from typing import Any

from orchestrator.cluster import service_manifests
from orchestrator.cluster.node_types import CLOUDS, NodeType, node_types
from orchestrator.cluster.options import MOST_GPUS, ClusterOptions, GpuCount
from orchestrator.cluster.pods import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    command,
    home_mount,
    home_volume,
    labels,
    metadata,
    probe,
    ray_environment,
    size,
)
from orchestrator.cluster.ray_cluster import RayCluster
from orchestrator.errors import RequestError
from workers.devices import CPU_NODE

Tree = dict[str, Any]

PRODUCTS = {
    "T4": ["Tesla-T4"],
    "L4": ["NVIDIA-L4"],
    "A10G": ["NVIDIA-A10G"],
    "A100": ["NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB"],
    "H100": ["NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe"],
}
"""What NVIDIA's feature discovery writes on nodes (label nvidia.com/gpu.product) that have a model."""

KEPT_CPUS = 1
"""Logical CPUs of a node that pods leave to the kubelet and to what runs on every node."""

CPU_MEMORY = 1536
"""MiB of memory that a pod takes for each of its CPUs: nodes have 2 GiB and more of each, and keep some."""

GPU_CPUS, GPU_MEMORY = 3, 11
"""Logical CPUs and GiB of memory of a pod with one GPU: what is left of the smallest nodes, of 4 CPUs and 15 GiB."""

TOP = """
The Ray cluster: a head without trials, and workers that come as they are needed. Written by
`slotsweep cluster render kuberay`; it takes the KubeRay operator 1.4 or newer (helm install kuberay-operator).

Nodes pull images of docker/Dockerfile (VARIANT=cpu and cuda) from where --image says: with what their registry wants.
A CPU pod has a node of --cpus CPUs and 2 GiB for each, but for what that keeps; a GPU pod one of 4 CPUs and 15 GiB.
Nodes with GPUs need NVIDIA's device plugin and feature discovery (the GPU operator brings both).
Apply secret.yaml, made from secret.example.yaml, and service.yaml first: the home is there.
"""


def files(options: ClusterOptions) -> dict[str, tuple[str, list[Tree]]]:
    """`kuberay/ray-cluster.yaml`, and the manifests of the service. Raises RequestError for options that do not fit."""
    groups = [_cpu_group(options)] * (options.workers > 0) + _gpu_groups(options)
    options.most(group["maxReplicas"] for group in groups)
    tree = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": metadata(options, options.name, "ray"),
        "spec": {
            "rayVersion": version("ray"),
            "enableInTreeAutoscaling": True,
            "autoscalerOptions": {
                "idleTimeoutSeconds": 60 * options.idle_minutes,
                "upscalingMode": "Default",
                "env": ray_environment(options),
                "securityContext": CONTAINER_SECURITY,
                "resources": size("250m", "1Gi"),
            },
            "headGroupSpec": _head(options),
            "workerGroupSpecs": groups,
        },
    }
    RayCluster.model_validate(tree)
    return {"kuberay/ray-cluster.yaml": (TOP, [tree]), **service_manifests.files(options)}


def _pod(options: ClusterOptions, component: str, container: Tree, **more: Any) -> Tree:
    whole = {
        "env": ray_environment(options),
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [home_mount()],
        **container,
    }
    spec = {
        "automountServiceAccountToken": component == "ray-head",  # the autoscaler beside the head asks Kubernetes
        "securityContext": POD_SECURITY,
        "terminationGracePeriodSeconds": 40,
        "containers": [whole],
        "volumes": [home_volume(options)],
        **more,
    }
    return {"metadata": {"labels": labels(options, component)}, "spec": spec}


def _head(options: ClusterOptions) -> Tree:
    container = {
        "name": "ray-head",
        "image": options.images("cpu"),
        "ports": [{"name": "gcs", "containerPort": 6379}],
        "resources": size("1", "4Gi"),
        "startupProbe": probe(5, 60, tcpSocket={"port": 6379}),
        "readinessProbe": probe(10, 6, tcpSocket={"port": 6379}),
        "livenessProbe": probe(10, 6, **command("slotsweep-health", "raylet")),
    }
    params = {"num-cpus": "0", "num-gpus": "0", "include-dashboard": "false"}
    return {"serviceType": "ClusterIP", "rayStartParams": params, "template": _pod(options, "ray-head", container)}


def _group(name: str, most: int, params: dict[str, str], template: Tree) -> Tree:
    return {
        "groupName": name,
        "replicas": 0,
        "minReplicas": 0,
        "maxReplicas": most,
        "rayStartParams": params,
        "template": template,
    }


def _quoted(resources: dict[str, int]) -> str:
    """Custom resources as Ray is told of them; the shell that starts it takes the quotes."""
    return f"'{json.dumps(resources)}'"


def _worker(image: str, resources: Tree) -> Tree:
    return {
        "name": "ray-worker",
        "image": image,
        "resources": resources,
        "startupProbe": probe(5, 60, **command("slotsweep-health", "raylet")),
        "readinessProbe": probe(10, 6, **command("slotsweep-health", "raylet")),
        "livenessProbe": probe(10, 6, **command("slotsweep-health", "raylet")),
    }


def _cpu_group(options: ClusterOptions) -> Tree:
    cpus = options.cpus - KEPT_CPUS
    if cpus < 1:
        raise RequestError(f"--cpus {options.cpus}: a node keeps {KEPT_CPUS} for itself")
    resources = size(str(cpus), f"{cpus * CPU_MEMORY}Mi")
    template = _pod(options, "ray-worker", _worker(options.images("cpu"), resources))
    params = {"num-cpus": str(cpus), "resources": _quoted({CPU_NODE: 1})}
    return _group("cpu", options.workers, params, template)


def _gpu_groups(options: ClusterOptions) -> list[Tree]:
    known = {one.gpu: one for cloud in CLOUDS for one in reversed(node_types()[cloud].types.values()) if one.gpu}
    asked = options.chosen_gpus(list(PRODUCTS))
    if asked is None:
        asked = [GpuCount(model=model, count=MOST_GPUS) for model in PRODUCTS]
    groups = []
    for one in asked:
        machine = known[one.model]
        pod = NodeType(**{**machine.model_dump(), "gpus": 1, "cpus": GPU_CPUS})
        groups.append(_gpu_group(options, one.count, pod))
    return groups


def _gpu_group(options: ClusterOptions, most: int, pod: NodeType) -> Tree:
    """Pods with one GPU each, on nodes that have the model."""
    model = str(pod.gpu)
    term = {"key": "nvidia.com/gpu.product", "operator": "In", "values": PRODUCTS[model]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    resources = size(str(pod.cpus), f"{GPU_MEMORY}Gi", **{"nvidia.com/gpu": "1"})
    template = _pod(
        options,
        "ray-worker",
        _worker(options.images("cuda"), resources),
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    )
    params = {"num-cpus": str(pod.cpus), "num-gpus": "1", "resources": _quoted(pod.custom_resources)}
    return _group(re.sub(r"\W", "", model.lower()), most, params, template)
