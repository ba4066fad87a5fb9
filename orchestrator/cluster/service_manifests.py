"""The service on Kubernetes, with MLflow, its databases and the home that all nodes share."""

from __future__ import annotations

from typing import Any

from orchestrator.cluster.options import HOME, ClusterOptions
from orchestrator.cluster.pods import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    home_mount,
    home_volume,
    labels,
    metadata,
    plain,
    probe,
    ray_environment,
    secret,
    size,
)

Tree = dict[str, Any]

SECRETS = (
    "RAY_AUTH_TOKEN",
    "SLOTSWEEP_DATABASE_URL",
    "SLOTSWEEP_OPTUNA_URL",
    "MLFLOW_BACKEND_STORE_URI",
    "MLFLOW_AUTH_DATABASE_URI",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_FLASK_SERVER_SECRET_KEY",
)

SECRET_TOP = """
Copy to secret.yaml, fill in, and keep to yourself: `openssl rand -hex 24` makes a secret. Written by
`slotsweep cluster render kuberay`.

Addresses are postgresql://USER:PASSWORD@HOST:5432/DATABASE: a database each for slotsweep, Optuna, MLflow and
MLflow's users, of a Postgres that you have (a cloud's, or an operator's such as CloudNativePG).
"""

SERVICE_TOP = """
The service and MLflow, and the home that all nodes share. Written by `slotsweep cluster render kuberay`.

The home is one volume that many nodes can write to (ReadWriteMany: NFS, EFS, Filestore, CephFS, ...); its storage
class is the cluster's own unless --storage names another. All pods run one image, and so one Python.

  kubectl exec deploy/{name}-service -- slotsweep token create ada --role admin
  kubectl port-forward svc/{name}-service 8440
  kubectl port-forward svc/{name}-mlflow 5000

Links lead to where these bring the service and MLflow (its user admin, with MLFLOW_TRACKING_PASSWORD): localhost.
Where both have names, write them into SLOTSWEEP_PUBLIC_URL and SLOTSWEEP_MLFLOW_URL of the service, and MLflow's into
its MLFLOW_SERVER_ALLOWED_HOSTS.
"""


def files(options: ClusterOptions) -> dict[str, tuple[str, list[Tree]]]:
    """`kuberay/service.yaml`, and an example of its Secret, without values."""
    return {
        "kuberay/secret.example.yaml": (SECRET_TOP, [_secret(options)]),
        "kuberay/service.yaml": (
            SERVICE_TOP.format(name=options.name),
            [
                _claim(options, "home", "ReadWriteMany", options.storage),
                _claim(options, "mlflow", "ReadWriteOnce", None),
                _mlflow_users(options),
                *_mlflow(options),
                *_service(options),
                *_network(options),
            ],
        ),
    }


def _secret(options: ClusterOptions) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(options, f"{options.name}-secrets", "secrets"),
        "type": "Opaque",
        "stringData": dict.fromkeys(SECRETS, ""),
    }


def _claim(options: ClusterOptions, what: str, mode: str, storage_class: str | None) -> Tree:
    spec: Tree = {"accessModes": [mode], "resources": {"requests": {"storage": "100Gi"}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(options, f"{options.name}-{what}", what),
        "spec": spec,
    }


def _deployment(options: ClusterOptions, component: str, container: Tree, volumes: list[Tree]) -> Tree:
    """One pod at a time: it keeps what it has in databases and volumes."""
    pod = {
        "automountServiceAccountToken": False,
        "securityContext": POD_SECURITY,
        "terminationGracePeriodSeconds": 40,
        "containers": [{"name": component, "securityContext": CONTAINER_SECURITY, **container}],
        "volumes": volumes,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(options, f"{options.name}-{component}", component),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels(options, component)},
            "template": {"metadata": {"labels": labels(options, component)}, "spec": pod},
        },
    }


def _reachable(options: ClusterOptions, component: str, port: int) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(options, f"{options.name}-{component}", component),
        "spec": {
            "selector": labels(options, component),
            "ports": [{"name": "http", "port": port, "targetPort": "http"}],
        },
    }


def _mlflow_users(options: ClusterOptions) -> Tree:
    """MLflow's settings of users; the start of its container adds where its database is."""
    text = (
        "[mlflow]\n"
        "default_permission = READ\n"
        "admin_username = admin\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
        "auth_cache_ttl_seconds = 60\n"
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(options, f"{options.name}-mlflow-users", "mlflow"),
        "data": {"users.ini": text},
    }


def _mlflow(options: ClusterOptions) -> list[Tree]:
    start = (
        "(cat /etc/mlflow/users.ini && "
        'printf "database_uri = %s\\n" "${MLFLOW_AUTH_DATABASE_URI//%/%%}") > /tmp/users.ini && '  # % is special there
        "exec mlflow server --host 0.0.0.0 --port 5000 --workers 2 --app-name basic-auth "
        "--artifacts-destination /var/lib/mlflow/artifacts"
    )
    container = {
        "image": options.images("cpu"),
        "command": ["bash", "-c", start],
        "env": [
            *secret(
                options,
                "MLFLOW_BACKEND_STORE_URI",
                "MLFLOW_AUTH_DATABASE_URI",
                "MLFLOW_FLASK_SERVER_SECRET_KEY",
            ),
            {**secret(options, "MLFLOW_TRACKING_PASSWORD")[0], "name": "MLFLOW_AUTH_ADMIN_PASSWORD"},
            *plain(
                MLFLOW_AUTH_CONFIG_PATH="/tmp/users.ini",
                MLFLOW_SERVER_ALLOWED_HOSTS=f"{options.name}-mlflow:*,localhost:*,127.0.0.1:*",
                MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false",
                MLFLOW_DISABLE_TELEMETRY="true",
            ),
        ],
        "ports": [{"name": "http", "containerPort": 5000}],
        "resources": size("500m", "2Gi"),
        "startupProbe": probe(10, 30, tcpSocket={"port": "http"}),
        "readinessProbe": probe(10, 6, tcpSocket={"port": "http"}),
        "livenessProbe": probe(10, 6, tcpSocket={"port": "http"}),
        "volumeMounts": [
            {"name": "artifacts", "mountPath": "/var/lib/mlflow"},
            {"name": "users", "mountPath": "/etc/mlflow", "readOnly": True},
        ],
    }
    volumes: list[Tree] = [
        {"name": "artifacts", "persistentVolumeClaim": {"claimName": f"{options.name}-mlflow"}},
        {"name": "users", "configMap": {"name": f"{options.name}-mlflow-users"}},
    ]
    return [_deployment(options, "mlflow", container, volumes), _reachable(options, "mlflow", 5000)]


def _service(options: ClusterOptions) -> list[Tree]:
    """The service, and in its container a node of the cluster that offers nothing: only from a node Ray is driven."""
    check = {"httpGet": {"path": "/health", "port": "http"}}
    container = {
        "image": options.images("cpu"),
        "command": ["slotsweep-serve", "--host", "0.0.0.0", "--port", "8440"],
        "env": [
            *ray_environment(options),
            *secret(options, "SLOTSWEEP_DATABASE_URL", "SLOTSWEEP_OPTUNA_URL", "MLFLOW_TRACKING_PASSWORD"),
            *plain(
                RAY_ADDRESS=f"{options.name}-head-svc:6379",
                SLOTSWEEP_AUTOSCALES="1",
                SLOTSWEEP_HOME=HOME,
                SLOTSWEEP_TRACKING_URI=f"http://{options.name}-mlflow:5000",
                SLOTSWEEP_MLFLOW_URL="http://localhost:5000",
                SLOTSWEEP_PUBLIC_URL="http://localhost:8440",
                MLFLOW_TRACKING_USERNAME="admin",
            ),
        ],
        "ports": [{"name": "http", "containerPort": 8440}],
        "resources": size("1", "4Gi"),
        "startupProbe": probe(10, 60, **check),
        "readinessProbe": probe(10, 6, **check),
        "livenessProbe": probe(10, 6, **check),
        "volumeMounts": [home_mount()],
    }
    return [_deployment(options, "service", container, [home_volume(options)]), _reachable(options, "service", 8440)]


def _network(options: ClusterOptions) -> list[Tree]:
    """Ray encrypts nothing, and whoever reaches it with its token can run code: only pods of the cluster do."""
    ours = {"app.kubernetes.io/part-of": options.name}
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata(options, f"{options.name}-inside", "network"),
            "spec": {
                "podSelector": {"matchLabels": ours},
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": {"matchLabels": ours}}]}],
            },
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata(options, f"{options.name}-service", "network"),
            "spec": {
                "podSelector": {"matchLabels": labels(options, "service")},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"port": "http"}]}],
            },
        },
    ]
