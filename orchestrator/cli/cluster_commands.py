"""Commands about clusters in clouds: cluster render."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestrator.cli.output import say

cluster = typer.Typer(help="Clusters in clouds.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    cluster.callback()(_group)
    cluster.command()(render)
    app.add_typer(cluster, name="cluster")


def _group() -> None:
    """Clusters in clouds: files that start them."""


def render(
    place: Annotated[Literal["aws", "gcp", "kuberay", "skypilot"], typer.Argument(help="what is to start the cluster")],
    gpus: Annotated[
        list[str] | None,
        typer.Option(
            help="GPUs at most, such as T4:4 (repeatable); `none`: CPUs only; by default 4 of each model that comes "
            "by so few, and none for skypilot",
            metavar="MODEL:COUNT",
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=0, help="most CPU machines")] = None,
    cpus: Annotated[int | None, typer.Option(min=1, help="logical CPUs of each of them, at least")] = None,
    max_workers: Annotated[int | None, typer.Option(min=1, help="most machines together; skypilot: how many")] = None,
    spot: Annotated[
        bool | None,
        typer.Option("--spot/--on-demand", help="machines that the cloud may take back, or may not (default: --spot)"),
    ] = None,
    region: Annotated[str | None, typer.Option(help="of the cloud; skypilot: CLOUD/REGION")] = None,
    zone: Annotated[str | None, typer.Option(help="of the region; aws: one or more, with commas")] = None,
    image: Annotated[
        str | None, typer.Option(help="where the images are, such as REGISTRY/slotsweep:0.1.0; a variant follows")
    ] = None,
    machine_image: Annotated[str | None, typer.Option(help="what machines boot from (aws, gcp)")] = None,
    project: Annotated[str | None, typer.Option(help="Google Cloud's project (gcp)")] = None,
    storage: Annotated[
        str | None,
        typer.Option(help="where all keep their home: an NFS export HOST:/PATH (aws, gcp); a storage class (kuberay)"),
    ] = None,
    name: Annotated[str | None, typer.Option(help="of the cluster")] = None,
    idle_minutes: Annotated[int | None, typer.Option(min=1, help="after which a machine without work ends")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="folder to write to; without it they are printed")
    ] = None,
) -> None:
    """Write what starts a cluster: `ray up` files, a RayCluster and the service's manifests, or a SkyPilot task."""
    from pydantic import ValidationError

    from orchestrator.cluster.options import REGISTRY, ClusterOptions, gpu_counts
    from orchestrator.cluster.rendering import render as render_files
    from orchestrator.errors import RequestError

    given = {
        "gpus": None if gpus is None else gpu_counts(gpus),
        "workers": workers,
        "cpus": cpus,
        "max_workers": max_workers,
        "spot": spot,
        "region": region,
        "zone": zone,
        "image": image,
        "machine_image": machine_image,
        "project": project,
        "storage": storage,
        "name": name,
        "idle_minutes": idle_minutes,
    }
    try:
        options = ClusterOptions.model_validate({key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        found = error.errors()[0]
        option = str(found["loc"][0]).replace("_", "-")
        raise RequestError(f"--{option} {found['input']}: {found['msg']}") from error
    files = render_files(place, options)
    if out is None:
        typer.echo("---\n".join(files.values()), nl=False)
    else:
        _write(out, files)
    if any(f"{REGISTRY}/" in text for text in files.values()):
        say(f"{REGISTRY} stands for where the images are: give them with --image, or write it into the files")


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
        say(f"wrote {folder / path}")
