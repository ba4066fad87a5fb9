"""What is refused at submission rather than found out at night: settings that cannot work, streams that cannot fit."""

from __future__ import annotations

from urllib.parse import urlsplit

from models.stream import KEY_BYTES
from orchestrator.batching import stream_tokens
from orchestrator.errors import RequestError
from orchestrator.plan import Plan
from orchestrator.settings import Settings

TRACKING_SCHEMES = ("sqlite", "postgresql", "http", "https")


def check_before_submitting(plan: Plan, settings: Settings) -> None:
    """Raise RequestError if `plan` cannot run under `settings`."""
    check_tracking(settings)
    if settings.ray_address is None:
        _check_streams(plan)
    for device in plan.spec.devices:
        if device not in ("cpu", "any"):
            raise RequestError(f"`device: {device}`: no worker offers {device} (trials run on cpu in this version)")


def check_tracking(settings: Settings) -> None:
    """Raise RequestError if runs cannot go where SLOTSWEEP_TRACKING_URI says."""
    scheme = urlsplit(settings.tracking_uri).scheme.partition("+")[0]
    if scheme not in TRACKING_SCHEMES:
        raise RequestError(
            f"SLOTSWEEP_TRACKING_URI is `{settings.tracking_uri}`: runs go to a database (sqlite:///..., "
            "postgresql://...) or to an MLflow server (http://...)"
        )
    if _place(settings.tracking_uri) == _place(settings.database_url):
        raise RequestError(
            "SLOTSWEEP_TRACKING_URI and SLOTSWEEP_DATABASE_URL name one database; slotsweep and MLflow need one each"
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
        tokens = stream_tokens(group.workload.identity())
        needed = tokens * int(getattr(group.workload, "dim", 1)) * KEY_BYTES["float64"]
        if needed > memory:
            raise RequestError(
                f"one stream of {group.workload.name} has {tokens:,} tokens and needs {needed / 1e9:,.0f} GB; this "
                f"machine has {memory / 1e9:,.0f} GB"
            )
