"""What of KubeRay's RayCluster (ray.io/v1) is used here, strictly: field by field as its API reference has it.

Pod templates are Kubernetes's own, and checked against its schemas where the manifests are tested.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class Template(_Part):
    """A pod template."""

    metadata: dict[str, Any]
    spec: dict[str, Any]

    @model_validator(mode="after")
    def _has_containers(self) -> Template:
        names = [container["name"] for container in self.spec["containers"]]
        if len(set(names)) != len(names) or not names:
            raise ValueError("a pod has containers, each with a name of its own")
        return self


class HeadGroup(_Part):
    """The head's pod. `rayStartParams` are options of `ray start`, all of them text."""

    service_type: Literal["ClusterIP", "NodePort", "LoadBalancer"]
    ray_start_params: dict[str, str]
    template: Template


class WorkerGroup(_Part):
    """Pods of one kind."""

    group_name: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    replicas: int = Field(ge=0)
    min_replicas: int = Field(ge=0)
    max_replicas: int = Field(ge=1)
    ray_start_params: dict[str, str]
    template: Template

    @model_validator(mode="after")
    def _is_in_order(self) -> WorkerGroup:
        if not self.min_replicas <= self.replicas <= self.max_replicas:
            raise ValueError("replicas lie between minReplicas and maxReplicas")
        return self


class AutoscalerOptions(_Part):
    """The autoscaler beside the head."""

    idle_timeout_seconds: int = Field(ge=1)
    upscaling_mode: Literal["Default", "Aggressive", "Conservative"]
    env: list[dict[str, Any]]
    security_context: dict[str, Any]
    resources: dict[str, Any]


class RayClusterSpec(_Part):
    """A Ray cluster."""

    ray_version: str
    enable_in_tree_autoscaling: bool
    autoscaler_options: AutoscalerOptions
    head_group_spec: HeadGroup
    worker_group_specs: list[WorkerGroup] = Field(min_length=1)

    @model_validator(mode="after")
    def _has_groups_apart(self) -> RayClusterSpec:
        names = [group.group_name for group in self.worker_group_specs]
        if len(set(names)) != len(names):
            raise ValueError("groups have names of their own")
        return self


class RayCluster(_Part):
    """The whole object."""

    api_version: Literal["ray.io/v1"]
    kind: Literal["RayCluster"]
    metadata: dict[str, Any]
    spec: RayClusterSpec
