"""Commands about this machine and its services: doctor, dashboard."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from orchestrator.cli.output import print_json, say
from orchestrator.cli.spec_commands import AsJson
from orchestrator.exit_codes import ALL_DONE, SYSTEM_FAILED


def register(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    for command in (doctor, dashboard):
        app.command()(command)


def doctor(as_json: AsJson = False) -> None:
    """Check what a first run needs, and say what is missing and how to mend it."""
    from orchestrator.doctor import examine
    from orchestrator.settings import Settings

    findings = examine(Settings.read())
    healthy = all(finding.ok for finding in findings)
    if as_json:
        print_json({"ok": healthy, "checks": [finding.as_json() for finding in findings]})
    else:
        for finding in findings:
            typer.echo(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.check:<12} {finding.detail}")
            if not finding.ok:
                typer.echo(f"      {'':<12} {finding.cure}")
    raise typer.Exit(ALL_DONE if healthy else SYSTEM_FAILED)


def dashboard(
    port: Annotated[int, typer.Option(help="port on this machine")] = 5000,
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
) -> None:
    """Open MLflow's pages on the runs of this store (Ctrl-C ends it)."""
    from orchestrator.settings import Settings

    settings = Settings.read()
    if settings.tracking_uri.startswith(("http://", "https://")):
        typer.echo(f"the runs are on the MLflow server at {settings.tracking_uri}")
        return
    say(f"MLflow on http://{host}:{port}")
    sys.stdout.flush()
    command = [sys.executable, "-P", "-m", "mlflow", "server", "--host", host, "--port", str(port)]
    command += ["--backend-store-uri", settings.tracking_uri, "--default-artifact-root", str(settings.artifacts)]
    os.execv(sys.executable, command)
