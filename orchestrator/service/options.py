"""What whoever starts a service decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

LOOPBACK = "127.0.0.1"
PORT = 8440
SPEC_BYTES = 2**20
PLUGIN_BYTES = 2**20
MOST_SPECS = 50
MOST_TRIALS = 1_000_000
PLAN_SECONDS = 300.0
SESSION_SECONDS = 12 * 3600.0


@dataclass(frozen=True)
class ServiceOptions:
    """How a service behaves.

    host, port     where it listens
    allow_plugins  whether submitters may bring code of their own, which workers then run
    data_folders   folders that files named by uploaded specs must lie in, beside SLOTSWEEP_DATA
    spec_bytes     most bytes a request with specs may have; plugin_bytes: most bytes of its plug-ins
    most_specs     of a request; most_trials: of a sweep
    plan_seconds   most seconds that reading, planning and storing what a request brings may take
    secure         whether pages are reached over HTTPS, so that their cookie is sent over nothing else
    runs_sweeps    whether this process takes a turn at running sweeps; otherwise it only answers
    public_url     where users reach the service, for links in what it sends; None: it sends no links
    webhooks       addresses that are told of events; webhook_secret: what their payloads are signed with
    """

    host: str = LOOPBACK
    port: int = PORT
    allow_plugins: bool = False
    data_folders: tuple[Path, ...] = ()
    spec_bytes: int = SPEC_BYTES
    plugin_bytes: int = PLUGIN_BYTES
    most_specs: int = MOST_SPECS
    most_trials: int = MOST_TRIALS
    plan_seconds: float = PLAN_SECONDS
    secure: bool = False
    runs_sweeps: bool = True
    public_url: str | None = None
    webhooks: tuple[str, ...] = field(default=(), repr=False)
    webhook_secret: str | None = field(default=None, repr=False)
