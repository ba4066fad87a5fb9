"""A cluster on Amazon EC2, for `ray up`, and the role of its head, for CloudFormation."""

from __future__ import annotations

from typing import Any

from orchestrator.cluster import ray_up
from orchestrator.cluster.checks import region_of
from orchestrator.cluster.node_types import NodeType, node_types
from orchestrator.cluster.options import ClusterOptions

Tree = dict[str, Any]

HEAD_TYPE = "m7i.large"
DISK_GB = 200

PARAMETER = "resolve:ssm:"
"""Before the name of a parameter that says which machine image it is."""

MACHINE_IMAGE = f"{PARAMETER}/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
"""Ubuntu with Docker, NVIDIA's driver and its container toolkit, the newest of the region."""

NEEDS = """
The head has a role, which is made once for each account: aws-role.yaml says how.
"""

ROLE_TOP = """
The role of the head that `ray up aws.yaml` starts: it starts and ends machines{reads}.
Written by `slotsweep cluster render aws`. Made once for each account, by somebody who may make roles:

  aws cloudformation deploy --stack-name {name} --capabilities CAPABILITY_NAMED_IAM \\
    --template-file aws-role.yaml
"""


def files(options: ClusterOptions) -> dict[str, tuple[str, list[Tree]]]:
    """`aws.yaml`, and `aws-role.yaml` of which it needs the role."""
    types = node_types()["aws"]
    region = options.region or (types.region if options.zone is None else region_of(options.zone))
    zone = options.zone or ",".join(f"{region}{letter}" for letter in "abc")
    provider = {"type": "aws", "region": region, "availability_zone": zone, "cache_stopped_nodes": False}
    machine_image = options.machine_image or MACHINE_IMAGE

    def node_config(name: str, machine: NodeType | None) -> Tree:
        disk = {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": DISK_GB, "VolumeType": "gp3", "Encrypted": True}}
        tree: Tree = {
            "InstanceType": name,
            "ImageId": machine_image,
            "BlockDeviceMappings": [disk],
            "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        }
        if machine is None:
            tree["IamInstanceProfile"] = {"Name": _role_name(options)}
        elif options.spot:
            tree["InstanceMarketOptions"] = {"MarketType": "spot"}
        return tree

    reads = ", and reads what they boot from" if machine_image.startswith(PARAMETER) else ""
    return {
        **ray_up.files("aws", types, options, provider, node_config, HEAD_TYPE, NEEDS),
        "aws-role.yaml": (ROLE_TOP.format(name=_role_name(options), reads=reads), [_role(options, machine_image)]),
    }


def _role_name(options: ClusterOptions) -> str:
    return f"{options.name}-head"


def _role(options: ClusterOptions, machine_image: str) -> Tree:
    """A CloudFormation template: Ray's own default role may start machines, but read no parameter."""
    name = _role_name(options)
    role: Tree = {
        "RoleName": name,
        "AssumeRolePolicyDocument": _policy(
            {"Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ),
        "ManagedPolicyArns": [{"Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/AmazonEC2FullAccess"}],
    }
    if machine_image.startswith(PARAMETER):
        parameter = machine_image.removeprefix(PARAMETER).partition(":")[0].lstrip("/")
        resource = {"Fn::Sub": f"arn:${{AWS::Partition}}:ssm:*:*:parameter/{parameter}"}
        reading = _policy({"Action": "ssm:GetParameters", "Resource": resource})
        role["Policies"] = [{"PolicyName": "machine-image", "PolicyDocument": reading}]
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Resources": {
            "Role": {"Type": "AWS::IAM::Role", "Properties": role},
            "Profile": {
                "Type": "AWS::IAM::InstanceProfile",
                "Properties": {"InstanceProfileName": name, "Roles": [{"Ref": "Role"}]},
            },
        },
    }


def _policy(statement: Tree) -> Tree:
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]}
