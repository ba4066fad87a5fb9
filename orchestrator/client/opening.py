"""Choosing between the store on this machine and a service: SLOTSWEEP_SERVER decides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from orchestrator.errors import RequestError

if TYPE_CHECKING:
    from orchestrator.client.base import Client
    from orchestrator.settings import Settings


def open_client(settings: Settings, executor: Literal["ray", "inline"] = "ray") -> Client:
    """The service that `settings` name, or else the store on this machine; `inline` runs sweeps in this process.

    Asks nobody yet. Raises RequestError where the service's address or token cannot be used, or with `inline`.
    """
    if settings.server is not None:
        if executor == "inline":
            refuse_server(settings, "--executor inline")
        from orchestrator.client.remote import RemoteClient

        return RemoteClient(settings)
    from orchestrator.client.local import LocalClient

    return LocalClient(replace(settings, ray_address=None) if executor == "inline" else settings, executor)


def refuse_server(settings: Settings, what: str) -> None:
    """Raise RequestError if `settings` name a service: `what` is done on this machine only."""
    if settings.server is not None:
        raise RequestError(
            f"`{what}` works on this machine's own store, not on the service at {settings.server}: unset "
            "SLOTSWEEP_SERVER first"
        )
