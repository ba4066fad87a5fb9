"""Settings that MLflow reads from the environment when it is imported or used."""

from __future__ import annotations

import os


def quiet_mlflow() -> None:
    """Set up MLflow in this process: no lines on the terminal, no usage reports, and no repeated requests.

    MLflow repeats a failed request by itself, up to seven times with long waits. When only the answer was lost, a
    repeated "create run" makes a second run, so the repeating is left to our outbox, which looks before it creates.
    """
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "ERROR")
