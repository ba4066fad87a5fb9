"""What `ray up` files of all clouds share: a head without trials, and machines that come as they are needed."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

from orchestrator.cluster.node_types import CloudTypes, NodeType
from orchestrator.cluster.options import HOME, ClusterOptions

Tree = dict[str, Any]
NodeConfig = Callable[[str, NodeType | None], Tree]
"""What a cloud is told of a machine: its type by name, and what it has; None: the head, which is no spot machine."""

USER_HOME = "/home/slotsweep"
TOKEN = "/run/secrets/ray_token"
SETTINGS = f"{USER_HOME}/cluster.env"
PASSWD = f"{HOME}-passwd"
LOCAL = {
    "SLOTSWEEP_DATABASE_URL": f"sqlite:///{USER_HOME}/slotsweep.db",
    "SLOTSWEEP_OPTUNA_URL": f"sqlite:///{USER_HOME}/optuna.db",
    "SLOTSWEEP_TRACKING_URI": f"sqlite:///{USER_HOME}/mlflow.db",
}
"""Where the head keeps all if it is not told otherwise and the home is an export: SQLite does not go with NFS."""

TOP = """
`ray up {path}` starts the head, `ray down {path}` ends everything. Written by `slotsweep cluster render {cloud}`.

  ray up {path}
  ray rsync-up {path} ~/.slotsweep/cluster.env {settings}
  ray exec {path} 'slotsweep-head run slotsweep token create ada --role admin'
  ray attach {path} -p 8440

The service starts when the second has brought its settings, and anew when it brings others; the last brings here what
listens on the head's loopback. On this machine there must be
  ~/.ray/auth_token         the cluster's token: `ray get-auth-token --generate` makes one
  ~/.slotsweep/cluster.env  settings of the service, NAME=VALUE a line, values as they stand (chmod 600):
                            SLOTSWEEP_DATABASE_URL, SLOTSWEEP_OPTUNA_URL, SLOTSWEEP_TRACKING_URI,
                            MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD, ...; if it is empty the head keeps all
and images of docker/Dockerfile (VARIANT=head, cpu and cuda) where machines can pull them, named by --image; where a
registry wants to know who they are, with a `docker login` among initialization_commands. Machines take up new ones
with new containers: `ray exec {path} 'docker stop slotsweep'` ends the head's before `ray up {path}`.
{needs}
Machines are started for sweeps that wait for workers, {market}, and end after {idle} minutes without.
"""


def files(
    cloud: str,
    types: CloudTypes,
    options: ClusterOptions,
    provider: Tree,
    node_config: NodeConfig,
    head_type: str,
    needs: str,
) -> dict[str, tuple[str, list[Tree]]]:
    """The `ray up` file of a cloud, which `needs` something else; Raises ValueError where Ray itself refuses it."""
    nodes = {name: (one, count, "cuda") for name, one, count in options.gpu_nodes(types)}
    if options.workers:
        name, plain = types.with_cpus(options.cpus)
        nodes = {name: (plain, options.workers, "cpu"), **nodes}
    tree = {
        "cluster_name": options.name,
        "max_workers": options.most(count for _, count, _ in nodes.values()),
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": options.idle_minutes,
        "provider": provider,
        "auth": {"ssh_user": "ubuntu"},
        "docker": _docker(options),
        "metadata": {
            "usd_per_hour": {name.replace(".", "-"): _price(one, options) for name, (one, _, _) in nodes.items()}
        },
        "head_node_type": "head",
        "available_node_types": {
            "head": {"resources": {"CPU": 0, "GPU": 0}, "max_workers": 0, "node_config": node_config(head_type, None)},
            **{
                name.replace(".", "-"): {
                    "resources": one.resources,
                    "min_workers": 0,
                    "max_workers": count,
                    "node_config": node_config(name, one),
                    "docker": {"worker_image": options.images(variant)},
                }
                for name, (one, count, variant) in nodes.items()
            },
        },
        "file_mounts": {TOKEN: "~/.ray/auth_token"},
        "initialization_commands": _preparations(options),
        "setup_commands": [],
        "head_setup_commands": [],
        "worker_setup_commands": [],
        "head_start_ray_commands": [
            "ray stop",
            "ulimit -n 65536; ray start --head --port=6379 --num-cpus=0 --num-gpus=0 --include-dashboard=false "
            "--autoscaling-config=~/ray_bootstrap_config.yaml",
            "RAY_ADDRESS=auto SLOTSWEEP_AUTOSCALES=1 nohup slotsweep-head keep slotsweep serve "
            f"< /dev/null >> {HOME}/service.out 2>&1 &",
        ],
        "worker_start_ray_commands": ["ray stop", "ulimit -n 65536; ray start --address=$RAY_HEAD_IP:6379"],
    }
    check(tree)
    market = "as spot machines" if options.spot else "at list prices"
    path = f"{cloud}.yaml"
    top = TOP.format(path=path, cloud=cloud, settings=SETTINGS, needs=needs, market=market, idle=options.idle_minutes)
    return {path: (top, [tree])}


def _price(machine: NodeType, options: ClusterOptions) -> float | str:
    """What a machine costs, as the table has it."""
    price = machine.spot if options.spot else machine.on_demand
    return "unknown" if price is None else price


def _docker(options: ClusterOptions) -> Tree:
    """Containers are the machine's own user's, who can read what is copied there, and has a name, as ssh wants."""
    given = {
        "HOME": USER_HOME,
        "USER": "slotsweep",
        "SLOTSWEEP_HOME": HOME,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": TOKEN,
    }
    return {
        "image": options.images("cpu"),
        "head_image": options.images("head"),
        "container_name": "slotsweep",
        "pull_before_run": True,
        "run_options": [
            "--init",
            "--user=$(id -u):$(id -g)",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            *(f"--env={name}={value}" for name, value in given.items()),
            f"--volume={HOME}:{HOME}",
            f"--volume={HOME}-user:{USER_HOME}",
            f"--volume={PASSWD}:/etc/passwd:ro",
        ],
        "head_run_options": [f"--env={name}={url}" for name, url in LOCAL.items() if options.storage is not None],
    }


def _preparations(options: ClusterOptions) -> list[str]:
    """What every machine does before its container starts."""
    names = rf"root:x:0:0::/root:/bin/bash\nslotsweep:x:%s:%s::{USER_HOME}:/bin/bash\n"
    own = [
        f"sudo install -d -o $(id -u) -g $(id -g) {HOME} {HOME}-user",
        f"printf '{names}' $(id -u) $(id -g) | sudo tee {PASSWD} > /dev/null",
    ]
    if options.storage is None:
        return own
    return [
        *own,
        "command -v mount.nfs4 || (sudo apt-get update && sudo apt-get install -y nfs-common)",
        f"mountpoint -q {HOME} || sudo mount -t nfs4 -o nfsvers=4.1,hard,timeo=600,noresvport {options.storage} {HOME}",
        f"sudo chown $(id -u):$(id -g) {HOME}",
    ]


def check(tree: Tree) -> None:
    """Raise what Ray's own validation raises of a `ray up` file."""
    import copy

    from ray.autoscaler._private.util import prepare_config, validate_config

    with contextlib.redirect_stdout(io.StringIO()):
        validate_config(prepare_config(copy.deepcopy(tree)))
