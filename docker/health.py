#!/usr/bin/env -S python -P
"""Whether what a container runs is well: `slotsweep-health CHECK...` says why if it is not, and exits with 1.

http://HOST:PORT/PATH  answers a request
ray://HOST:PORT        is the head of a Ray cluster
raylet                 a node of a Ray cluster runs here
"""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

ANSWER_SECONDS = 5.0


def answers(url: str) -> None:
    """Raise OSError unless a GET of `url` succeeds."""
    with urllib.request.urlopen(url, timeout=ANSWER_SECONDS):
        pass


def is_head(url: str) -> None:
    """Raise ClusterError unless a Ray cluster's head is at `url`."""
    from workers.gcs import reach, split_address

    reach(*split_address(urlsplit(url).netloc))


def has_node() -> None:
    """Raise OSError unless a raylet runs among the processes that are seen from here."""
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().strip() == "raylet":
                return
        except OSError:  # it has just ended
            continue
    raise OSError("no raylet runs here")


def main() -> None:
    """Make the checks that the command line names."""
    for check in sys.argv[1:]:
        try:
            if check == "raylet":
                has_node()
            elif check.startswith("ray://"):
                is_head(check)
            else:
                answers(check)
        except Exception as error:
            sys.exit(f"{check}: {error}")


if __name__ == "__main__":
    main()
