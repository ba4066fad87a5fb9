"""Where things are: embedded under ./.slotsweep/ unless the environment says otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """Places and services a command uses.

    home          folder for everything embedded: SLOTSWEEP_HOME, or .slotsweep in the working directory
    database_url  SLOTSWEEP_DATABASE_URL, or a SQLite file in `home`
    tracking_uri  SLOTSWEEP_TRACKING_URI, or an MLflow SQLite store in `home`
    optuna_url    SLOTSWEEP_OPTUNA_URL, or a SQLite file in `home`: studies as Optuna's own tools read them
    ray_address   RAY_ADDRESS: a running cluster; None, as Ray's word `local`, starts one on this machine
    """

    home: Path
    database_url: str
    tracking_uri: str
    ray_address: str | None
    optuna_url: str

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
        )

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
