"""A task for SkyPilot: one sweep on machines of whatever cloud has them, by `sky launch` or `sky jobs launch`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.cluster.node_types import CLOUDS, node_types
from orchestrator.cluster.options import MOST_GPUS, ClusterOptions
from orchestrator.errors import RequestError

Tree = dict[str, Any]

PYTHON = "3.11.14"
"""As in the image: nodes of a cluster have one Python, to the last number."""

URLS = ("SLOTSWEEP_DATABASE_URL", "SLOTSWEEP_OPTUNA_URL", "SLOTSWEEP_TRACKING_URI")

TOP = """
One sweep on a cluster of its own. Written by `slotsweep cluster render skypilot`. From a checkout of slotsweep:

  sky jobs launch skypilot.yaml --env SPEC=quick-start --secret RAY_AUTH_TOKEN=$(openssl rand -hex 24)
  sky launch -c {name} skypilot.yaml --env SPEC=sweep.yaml --secret RAY_AUTH_TOKEN=... --down

The first is taken up again when machines are taken back, and goes on where it was if the database is elsewhere:
--secret SLOTSWEEP_DATABASE_URL=..., and MLflow's: --secret SLOTSWEEP_TRACKING_URI=...; the second is a cluster that
is gone at the end.
"""

SETUP = """
set -e
uv venv --seed --allow-existing --python {python} ~/slotsweep-venv
~/slotsweep-venv/bin/pip install --quiet -c constraints.txt .
"""

RUN = """
set -e
export PATH=~/slotsweep-venv/bin:$PATH RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token
export SLOTSWEEP_HOME=${SLOTSWEEP_HOME:-$HOME/slotsweep-home}
mkdir -p "$SLOTSWEEP_HOME"
head=$(echo "$SKYPILOT_NODE_IPS" | head -n1)
export RAY_ADDRESS=$head:$RAY_PORT
if [ "$SKYPILOT_NODE_RANK" = 0 ]; then
  trap 'kill $(jobs -p); wait' EXIT
  ray start --head --block --node-ip-address="$head" --port="$RAY_PORT" --num-cpus=0 --num-gpus=0 \
    --include-dashboard=false &
fi
until ray health-check --address "$RAY_ADDRESS" 2>/dev/null; do sleep 2; done
if [ "$SKYPILOT_NODE_RANK" = 0 ]; then
  slotsweep worker --join "$RAY_ADDRESS" &
  slotsweep run "$SPEC" --wait 15
else
  slotsweep worker --join "$RAY_ADDRESS" || true  # it ends with the head
fi
"""


class Resources(BaseModel):
    """Machines that will do. As SkyPilot's YAML reference has it; strictly what is used here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    infra: str | None = Field(None, pattern=r"^(aws|gcp|azure|kubernetes)(/[a-z0-9-]+){0,2}$")
    accelerators: str | None = Field(None, pattern=r"^[A-Z][A-Za-z0-9-]*:[1-9]\d*$")
    cpus: str | None = Field(None, pattern=r"^\d+\+?$")
    use_spot: bool


class AnyOf(BaseModel):
    """Machines of which one kind will do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    disk_size: int = Field(ge=50)
    any_of: list[Resources] = Field(min_length=1)


class Task(BaseModel):
    """A task. A secret that is null has to be given when it is launched."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-zA-Z]([a-zA-Z0-9_.-]*[a-zA-Z0-9])?$")
    workdir: str
    num_nodes: int = Field(ge=1)
    resources: AnyOf
    envs: dict[str, str]
    secrets: dict[str, str | None]
    setup: str
    run: str


def files(options: ClusterOptions) -> dict[str, tuple[str, list[Tree]]]:
    """`skypilot.yaml`. Raises RequestError for GPUs that are not known, or too many for a machine."""
    task = Task(
        name=options.name,
        workdir=".",
        num_nodes=options.max_workers or 1,
        resources=AnyOf(disk_size=100, any_of=_machines(options)),
        envs={"SPEC": "quick-start", "RAY_PORT": "6379"},
        secrets={"RAY_AUTH_TOKEN": None, **dict.fromkeys(URLS, "")},
        setup=SETUP.format(python=PYTHON).lstrip(),
        run=RUN.lstrip(),
    )
    return {"skypilot.yaml": (TOP.format(name=options.name), [_tree(task)])}


def _tree(task: Task) -> Tree:
    """The task without what it leaves open of its machines."""
    machines = task.resources.model_dump(exclude_none=True)
    return {**task.model_dump(), "resources": machines}


def _machines(options: ClusterOptions) -> list[Resources]:
    """One machine for each GPU that was named, wherever it is to be had; a CPU machine where none was."""
    asked = options.chosen_gpus(list(dict.fromkeys(model for cloud in CLOUDS for model in node_types()[cloud].models)))
    if not asked:
        return [Resources(infra=options.region, cpus=f"{options.cpus}+", use_spot=options.spot)]
    if "cpus" in options.model_fields_set:
        raise RequestError("--cpus is for machines without GPUs: SkyPilot's have the CPUs that come with these")
    for one in asked:
        if one.count > 2 * MOST_GPUS:
            raise RequestError(f"--gpus {one.model}:{one.count}: a machine has {2 * MOST_GPUS} at most")
    return [
        Resources(infra=options.region, accelerators=f"{one.model}:{one.count}", use_spot=options.spot) for one in asked
    ]
