"""Options of clusters: what each place refuses, and that no more GPUs come than were named."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.cluster.checks import USELESS
from orchestrator.cluster.node_types import CLOUDS, node_types
from orchestrator.cluster.options import MOST_GPUS, ClusterOptions, Place, gpu_count, gpu_counts
from orchestrator.cluster.rendering import render
from orchestrator.errors import RequestError
from tests.cluster.rendered import one

GIVEN = {
    "workers": 2,
    "idle_minutes": 3,
    "image": "registry.example.org/slotsweep:7",
    "spot": False,
    "max_workers": 1,
    "region": "us-east-1",
    "zone": "us-east-1a",
    "machine_image": "ami-0123456789abcdef0",
    "project": "sweeps-1",
    "storage": "10.0.0.7:/share",
}


@pytest.mark.parametrize(("place", "name"), [(place, name) for place in USELESS for name in USELESS[place]])
def test_an_option_that_does_nothing_is_refused(place: Place, name: str) -> None:
    with pytest.raises(RequestError, match=f"--{name.replace('_', '-').replace('spot', 'on-demand')} does nothing for"):
        render(place, ClusterOptions.model_validate({name: GIVEN[name]}))


def gpus(*texts: str) -> dict[str, Any]:
    """What `--gpus` makes of texts."""
    return {"gpus": gpu_counts(texts)}


@pytest.mark.parametrize(
    ("place", "options", "told"),
    [
        ("aws", gpus("V100:1"), "known here are T4, L4, A10G, A100, H100"),
        ("gcp", gpus("A10G:1"), "known here are T4, L4, A100, H100"),
        ("kuberay", gpus("V100"), "known here are T4"),
        ("skypilot", gpus("V100"), "known here are T4"),
        ("aws", gpus("A100:4"), "--gpus A100:4: the smallest machine here that has it, p4d.24xlarge, has 8"),
        ("gcp", {**gpus("H100:2"), "spot": False}, "a3-highgpu-1g is to be had as a spot machine only"),
        ("aws", gpus("T4:2", "t4:3"), "T4 is named twice"),
        ("kuberay", gpus("T4:2", "T4:3"), "T4 is named twice"),
        ("aws", {**gpus("none"), "workers": 0}, "leaves no machine"),
        ("kuberay", {**gpus("none"), "workers": 0}, "leaves no machine"),
        ("aws", {**gpus("T4:2"), "max_workers": 11}, "--max-workers 11: --workers and --gpus allow 10"),
        ("aws", {"cpus": 500}, "the largest CPU machine here, c7i.8xlarge, has 32"),
        ("skypilot", {**gpus("T4"), "cpus": 16}, "--cpus is for machines without GPUs"),
        ("aws", {"region": "nowhere"}, "a region such as us-east-1"),
        ("skypilot", {"region": "us-east-1"}, "such as aws/us-east-1"),
        ("aws", {"region": "us-east-1", "zone": "eu-west-1a"}, "not of eu-west-1 and us-east-1"),
        ("aws", {"zone": "eu-west-1a,us-east-1a"}, "not of eu-west-1 and us-east-1"),
        ("gcp", {"zone": "us-central1-a,us-central1-b"}, "one zone"),
        ("aws", {"machine_image": "foo"}, "expected ami-"),
        ("gcp", {"machine_image": "foo"}, "expected projects/PROJECT"),
        ("gcp", {"project": "p"}, "a project's id"),
        ("aws", {"image": "Bad Image:x y"}, "an image with its tag"),
        ("kuberay", {"image": "reg/x@sha256:" + 64 * "a"}, "an image with its tag"),
        ("gcp", {"image": "registry:5000/slotsweep"}, "an image with its tag"),
        ("aws", {"storage": "bucket"}, "an NFS export HOST:/PATH"),
        ("gcp", {"storage": "x:/y; touch /tmp/pwn"}, "an NFS export HOST:/PATH"),
        ("kuberay", {"storage": "Not_Valid Class"}, "a storage class"),
        ("kuberay", {"name": "night-"}, "--name night-: expected up to 31 of a-z"),
        ("skypilot", {"name": "Ray Cluster"}, "expected up to 31 of a-z"),
    ],
)
def test_a_value_that_means_nothing_is_refused(place: Place, options: dict[str, Any], told: str) -> None:
    with pytest.raises(RequestError) as refused:
        render(place, ClusterOptions.model_validate(options))
    assert told in str(refused.value)


def test_counts_and_names_have_bounds() -> None:
    with pytest.raises(RequestError, match="1000 at most"):
        gpu_count("T4:9999")
    with pytest.raises(RequestError, match="goes with no other"):
        gpu_counts(["none", "T4:2"])
    for wrong in ({"workers": 1001}, {"max_workers": 1001}, {"idle_minutes": 10**6}):
        with pytest.raises(ValidationError):
            ClusterOptions.model_validate(wrong)


@pytest.mark.parametrize(
    ("place", "options"),
    [
        ("aws", {"region": "us-gov-west-1", "zone": "us-gov-west-1b", "machine_image": "resolve:ssm:/golden/ami-id"}),
        ("gcp", {"machine_image": "projects/example.com:sweeps/global/images/family/base-9"}),
        ("kuberay", {"image": "localhost:5000/some/slot-sweep:1.0_x", "storage": "rook-cephfs"}),
        ("skypilot", {"region": "kubernetes", "max_workers": 1000}),
    ],
)
def test_values_that_mean_something_are_taken(place: Place, options: dict[str, Any]) -> None:
    assert render(place, ClusterOptions.model_validate(options))


@pytest.mark.parametrize("cloud", CLOUDS)
def test_no_more_gpus_come_than_were_named(cloud: Place) -> None:
    types = node_types()[cloud]
    asked = {"T4": 3, "A100": 9}
    chosen = [gpu_count(f"{model.lower()}:{count}") for model, count in asked.items()]
    for options, most in (({"gpus": chosen}, asked), ({}, dict.fromkeys(types.models, MOST_GPUS))):
        tree = one(cloud, f"{cloud}.yaml", **options)
        for name, kind in tree["available_node_types"].items():
            machine = types.types.get(name if cloud == "gcp" else name.replace("-", ".", 1))
            if machine is not None and machine.gpu is not None:
                assert 0 < kind["max_workers"] * machine.gpus <= most[machine.gpu]


def test_no_gpu_comes_where_none_was_named() -> None:
    assert one("skypilot", "skypilot.yaml")["resources"]["any_of"] == [{"cpus": "8+", "use_spot": True}]
    assert not any("p4d" in name or "p5" in name for name in one("aws", "aws.yaml")["available_node_types"])
