"""What the commands work with: the store on this machine, or a service, behind one protocol."""

from __future__ import annotations

from orchestrator.client.opening import open_client, refuse_server

__all__ = ["open_client", "refuse_server"]
