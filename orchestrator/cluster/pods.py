"""Pods as all of ours are: of one user without rights, with the home at its place."""

from __future__ import annotations

from typing import Any

from orchestrator.cluster.options import HOME, ClusterOptions

Tree = dict[str, Any]

USER = 10001
"""The user of the image."""

POD_SECURITY: Tree = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Tree = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def labels(options: ClusterOptions, component: str) -> dict[str, str]:
    """Labels of what belongs to a cluster."""
    return {"app.kubernetes.io/part-of": options.name, "app.kubernetes.io/component": component}


def metadata(options: ClusterOptions, name: str, component: str) -> Tree:
    """Metadata of an object of a cluster."""
    return {"name": name, "labels": labels(options, component)}


def secret(options: ClusterOptions, *names: str) -> list[Tree]:
    """Environment variables that the cluster's Secret gives."""
    source = {"name": f"{options.name}-secrets"}
    return [{"name": name, "valueFrom": {"secretKeyRef": {**source, "key": name}}} for name in names]


def plain(**values: str) -> list[Tree]:
    """Environment variables with values."""
    return [{"name": name, "value": value} for name, value in values.items()]


def ray_environment(options: ClusterOptions) -> list[Tree]:
    """What each process of the Ray cluster needs to know."""
    return plain(RAY_AUTH_MODE="token", RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES="134217728") + secret(
        options, "RAY_AUTH_TOKEN"
    )


def size(cpus: str, memory: str, **limits: str) -> Tree:
    """What a container takes: so many cores, memory, and what else has a limit."""
    return {"requests": {"cpu": cpus, "memory": memory, **limits}, "limits": {"memory": memory, **limits}}


def home_mount() -> Tree:
    """The home in a container."""
    return {"name": "home", "mountPath": HOME}


def home_volume(options: ClusterOptions) -> Tree:
    """The home in a pod: one for all."""
    return {"name": "home", "persistentVolumeClaim": {"claimName": f"{options.name}-home"}}


def probe(seconds: int, failures: int, **check: Any) -> Tree:
    """A probe every so many seconds."""
    return {**check, "periodSeconds": seconds, "timeoutSeconds": 10, "failureThreshold": failures}


def command(*words: str) -> Tree:
    """A check that is a command."""
    return {"exec": {"command": list(words)}}
