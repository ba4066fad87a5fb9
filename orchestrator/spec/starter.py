"""A commented spec to begin with, written by `slotsweep init`."""

from __future__ import annotations

from orchestrator.errors import RequestError
from orchestrator.spec.hints import one_of
from tasks.kind import KINDS

HEADER = """\
# A slotsweep spec: what to measure. `slotsweep validate FILE` checks it, `slotsweep plan FILE` counts its trials,
# `slotsweep run FILE` runs it and writes a report. `slotsweep schema` prints a JSON Schema for your editor.

"""


def starter_spec(kind: str = "frontier") -> str:
    """The text of a commented, valid spec of `kind`. Raises RequestError for a kind without one."""
    if kind not in KINDS:
        raise RequestError(f"there is no starter of kind `{kind}`; expected {one_of(KINDS.names())}")
    return HEADER + KINDS.implementation(kind).starter
