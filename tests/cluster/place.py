"""Machines of a cluster as processes of this one: what files say is run, at other ports and in folders of a test.

`ray stop`, with which Ray's launchers begin, is left out: it would end every Ray on this machine.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
from ray._private import services
from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID, FAKE_HEAD_NODE_TYPE

from orchestrator.cluster.options import HOME
from orchestrator.cluster.ray_up import SETTINGS, TOKEN, USER_HOME
from tests.docker.compose_file import ROOT
from tests.docker.dockerfile import programs
from tests.faults.services import free_port

MARK = "SLOTSWEEP_TEST_MARK"


class Machine:
    """Runs commands in `folder`, which stands for what they see of a machine."""

    def __init__(self, folder: Path, stock: Path) -> None:
        self.folder = folder
        self.ray_port, self.service_port = free_port(), free_port()
        self.ip = services.get_node_ip_address()
        for name in ("home", "user", "ray", "secrets", "bin"):
            (folder / name).mkdir()
        for name, source in programs().items():
            (folder / "bin" / name).symlink_to(ROOT / source)
        (folder / "home" / "kernels").symlink_to(stock / "kernels")
        self.token = secrets.token_hex(24)
        self.paths = {
            TOKEN: str(folder / "secrets" / "ray_token"),
            USER_HOME: str(folder / "user"),
            HOME: str(folder / "home"),
        }
        Path(self.paths[TOKEN]).write_text(self.token)

    def bring(self, settings: str) -> None:
        """What `ray rsync-up` does."""
        Path(self.here(SETTINGS)).write_text(settings)

    def here(self, text: str) -> str:
        """`text` of a file with paths and ports as they are here."""
        for there, path in self.paths.items():
            text = text.replace(there, path)
        text = text.replace(":6379", f":{self.ray_port}").replace("--port=6379", f"--port={self.ray_port}")
        return text.replace("slotsweep serve", f"slotsweep serve --port {self.service_port}")

    def environment(self, **more: str) -> dict[str, str]:
        """What a process sees that a container was started with `more`."""
        kept = {name: os.environ[name] for name in ("PYTHONPATH", "SLOTSWEEP_DATA") if name in os.environ}
        return {
            **kept,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(self.folder / "bin"), os.environ["PATH"]]),
            "HOME": str(self.folder / "user"),
            "RAY_TMPDIR": str(self.folder / "ray"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            MARK: str(self.folder),
            **more,
        }

    def container_environment(self, tree: dict[str, Any]) -> dict[str, str]:
        """What `docker run` is told in a `ray up` file, but for folders of this test."""
        given = [text.removeprefix("--env=") for text in tree["docker"]["run_options"] if text.startswith("--env=")]
        told = dict(self.here(text).split("=", 1) for text in given)
        return self.environment(**{name: value for name, value in told.items() if name != "HOME"})

    def run(self, text: str, environment: dict[str, str], seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command of a file as Ray's launchers do: by bash."""
        with (self.folder / "log").open("a+") as log:
            began = log.tell()
            done = subprocess.run(
                ["bash", "-c", text],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=seconds,
            )
            log.seek(began)
            return subprocess.CompletedProcess(text, done.returncode, log.read())

    def pretended_cloud(self, tree: dict[str, Any], **resources: dict[str, int]) -> dict[str, Any]:
        """A `ray up` file whose machines are processes here; `resources` in place of those of some types."""
        types = dict(tree["available_node_types"])
        head = types.pop(tree["head_node_type"])
        for name, kind in types.items():
            types[name] = {**kind, "resources": resources.get(name, kind["resources"]), "node_config": {}, "docker": {}}
        provider = {
            "type": "external",
            "module": "tests.cluster.pretended.PretendedCloud",
            "launch_multiple": True,
            "disable_node_updaters": True,
            "head_node_id": FAKE_HEAD_NODE_ID,
            "gcs_address": f"{self.ip}:{self.ray_port}",
        }
        return {
            "cluster_name": tree["cluster_name"],
            "max_workers": tree["max_workers"],
            "upscaling_speed": tree["upscaling_speed"],
            "idle_timeout_minutes": tree["idle_timeout_minutes"],
            "provider": provider,
            "auth": {},
            "docker": {},
            "head_node_type": FAKE_HEAD_NODE_TYPE,
            "available_node_types": {FAKE_HEAD_NODE_TYPE: {**head, "node_config": {}}, **types},
            "file_mounts": {},
            "cluster_synced_files": [],
            "file_mounts_sync_continuously": False,
            "rsync_exclude": [],
            "rsync_filter": [],
            "initialization_commands": [],
            "setup_commands": [],
            "head_setup_commands": [],
            "worker_setup_commands": [],
            "head_start_ray_commands": [],
            "worker_start_ray_commands": [],
        }

    def launcher_environment(self) -> dict[str, str]:
        """What `ray up` adds to the head's commands, and what its pretended cloud wants."""
        return {
            "RAY_enable_autoscaler_v2": "1",
            "RAY_CLOUD_INSTANCE_ID": FAKE_HEAD_NODE_ID,
            "RAY_NODE_TYPE_NAME": FAKE_HEAD_NODE_TYPE,
            "RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD_NODE_ID,
            "RAY_FAKE_CLUSTER": "1",
            "AUTOSCALER_UPDATE_INTERVAL_S": "1",
            "PYTHONPATH": str(ROOT),  # for the pretended cloud
        }

    def bootstrap(self, config: dict[str, Any]) -> None:
        """Put the autoscaler's settings where `ray up` puts them."""
        (self.folder / "user" / "ray_bootstrap_config.yaml").write_text(json.dumps(config))

    def living(self) -> list[psutil.Process]:
        """Processes of this test's machines."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == str(self.folder) or str(self.folder) in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return [process for process in found if process.pid != os.getpid()]

    def end(self) -> None:
        """Leave nothing behind."""
        for _ in range(3):
            for process in self.living():
                try:
                    process.kill()
                except psutil.Error:
                    continue
