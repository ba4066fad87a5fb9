"""Rendered clusters: valid by their tools' own validation, without secrets, from zero, and as kept in `docker/`."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import kubernetes_validate
import pytest
from jsonschema import ValidationError as SchemaError
from pydantic import ValidationError
from ray.autoscaler._private.kuberay import autoscaling_config
from ray.autoscaler._private.util import validate_config

from models.devices.device import DeviceClass
from orchestrator.cluster import ray_up
from orchestrator.cluster.node_types import CLOUDS, NodeType, node_types, rates_on
from orchestrator.cluster.options import HOME, ClusterOptions, Place, gpu_count
from orchestrator.cluster.ray_cluster import RayCluster
from orchestrator.cluster.rendering import render
from orchestrator.cluster.service_manifests import SECRETS
from orchestrator.cluster.skypilot import PYTHON, Task
from orchestrator.errors import RequestError
from tests.cluster.rendered import Tree, documents, one, pods, rendered
from tests.docker.compose_file import FOLDER, texts
from tests.docker.dockerfile import DOCKERFILE, environment, instructions
from tests.orchestrator.conftest import Ran
from workers.devices import CUDA_MEMORY, Offer

KEPT = FOLDER / "cluster"
PLACES: tuple[Place, ...] = get_args(Place)
NEWEST = kubernetes_validate.latest_version()


def test_what_is_kept_is_what_is_rendered_by_default() -> None:
    files = {path: text for place in PLACES for path, text in render(place, ClusterOptions.model_validate({})).items()}
    kept = {str(path.relative_to(KEPT)): path.read_text(encoding="utf-8") for path in KEPT.rglob("*.yaml")}
    assert kept == files


def test_comments_fit_a_screen() -> None:
    for place in PLACES:
        for text in render(place, ClusterOptions.model_validate({})).values():
            assert all(len(line) <= 120 for line in text.splitlines() if line.startswith("#"))


# -- ray up ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cloud", CLOUDS)
def test_ray_itself_takes_the_file_and_would_refuse_a_wrong_one(cloud: Place) -> None:
    tree = one(cloud, f"{cloud}.yaml")
    ray_up.check(tree)
    for wrong in (
        {**tree, "head_node_typ": "head"},
        {**tree, "head_node_type": "tail"},
        {**tree, "max_workers": "many"},
    ):
        with pytest.raises((SchemaError, ValueError)):
            ray_up.check(wrong)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_machines_come_when_they_are_needed_and_the_head_computes_nothing(cloud: Place) -> None:
    tree = one(cloud, f"{cloud}.yaml")
    types = tree["available_node_types"]
    head = types.pop(tree["head_node_type"])
    assert head["resources"] == {"CPU": 0, "GPU": 0}
    assert "MarketType" not in str(head)
    assert "SPOT" not in str(head)
    assert all(one["min_workers"] == 0 for one in types.values())
    assert tree["max_workers"] == sum(one["max_workers"] for one in types.values())
    assert all("spot" in str(one["node_config"]).lower() for one in types.values())
    assert not any("spot" in str(one["node_config"]).lower() for one in machines(cloud, spot=False).values())
    assert not any("RAY_AUTH_TOKEN=" in text for text in texts(tree))
    [start] = [text for text in tree["head_start_ray_commands"] if "ray start" in text]
    assert "--num-cpus=0 --num-gpus=0" in start
    assert {"--env=RAY_AUTH_MODE=token", f"--env=SLOTSWEEP_HOME={HOME}"} <= set(tree["docker"]["run_options"])
    assert list(tree["file_mounts"]) == [ray_up.TOKEN], "all that is mounted is copied to every machine"


@pytest.mark.parametrize("cloud", CLOUDS)
def test_sqlite_is_on_no_export(cloud: Place) -> None:
    told = one(cloud, f"{cloud}.yaml", storage="10.0.0.7:/share")["docker"]["head_run_options"]
    urls = dict(text.removeprefix("--env=").split("=", 1) for text in told)
    assert set(urls) == {"SLOTSWEEP_DATABASE_URL", "SLOTSWEEP_OPTUNA_URL", "SLOTSWEEP_TRACKING_URI"}
    assert all(url.startswith(f"sqlite:///{ray_up.USER_HOME}/") for url in urls.values())
    assert one(cloud, f"{cloud}.yaml")["docker"]["head_run_options"] == []


@pytest.mark.parametrize("image", [None, "resolve:ssm:/golden/ami:3", "ami-0123456789abcdef0"])
def test_the_heads_role_may_read_which_image_machines_have(image: str | None) -> None:
    files = render("aws", ClusterOptions(name="night", machine_image=image) if image else ClusterOptions(name="night"))
    [tree], [template] = documents(files["aws.yaml"]), documents(files["aws-role.yaml"])
    role, profile = (template["Resources"][name]["Properties"] for name in ("Role", "Profile"))
    types = tree["available_node_types"]
    [named] = {kind["node_config"]["ImageId"] for kind in types.values()}
    assert types.pop("head")["node_config"]["IamInstanceProfile"] == {"Name": profile["InstanceProfileName"]}
    assert profile["Roles"] == [{"Ref": "Role"}]
    assert not any("IamInstanceProfile" in kind["node_config"] for kind in types.values()), "trials have no role"
    assert role["ManagedPolicyArns"] == [{"Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/AmazonEC2FullAccess"}]
    readable = [statement for policy in role.get("Policies", []) for statement in policy["PolicyDocument"]["Statement"]]
    parameter = named.removeprefix("resolve:ssm:").partition(":")[0] if "ssm" in named else None
    assert [(one["Action"], one["Resource"]["Fn::Sub"].partition(":parameter")[2]) for one in readable] == (
        [] if parameter is None else [("ssm:GetParameters", parameter)]
    )


def machines(cloud: Place, **options: Any) -> dict[str, Tree]:
    """Node types of a cloud's file but for the head's."""
    types: dict[str, Tree] = one(cloud, f"{cloud}.yaml", **options)["available_node_types"]
    return {name: tree for name, tree in types.items() if name != "head"}


def test_nodes_offer_what_a_worker_on_them_would() -> None:
    """The autoscaler starts what it is asked for only if the file says what a node has, in the same words."""
    for cloud in CLOUDS:
        for name, machine in node_types()[cloud].types.items():
            offer = Offer(machine.cpus, machine.gpus, 0, machine.gpu, machine.cuda_gib or None)
            own = {key: value for key, value in machine.custom_resources.items() if key in ("cuda", CUDA_MEMORY)}
            assert offer.resources() == {key: float(value) for key, value in own.items()}, name
    assert machines("aws", gpus=[{"model": "T4", "count": 2}])["g4dn-xlarge"]["resources"] == {
        "CPU": 4,
        "GPU": 1,
        "cuda": 1,
        "cuda_memory": 15,
        "accelerator_type:T4": 1,
    }


def test_options_reach_the_file() -> None:
    tree = one(
        "aws",
        "aws.yaml",
        gpus=[gpu_count("A100:9"), gpu_count("T4")],
        workers=3,
        cpus=9,
        region="eu-west-1",
        image="registry.example.org/slotsweep:7",
        storage="fs-1.efs.eu-west-1.amazonaws.com:/",
        name="night",
        idle_minutes=5,
    )
    types = tree["available_node_types"]
    assert {name: types[name].get("max_workers") for name in types} == {
        "head": 0,
        "c7i-8xlarge": 3,
        "p4d-24xlarge": 1,
        "g4dn-xlarge": 1,
    }
    assert types["g4dn-xlarge"]["docker"] == {"worker_image": "registry.example.org/slotsweep:7-cuda"}
    assert (tree["cluster_name"], tree["max_workers"], tree["idle_timeout_minutes"]) == ("night", 5, 5)
    assert tree["provider"]["availability_zone"] == "eu-west-1a,eu-west-1b,eu-west-1c"
    assert any("mount -t nfs4" in text and "fs-1.efs" in text for text in tree["initialization_commands"])
    there = one("gcp", "gcp.yaml", project="sweeps-1", zone="us-west1-b")["provider"]
    assert (there["project_id"], there["region"], there["availability_zone"]) == ("sweeps-1", "us-west1", "us-west1-b")
    t4 = machines("gcp", gpus=[gpu_count("T4:1")])["n1-standard-4"]["node_config"]
    assert t4["guestAccelerators"] == [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 1}]
    for kind in one("gcp", "gcp.yaml", zone="us-west1-b")["available_node_types"].values():
        [disk] = kind["node_config"]["disks"]
        assert disk["initializeParams"]["diskType"] == "zones/us-west1-b/diskTypes/pd-balanced", "C3 takes no default"


def test_the_file_has_the_prices_that_plan_reckons_with() -> None:
    gpus = [gpu_count("T4:1"), gpu_count("H100:8")]
    priced = one("aws", "aws.yaml", gpus=gpus)["metadata"]["usd_per_hour"]
    assert priced["g4dn-xlarge"] == rates_on("aws:g4dn.xlarge:spot").prices["cuda"]
    assert priced["p5-48xlarge"] == "unknown", "the table has no spot price of it"
    assert one("aws", "aws.yaml", gpus=gpus, spot=False)["metadata"]["usd_per_hour"]["p5-48xlarge"] == 55.04


# -- Kubernetes -----------------------------------------------------------------------------------------------------


def test_kubernetes_takes_the_manifests_and_would_refuse_wrong_ones() -> None:
    trees = rendered("kuberay", "kuberay/service.yaml") + rendered("kuberay", "kuberay/secret.example.yaml")
    for tree in trees:
        kubernetes_validate.validate(tree, NEWEST, strict=True)
        broken = {**tree, "specs" if "spec" in tree else "dat": {}}
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(broken, NEWEST, strict=True)
    kinds = {tree["kind"] for tree in trees}
    assert kinds == {"PersistentVolumeClaim", "ConfigMap", "Deployment", "Service", "NetworkPolicy", "Secret"}


def test_the_ray_cluster_keeps_to_its_reference_and_its_pods_to_kubernetes() -> None:
    tree = one("kuberay", "kuberay/ray-cluster.yaml")
    RayCluster.model_validate(tree)
    for template in pods(tree):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", **template["metadata"]}}
        kubernetes_validate.validate({**pod, "spec": template["spec"]}, NEWEST, strict=True)
    for change in ({"rayVersions": "2"}, {"headGroupSpec": {}}, {"workerGroupSpecs": []}):
        with pytest.raises(ValidationError):
            RayCluster.model_validate({**tree, "spec": {**tree["spec"], **change}})
    twice = copy.deepcopy(tree)
    twice["spec"]["workerGroupSpecs"].append(twice["spec"]["workerGroupSpecs"][0])
    with pytest.raises(ValidationError, match="names of their own"):
        RayCluster.model_validate(twice)


def test_rays_autoscaler_reads_from_it_what_nodes_have() -> None:
    tree = one("kuberay", "kuberay/ray-cluster.yaml", cpus=6)
    tree["metadata"]["namespace"] = "default"
    config = autoscaling_config._derive_autoscaling_config_from_ray_cr(tree)
    validate_config(config)
    types = config["available_node_types"]
    by_group = {name.removesuffix("-group"): kind for name, kind in types.items()}
    resources = {name: kind["resources"] for name, kind in by_group.items()}
    assert next(value for name, value in resources.items() if "head" in name)["CPU"] == 0
    assert (resources["cpu"]["CPU"], resources["cpu"]["cpu_node"]) == (5, 1)
    t4 = resources["t4"]
    assert {key: t4[key] for key in ("CPU", "GPU", "cuda", "cuda_memory", "accelerator_type:T4")} == {
        "CPU": 3,
        "GPU": 1,
        "cuda": 1,
        "cuda_memory": 15,
        "accelerator_type:T4": 1,
    }
    assert all(kind["min_workers"] == 0 for kind in by_group.values())


@pytest.mark.parametrize("cpus", [2, 4, 8, 32])
def test_pods_leave_a_node_what_it_keeps_for_itself(cpus: int) -> None:
    """Of 2 GiB for each CPU GKE's nodes keep the most: a quarter of the first 4, a fifth of the next 4, ... GiB."""
    tree = one("kuberay", "kuberay/ray-cluster.yaml", cpus=cpus, gpus=[gpu_count("T4:1")])
    groups = {group["groupName"]: group for group in tree["spec"]["workerGroupSpecs"]}
    smallest = min(node_types()[cloud].with_gpu("T4")[1].memory for cloud in CLOUDS)
    for name, (node_cpus, node_memory) in {"cpu": (cpus, 2 * cpus), "t4": (4, smallest)}.items():
        [container] = groups[name]["template"]["spec"]["containers"]
        asked = container["resources"]["requests"]
        memory = float(asked["memory"][:-2]) / {"Mi": 1024, "Gi": 1}[asked["memory"][-2:]]
        steps = ((4, 0.25), (4, 0.2), (8, 0.1), (112, 0.06))
        kept, left = 0.1, float(node_memory)
        for gib, share in steps:
            kept, left = kept + share * min(gib, left), left - min(gib, left)
        assert int(asked["cpu"]) <= node_cpus - 0.5
        assert memory <= node_memory - kept
        assert groups[name]["rayStartParams"]["num-cpus"] == asked["cpu"], "Ray counts what the pod has"
    with pytest.raises(RequestError, match="--cpus 1: a node keeps 1"):
        one("kuberay", "kuberay/ray-cluster.yaml", cpus=1)


def test_pods_have_no_rights_and_a_home_and_tell_how_they_are() -> None:
    trees = rendered("kuberay", "kuberay/service.yaml") + rendered("kuberay", "kuberay/ray-cluster.yaml")
    [user] = [text.partition(":")[0] for text in (i.text for i in instructions() if i.name == "USER")]
    found = [template for tree in trees for template in pods(tree)]
    assert len(found) == 2 + 1 + 1 + 5, "service and MLflow, head, CPUs, five models of GPU"
    for template in found:
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == int(user)
        for container in spec["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
            assert "memory" in container["resources"]["limits"]
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted == {volume["name"] for volume in spec["volumes"]}
            if "home" in mounted:
                [mount] = [one for one in container["volumeMounts"] if one["name"] == "home"]
                assert mount["mountPath"] == HOME == environment()["SLOTSWEEP_HOME"]


def test_secrets_are_named_once_and_used_and_have_no_value_here() -> None:
    [secret] = rendered("kuberay", "kuberay/secret.example.yaml")
    assert secret["stringData"] == dict.fromkeys(SECRETS, "")
    used = set()
    for file in ("kuberay/service.yaml", "kuberay/ray-cluster.yaml"):
        text = render("kuberay", ClusterOptions.model_validate({}))[file]
        used |= set(re.findall(r"name: slotsweep-secrets\n\s+key: (\w+)", text))
        for tree in documents(text):
            assert not re.search(r"://\w+:[^@\s]+@", json.dumps(tree))
    assert used == set(SECRETS)


def test_names_agree_across_the_manifests() -> None:
    text = render("kuberay", ClusterOptions(name="night", storage="efs"))["kuberay/service.yaml"]
    trees = documents(text)
    cluster = one("kuberay", "kuberay/ray-cluster.yaml", name="night")
    claims = {tree["metadata"]["name"]: tree for tree in trees if tree["kind"] == "PersistentVolumeClaim"}
    asked = {
        volume["persistentVolumeClaim"]["claimName"]
        for tree in [*trees, cluster]
        for template in pods(tree)
        for volume in template["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert asked == set(claims)
    assert claims["night-home"]["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claims["night-home"]["spec"]["storageClassName"] == "efs"
    services = {tree["metadata"]["name"]: tree for tree in trees if tree["kind"] == "Service"}
    values = {pair["name"]: pair.get("value", "") for tree in trees for pair in environment_of(tree, "night-service")}
    assert values["RAY_ADDRESS"] == f"{cluster['metadata']['name']}-head-svc:6379", (
        "KubeRay names the head's service so"
    )
    assert values["SLOTSWEEP_TRACKING_URI"].removeprefix("http://").partition(":")[0] in services
    for variable, component in {"SLOTSWEEP_PUBLIC_URL": "service", "SLOTSWEEP_MLFLOW_URL": "mlflow"}.items():
        [port] = services[f"night-{component}"]["spec"]["ports"]
        assert values[variable] == f"http://localhost:{port['port']}", "links lead where port-forward brings it"
        assert f"kubectl port-forward svc/night-{component} {port['port']}\n" in text
    for service in services.values():
        labels = [tree["spec"]["selector"]["matchLabels"] for tree in trees if tree["kind"] == "Deployment"]
        assert service["spec"]["selector"] in labels


def environment_of(tree: Tree, name: str) -> list[Tree]:
    """Variables of a deployment, if the tree is it."""
    if tree["kind"] != "Deployment" or tree["metadata"]["name"] != name:
        return []
    found: list[Tree] = tree["spec"]["template"]["spec"]["containers"][0]["env"]
    return found


# -- SkyPilot, options and prices -----------------------------------------------------------------------------------


def test_the_skypilot_task_is_strict_and_of_the_images_python() -> None:
    tree = one("skypilot", "skypilot.yaml", gpus=[gpu_count("T4:4"), gpu_count("L4:1")], region="aws/us-east-1")
    assert tree["resources"]["any_of"] == [
        {"infra": "aws/us-east-1", "accelerators": "T4:4", "use_spot": True},
        {"infra": "aws/us-east-1", "accelerators": "L4:1", "use_spot": True},
    ]
    Task.model_validate(tree)
    with pytest.raises(ValidationError):
        Task.model_validate({**tree, "resource": {}})
    assert f"python:{PYTHON}-" in DOCKERFILE.read_text(encoding="utf-8")
    assert tree["secrets"]["RAY_AUTH_TOKEN"] is None, "SkyPilot asks for it"
    assert one("skypilot", "skypilot.yaml", gpus=[], cpus=16)["resources"]["any_of"] == [
        {"cpus": "16+", "use_spot": True}
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["aws", "--gpus", "T4;4"], "expected MODEL:COUNT, such as T4:4"),
        (["aws", "--workers", "2000"], "--workers 2000: Input should be less than or equal to 1000"),
        (["kuberay", "--on-demand"], "--on-demand does nothing for kuberay"),
    ],
)
def test_mistakes_have_one_line_with_their_cure(
    slotsweep_here: Callable[..., Ran], arguments: list[str], told: str
) -> None:
    done = slotsweep_here("cluster", "render", *arguments)
    assert done.code == 2
    assert told in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_the_command_writes_files_or_prints_them(slotsweep_here: Callable[..., Ran], tmp_path: Path) -> None:
    done = slotsweep_here("cluster", "render", "kuberay", "--gpus", "T4:4", "--out", str(tmp_path / "there"))
    assert done.code == 0
    written = sorted(path.name for path in (tmp_path / "there" / "kuberay").iterdir())
    assert written == ["ray-cluster.yaml", "secret.example.yaml", "service.yaml"]
    printed = slotsweep_here("cluster", "render", "kuberay", "--gpus", "none")
    groups = documents(printed.out)[0]["spec"]["workerGroupSpecs"]
    assert [group["groupName"] for group in groups] == ["cpu"]


def test_prices_say_where_they_come_from_and_are_shared_by_a_nodes_workers() -> None:
    for cloud in CLOUDS:
        for name, machine in node_types()[cloud].types.items():
            assert machine.source, name
            if machine.spot_only:
                assert machine.on_demand is None, name
            else:
                assert machine.on_demand is not None
                assert machine.spot is None or machine.spot < machine.on_demand, name
            assert machine.source == "not looked up" or re.search(r"20\d\d", machine.source), name
    rates = rates_on("aws:g4dn.xlarge:spot")
    assert rates.prices == {"cpu": 0.185 / 4, "cuda": 0.185}
    assert "spot price 0.185 USD an hour, us-east-1" in rates.basis
    devices: list[DeviceClass] = ["cpu", "cuda"]
    whole = NodeType(cpus=96, memory=1, gpu="A100", gpus=8, gpu_memory=40960, source="2026")
    assert [whole.workers(device) for device in devices] == [96, 8]


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("aws:p5.48xlarge:spot", "no spot price is known of it; give yours: --price cuda=PRICE"),
        ("aws:c7i.2xlarge:spot", "give yours: --price cpu=PRICE"),
        ("gcp:a3-highgpu-1g", "as a spot machine only: --on gcp:a3-highgpu-1g:spot"),
        ("aws", "expected CLOUD:TYPE or CLOUD:TYPE:spot"),
        ("aws::spot", "expected CLOUD:TYPE or CLOUD:TYPE:spot"),
        ("aws:c1.xlarge", "no price is known; known are c7i.2xlarge"),
    ],
)
def test_a_price_that_is_not_known_is_told_with_what_to_do(place: str, told: str) -> None:
    with pytest.raises(RequestError) as refused:
        rates_on(place)
    assert told in str(refused.value)
