"""Asking nodes of a cluster what kind of machine they are, where `slotsweep worker` did not tell as they joined.

A process of its own does it, so that nothing of Ray is left in the one that asks, and that a cluster which does not
answer costs no more than a while. The answers are kept with the cluster.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from orchestrator.errors import ExecutorError
from workers.gcs import Cluster

ASK_SECONDS = 40.0
ANSWER_SECONDS = 30.0
"""How long all of it may take, and of that the answers of nodes: the first worker of one takes seconds to start."""


def ask_machines(address: str, device: str, nodes: Sequence[str]) -> None:
    """Let the cluster at `address` know what machines `nodes` (ids) are to workers of `device`.

    Raises ExecutorError if nobody can be asked, or none of them answers.
    """
    program = "from orchestrator.executors.ray_machines import main; main()"
    command = [sys.executable, "-P", "-c", program, address, device, *nodes]
    try:
        done = subprocess.run(
            command,
            cwd=os.path.sep,  # Ray puts the folder in which it is started first in its workers' path
            capture_output=True,
            text=True,
            timeout=ASK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ExecutorError(
            f"RAY_ADDRESS: {address} did not tell within {ASK_SECONDS:.0f} s what machines measure times on {device}; "
            "a node that is started with `slotsweep worker --join` tells at once"
        ) from None
    if done.returncode != 0:
        *_, last = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ExecutorError(
            f"RAY_ADDRESS: {address} could not be asked what machines measure times on {device}: {last}; a node that "
            "is started with `slotsweep worker --join` tells by itself"
        )


def main() -> None:
    """Ask the nodes that the command line names."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    address, device, *nodes = sys.argv[1:]
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address=address, namespace="slotsweep", log_to_driver=False, configure_logging=False)

    def tell(device: str) -> str:
        from workers.hardware import this_machine

        return this_machine(device)

    task = ray.remote(num_cpus=0, max_retries=0)(tell)
    asked = {
        task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(device): node
        for node in nodes
    }
    answered, _ = ray.wait(list(asked), num_returns=len(asked), timeout=ANSWER_SECONDS)
    cluster, told, failure = Cluster(address), 0, "no node answered"
    for reference in answered:
        try:
            cluster.tell_machine(asked[reference], device, ray.get(reference))
            told += 1
        except ray.exceptions.RayError as error:
            failure = str(error).strip().splitlines()[-1]
    if not told:
        sys.exit(failure)
