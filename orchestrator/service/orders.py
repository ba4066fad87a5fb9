"""What the service asks of a planner, and what that answers: one line of JSON each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from orchestrator.caps import UNCAPPED, Caps
from orchestrator.plan_summary import PlanSummary
from orchestrator.store.records import Submitted

MOST_PROBLEMS = 100
"""Problems that are told of a request; whoever mends these learns of the others."""

LONGEST_TEXT = 500
"""Characters that are told of the line that a problem stands on."""


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SpecOrder(_Line):
    """A spec as text.

    plugins  saved files, by the names that it gives them; None: it may bring and name no code
    barred   why not, and what is expected; None: as `Uploaded` says it
    """

    name: str
    text: str
    overrides: tuple[str, ...] = ()
    plugins: dict[str, Path] | None = None
    barred: tuple[str, str] | None = None


class Order(_Line):
    """What is to be done with specs: `describe` their plans, or `submit` all of them, or none.

    folders                             that files which they name must lie in
    most_trials                         of one sweep
    explained                           whether a description says why trials are not reused
    key                                 of a submission: what tells it from others, so that it is made once
    user, use_cache, wait, caps, check_data   of a submission: whose it is, and as for the command
    """

    task: Literal["describe", "submit"]
    specs: tuple[SpecOrder, ...]
    folders: tuple[Path, ...] = ()
    most_trials: int
    explained: bool = False
    key: str | None = None
    user: str | None = None
    use_cache: bool = True
    wait: float = 0.0
    caps: Caps = UNCAPPED
    check_data: bool = False


class Refusal(_Line):
    """Why an order was not carried out. status: HTTP's; retry_after: seconds until it may be"""

    status: int
    message: str
    problems: tuple[dict[str, Any], ...] = ()
    retry_after: int | None = None


class SubmittedSweeps(BaseModel):
    """What became of submitted specs."""

    submitted: dict[str, Submitted] = Field(description="by the specs' names in the request")
    left_out: dict[str, str] = Field(description="why the others were not submitted")


GIVEN: dict[str, TypeAdapter[Any]] = {
    "describe": TypeAdapter(list[PlanSummary]),
    "submit": TypeAdapter(SubmittedSweeps),
}
"""What each task gives."""


class Answer(_Line):
    """What became of an order: what each task says it gives, or why there is nothing."""

    given: Any = None
    refusal: Refusal | None = None

    @classmethod
    def read(cls, order: Order, line: bytes) -> Answer:
        """The answer to `order` that a planner wrote. Raises ValidationError for what is none."""
        answer = cls.model_validate_json(line)
        if answer.refusal is None:
            GIVEN[order.task].validate_python(answer.given)
        return answer


class RefusedError(Exception):
    """A planner refused an order."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
