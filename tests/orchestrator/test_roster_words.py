"""What `slotsweep workers` says of a worker's agreement."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.roster import agreement_in_words


@pytest.mark.parametrize(
    ("agreement", "words"),
    [
        (None, "not probed"),
        ({"ok": True, "compared": 0, "not_compared": ["h2o"]}, "nothing compared"),
        ({"ok": True, "compared": 20, "not_compared": ["h2o", "mamba"]}, "agrees; not compared: h2o, mamba"),
        ({"ok": True, "compared": 20, "not_compared": []}, "agrees"),
        ({"ok": True, "compared": 20}, "agrees"),
        ({"ok": False, "compared": 20, "disagreements": ["tova: slots is 3", "other"]}, "disagrees: tova: slots is 3"),
    ],
)
def test_a_device_agrees_only_where_something_was_compared(agreement: dict[str, Any] | None, words: str) -> None:
    assert agreement_in_words(agreement) == words
