"""The `slotsweep` command."""

from orchestrator.cli.app import main

__all__ = ["main"]
