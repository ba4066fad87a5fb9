"""A cluster on Google's Compute Engine, for `ray up`."""

from __future__ import annotations

from typing import Any

from orchestrator.cluster import ray_up
from orchestrator.cluster.checks import region_of
from orchestrator.cluster.node_types import NodeType, node_types
from orchestrator.cluster.options import ClusterOptions

HEAD_TYPE = "e2-standard-2"
DISK_GB = 200

DISK_TYPE = "pd-balanced"
"""All these machines take it; Google's default, pd-standard, is refused by C3, G2 and A3."""

MACHINE_IMAGE = "projects/deeplearning-platform-release/global/images/family/common-cu128-ubuntu-2204-nvidia-570"
"""Ubuntu with Docker, NVIDIA's driver and its container toolkit."""

ATTACHED = {"T4": "nvidia-tesla-t4"}
"""GPUs that are attached to a machine, by Google's names; others come with the machine type."""


def files(options: ClusterOptions) -> dict[str, tuple[str, list[dict[str, Any]]]]:
    """`gcp.yaml`."""
    types = node_types()["gcp"]
    region = options.region or (types.region if options.zone is None else region_of(options.zone))
    zone = options.zone or f"{region}-a"
    provider = {
        "type": "gcp",
        "region": region,
        "availability_zone": zone,
        "project_id": options.project,
        "cache_stopped_nodes": False,
    }

    def node_config(name: str, machine: NodeType | None) -> dict[str, Any]:
        boot = {
            "diskSizeGb": DISK_GB,
            "diskType": f"zones/{zone}/diskTypes/{DISK_TYPE}",
            "sourceImage": options.machine_image or MACHINE_IMAGE,
        }
        tree: dict[str, Any] = {
            "machineType": name,
            "disks": [{"boot": True, "autoDelete": True, "type": "PERSISTENT", "initializeParams": boot}],
            "metadata": {"items": [{"key": "install-nvidia-driver", "value": "True"}]},
        }
        if machine is not None and machine.gpu in ATTACHED:
            tree["guestAccelerators"] = [
                {"acceleratorType": ATTACHED[machine.gpu], "acceleratorCount": machine.gpus},
            ]
        scheduling: dict[str, Any] = {}
        if machine is not None and machine.gpu is not None:
            scheduling["onHostMaintenance"] = "TERMINATE"
        if machine is not None and options.spot:
            scheduling |= {"provisioningModel": "SPOT", "instanceTerminationAction": "DELETE"}
        return {**tree, "scheduling": scheduling} if scheduling else tree

    needs = (
        "" if options.project is not None else "\nIt needs `project_id`: give it with --project, or write it below.\n"
    )
    return ray_up.files("gcp", types, options, provider, node_config, HEAD_TYPE, needs)
