"""The command that leads to MLflow's pages: dashboard."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.output import say

if TYPE_CHECKING:
    from orchestrator.settings import Settings
    from orchestrator.store.status import SweepStatus


def register(app: typer.Typer) -> None:
    """Add this command to `app`."""
    app.command()(dashboard)


def dashboard(
    sweep: Annotated[
        str | None,
        typer.Argument(
            help="a sweep's id (its beginning is enough), or `last`; the newest if left out", metavar="SWEEP"
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="port on this machine (0: any); 5000 or the next free one if left out"),
    ] = None,
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    browse: Annotated[bool, typer.Option("--open", help="open the sweep in a browser")] = False,
) -> None:
    """Show a sweep in MLflow's pages: print the links to it, and serve the pages until Ctrl-C where no server does."""
    from orchestrator.errors import RequestError
    from orchestrator.mlflow_links import pages_address
    from orchestrator.mlflow_pages import free_port, is_served, mlflow_pages
    from orchestrator.settings import Settings

    settings = Settings.read()
    address = pages_address(settings)
    if address is None and settings.server is not None:
        raise RequestError(
            "the runs are in the MLflow of the service that SLOTSWEEP_SERVER names: set SLOTSWEEP_TRACKING_URI to it"
        )
    wanted = _wanted(settings, sweep)
    if address is not None:
        _show(settings, wanted, address, browse=browse)
        if not is_served(address):
            named = "SLOTSWEEP_MLFLOW_URL" if settings.mlflow_url else "SLOTSWEEP_TRACKING_URI"
            say(f"nothing answers at {address}: serve MLflow there, or unset {named} to have it served here")
        return
    port = free_port(host, port)
    say("starting MLflow's pages")
    try:
        with mlflow_pages(settings, host, port) as pages:
            pages.wait_until_served()
            _show(settings, wanted, pages.address, browse=browse)
            say("Ctrl-C ends it")
            pages.wait()
    except KeyboardInterrupt:
        say("MLflow's pages are no longer served")


def _wanted(settings: Settings, name: str | None) -> SweepStatus | None:
    """The sweep to show; None if there is none yet and none was named."""
    from orchestrator.client import open_client

    client = open_client(settings)
    if name is not None:
        return client.sweep(name)
    return next(iter(client.sweeps()), None)


def _show(settings: Settings, sweep: SweepStatus | None, address: str, *, browse: bool) -> None:
    """Print the links, the sweep's own first."""
    import webbrowser

    from orchestrator.mlflow_links import run_link

    link = None if sweep is None else run_link(settings, sweep.name, sweep.id, address)
    if link is not None and sweep is not None:
        typer.echo(f"sweep {sweep.id}  {link.run}")
        typer.echo(f"its trials        {link.trials}")
        typer.echo(f"its experiment    {link.experiment}")
    elif sweep is not None:
        say(f"MLflow has not heard of sweep {sweep.id} yet: `slotsweep resume` tells it")
    typer.echo(f"all experiments   {address}")
    say("(from there choose `Model training` once, at the left: MLflow opens its pages for language models else)")
    sys.stdout.flush()
    if browse:
        webbrowser.open(address if link is None else link.run)
