"""What is refused at submission rather than found out at night: settings that cannot work, streams that cannot fit,
devices that are not there."""

from __future__ import annotations

from itertools import combinations
from urllib.parse import urlsplit

from models.devices.device import DEVICE_CLASSES, DeviceClass
from models.stream import KEY_BYTES
from orchestrator.batching import stream_tokens
from orchestrator.errors import RequestError
from orchestrator.fleet import (
    Demand,
    Want,
    check_cluster,
    check_local,
    cluster_nodes,
    is_read_directly,
    local_node,
    unmet,
)
from orchestrator.plan import Plan
from orchestrator.requests import existing_store
from orchestrator.settings import Settings
from tasks.devices import hindrance
from tasks.kinds.tuning import TuningConfig
from tasks.workload import WORKLOADS
from workers.devices import this_machine_offers

STUDY_SCHEMES = ("sqlite", "postgresql")
TRACKING_SCHEMES = (*STUDY_SCHEMES, "http", "https")


def check_before_submitting(plan: Plan, settings: Settings) -> None:
    """Raise RequestError if `plan` cannot run under `settings`, ExecutorError if no cluster answers that they name.

    A plan that may wait for workers, or for machines that are started for it, may lack them now, unless it measures
    times: each belongs to a machine.
    """
    check_databases(settings)
    _check_warm_start(plan, settings)
    if settings.ray_address is None:
        _check_streams(plan)
    _check_mechanisms(plan)
    check_local() if settings.ray_address is None else check_cluster(settings.ray_address)
    if not plan.spec.policy.wait and not settings.autoscales:
        _check_fleet(plan, settings)
    if plan.kind.measures_time:
        for device in plan.devices:
            plan.machine_of(device)


def _check_warm_start(plan: Plan, settings: Settings) -> None:
    """Refuse studies that cannot begin with the earlier sweep that they name."""
    if isinstance(plan.spec.options, TuningConfig) and plan.spec.options.warm_start is not None:
        from orchestrator.tuner.warm_start import pin_warm_start

        pin_warm_start(existing_store(settings), plan.spec)


def _check_mechanisms(plan: Plan) -> None:
    """Refuse mechanisms that a device the spec names cannot run."""
    spec = plan.spec
    named = accelerators(plan)
    if not named:
        return
    reasons = [
        hindrance(device, spec.kind, one, spec.dtype, workload)
        for device in named
        for one in spec.mechanism_configs()
        for workload in spec.workloads()
    ]
    if found := list(dict.fromkeys(filter(None, reasons))):
        raise RequestError(f"`device: {', '.join(named)}`: {'; '.join(found)}")


def accelerators(plan: Plan) -> list[DeviceClass]:
    """Device classes that trials name, other than the CPU."""
    return [device for device in DEVICE_CLASSES if device != "cpu" and device in plan.devices]


def _check_fleet(plan: Plan, settings: Settings) -> None:
    """Refuse devices that no node has. Asks nobody where the CPU is enough, and starts nothing."""
    demands: list[Demand] = [frozenset({Want(one, plan.spec.policy.accelerator)}) for one in accelerators(plan)]
    if not demands:
        return
    if settings.ray_address is None:
        offer = this_machine_offers()
        why = unmet(demands, [local_node(offer)], unusable=offer.unusable)
    elif not is_read_directly(settings.ray_address):
        return  # a client's address: the executor finds out when it joins
    else:
        why = unmet(demands, cluster_nodes(settings.ray_address))
    if why is not None:
        raise RequestError(f"{why}; `--wait MINUTES` waits for a machine to join")


def check_databases(settings: Settings) -> None:
    """Raise RequestError if runs or studies cannot go where settings say, or two programs are to share a database."""
    _check_addresses(settings)
    _check_tracking(settings)
    scheme = urlsplit(settings.optuna_url).scheme.partition("+")[0]
    if scheme not in STUDY_SCHEMES:
        raise RequestError(
            f"SLOTSWEEP_OPTUNA_URL is `{settings.optuna_url}`: studies go to a database (sqlite:///..., postgresql://...)"
        )
    places = {
        "slotsweep": ("SLOTSWEEP_DATABASE_URL", settings.database_url),
        "MLflow": ("SLOTSWEEP_TRACKING_URI", settings.tracking_uri),
        "Optuna": ("SLOTSWEEP_OPTUNA_URL", settings.optuna_url),
    }
    for (one, (variable, url)), (other, (second, second_url)) in combinations(places.items(), 2):
        if _place(url) == _place(second_url):
            raise RequestError(f"{second} and {variable} name one database; {one} and {other} need one each")


def _check_addresses(settings: Settings) -> None:
    named = {
        "SLOTSWEEP_DATABASE_URL": settings.database_url,
        "SLOTSWEEP_TRACKING_URI": settings.tracking_uri,
        "SLOTSWEEP_OPTUNA_URL": settings.optuna_url,
    }
    for variable, address in named.items():
        try:
            _place(address)
        except ValueError as error:
            raise RequestError(
                f"{variable} is no address: characters such as / @ [ of a password are written %2F %40 %5B"
            ) from error


def _check_tracking(settings: Settings) -> None:
    scheme = urlsplit(settings.tracking_uri).scheme.partition("+")[0]
    if scheme not in TRACKING_SCHEMES:
        raise RequestError(
            f"SLOTSWEEP_TRACKING_URI is `{settings.tracking_uri}`: runs go to a database (sqlite:///..., "
            "postgresql://...) or to an MLflow server (http://...)"
        )


def _place(url: str) -> tuple[str, ...]:
    """What distinguishes a database from others, however its driver is written."""
    parts = urlsplit(url)
    return parts.scheme.partition("+")[0], parts.hostname or "", str(parts.port or ""), parts.path, parts.query


def _check_streams(plan: Plan) -> None:
    """Refuse streams that this machine's memory cannot hold even once."""
    import psutil

    memory = psutil.virtual_memory().total
    for group in plan.groups:
        workload = WORKLOADS.implementation(group.workload.name)
        if workload.is_long(group.workload):
            continue  # read in chunks
        tokens = stream_tokens(group.workload.identity())
        needed = tokens * workload.width(group.workload) * KEY_BYTES["float64"]
        if needed > memory:
            raise RequestError(
                f"one stream of {group.workload.name} has {tokens:,} tokens and needs {needed / 1e9:,.0f} GB; this "
                f"machine has {memory / 1e9:,.0f} GB"
            )
