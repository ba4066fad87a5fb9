"""Options of clusters that a place has no use for, or whose values can be none of its names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from orchestrator.cluster.options import ClusterOptions, Place
from orchestrator.errors import RequestError

USELESS: Mapping[Place, Mapping[str, str]] = {
    "aws": {"project": "it is Google Cloud's"},
    "gcp": {},
    "kuberay": {
        "max_workers": "--workers and --gpus say how many pods there may be",
        **dict.fromkeys(
            ("spot", "region", "zone", "machine_image", "project"),
            "its nodes are those of node pools",
        ),
    },
    "skypilot": {
        "workers": "--max-workers says how many machines there are",
        "idle_minutes": "its machines end with the sweep",
        "image": "it installs the checkout that it is launched from",
        **dict.fromkeys(("zone", "machine_image", "project", "storage"), "SkyPilot finds its machines itself"),
    },
}
"""By place: options that do nothing there, and why."""

_NFS = (r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:/[\w./-]*", "an NFS export HOST:/PATH, such as 10.0.0.7:/share")
_TAGGED = (
    r"([A-Za-z0-9.-]+(:\d+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*:\w[\w.-]{0,119}",
    "an image with its tag, which a variant follows, such as registry.example.org/slotsweep:0.1.0",
)
_AWS_REGION, _GCP_REGION = r"[a-z]{2}(-[a-z]+)+-\d", r"[a-z]+-[a-z]+\d+"

NAMES: Mapping[str, Mapping[Place, tuple[str, str]]] = {
    "name": dict.fromkeys(
        get_args(Place), (r"[a-z]([a-z0-9-]{0,29}[a-z0-9])?", "up to 31 of a-z, 0-9 and dashes, such as night-2")
    ),
    "region": {
        "aws": (_AWS_REGION, "a region such as us-east-1"),
        "gcp": (_GCP_REGION, "a region such as us-central1"),
        "skypilot": (r"(aws|gcp|azure|kubernetes)(/[a-z0-9-]+){0,2}", "CLOUD/REGION, such as aws/us-east-1"),
    },
    "zone": {
        "aws": (rf"{_AWS_REGION}[a-z](,{_AWS_REGION}[a-z])*", "zones such as us-east-1a,us-east-1b"),
        "gcp": (rf"{_GCP_REGION}-[a-z]", "one zone, such as us-central1-a"),
    },
    "machine_image": {
        "aws": (r"ami-[0-9a-f]{8,17}|resolve:ssm:[\w/.:-]+", "ami-... or resolve:ssm:PARAMETER"),
        "gcp": (
            r"projects/([a-z0-9.-]+:)?[a-z0-9-]+/global/images/(family/)?[a-z0-9-]+",
            "projects/PROJECT/global/images/NAME or .../images/family/NAME",
        ),
    },
    "project": {"gcp": (r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]", "a project's id, such as my-sweeps-1")},
    "image": {"aws": _TAGGED, "gcp": _TAGGED, "kuberay": _TAGGED},
    "storage": {
        "aws": _NFS,
        "gcp": _NFS,
        "kuberay": (r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "a storage class such as efs"),
    },
}
"""By option and place: what its values look like, as a regular expression and in words."""


def check(place: Place, options: ClusterOptions) -> None:
    """Raise RequestError for what was said of a cluster and cannot hold of one at `place`."""
    told = {name: value for name in ClusterOptions.model_fields if (value := _told(options, name)) is not None}
    for name, value in told.items():
        if name in USELESS[place]:
            raise RequestError(f"{option(name, value)} does nothing for {place}: {USELESS[place][name]}")
        pattern, words = NAMES.get(name, {}).get(place, (None, ""))
        if pattern is not None and re.fullmatch(pattern, value, re.ASCII) is None:
            raise RequestError(f"{option(name, value)} {value}: expected {words}")
    if options.zone is not None:
        regions = {region_of(zone) for zone in options.zone.split(",")} | {options.region or region_of(options.zone)}
        if len(regions) > 1:
            raise RequestError(
                f"--zone {options.zone}: zones are those of one region, not of {' and '.join(sorted(regions))}"
            )


def _told(options: ClusterOptions, name: str) -> Any:
    """The value of an option that was given; None: it was not."""
    return getattr(options, name) if name in options.model_fields_set else None


def option(name: str, value: Any) -> str:
    """How an option is written on the command line."""
    if name == "spot":
        return "--spot" if value else "--on-demand"
    return f"--{name.replace('_', '-')}"


def region_of(zone: str) -> str:
    """The region of a zone such as us-east-1a or us-central1-a, or of the last of several."""
    return re.sub(r"-?[a-z]$", "", zone.rpartition(",")[2])
