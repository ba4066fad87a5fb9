"""Where things are: embedded under ./.slotsweep/ unless the environment says otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


def private_folder(folder: Path) -> None:
    """Make `folder` if it is not there, for nobody else to look into. Raises OSError."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


@dataclass(frozen=True)
class Settings:
    """Places and services a command uses.

    home          folder for everything embedded: SLOTSWEEP_HOME, or .slotsweep in the working directory
    database_url  SLOTSWEEP_DATABASE_URL, or a SQLite file in `home`
    tracking_uri  SLOTSWEEP_TRACKING_URI, or an MLflow SQLite store in `home`
    optuna_url    SLOTSWEEP_OPTUNA_URL, or a SQLite file in `home`: studies as Optuna's own tools read them
    ray_address   RAY_ADDRESS: a running cluster; None, as Ray's word `local`, starts one on this machine
    server        SLOTSWEEP_SERVER: a service that commands work with instead of the store; None: there is none
    token         SLOTSWEEP_TOKEN: what tells the service who is asking; a secret
    autoscales    SLOTSWEEP_AUTOSCALES=1: the cluster starts nodes when somebody waits for them, as clouds' do
    mlflow_url    SLOTSWEEP_MLFLOW_URL: where browsers find MLflow's pages; None: at the tracking URI, if that is served
    """

    home: Path
    database_url: str = field(repr=False)
    tracking_uri: str = field(repr=False)
    ray_address: str | None
    optuna_url: str = field(repr=False)
    server: str | None = None
    token: str | None = field(default=None, repr=False)
    mlflow_url: str | None = None
    autoscales: bool = False

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Settings as the environment gives them."""
        address = environment.get("RAY_ADDRESS")
        home = Path(environment.get("SLOTSWEEP_HOME") or ".slotsweep").absolute()
        return cls(
            home=home,
            database_url=environment.get("SLOTSWEEP_DATABASE_URL") or f"sqlite:///{home / 'slotsweep.db'}",
            tracking_uri=environment.get("SLOTSWEEP_TRACKING_URI") or f"sqlite:///{home / 'mlflow.db'}",
            ray_address=address if address and address != "local" else None,
            optuna_url=environment.get("SLOTSWEEP_OPTUNA_URL") or f"sqlite:///{home / 'optuna.db'}",
            server=environment.get("SLOTSWEEP_SERVER") or None,
            token=environment.get("SLOTSWEEP_TOKEN") or None,
            mlflow_url=environment.get("SLOTSWEEP_MLFLOW_URL") or None,
            autoscales=address not in (None, "", "local") and environment.get("SLOTSWEEP_AUTOSCALES") == "1",
        )

    def as_environment(self) -> dict[str, str]:
        """Variables from which `read` gives a process on this machine the same places, without the user's token."""
        return {
            "SLOTSWEEP_HOME": str(self.home),
            "SLOTSWEEP_DATABASE_URL": self.database_url,
            "SLOTSWEEP_TRACKING_URI": self.tracking_uri,
            "SLOTSWEEP_OPTUNA_URL": self.optuna_url,
            "SLOTSWEEP_MLFLOW_URL": self.mlflow_url or "",
            "RAY_ADDRESS": self.ray_address or "local",
            "SLOTSWEEP_AUTOSCALES": "1" if self.autoscales else "",
        }

    @property
    def artifacts(self) -> Path:
        """Artifacts of the embedded MLflow store."""
        return self.home / "mlflow-artifacts"

    @property
    def kernels(self) -> Path:
        """Compiled kernels."""
        return self.home / "kernels"

    @property
    def trainings(self) -> Path:
        """Long trainings on their way."""
        return self.home / "trainings"

    def report_folder(self, sweep: str) -> Path:
        """Folder of a sweep's report and figures."""
        return self.home / "reports" / sweep

    @property
    def database_file(self) -> Path | None:
        """The SQLite file behind `database_url`; None for a server."""
        prefix = "sqlite:///"
        return Path(self.database_url.removeprefix(prefix)) if self.database_url.startswith(prefix) else None
