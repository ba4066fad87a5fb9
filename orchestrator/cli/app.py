"""The command line: what a user types, and the one clear line they get when it cannot be done."""

from __future__ import annotations

import gc
import os
import sys
import traceback

import typer

from orchestrator.cli import (
    capture_command,
    claim_commands,
    cluster_commands,
    compare_commands,
    control_commands,
    dashboard_command,
    db_commands,
    log_commands,
    machine_commands,
    parse_command,
    service_commands,
    spec_commands,
    sweep_commands,
    trial_commands,
)
from orchestrator.cli.output import fail
from orchestrator.exit_codes import SYSTEM_FAILED

gc.disable()  # a short command frees nothing worth the search; `run_sweeps` turns it on again

app = typer.Typer(
    name="slotsweep",
    help="Benchmark sweeps of memory mechanisms: recall against size, with intervals, on a laptop or a Ray cluster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
spec_commands.register(app)
sweep_commands.register(app)
control_commands.register(app)
claim_commands.register(app)
compare_commands.register(app)
log_commands.register(app)
db_commands.register(app)
trial_commands.register(app)
parse_command.register(app)
capture_command.register(app)
machine_commands.register(app)
dashboard_command.register(app)
service_commands.register(app)
cluster_commands.register(app)


def main() -> None:
    """Run the command line and exit with 0 (all done), 1 (trials failed), 2 (wrong request) or 3 (system failed)."""
    try:
        app()
    except BrokenPipeError:  # `slotsweep results ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        fail(f"error: {place}{error.strerror or error}", SYSTEM_FAILED)
    except Exception as error:
        code = getattr(error, "exit_code", None)
        away = _away(error)
        if away is not None:
            fail(f"error: {away}", SYSTEM_FAILED)
        if code is None:
            traceback.print_exc()
            fail("this is a defect of slotsweep: please report it with the lines above", SYSTEM_FAILED)
        fail(f"error: {error}" if len(str(error).splitlines()) == 1 else str(error), code)


def _away(error: Exception) -> str | None:
    """What to tell if the database is away or busy."""
    if "sqlalchemy" not in sys.modules:
        return None
    from orchestrator.store.engine import lost

    return lost(error)
