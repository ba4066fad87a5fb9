"""What is to be said of models that see what they are to predict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.plan import Plan


def leaks(plan: Plan) -> Iterator[str]:
    """A sentence on each model of `plan` that sees what it is to predict."""
    for name in plan.leaking:
        yield (
            f"{name} as configured looks at later tokens: where every position is scored its losses are no scores of "
            "predictions; its results are marked `leaks future`"
        )
    for name in plan.may_leak:
        yield (
            f"{name} looks at later tokens with some of the values that are searched: where every position is scored "
            "their losses are no scores of predictions, and would win unfairly; they are marked `leaks future`"
        )
